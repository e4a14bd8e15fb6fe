"""A point that fails is a row with the reason; it stops no other point, and is retried on request."""

import subprocess
from pathlib import Path

import pandas as pd

from dsascape.experiments.engine.run import run_points
from dsascape.experiments.question.points import DesignPoint, Row, Workload
from dsascape.experiments.results.frame import read_results, write_csv
from dsascape.experiments.shell.cli import main
from dsascape.hw_models import load_hardware, with_values
from dsascape.scheduler import make_policy
from tests.experiments.dangers import tiny
from tests.experiments.runs import COMMAND, ENVIRONMENT, FAULTY_POLICY, SLOW_POLICY, table

HAZARD = """
import os, pathlib
from dataclasses import dataclass
from dsascape.scheduler.policies.unfused import Unfused

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
    command = [*COMMAND, "run", str(study), "--retry-failed", "--out", str(tmp_path / "out"), "--workers", "1"]
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
