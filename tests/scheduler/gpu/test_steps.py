"""Kernels of GPUs are steps: what makes their loops is what they are costed by, written and read back."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import Gpu, load_hardware
from dsascape.hw_models.gpu.occupancy import occupancy
from dsascape.scheduler import make_policy
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.gpu.checked import checked_steps, gpu_limits
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.lower import lower
from dsascape.scheduler.gpu.schedule import GpuKernel, kernel_by_kernel
from dsascape.scheduler.gpu.schedule_json import read_schedule, schedule_json
from dsascape.scheduler.gpu.steps import steps_of
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import grid_of
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import loops_of
from dsascape.scheduler.kernels.loops.steps import Bind, Step, Steps, Tile, Unroll
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, networks
from tests.scheduler.gpu.running import kernel_in
from tests.tiers import examples

VIEW = GpuView(load_hardware("h100", Gpu), "fp32", GpuTuning(tensor_units=False, shared_reductions=False))
TILES = GpuTiles((1, 16, 16), (0, 1, 2), (1, 2, 2), 1, 8, 3, "lanes")


def runnable(kernels: tuple[GpuKernel, ...], view: GpuView) -> Iterator[tuple[str, object]]:
    """Yield kernels whose program is not legal on the machine, or of which no SM holds a block: name, and why."""
    for kernel in kernels:
        grid = grid_of(kernel.layer, kernel.steps, view.of(kernel.layer))
        blocks = max(loop.extent for loop in loops_of(kernel.program.body) if loop.kind == "block")
        reasons = illegal(kernel.program, gpu_limits(view.of(kernel.layer)))
        if reasons or blocks < grid.blocks or not occupancy(view.spec.sms, grid.needs).blocks:
            yield kernel.name, (reasons, blocks, grid.blocks, grid.needs)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=networks(dtype="fp32"))
def test_an_sm_holds_a_block_of_any_kernel(graph: Graph) -> None:
    kernels = kernel_by_kernel(fixed_pattern_plan(graph), GpuCosts(VIEW, Analysis(graph))).runs

    assert list(runnable(kernels, VIEW)) == []


@pytest.mark.sampled(
    3, long=["squeezenet-h100-ago", "mobilenet-v2-h100-ago", "mobilenet-v2-adreno640-ago", "resnet18-h100-ago"]
)
@pytest.mark.parametrize("policy", ["fixed-pattern", "ago"])
@pytest.mark.parametrize("hardware", ["h100", "adreno640"])
@pytest.mark.parametrize("network", ["mobilenet-v2", "resnet18", "squeezenet", "bert-tiny"])
def test_sms_hold_blocks_of_all_kernels_of_a_network(network: str, hardware: str, policy: str) -> None:
    view = GpuView(load_hardware(hardware, Gpu), "fp16")
    graph = load_network(network).with_dtype("fp16")
    costs = GpuCosts(view, Analysis(graph))
    kernels = kernel_by_kernel(make_policy(policy).plan(graph, costs), costs).runs

    assert list(runnable(kernels, view)) == []


def dense() -> tuple[Graph, GpuCosts]:
    net = Net()
    graph = net.graph(net.relu(net.dense(net.input(1, 64, 96), 80)), dtype="fp32")
    return graph, GpuCosts(VIEW, Analysis(graph))


def test_a_kernel_with_steps_of_its_own_survives_its_file_and_is_simulated_as_they_say() -> None:
    graph, costs = dense()
    schedule = kernel_by_kernel(fixed_pattern_plan(graph), costs)
    (kernel,) = schedule.runs
    own = replace(schedule, runs=(kernel_in(kernel.layer, TILES, VIEW),))
    document = json.loads(json.dumps(schedule_json(own)))
    (read,) = read_schedule(document, costs).runs

    assert read == own.runs[0] != kernel
    assert lower(read_schedule(document, costs), costs).instructions == lower(own, costs).instructions
    assert lower(own, costs).instructions != lower(schedule, costs).instructions


def test_files_with_tiles_in_place_of_steps_are_refused_by_one_message() -> None:
    graph, costs = dense()
    document = schedule_json(kernel_by_kernel(fixed_pattern_plan(graph), costs))

    with pytest.raises(ScheduleError, match="whose kernels have tiles in place of steps; write it anew with"):
        read_schedule(document | {"format": "dsascape gpu schedule 1"}, costs)


def without(kind: type[Step], steps: Steps) -> Steps:
    return tuple([step for step in steps if not isinstance(step, kind)])


def reversed_reductions(steps: Steps) -> Steps:
    """Return ``steps`` with the innermost loops of each reduction in reverse order."""
    return tuple([
        replace(step, levels=(*step.levels[:-1], replace(step.levels[-1], order=step.levels[-1].order[::-1])))
        if isinstance(step, Tile) and step.levels[-1].axes == "reduction" else step
        for step in steps
    ])  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("network", ["resnet18", "squeezenet", "mobilenet-v2", "shufflenet-v2"])
@pytest.mark.parametrize("hardware", ["h100", "a100", "t4", "adreno640"])
def test_loops_that_are_not_written_out_any_more_cost_more(network: str, hardware: str) -> None:
    """What a compiler writes out by itself left aside: then code without ``Unroll`` is the same code."""
    view = GpuView(load_hardware(hardware, Gpu), "fp32", GpuTuning(tensor_units=False, written_out=0))
    graph = load_network(network).with_dtype("fp32")
    costs = GpuCosts(view, Analysis(graph))
    products = [
        kernel for kernel in kernel_by_kernel(fixed_pattern_plan(graph), costs).runs
        if kernel.shape.depth_step is not None
    ]  # fmt: skip
    assert products
    fewer = 0
    for kernel in products:
        every = kernel.steps, without(Unroll, kernel.steps)
        own, other = [grid_of(kernel.layer, steps, view).code for steps in every]

        assert own.issued.load <= other.issued.load
        assert own.issued.scalar <= other.issued.scalar  # equal where that is less than an instruction of a block
        fewer += own.issued.scalar < other.issued.scalar
    assert fewer > len(products) / 2


def test_the_order_of_a_reduction_changes_what_is_loaded_again() -> None:
    """Taps of a window inside of the steps of the depth, or the other way round: rows are written out, or columns."""
    net = Net()
    graph = net.graph(net.conv(net.input(1, 32, 28, 28), 32, kernel=3), dtype="fp32")
    (kernel,) = kernel_by_kernel(fixed_pattern_plan(graph), GpuCosts(VIEW, Analysis(graph))).runs
    tiles = GpuTiles((1, 16, 2, 28), (0, 2, 3, 1), (1, 4, 1, 7), 4, 8, 3, "lanes")
    steps = kernel_in(kernel.layer, tiles, VIEW).steps
    own, other = [grid_of(kernel.layer, each, VIEW).code for each in (steps, reversed_reductions(steps))]

    assert own != other


@pytest.mark.parametrize(("change", "message"), [
    ({"tile": (1, 64, 80), "part": (1, 1, 1)}, "a block has 5,120 threads; the most are 1,024"),
    ({"tile": (1, 64, 80), "part": (1, 8, 8), "depth_step": 96, "stages": 1, "split": 16}, "what it keeps in shared"),
    ({"tile": (1, 64, 80), "part": (1, 32, 40)}, "what it keeps in register takes 5,120 bytes; there are 1,020"),
])  # fmt: skip
def test_a_program_that_no_sm_runs_is_refused_by_its_reason(change: dict[str, Any], message: str) -> None:
    graph, costs = dense()
    (kernel,) = kernel_by_kernel(fixed_pattern_plan(graph), costs).runs
    tiles = replace(TILES, **change)

    with pytest.raises(ScheduleError, match=re.escape(message)):
        checked_steps("kernel", kernel.layer, steps_of(kernel.layer, tiles, VIEW.spec.sms.warp), VIEW)


def test_statements_outside_of_the_loops_of_threads_are_illegal() -> None:
    graph, costs = dense()
    (kernel,) = kernel_by_kernel(fixed_pattern_plan(graph), costs).runs
    steps = [step for step in kernel.steps if not isinstance(step, Bind)]
    reasons = illegal(loop_program(NaiveProgram(kernel.layer), tuple(steps)), gpu_limits(VIEW))

    assert any("is not inside of one loop of blocks, outermost" in reason for reason in reasons)
