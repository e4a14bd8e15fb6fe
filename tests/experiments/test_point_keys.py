"""The key of a design point covers everything that its figures depend on, and nothing else."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dsascape.experiments.engine.run import computed, run_points
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.experiments.question.reading import read_experiment
from dsascape.scheduler import make_policy
from tests.experiments.dangers import tiny
from tests.experiments.runs import ENVIRONMENT, FAULTY_POLICY, table


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


def test_another_process_with_another_hash_seed_gives_the_same_keys_and_figures() -> None:
    program = """
import json, sys
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.experiments.engine.run import computed
from dsascape.hw_models import load_hardware
from dsascape.scheduler import make_policy
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


def test_policies_of_two_files_with_one_name_are_distinct(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(FAULTY_POLICY.replace("faulty", f"mine-{folder}"))
    study = tmp_path / "study.yaml"
    study.write_text("workloads: [{model: bert-tiny, batch: 4}]\nhardware: stcp920\npolicies: [a/mine.py, b/mine.py]\n")
    experiment, grid = read_experiment(study)
    run_points(grid.chosen(experiment.search), tmp_path / "out", 2)

    assert sorted(table(tmp_path / "out")["policy"]) == ["mine-a", "mine-b"]


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


def changed(**changes: Any) -> Mapping[str, DesignPoint]:
    return {name: point for name, point in changes.items() if isinstance(point, DesignPoint)}
