"""``dsascape tune``: its answer, its files, its messages, and the kernels that other commands take from it."""

import csv
import io
import json
import shutil
import sqlite3
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'dsascape[tune]'")

from dsascape.experiments import papers
from dsascape.experiments.real.tuning import tuning_answer
from dsascape.experiments.shell.cli import main
from tests.experiments.terminal import Terminal
from tests.tiers import examples

TRIALS = examples(120, few=32)
ASKED = ("--runner", "simulate", "--hardware", "epyc", "--population", "24", "--unit", "8")
SHAPES = """
operators:
  product: {op: MatMul, inputs: [[64, 96]], weights: [[96, 48]]}
  convolution: {op: Conv, inputs: [[1, 16, 14, 14]], weights: [[32, 16, 3, 3]], attributes: {pads: [1, 1, 1, 1]},
                then: [Relu]}
  norm: {op: ReduceL2, inputs: [[64, 64]], constants: [[0, 1]], attributes: {keepdims: 0}}
"""


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


@pytest.fixture
def shapes(tmp_path: Path) -> str:
    path = tmp_path / "shapes.yaml"
    path.write_text(SHAPES)
    return str(path)


def tuned(terminal: Terminal, model: str, folder: Path, *more: str) -> Any:
    return terminal.json("tune", model, *ASKED, "--trials", "24", "--out", str(folder), *more)


@dataclass(frozen=True)
class Whole:
    """A search over ``SHAPES`` that has ended: its folder, its answer, and what it said meanwhile."""

    folder: Path
    data: Any
    said: str


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    place, out, err = tmp_path_factory.mktemp("whole"), io.StringIO(), io.StringIO()
    (place / "shapes.yaml").write_text(SHAPES)
    with redirect_stdout(out), redirect_stderr(err):
        asked = ["tune", str(place / "shapes.yaml"), *ASKED, "--trials", "24", "--out", str(place / "tuned"), "--json"]
        assert main(asked) == 0
    return Whole(place / "tuned", json.loads(out.getvalue()), err.getvalue())


def test_json_has_the_promised_keys(whole: Whole) -> None:
    data = whole.data
    assert {
        "model", "tuner", "runner", "hardware", "policy", "trials", "failed", "seconds_before", "seconds_after", "tasks"
    } <= set(data)  # fmt: skip
    assert (data["tuner"], data["runner"], data["policy"]) == ("ansor", "simulate", "fixed-pattern")
    assert data["trials"] == sum([task["trials"] for task in data["tasks"]]) == 24
    assert data["seconds_after"] <= data["seconds_before"]
    for task in data["tasks"]:
        assert {"key", "operators", "weight", "trials", "before_s", "after_s", "rank_by_model", "steps"} <= set(task)
    assert sum([task["weight"] * task["after_s"] for task in data["tasks"]]) == pytest.approx(data["seconds_after"])


ONE: dict[str, Any] = {"name": "one", "weight": 2, "trials": 16, "before_s": 3e-3, "after_s": 2e-3, "given_up": None}
"""A task that takes 6 ms of a network, and 4 ms tuned."""


def answered(*changes: dict[str, Any], failed: int = 0, runner: str = "simulate") -> list[str]:
    """What is said of one or more tasks like ``ONE``, in a network of 10 ms in all."""
    tasks: list[dict[str, Any]] = [{**ONE, **each} for each in changes]
    gained_s = sum([each["weight"] * (each["before_s"] - each["after_s"]) for each in tasks if each["after_s"]])
    return tuning_answer({
        "model": "net", "hardware": "m", "runner": runner, "failed": failed,
        "trials": sum([each["trials"] for each in tasks]), "tasks": tasks,
        "seconds_before": 10e-3, "seconds_after": 10e-3 - gained_s,
    })  # fmt: skip


class TestAnswer:
    """How much faster, in how many trials, where the gain came from, and what is left."""

    def test_of_one_task(self) -> None:
        assert answered({}) == [
            "Tuned, net on m is 1.25 times as fast: 8 ms in place of 10 ms, after 16 trials of 1 task.",
            "The gain comes from one (100%).",
        ]

    def test_shares_are_of_the_whole_gain_and_small_ones_are_not_named(self) -> None:
        """2 ms, 0.5 ms and 1 us are gained."""
        small = {"name": "three", "weight": 1, "before_s": 1e-3, "after_s": 0.999e-3}
        told = answered(small, {"name": "two", "weight": 1, "after_s": 2.5e-3}, {})
        assert told[1] == "The gain comes from one (80%), two (20%)."

    def test_tasks_without_trials_are_told_with_their_share_of_the_time(self) -> None:
        told = answered({"after_s": 2.9e-3}, {"name": "two", "weight": 1, "trials": 0, "after_s": 3e-3})
        assert told[0].startswith("Tuned, net on m takes 2.0 % less time: 9.8 ms in place of 10 ms, ")
        assert told[0].endswith("after 16 trials of 1 of 2 tasks.")
        assert told[2] == "1 task with 30% of the time had no trial: more --trials reach them."

    def test_no_gain_is_said_and_failures_are(self) -> None:
        assert answered({"after_s": 3e-3}, failed=3) == [
            "No program was found that is faster: net on m stays at 10 ms after 16 trials of 1 task, 3 of them failed."
        ]

    def test_a_measured_gain_below_what_times_vary_by_is_none(self) -> None:
        """0.08 of 10 ms."""
        assert answered({"after_s": 2.96e-3})[0].startswith("Tuned, net on m takes 0.8 % less time")
        (told,) = answered({"after_s": 2.96e-3}, runner="local")
        assert told.startswith("No program was found that is faster by 1% or more: net on m stays at 10 ms after 16 ")

    def test_a_task_without_a_time_is_named(self) -> None:
        assert answered({}, {"name": "two", "after_s": None})[-1] == "No time of two: no program of it ran."


def test_a_folder_has_database_kernels_and_curve(whole: Whole) -> None:
    folder, data = whole.folder, whole.data
    files = {path.name for path in folder.iterdir()}
    assert files >= {"candidates.sqlite", "kernels.jsonl", "curve.csv", "curve.svg", "report.html"}
    lines = [json.loads(line) for line in (folder / "kernels.jsonl").read_text().splitlines()]
    assert {line["key"] for line in lines} == {task["key"] for task in data["tasks"]}
    rows = list(csv.DictReader((folder / "curve.csv").open()))
    assert int(rows[-1]["trials"]) == 24
    assert float(rows[-1]["latency_s"]) == pytest.approx(data["seconds_after"])
    assert (folder / "curve.svg").read_text().startswith("<svg")
    page = (folder / "report.html").read_text()
    assert page.count("<tr>") == 1 + len(data["tasks"])
    assert "24 trials of 3 tasks" in page


def test_progress_says_how_far_it_is(whole: Whole) -> None:
    last = whole.said.splitlines()[-1]
    assert last.startswith("24 of 24 trials: ")
    assert "built-in" in last
    assert last.endswith("0 s left")


def test_same_seed_same_answer_and_a_second_run_adds_nothing(
    terminal: Terminal, shapes: str, tmp_path: Path, whole: Whole
) -> None:
    shutil.copytree(whole.folder, tmp_path / "one")
    answers = [whole.data, tuned(terminal, shapes, tmp_path / "other"), tuned(terminal, shapes, tmp_path / "one")]
    files = {"kernels", "curve", "report"}
    one, other, again = [{name: data[name] for name in data if name not in files} for data in answers]
    assert one == other
    assert again["trials_before"] == 24
    assert again["tasks"] == one["tasks"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", ["fine-tuning", "task-scheduler", "large-space"])
def test_parts_can_be_left_out(part: str, terminal: Terminal, shapes: str, tmp_path: Path) -> None:
    assert tuned(terminal, shapes, tmp_path, "--without", part)["trials"] == 24


@pytest.mark.parametrize("objective", [("f2", "1e-5"), ("f3", "1e-3"), ("f4",), ("own",)])
def test_objectives(objective: tuple[str, ...], terminal: Terminal, shapes: str, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text("def objective(latencies):\n    return max(latencies)\n")
    name = str(own) if objective[0] == "own" else objective[0]
    latency = ["--latency", objective[1]] if objective[1:] else []
    assert tuned(terminal, shapes, tmp_path / "tuned", "--objective", name, *latency)["trials"] <= 24


def test_networks_take_their_tuned_kernels(terminal: Terminal, tmp_path: Path) -> None:
    """Simulated, and as a whole experiment; each kernel of the folder is the one that the schedule has."""
    folder = tmp_path / "tuned"
    data = terminal.json("tune", "dcgan", *ASKED, "--trials", "10", "--out", str(folder), "--tuner", "random")
    simulate = ("simulate", "dcgan", "--hardware", "epyc", "--policy", "fixed-pattern")
    out = tmp_path / "schedule.json"
    terminal.json(*simulate, "--kernels", str(folder), "--schedule-out", str(out))
    assert terminal.err == ""
    kernels = json.loads(out.read_text())["kernels"]
    assert sum(["steps" in kernel for kernel in kernels]) == sum([task["weight"] for task in data["tasks"]])
    experiment = tmp_path / "study.yaml"
    experiment.write_text("workloads: [dcgan]\nhardware: epyc\npolicies: [fixed-pattern]\nkernels: tuned\n")
    plain = terminal.json(*simulate, "--set", "tuning.winograd=0")["latency_s"]
    whole = terminal.json(*simulate, "--kernels", str(folder))["latency_s"]
    assert terminal.json("run", str(experiment), "--out", str(tmp_path / "out"), "--workers", "1")["failed"] == 0
    (row,) = list(csv.DictReader((tmp_path / "out" / "results.csv").open()))
    assert float(row["latency_s"]) == pytest.approx(whole)
    assert whole == pytest.approx(plain, rel=0.1)


def test_kernels_of_another_machine_or_other_code_are_ignored_and_said(terminal: Terminal, tmp_path: Path) -> None:
    folder = tmp_path / "tuned"
    terminal.json("tune", "dcgan", *ASKED, "--trials", "5", "--out", str(folder), "--tuner", "random")
    other = ("simulate", "dcgan", "--hardware", "kirin990", "--policy", "fixed-pattern")
    plain = terminal.json(*other)["latency_s"]
    assert terminal.json(*other, "--kernels", str(folder))["latency_s"] == plain
    assert "5 kernels" in terminal.err
    assert "another machine than kirin990" in terminal.err
    path = folder / "kernels.jsonl"
    path.write_text(path.read_text().replace('"code": "', '"code": "0'))
    own = ("simulate", "dcgan", "--hardware", "epyc", "--policy", "fixed-pattern")
    terminal.json(*own, "--kernels", str(folder))
    assert "other code" in terminal.err


@pytest.mark.parametrize("tuner", ["random", "eto"])
def test_kernels_of_a_simulated_gpu_are_tuned_and_used(tuner: str, terminal: Terminal, tmp_path: Path) -> None:
    """The schedule with them takes about as long as the search says, or less: there, more is found in the L2."""
    on = ("--hardware", "v100", "--policy", "fixed-pattern", "--dtype", "fp32")
    asked = ("--runner", "simulate", "--tuner", tuner, "--population", "24", "--unit", "8", "--trials", str(TRIALS))
    data = terminal.json("tune", "dcgan", *on, *asked, "--out", str(tmp_path))
    assert data["seconds_after"] <= data["seconds_before"]
    assert data["trials"] <= TRIALS
    assert ("reuse" in data) == (tuner == "eto")
    tuned = terminal.json("simulate", "dcgan", *on, "--kernels", str(tmp_path))["latency_s"]
    assert tuned <= data["seconds_after"] * 1.05


SIMILAR = """
operators:
  narrow: {op: Conv, inputs: [[1, 16, 14, 14]], weights: [[32, 16, 1, 1]], then: [Relu]}
  wide: {op: Conv, inputs: [[1, 32, 14, 14]], weights: [[64, 32, 1, 1]], then: [Relu]}
"""


@pytest.mark.parametrize("tuner", ["eto", "selective"])
def test_kernels_of_cpus_are_tuned_by_reuse(tuner: str, terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "similar.yaml"
    path.write_text(SIMILAR)
    data = tuned(terminal, str(path), tmp_path / "tuned", "--tuner", tuner, "--trials", "60")
    assert data["seconds_after"] <= data["seconds_before"]
    assert data["failed"] == 0
    first, last = sorted([task["trials"] for task in data["tasks"]])
    assert 0 < first <= 20
    assert last > first or tuner == "eto"
    if tuner == "eto":
        assert [each["reuses"] for each in data["reuse"]["tunings"]] == [None, 0]


PAIR = """
operators:
  pair: {op: Conv, inputs: [[1, 8, 7, 7]], weights: [[8, 8, 1, 1]],
         then: [Relu, {op: Conv, weights: [[8, 1, 3, 3]], attributes: {group: 8, pads: [1, 1, 1, 1]}}, Relu]}
"""
ONE_KERNEL = str(Path(papers.__file__).parent / "ago" / "one_kernel.py")


@pytest.fixture
def pair(tmp_path: Path) -> str:
    path = tmp_path / "pair.yaml"
    path.write_text(PAIR)
    return str(path)


def test_ago_says_what_it_splits_and_joins(terminal: Terminal, pair: str, tmp_path: Path) -> None:
    data = tuned(terminal, pair, tmp_path / "tuned", "--tuner", "ago", "--policy", ONE_KERNEL)
    split, join = data["decisions"]
    assert (split["decision"], join["decision"]) == ("SplitDecision", "JoinDecision")
    operators = [each["operators"] for each in split["minis"]]
    assert operators == [["conv", "relu of pair"], ["conv of pair", "relu of pair#2"]]
    assert [each["task"] for each in join["minis"]] == [each["task"] for each in split["minis"]]
    assert [task["weight"] for task in data["tasks"]] == [1, 0, 0]
    assert sum([task["weight"] * task["after_s"] for task in data["tasks"]]) == pytest.approx(data["seconds_after"])
    again = ("--tuner", "ago", "--policy", ONE_KERNEL, "--trials", "24", "--out", str(tmp_path / "tuned"))
    shown = terminal.out("tune", pair, *ASKED, *again)
    assert "pair is split into [conv, relu of pair]" in shown
    assert "pair is joined after unit" in shown


def test_ablations_of_ago(terminal: Terminal, pair: str, tmp_path: Path) -> None:
    asked = ("--tuner", "ago", "--policy", ONE_KERNEL, "--without")
    whole = tuned(terminal, pair, tmp_path / "nr", *asked, "reformer")
    assert whole["decisions"] == []
    assert len(whole["tasks"]) == 1
    apart = tuned(terminal, pair, tmp_path / "ni", *asked, "intensive-fusion")
    assert len(apart["decisions"]) == 2


def test_ago_tunes_the_kernels_of_its_own_policy(terminal: Terminal, pair: str, tmp_path: Path) -> None:
    assert tuned(terminal, pair, tmp_path / "tuned", "--tuner", "ago")["policy"] == "ago"


@pytest.mark.parametrize(
    ("argv", "needs"),
    [
        (("--objective", "f4", "--tuner", "ago"), "shares trials out by weight; needs f1"),
        (("--without", "reformer"), "is a part of --tuner ago"),
        (("--without", "intensive-fusion", "--tuner", "random"), "is a part of --tuner ago"),
        (
            ("--without", "intensive-fusion", "--tuner", "ago", "--policy", ONE_KERNEL, "--hardware", "p100"),
            "cannot be computed apart in one GPU kernel",
        ),
    ],
)
def test_what_ago_cannot_do_is_one_message(
    argv: tuple[str, ...], needs: str, terminal: Terminal, pair: str, tmp_path: Path
) -> None:
    assert needs in terminal.refused("tune", pair, *ASKED, *argv, "--out", str(tmp_path / "tuned"))


def test_ago_tunes_a_pair_on_a_gpu(terminal: Terminal, pair: str, tmp_path: Path) -> None:
    data = tuned(
        terminal, pair, tmp_path / "tuned", "--tuner", "ago", "--policy", ONE_KERNEL, "--hardware", "p100"
    )  # fmt: skip
    assert data["decisions"][1]["steps"]
    assert data["seconds_after"] <= data["seconds_before"]


def test_hints_are_obeyed_and_searches_without_them_are_others(
    terminal: Terminal, shapes: str, tmp_path: Path
) -> None:
    """The built-in choice is tried first, whatever the hints say."""
    hints = tmp_path / "hints.yaml"
    hints.write_text('hints: {"*": {unroll: 0}, matmul: {innermost: {1: {multiple: 8}, 0: 2}, reduction: whole}}\n')
    folder = tmp_path / "tuned"
    tuned(terminal, shapes, folder)
    data = tuned(terminal, shapes, folder, "--hints", str(hints))
    assert (data["trials_before"], data["trials"]) == (0, 24)
    with closing(sqlite3.connect(folder / "candidates.sqlite")) as connection:
        rows = connection.execute("SELECT steps FROM candidates WHERE unit > 0 AND search LIKE '%multiple%'").fetchall()
    assert len(rows) == 24
    assert not any("Unroll" in steps for (steps,) in rows)
