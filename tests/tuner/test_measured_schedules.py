"""A schedule from a file in place of a policy determines the code that is measured, here or elsewhere."""

import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dsascape.scheduler.kernels.loops.files import steps_json

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.experiments.question.points import DesignPoint, MeasuredOn, Workload
from dsascape.experiments.question.schedules import written_schedule
from dsascape.experiments.real.on_processor import prepared
from dsascape.experiments.shell.cli import main
from dsascape.hw_models import load_hardware
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule
from dsascape.tuner.measure import Budget
from tests.experiments.terminal import Terminal
from tests.graphs import Net
from tests.tuner.runs import written_onnx
from tests.tuner.servers import Server

pytestmark = [pytest.mark.tvm, pytest.mark.usefixtures("forked_children")]

MACHINE = ("--hardware", "kirin990")


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("net")
    made = Net()
    x = made.relu(made.conv(made.input(1, 4, 16, 16), 8))
    written_onnx(made.graph(made.unary("Tanh", made.conv(x, 4, 1)), dtype="fp32"), folder / "net.onnx")
    return str(folder / "net.onnx")


@pytest.fixture
def schedule(terminal: Terminal, net: str, tmp_path: Path) -> Path:
    path = tmp_path / "schedule.json"
    terminal.json("simulate", net, *MACHINE, "--policy", "fixed-pattern", "--schedule-out", str(path))
    return path


def edited(schedule: Path, **changes: Any) -> Path:
    """Return a schedule whose first kernel has other values."""
    content = json.loads(schedule.read_text())
    content["kernels"][0] |= changes
    path = schedule.with_name("edited.json")
    path.write_text(json.dumps(content))
    return path


@dataclass(frozen=True)
class Measured:
    """One network measured as a policy decides, from the policy's file, and from an edited one; kept in ``folder``."""

    folder: Path
    answers: tuple[Any, Any, Any]


@pytest.fixture(scope="module")
def measured(net: str, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    folder = tmp_path_factory.mktemp("measured")
    path, out = folder / "schedule.json", folder / "out"
    answer("simulate", net, *MACHINE, "--policy", "fixed-pattern", "--schedule-out", str(path))
    steps = json.loads(path.read_text())["kernels"][0]["steps"]
    other = edited(path, threads=1, steps=[step for step in steps if step["step"] != "Unroll"])
    alone = ["measure", net, *MACHINE, "--threads", "1", "--out", str(out)]
    under_policy, from_file, from_edited = (
        answer(*alone, *way)
        for way in (("--policy", "fixed-pattern"), ("--schedule", str(path)), ("--schedule", str(other)))
    )
    return Measured(out, (under_policy, from_file, from_edited))


def answer(*argv: str) -> Any:
    """Return what a command answers in JSON."""
    with redirect_stdout(io.StringIO()) as said:
        assert main([*argv, "--json"]) == 0
    return json.loads(said.getvalue())


def test_as_a_policy_has_decided_it_is_measured_and_predicted_as_under_the_policy(measured: Measured) -> None:
    under_policy, from_file, _ = measured.answers

    assert from_file["correct"] is True
    assert (from_file["policy"], from_file["threads"]) == ("fixed-pattern", 1)
    assert [each["name"] for each in from_file["kernels"]] == [each["name"] for each in under_policy["kernels"]]
    assert from_file["measured_s"] > 0


def test_code_has_the_steps_that_were_edited_into_the_file(net: str, schedule: Path) -> None:
    first = json.loads(schedule.read_text())["kernels"][0]
    steps = [step | {"most": 4} if step["step"] == "Unroll" else step for step in first["steps"]]
    assert steps != first["steps"]
    path = edited(schedule, steps=steps)
    policy, written = written_schedule(path)
    point = DesignPoint(
        Workload(net), load_hardware("kirin990"), policy, tuning={"threads": 1},
        measured_on=MeasuredOn("llvm", "local"), schedule=written,
    )  # fmt: skip

    ready = prepared(point, Budget())

    assert isinstance(ready.outcome.schedule, CpuSchedule)
    assert steps_json(ready.job.chosen[first["group"]].layers[0]) == steps
    assert {kernel.threads for kernel in ready.outcome.schedule.runs} == {1}


def test_edited_ones_are_other_points_than_those_of_the_policy(measured: Measured) -> None:
    keys = [each["key"] for each in measured.answers]

    assert len(set(keys)) == len(keys)
    with closing(sqlite3.connect(measured.folder / "results.sqlite")) as connection:
        assert connection.execute("SELECT policy, is_correct FROM runs").fetchall() == [("fixed-pattern", 1)] * 3


def test_a_bundle_of_one_runs_and_comes_back(terminal: Terminal, net: str, schedule: Path, tmp_path: Path) -> None:
    bundle, results = str(tmp_path / "net.tar.xz"), str(tmp_path / "results.json")
    terminal.json("bundle", "build", net, *MACHINE, "--threads", "1", "--schedule", str(schedule), "--out", bundle)
    ran = terminal.json("bundle", "run", bundle, "--out", results)
    taken = terminal.json("bundle", "import", results, "--out", str(tmp_path / "out"))

    assert ran["correct"] is True
    assert (taken["stored"], taken["policy"]) == ("added", "fixed-pattern")


@pytest.mark.parametrize("command", [["measure"], ["bundle", "build"]])
class TestRefusals:
    def asked(self, command: list[str], net: str, tmp_path: Path, *more: str) -> list[str]:
        out = ["--out", str(tmp_path / "b.tar.xz")] if command[0] == "bundle" else []
        return [*command, net, *out, *more]

    def test_of_other_machines_and_dtypes(
        self, terminal: Terminal, command: list[str], net: str, tmp_path: Path
    ) -> None:
        for hardware, dtype, message in (
            ("stcp920", "fp16", "format"), ("a100", "fp32", "format"), ("kirin990", "fp16", "network.dtype is fp16"),
        ):  # fmt: skip
            path = str(tmp_path / f"{hardware}.json")
            given = ["--hardware", hardware, "--dtype", dtype, "--policy", "unfused", "--schedule-out", path]
            terminal.json("simulate", net, *given)
            told = terminal.refused(*self.asked(command, net, tmp_path, *MACHINE, "--schedule", path))
            assert path in told
            assert message in told

    def test_of_other_networks_and_broken_files(
        self, terminal: Terminal, command: list[str], schedule: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "broken.json").write_text("[" * 100_000)
        for path, message in (
            (schedule, "network.name is"), (tmp_path / "broken.json", "is nested more than 128 levels deep"),
            (tmp_path / "none", "no such file"),
        ):  # fmt: skip
            more = [*MACHINE, "--sequence", "8", "--schedule", str(path)]
            told = terminal.refused(*self.asked(command, "bert-tiny", tmp_path, *more))
            assert message in told

    def test_of_what_does_not_go_with_one(
        self, terminal: Terminal, command: list[str], net: str, schedule: Path, tmp_path: Path
    ) -> None:
        given = ["--schedule", str(schedule)]
        for more, message in (
            (["--policy", "unfused"], "--policy does not go with"), (["--option", "a=1"], "--option does not go with"),
        ):  # fmt: skip
            assert message in terminal.refused(*self.asked(command, net, tmp_path, *given, *more))
        assert "--policy is missing" in terminal.refused(*self.asked(command, net, tmp_path))


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.kill()


def test_threads_of_another_device_are_not_this_machine_s(
    terminal: Terminal, net: str, server: Server, tmp_path: Path
) -> None:
    many = ["--threads", "96", "--policy", "fixed-pattern"]

    assert terminal.json("measure", net, *many, "--device", server.device)["threads"] == 96
    assert terminal.json("bundle", "build", net, *many, "--out", str(tmp_path / "many.tar.xz"))["threads"] == 96
    assert "threads has 4096" in terminal.refused("measure", net, "--threads", "4096", "--policy", "unfused")
