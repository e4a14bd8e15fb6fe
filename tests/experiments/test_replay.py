"""A schedule written by one command runs in another, edited or not; an invalid one is rejected with the reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from dsascape.scheduler import policy_types
from tests.experiments.terminal import Terminal

NETWORK = ["simulate", "squeezenet", "--hardware", "stcp920", "--batch", "8"]


@pytest.fixture
def written(terminal: Terminal, tmp_path: Path) -> Path:
    path = tmp_path / "schedule.json"
    terminal.json(*NETWORK, "--policy", "graphturbo", "--schedule-out", str(path))
    return path


def edited(path: Path, schedule: dict[str, Any]) -> str:
    path.write_text(json.dumps(schedule))
    return str(path)


@pytest.mark.parametrize("policy", sorted(policy_types()))
def test_a_schedule_from_a_file_gives_the_figures_of_its_policy(
    terminal: Terminal, tmp_path: Path, policy: str
) -> None:
    path = str(tmp_path / "schedule.json")
    network = ["simulate", "dcgan", "--hardware", "stcp920", "--batch", "8"]
    first = terminal.json(*network, "--policy", policy, "--schedule-out", path)
    again = terminal.json(*network, "--schedule", path)

    assert {**again, "wall_s": 0} == {**first, "wall_s": 0}


def test_a_schedule_of_fewer_images_runs_as_often_as_the_share_needs(terminal: Terminal, tmp_path: Path) -> None:
    path = str(tmp_path / "schedule.json")
    option = ["--option", "batches_per_cluster=1"]
    first = terminal.json(*NETWORK, "--policy", "graphturbo", *option, "--schedule-out", path)
    again = terminal.json(*NETWORK, "--schedule", path)

    assert (again["latency_s"], again["energy_j"], again["kernels"]) == (
        first["latency_s"], first["energy_j"], first["kernels"],
    )  # fmt: skip


def test_finer_tiles_by_hand_run_and_take_another_time(terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    before = terminal.json(*NETWORK, "--policy", "fixed-pattern", "--schedule-out", str(path))
    schedule = json.loads(path.read_text())
    runs = [run for instance in schedule["instances"] for run in instance["runs"]]
    changed = [run for run in runs if not run["staged"] and run["depth"] is None]
    for run in changed:
        outermost = next((dim for dim in run["tile_order"] if run["tile"][dim] > 1), 0)
        run["tile"][outermost] = -(-run["tile"][outermost] // 2)
    assert "addresses" in terminal.refused(*NETWORK, "--schedule", edited(path, schedule))
    for run in changed:
        del run["addresses"]  # the tiles find their places themselves
    after = terminal.json(*NETWORK, "--schedule", edited(path, schedule))

    assert after["latency_s"] != before["latency_s"]
    assert after["tensor_scopes"] == before["tensor_scopes"]


def test_a_schedule_that_cannot_run_is_refused_by_name(terminal: Terminal, written: Path) -> None:
    schedule = json.loads(written.read_text())
    number = next(i for i, each in enumerate(schedule["slices"]) if each["memory"] == "local_buffer")
    schedule["slices"][number] |= {"memory": "ddr", "address": None}
    tensor = schedule["slices"][number]["tensor"]

    message = terminal.refused(*NETWORK, "--schedule", edited(written, schedule))

    assert str(written) in message
    assert f"{tensor!r} comes from" in message


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("{", ["is not JSON"]),
        ("[" * 100_000, ["is nested more than 128 levels deep"]),
        ("{}", ["schedule", "format"]),
        (b"\xff\xfe", ["is not UTF-8"]),
    ],
)
def test_junk_is_no_schedule(terminal: Terminal, tmp_path: Path, content: str | bytes, texts: list[str]) -> None:
    path = tmp_path / "junk.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())

    message = terminal.refused(*NETWORK, "--schedule", str(path))

    assert all(text in message for text in ["junk.json", *texts])


def test_a_schedule_is_for_one_network_on_one_machine(terminal: Terminal, written: Path) -> None:
    other = ["simulate", "bert-tiny", "--hardware", "stcp920", "--batch", "8", "--schedule", str(written)]
    smaller = [*NETWORK, "--set", "clusters=2", "--schedule", str(written)]

    assert "network.name" in terminal.refused(*other)
    assert "machine.clusters" in terminal.refused(*smaller)


def test_a_schedule_takes_the_place_of_a_policy(terminal: Terminal, written: Path) -> None:
    both = [*NETWORK, "--schedule", str(written), "--policy", "unfused"]

    assert "--policy" in terminal.refused(*both)
    assert "--option" in terminal.refused(*NETWORK, "--schedule", str(written), "--option", "order=bfs")
    assert "no such file" in terminal.refused(*NETWORK, "--schedule", "nowhere.json")


def test_tuning_is_set_and_swept_like_a_value_of_the_machine(terminal: Terminal, tmp_path: Path) -> None:
    usual = terminal.json(*NETWORK, "--policy", "graphturbo")
    finer = terminal.json(*NETWORK, "--policy", "graphturbo", "--set", "tuning.most_tiles=32")
    study = tmp_path / "study.yaml"
    study.write_text(
        "# Do more tiles help?\nworkloads: [{model: squeezenet, batch: 8}]\npolicies: [graphturbo]\n"
        "hardware: {base: stcp920, sweep: {tuning.most_tiles: [8, 32]}}\n"
    )
    terminal.json("run", str(study), "--out", str(tmp_path / "out"), "--workers", "1")
    rows = (tmp_path / "out" / "results.csv").read_text()

    assert usual["latency_s"] != finer["latency_s"]
    assert all(str(found["latency_s"]) in rows for found in (usual, finer))
    assert "tuning.most_tiles" in rows.splitlines()[0]


@pytest.mark.parametrize(
    ("setting", "texts"),
    [
        ("tuning.most_tils=3", ["tuning.most_tils is unknown", "did you mean most_tiles?"]),
        ("tuning.most_tiles=0", ["tuning.most_tiles", "has 0"]),
        ("tuning.worthwhile=2", ["tuning.worthwhile", "has 2"]),
    ],
)
def test_tuning_that_makes_no_sense_is_refused(terminal: Terminal, setting: str, texts: list[str]) -> None:
    message = terminal.refused(*NETWORK, "--policy", "graphturbo", "--set", setting)

    assert all(text in message for text in texts)
