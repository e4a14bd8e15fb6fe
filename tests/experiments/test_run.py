"""A run computes every point once, keeps what it has through a kill, and has the same figures however it is spread."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.cli import main
from experiments.engines import Row, open_engine
from experiments.grid import read_experiment
from experiments.points import DesignPoint, RunRecord, Workload
from experiments.results import read_results, write_csv
from experiments.run import Runner, computed, run_points
from experiments.store import ALWAYS, ResultStore, StoreError
from hw_models import load_hardware, with_values
from scheduler import make_policy
from tests.experiments.dangers import tiny

STUDY = """# Does a larger buffer help?
workloads: [{model: bert-tiny, batch: 4}]
hardware: {base: stcp920, sweep: {local_buffer.capacity: [512 KiB, 1.25 MiB]}}
policies: [fixed-pattern, {graphturbo: {order: bfs}}]
"""
SLOW_POLICY = '''
import os, pathlib, time
from dataclasses import dataclass
from scheduler.policies.unfused import Unfused

@dataclass(frozen=True)
class Slow(Unfused):
    """Takes its time, unless there is a file called hurry, and leaves a line for every plan it makes."""

    name: str = "slow"

    def plan(self, graph, costs):
        here = pathlib.Path(__file__)
        if not here.with_name("hurry").exists():
            time.sleep(0.2)
        with here.with_name("made.txt").open("a") as file:
            file.write(f"{costs.view.spec.clusters}\\n")
        return super().plan(graph, costs)
'''
FAULTY_POLICY = """
from dataclasses import dataclass
from scheduler.policies.unfused import Unfused

@dataclass(frozen=True)
class Faulty(Unfused):
    name: str = "faulty"
    worst: int = 3

    def plan(self, graph, costs):
        if costs.view.spec.clusters == self.worst:
            raise IndexError("no such thing")
        return super().plan(graph, costs)
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
COMMAND = [sys.executable, "-c", "from experiments.cli import entry_point; entry_point()"]


def table(folder: Path) -> pd.DataFrame:
    with closing(sqlite3.connect(folder / "results.sqlite")) as connection:
        return pd.read_sql_query("SELECT * FROM runs", connection)


def figures(rows: pd.DataFrame) -> pd.DataFrame:
    """The table without what differs from run to run, in an order of its own."""
    return rows.drop(columns=["wall_s"]).sort_values("key").reset_index(drop=True).sort_index(axis="columns")


def rows_so_far(folder: Path) -> int:
    try:
        return len(table(folder))
    except (sqlite3.Error, pd.errors.DatabaseError):
        return 0


def until(condition: Callable[[], bool], limit_s: float = 30) -> None:
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < limit_s, "nothing came of it"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of ``STUDY``."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "study.yaml").write_text(STUDY)
    assert main(["run", str(folder / "study.yaml"), "--out", str(folder / "out"), "--workers", "1"]) == 0
    return folder / "out"


def test_the_table_has_a_row_a_point_and_the_promised_columns(finished: Path) -> None:
    rows = table(finished)
    scalars = [f.name for f in fields(RunRecord) if f.type in (str, int, float)]

    assert len(rows) == 4
    assert {*scalars, "error", "area_mm2", "local_buffer.capacity"} <= set(rows)
    for group in ("traffic_bytes", "utilisation", "peak_occupancy_bytes"):
        assert {f"{group}.{memory}" for memory in ("local_buffer", "global_buffer", "ddr")} <= set(rows)
    assert "tensor_scopes.ddr" in rows
    assert set(rows["local_buffer.capacity"]) == {"512 KiB", "1.25 MiB"}
    assert set(rows["policy"]) == {"fixed-pattern", "graphturbo(order=bfs)"}
    assert set(rows["batch"]) == {4}
    assert rows["error"].isna().all()


def test_the_csv_equals_the_table(finished: Path) -> None:
    written = pd.read_csv(finished / "results.csv")
    rows = table(finished).drop(columns=["key"])

    by = ["policy", "local_buffer.capacity"]
    left = written.sort_values(by).reset_index(drop=True).sort_index(axis="columns")
    right = rows.sort_values(by).reset_index(drop=True).sort_index(axis="columns")
    pd.testing.assert_frame_equal(left, right, check_exact=True, check_dtype=False)


def test_a_second_run_computes_nothing(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = table(finished)
    assert main(["run", str(finished.parent / "study.yaml"), "--out", str(finished), "--json"]) == 0

    assert '"computed": 0' in capsys.readouterr().out
    pd.testing.assert_frame_equal(table(finished), before)


def test_points_of_one_content_are_computed_once(tmp_path: Path) -> None:
    seen: list[str] = []
    computed = run_points([tiny(), tiny(), tiny(2)], tmp_path, 1, lambda point, _: seen.append(point.key))

    assert computed == len(seen) == len(set(seen)) == 2
    assert run_points([tiny(2), tiny(1)], tmp_path, 1) == 1


def test_rows_are_on_disk_as_they_come(tmp_path: Path) -> None:
    counts: list[int] = []
    run_points([tiny(n) for n in (1, 2, 4)], tmp_path, 1, lambda *_: counts.append(len(table(tmp_path))))

    assert counts == [1, 2, 3]


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "slow.py").write_text(SLOW_POLICY)
    study = tmp_path / "study.yaml"
    clusters = list(range(1, 10))
    study.write_text(
        f"workloads: [{{model: bert-tiny, batch: 24}}]\npolicies: [slow.py]\n"
        f"hardware: {{base: stcp920, sweep: {{clusters: {clusters}}}}}\n"
    )
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    command = [*COMMAND, "run", str(study), "--workers", "2", "--out"]

    with subprocess.Popen([*command, str(killed)], env=ENVIRONMENT, stderr=subprocess.DEVNULL) as process:
        until(lambda: rows_so_far(killed) >= 3)
        children = children_of(process.pid)
        os.kill(process.pid, signal.SIGKILL)
    until(lambda: not any(map(is_alive, children)), 10)
    kept = table(killed)
    assert 3 <= len(kept) < len(clusters)

    assert main(["report", str(killed)]) == 0
    assert f"{len(kept)} of {len(clusters)} design points are there" in capsys.readouterr().out
    assert not list(killed.glob(".*.part"))

    (tmp_path / "hurry").touch()
    made = tmp_path / "made.txt"
    made.unlink()
    assert main([*command[3:], str(killed)]) == 0
    made_again = sorted(map(int, made.read_text().split()))
    experiment, grid = read_experiment(study)
    run_points(grid.chosen(experiment.search), whole, 1)

    resumed = table(killed)
    assert len(resumed) == len(clusters)
    pd.testing.assert_frame_equal(figures(resumed), figures(table(whole)))
    merged = kept.merge(resumed, on="key", suffixes=("", "_later"))
    assert (merged["wall_s"] == merged["wall_s_later"]).all(), "a row that was there has been computed again"
    left = sorted(set(clusters) - {int(value) for value in kept["clusters"]})
    assert set(made_again) == {*left, *shown_in_timelines(made_again, left)}


def shown_in_timelines(made: list[int], left: list[int]) -> set[int]:
    """The points that the report simulates again for their timelines: one here, as there is one policy."""
    extra = list(made)
    for number in left:
        extra.remove(number)
    assert len(extra) == 1
    return set(extra)


def children_of(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(child) for child in listed.stdout.split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_failing_point_is_recorded_and_does_not_stop_the_rest(tmp_path: Path) -> None:
    hopeless = with_values(load_hardware("stcp920"), {"local_buffer.capacity": "64 B"})
    bad = DesignPoint(Workload("bert-tiny", 4), hopeless, make_policy("unfused"), {"local_buffer.capacity": "64 B"})
    rows: list[Row] = []
    run_points([tiny(1), bad, tiny(2)], tmp_path, 1, lambda _, row: rows.append(row))

    stored = table(tmp_path)
    assert stored["error"].isna().tolist() == [True, False, True]
    assert "64" in str(stored["error"][1])
    assert stored["latency_s"].isna().tolist() == [False, True, False]
    assert (stored["batch"].tolist(), stored["kernels"].notna().tolist()) == ([4, 4, 4], [True, False, True])
    csv = pd.read_csv(write_csv(read_results(tmp_path), tmp_path), dtype=str)
    assert csv["kernels"][0] == str(int(stored["kernels"][0])), "a count stays a whole number"


def test_a_policy_from_a_file_that_raises_fails_its_own_points_only(tmp_path: Path) -> None:
    (tmp_path / "faulty.py").write_text(FAULTY_POLICY)
    study = tmp_path / "study.yaml"
    study.write_text(
        "workloads: [{model: bert-tiny, batch: 4}]\npolicies: [faulty.py, {faulty.py: {worst: 9}}]\n"
        "hardware: {base: stcp920, sweep: {clusters: [2, 3]}}\n"
    )
    assert main(["run", str(study), "--out", str(tmp_path / "out"), "--workers", "2"]) == 1

    rows = table(tmp_path / "out")
    errors = {(row["policy"], row["clusters"]): row["error"] for row in rows.to_dict("records")}
    assert set(rows["policy"]) == {"faulty", "faulty(worst=9)"}
    assert [place for place, error in errors.items() if isinstance(error, str)] == [("faulty", "3")]
    assert errors["faulty", "3"] == (
        f"policy faulty fails: IndexError: no such thing ({tmp_path / 'faulty.py'}, line 12, in plan)"
    )


def test_policies_of_two_files_with_one_name_are_kept_apart(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(FAULTY_POLICY.replace("faulty", f"mine-{folder}"))
    study = tmp_path / "study.yaml"
    study.write_text("workloads: [{model: bert-tiny, batch: 4}]\nhardware: stcp920\npolicies: [a/mine.py, b/mine.py]\n")
    experiment, grid = read_experiment(study)
    run_points(grid.chosen(experiment.search), tmp_path / "out", 2)

    assert sorted(table(tmp_path / "out")["policy"]) == ["mine-a", "mine-b"]


def test_one_and_two_workers_give_equal_figures(tmp_path: Path) -> None:
    points = [tiny(n, policy) for n in (1, 2) for policy in ("unfused", "graphturbo")]
    run_points(points, tmp_path / "one", 1)
    run_points(points, tmp_path / "two", 2)

    pd.testing.assert_frame_equal(figures(table(tmp_path / "one")), figures(table(tmp_path / "two")))


def test_another_process_with_another_hash_seed_gives_the_same_keys_and_figures() -> None:
    program = """
import json, sys
from experiments.points import DesignPoint, Workload
from experiments.run import computed
from hw_models import load_hardware
from scheduler import make_policy
from tests.experiments.dangers import tiny

points = [
    DesignPoint(Workload("bert-tiny", 4), load_hardware("stcp920"), make_policy(policy))
    for policy in ("fixed-pattern", "graphturbo")
]
json.dump([{"key": point.key, **computed(point).row, "wall_s": 0} for point in points], sys.stdout)
"""
    first, second = (
        subprocess.run(
            [sys.executable, "-c", program],
            env={**ENVIRONMENT, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    )

    assert first == second
    assert [row["error"] for row in json.loads(first)] == [None, None]


def changed(**changes: Any) -> Mapping[str, DesignPoint]:
    return {name: point for name, point in changes.items() if isinstance(point, DesignPoint)}


def test_whatever_the_figures_depend_on_changes_the_key() -> None:
    point = tiny()
    others = changed(
        network=DesignPoint(Workload("dlrm", 4), point.hardware, point.policy, point.swept),
        batch=DesignPoint(Workload("bert-tiny", 8), point.hardware, point.policy, point.swept),
        simplify=DesignPoint(Workload("bert-tiny", 4, simplify=True), point.hardware, point.policy, point.swept),
        machine=tiny(2),
        policy=tiny(policy="graphturbo"),
        options=DesignPoint(point.workload, point.hardware, make_policy("graphturbo", {"order": "bfs"}), point.swept),
    )

    assert len({point.key, *(other.key for other in others.values())}) == 7


def test_a_swept_sequence_is_a_column_and_no_part_of_the_name(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(
        "workloads: [{model: bert-tiny, batch: 4, sequence: [32, 64]}]\nhardware: stcp920\npolicies: [unfused]\n"
    )
    experiment, grid = read_experiment(tmp_path / "study.yaml")
    rows = [computed(point).row for point in grid.chosen(experiment.search)]

    assert [(row["model"], row["sequence"], row["batch"]) for row in rows] == [
        ("bert-tiny", "32", 4),
        ("bert-tiny", "64", 4),
    ]


def test_a_damaged_store_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "results.sqlite").write_bytes(b"something else entirely" * 100)

    with pytest.raises(StoreError, match=r"results\.sqlite"):
        run_points([tiny()], tmp_path, 1)
    assert (tmp_path / "results.sqlite").read_bytes().startswith(b"something else")


def test_an_older_table_gets_the_columns_it_lacks(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "results.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE runs (key TEXT PRIMARY KEY, model TEXT)")
        connection.execute("INSERT INTO runs VALUES ('old', 'resnet50')")
    run_points([tiny()], tmp_path, 1)

    assert set(ALWAYS) - {"dtype"} <= set(table(tmp_path))
    assert table(tmp_path)["key"].tolist() == ["old", tiny().key]


def test_rows_come_back_as_they_were_stored(tmp_path: Path) -> None:
    row: Row = {
        "model": 'a"b',
        "latency_s": 0.1 + 0.2,
        "kernels": 2**53 + 1,
        "odd.path": "1 µs",
        "error": None,
    }
    with ResultStore(tmp_path) as store:
        store.add("k", row)
        (back,) = store.rows(["k"])

    assert {name: back[name] for name in row} == row


def test_the_runner_gives_rows_in_the_order_of_the_points(tmp_path: Path) -> None:
    points = [tiny(2), tiny(1), tiny(2)]
    with open_engine(1) as engine, ResultStore(tmp_path) as store:
        rows = Runner(store, engine).rows(points)

    assert [row["clusters"] for row in rows] == ["2", "1", "2"]


HAZARD = """
import os, pathlib
from dataclasses import dataclass
from scheduler.policies.unfused import Unfused

@dataclass(frozen=True)
class Hazard(Unfused):
    name: str = "hazard"

    def plan(self, graph, costs):
        with pathlib.Path(__file__).with_name("tried.txt").open("a") as file:
            file.write(f"{costs.view.spec.clusters}\\n")
        if costs.view.spec.clusters == 2 and not pathlib.Path(__file__).with_name("safe").exists():
            os._exit(5)
        return super().plan(graph, costs)
"""


def test_a_point_that_ends_its_process_is_recorded_and_tried_again_when_asked(tmp_path: Path) -> None:
    (tmp_path / "hazard.py").write_text(HAZARD)
    study, tried = tmp_path / "study.yaml", tmp_path / "tried.txt"
    study.write_text(
        "workloads: [{model: bert-tiny, batch: 4}]\npolicies: [hazard.py]\n"
        "hardware: {base: stcp920, sweep: {clusters: [1, 2, 4]}}\n"
    )
    command = ["run", str(study), "--out", str(tmp_path / "out"), "--workers", "1"]

    assert main(command) == 1
    errors = table(tmp_path / "out").set_index("clusters")["error"]
    assert errors["2"] == "its process ended by itself, with exit code 5"
    assert errors[["1", "4"]].isna().all()

    tried.unlink()
    (tmp_path / "safe").touch()
    assert main(command) == 1
    assert "2" not in (tried.read_text().split() if tried.exists() else [])

    assert main([*command, "--retry-failed"]) == 0
    rows = table(tmp_path / "out")
    assert len(rows) == 3
    assert rows["error"].isna().all()


def test_tracebacks_of_points_are_shown_when_asked(tmp_path: Path) -> None:
    (tmp_path / "faulty.py").write_text(FAULTY_POLICY)
    study = tmp_path / "study.yaml"
    study.write_text(
        "workloads: [{model: bert-tiny, batch: 4}]\npolicies: [faulty.py]\n"
        "hardware: {base: stcp920, set: {clusters: 3}}\n"
    )
    command = [*COMMAND, "run", str(study), "--retry-failed", "--out", str(tmp_path / "out")]
    said = [
        subprocess.run([*command, *flags], env=ENVIRONMENT, capture_output=True, text=True, check=False).stderr
        for flags in ([], ["-v"])
    ]

    assert "Traceback" not in said[0]
    assert "Traceback" in said[1]
    assert 'raise IndexError("no such thing")' in said[1]


def test_limits_make_failed_rows(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW_POLICY.replace("0.2", "60"))
    study = tmp_path / "study.yaml"
    study.write_text("workloads: [{model: bert-tiny, batch: 4}]\npolicies: [slow.py, unfused]\nhardware: stcp920\n")

    assert main(["run", str(study), "--out", str(tmp_path / "out"), "--workers", "1", "--point-timeout", "3 s"]) == 1
    errors = table(tmp_path / "out").set_index("policy")["error"]
    assert errors["slow"].startswith("took longer than 3 s")
    assert pd.isna(errors["unfused"])

    (tmp_path / "slow.py").write_text(SLOW_POLICY.replace("time.sleep(0.2)", "bytearray(2**29)"))
    assert main(["run", str(study), "--out", str(tmp_path / "small"), "--point-memory", "128 MiB"]) == 1
    errors = table(tmp_path / "small").set_index("policy")["error"]
    assert errors["slow"].startswith("needs more than 128 MiB of memory")
    assert pd.isna(errors["unfused"])
