"""A run computes each point once, resumes after a kill, and gives the same figures with any number of workers."""

import os
import shlex
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pandas as pd
import pytest

from dsascape.experiments.engine.engines import open_engine
from dsascape.experiments.engine.run import Runner, run_points
from dsascape.experiments.question.points import RunRecord
from dsascape.experiments.question.reading import read_experiment
from dsascape.experiments.results.store import ResultStore
from dsascape.experiments.shell.cli import main
from dsascape.experiments.shell.run import time_left
from tests.experiments.dangers import tiny
from tests.experiments.runs import COMMAND, ENVIRONMENT, SLOW_POLICY, figures, table

STUDY = """# Does a larger buffer help?
workloads: [{model: bert-tiny, batch: 4}]
hardware: {base: stcp920, sweep: {local_buffer.capacity: [512 KiB, 1.25 MiB]}}
policies: [fixed-pattern, {graphturbo: {order: bfs}}]
"""


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


def test_a_stopped_run_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW_POLICY)
    study, out = tmp_path / "study.yaml", tmp_path / "it's out"
    study.write_text(
        "workloads: [{model: bert-tiny, batch: 24}]\npolicies: [slow.py]\n"
        "hardware: {base: stcp920, sweep: {clusters: [1, 2, 3, 4, 5, 6]}}\n"
    )
    argv = ["run", str(study), "--workers", "2", "--out", str(out)]

    with subprocess.Popen([*COMMAND, *argv], env=ENVIRONMENT, stderr=subprocess.PIPE, encoding="utf-8") as process:
        until(lambda: rows_so_far(out) >= 2)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)

    kept = len(table(out))
    assert process.returncode == 130
    assert "Traceback" not in said
    assert f"stopped; {kept} of 6 design points are kept in {out}." in said
    assert f"To go on: {shlex.join(['dsascape', *argv])} " in said
    assert f"{shlex.join(['dsascape', 'report', str(out)])}\n" in said


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, ""), (0, ""), (0.2, "about 1 s left"), (42, "about 42 s left"), (130, "about 2 min left"),
     (7300, "about 2 h left")],
)  # fmt: skip
def test_the_time_left_is_told_in_words(seconds: float | None, words: str) -> None:
    assert time_left(seconds) == words


def test_the_end_tells_headline_and_best_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(
        "workloads: [{model: bert-tiny, batch: 4}]\npolicies: [unfused, fixed-pattern]\nhardware: stcp920\n"
    )

    assert main(["run", str(study), "--out", str(tmp_path / "out"), "--workers", "1"]) == 0

    told, best, counted = capsys.readouterr().out.splitlines()
    assert told.startswith("On the whole no policy beats fixed-pattern: unfused is ")
    assert told.endswith(" times slower than fixed-pattern. (simulated)")
    assert best.startswith("  network bert-tiny, policy fixed-pattern, latency [ms] ")
    assert best.endswith(", bound by launch")
    assert counted.startswith("2 design points, 2 computed now, 0 failed; ")


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


def test_one_and_two_workers_give_equal_figures(tmp_path: Path) -> None:
    points = [tiny(n, policy) for n in (1, 2) for policy in ("unfused", "graphturbo")]
    run_points(points, tmp_path / "one", 1)
    run_points(points, tmp_path / "two", 2)

    pd.testing.assert_frame_equal(figures(table(tmp_path / "one")), figures(table(tmp_path / "two")))


def test_the_runner_gives_rows_in_the_order_of_the_points(tmp_path: Path) -> None:
    points = [tiny(2), tiny(1), tiny(2)]
    with open_engine(1) as engine, ResultStore(tmp_path) as store:
        rows = Runner(store, engine).rows(points)

    assert [row["clusters"] for row in rows] == ["2", "1", "2"]
