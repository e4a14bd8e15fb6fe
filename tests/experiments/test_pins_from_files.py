"""Pins and schedules from files: on the command line, among an experiment's policies, and in a point's key."""

import pickle
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from dsascape.experiments.question.pinned import written_pins
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.experiments.question.reading import read_experiment
from dsascape.hw_models import load_hardware
from dsascape.scheduler import make_policy
from tests.experiments.terminal import Terminal

POINT = ["simulate", "bert-tiny", "--hardware", "kirin990"]


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    path = tmp_path / "pins.yaml"
    path.write_text('layers:\n  "op:MatMul": {threads: 1}\n')
    return path


def test_simulate_says_which_pins_were_applied_and_the_schedule_keeps_them(
    terminal: Terminal, pins: Path, tmp_path: Path
) -> None:
    schedule = str(tmp_path / "schedule.json")
    policy = ["--policy", "fixed-pattern"]
    pinned = terminal.json(*POINT, *policy, "--pins", str(pins), "--schedule-out", schedule)
    again = terminal.json(*POINT, "--schedule", schedule)

    assert [(pin["selector"], pin["decided"]) for pin in pinned["pins"]] == [("op:MatMul", {"threads": 1})]
    assert len(pinned["pins"][0]["layers"]) > 4
    assert {**again, "wall_s": 0} == {**pinned, "wall_s": 0}
    assert "pins" not in terminal.json(*POINT, *policy)
    assert "pinned by op:MatMul" in " ".join(terminal.out(*POINT, *policy, "--pins", str(pins)).split())


def test_mistakes_say_which_file_and_key(terminal: Terminal, pins: Path, tmp_path: Path) -> None:
    policy = ["--policy", "fixed-pattern", "--pins"]
    pins.write_text("layers:\n  x: {treads: 1}\n")
    unknown = f"{pins}: layers.x: treads: is unknown (did you mean threads?)"
    assert unknown in terminal.refused(*POINT, *policy, str(pins))
    pins.write_text("layer: {}\n")
    assert f"{pins}: layers: has nothing; needs a mapping" in terminal.refused(*POINT, *policy, str(pins))
    assert "no such file" in terminal.refused(*POINT, *policy, str(tmp_path / "absent.yaml"))
    schedule = ["--schedule", str(tmp_path / "s.json"), "--pins", str(pins)]
    assert "--pins does not go with --schedule" in terminal.refused(*POINT, *schedule)


def test_fuse_shows_the_plan_of_a_schedule(terminal: Terminal, tmp_path: Path) -> None:
    schedule = str(tmp_path / "schedule.json")
    terminal.json(*POINT, "--policy", "ago", "--schedule-out", schedule)
    network = ["fuse", "bert-tiny", "--hardware", "kirin990"]

    assert terminal.json(*network, "--schedule", schedule) == terminal.json(*network, "--policy", "ago")
    assert "not allowed with" in terminal.refused(*network, "--schedule", schedule, "--policy", "ago")
    assert "--option does not go with --schedule" in terminal.refused(
        *network, "--schedule", schedule, "--option", "a=b"
    )


def test_a_schedule_stands_among_the_policies_of_an_experiment(terminal: Terminal, pins: Path, tmp_path: Path) -> None:
    terminal.json(*POINT, "--policy", "unfused", "--schedule-out", str(tmp_path / "mine.json"))
    (tmp_path / "study.yaml").write_text(
        "workloads: [bert-tiny]\nhardware: kirin990\npolicies: [unfused, mine.json]\npins: pins.yaml\n"
    )
    terminal.json("run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "out"), "--workers", "1")
    rows = pd.read_csv(tmp_path / "out" / "results.csv")

    assert rows["policy"].tolist() == ["unfused", "unfused"]
    assert rows["schedule"].fillna("").tolist() == ["", "mine.json"]
    assert rows["pins"].fillna("").tolist() == ["pins.yaml", ""]
    assert rows["latency_s"][0] > rows["latency_s"][1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("policies: [unfused, absent.json]", "policies.1: .*absent.json: no such file"),
        ("policies: [unfused, {mine.json: {a: 1}}]", "policies.1: mine.json: is a schedule, which has no options"),
        ("policies: [mine.json, mine.json]", "policies: has .*mine.json of the same name or content before it"),
        ("policies: [unfused]\npins: absent.yaml", "pins: .*absent.yaml: no such file"),
        ("policies: [unfused]\npins: wrong.yaml", "pins: .*wrong.yaml: layers.a: output: is unknown"),
    ],
)
def test_mistakes_of_an_experiment_are_found_before_it_runs(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "mine.json").write_text('{"policy": "unfused"}')
    (tmp_path / "wrong.yaml").write_text("layers: {a: {output: ddr}}\n")
    study = tmp_path / "study.yaml"
    study.write_text(f"workloads: [bert-tiny]\nhardware: kirin990\n{line}\n")

    with pytest.raises(ValueError, match=said):
        read_experiment(study)


def test_the_key_of_a_point_depends_on_its_pins_not_on_their_place(pins: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere.yaml"
    other.write_text(pins.read_text())
    free = DesignPoint(Workload("bert-tiny"), load_hardware("kirin990"), make_policy("unfused"))
    first, same = [replace(free, pins=written_pins(path)) for path in (pins, other)]
    other.write_text("layers: {a: {threads: 2}}\n")

    assert len({free.key, first.key, same.key, replace(free, pins=written_pins(other)).key}) == 3
    assert pickle.loads(pickle.dumps(first)) == first
