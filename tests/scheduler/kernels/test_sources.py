"""Steps of kernels from a file: found by what a kernel computes, whatever its tensors are called."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dsascape.fusion.fixed_pattern import fixed_pattern_plan
from dsascape.hw_models import load_hardware
from dsascape.scheduler import Placing
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.schedule import CpuKernel, kernel_by_kernel
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.sources import FILE, ChosenSteps, KernelFile, entry_json, named, numbered
from dsascape.scheduler.kernels.loops.steps import UnrollReduction
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net


def network(*before: str) -> Graph:
    net = Net()
    x = net.input(1, 8, 12, 8)
    for kind in before:
        x = net.unary(kind, x)
    return net.graph(net.relu(net.conv(x, 16)), dtype="fp32")


def placing(source: KernelFile | None = None, machine: str = "kirin990") -> Placing:
    return Placing(hardware=load_hardware(machine), parts=1, dtype="fp32", kernels=source)


def kernels(graph: Graph, source: KernelFile | None = None) -> tuple[CpuKernel, ...]:
    costs = placing(source).costs(Analysis(graph))
    assert isinstance(costs, CpuCosts)
    return kernel_by_kernel(fixed_pattern_plan(graph), costs).runs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with steps for the convolution of `network`: those of its tiles, and a reduction written out."""
    (kernel,) = kernels(network())
    naive = NaiveProgram(kernel.layer)
    steps = (*kernel.steps, UnrollReduction("conv1.sum", 4))
    chosen = ChosenSteps(numbered(naive, steps), 2, 1e-3)
    slower = ChosenSteps(numbered(naive, steps[:-1]), 1, 2e-3)
    lines = [json.dumps(entry_json(naive.key("fp32", "cpu"), each)) for each in (slower, chosen)]
    (tmp_path / FILE).write_text("\n".join(lines) + "\n")
    return tmp_path


def test_equal_kernels_of_other_networks_get_the_fastest_steps_under_their_own_names(folder: Path) -> None:
    *_, last = kernels(network("Tanh", "Sigmoid"), KernelFile(folder))

    assert last.threads == 2
    assert last.steps[-1] == UnrollReduction("conv1.sum", 4)
    assert "unrolled for ic1 in 4:" in str(last.program)


def test_kernels_without_an_entry_get_the_built_in_choice(folder: Path) -> None:
    first, *_ = kernels(network("Tanh"), KernelFile(folder))

    own, *_ = kernels(network("Tanh"))
    assert first.steps == own.steps


def test_names_come_back_from_numbers() -> None:
    (kernel,) = kernels(network())
    naive, steps = NaiveProgram(kernel.layer), kernel.steps

    assert {step.stage.partition(".")[0] for step in numbered(naive, steps)} <= {f"t{number}" for number in range(9)}
    assert named(naive, numbered(naive, steps)) == steps


@pytest.mark.parametrize(("text", "message"), [
    ("[]", "needs an object"),
    ("{", "Expecting property name"),
    ('{"key": "a", "threads": 0, "seconds": 1}', "threads: has 0; needs a whole number from 1 to 65536"),
    ('{"key": "a", "threads": 1, "seconds": NaN}', "is not JSON: NaN is no number"),
    ('{"key": "a", "threads": true, "seconds": 1}', "threads: has true; needs int"),
    ('{"key": "a", "threads": 1, "seconds": 1, "steps": [{"step": "Fly"}]}', "steps.0: step: has 'Fly'"),
])  # fmt: skip
def test_a_line_that_is_no_entry_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)

    with pytest.raises(ScheduleError, match=f"kernels.jsonl:1: .*{message}"):
        KernelFile(tmp_path).chosen("a")


def test_a_folder_without_kernels_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match=r"kernels\.jsonl: .*no such file"):
        KernelFile(tmp_path).chosen("a")


@pytest.mark.parametrize("machine", ["stcp920"])
def test_machines_without_loop_programs_take_no_kernels(machine: str, folder: Path) -> None:
    own = replace(placing(KernelFile(folder), machine), dtype="fp16")

    with pytest.raises(ScheduleError, match="kernels are steps of loop programs"):
        own.costs(Analysis(network()))
