"""What the cost model says of a block is what its loop program has: threads, shared memory, sums in registers."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler import make_policy
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.gpu.checked import checked_steps, gpu_limits
from dsascape.scheduler.gpu.code import block_code, block_needs
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.lower import lower
from dsascape.scheduler.gpu.read_tiles import read_tiles
from dsascape.scheduler.gpu.schedule import GpuKernel, kernel_by_kernel
from dsascape.scheduler.gpu.schedule_json import read_schedule, schedule_json
from dsascape.scheduler.gpu.steps import steps_of
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import loops_of
from dsascape.scheduler.kernels.loops.shared_memory import shared_memory
from dsascape.scheduler.kernels.loops.steps import Bind
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, networks
from tests.tiers import examples

NETWORKS = (
    "mobilenet-v2", "resnet18", "squeezenet", "shufflenet-v2", "bert-tiny", "mobilevit", "dcgan", "efficientnet-b0",
)  # fmt: skip
VIEW = GpuView(load_hardware("h100", Gpu), "fp32", GpuTuning(tensor_units=False, shared_reductions=False))


def differences(kernels: tuple[GpuKernel, ...], view: GpuView) -> Iterator[tuple[str, object, object]]:
    """Yield kernels whose program and cost model say different things: name, what either says.

    Shared memory may be less: a tensor that a reshape scatters is not kept there. It is more only where a tile reads
    several places of one tensor: a program has the box around them.
    """
    warp = view.spec.sms.warp
    for kernel in kernels:
        program, needs = kernel.program(warp), block_needs(kernel.layer, kernel.tiles, view)
        grid = max(loop.extent for loop in loops_of(program.body) if loop.kind == "block")
        has = -(-program.threads // warp) * warp, grid
        said = needs.threads, math.prod(kernel.tiles.blocks_along(kernel.layer.sink.shape))
        size = shared_memory(program).size_bytes
        if has != said or (size > needs.shared_bytes and not kernel.layer.reads_apart):
            yield kernel.name, (*has, size), (*said, needs.shared_bytes)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=networks(dtype="fp32"))
def test_a_block_of_any_kernel_takes_what_its_program_has(graph: Graph) -> None:
    kernels = kernel_by_kernel(fixed_pattern_plan(graph), GpuCosts(VIEW, Analysis(graph))).runs

    assert list(differences(kernels, VIEW)) == []


@pytest.mark.sampled(3, long=[f"{network}-ago" for network in NETWORKS if network != "dcgan"])
@pytest.mark.parametrize("policy", ["fixed-pattern", "ago"])
@pytest.mark.parametrize("network", NETWORKS)
def test_blocks_of_a_network_take_what_their_programs_have(network: str, policy: str) -> None:
    graph = load_network(network).with_dtype("fp32")
    costs = GpuCosts(VIEW, Analysis(graph))
    kernels = kernel_by_kernel(make_policy(policy).plan(graph, costs), costs).runs

    assert list(differences(kernels, VIEW)) == []


def said(kernel: GpuKernel, view: GpuView) -> tuple[object, ...]:
    """Return all that a kernel is costed by."""
    layer, tiles = kernel.layer, kernel.tiles
    blocks = tiles.blocks_along(layer.sink.shape)
    return block_needs(layer, tiles, view), block_code(layer, tiles, view), blocks, tiles.cluster


@pytest.mark.sampled(
    3, long=["squeezenet-h100-ago", "mobilenet-v2-h100-ago", "mobilenet-v2-adreno640-ago", "resnet18-h100-ago"]
)
@pytest.mark.parametrize("policy", ["fixed-pattern", "ago"])
@pytest.mark.parametrize("hardware", ["h100", "adreno640"])
@pytest.mark.parametrize("network", ["mobilenet-v2", "resnet18", "squeezenet", "bert-tiny"])
def test_the_tiles_of_any_program_are_read_off_its_tree(network: str, hardware: str, policy: str) -> None:
    spec = load_hardware(hardware, Gpu)
    view = GpuView(spec, "fp16", GpuTuning(shared_reductions=False))
    graph = load_network(network).with_dtype("fp16")
    costs = GpuCosts(view, Analysis(graph))
    for kernel in kernel_by_kernel(make_policy(policy).plan(graph, costs), costs).runs:
        program = kernel.program(spec.sms.warp, view.tensor)
        read = replace(kernel, tiles=read_tiles(kernel.layer, program))

        assert said(read, view) == said(kernel, view), (kernel, read)
        assert illegal(program, gpu_limits(view)) == ()


def dense() -> tuple[Graph, GpuCosts]:
    net = Net()
    graph = net.graph(net.relu(net.dense(net.input(1, 64, 96), 80)), dtype="fp32")
    return graph, GpuCosts(VIEW, Analysis(graph))


def test_a_kernel_with_steps_of_its_own_survives_its_file_and_is_simulated_as_they_say() -> None:
    graph, costs = dense()
    schedule = kernel_by_kernel(fixed_pattern_plan(graph), costs)
    (kernel,) = schedule.runs
    other = replace(kernel.tiles, tile=(1, 16, 16), part=(1, 2, 2), split=1, depth_step=8)
    steps = steps_of(kernel.layer, other, VIEW.spec.sms.warp)
    own = replace(schedule, runs=(replace(kernel, tiles=other, steps=steps),))
    document = json.loads(json.dumps(schedule_json(own)))
    document["kernels"][0] |= {"tile": [1, 1, 1], "part": [1, 1, 1]}  # steps count, not what is beside them
    (read,) = read_schedule(document, costs).runs

    assert read.steps == steps
    assert said(read, VIEW) == said(own.runs[0], VIEW) != said(kernel, VIEW)
    assert lower(read_schedule(document, costs), costs).instructions == lower(own, costs).instructions


@pytest.mark.parametrize(("change", "message"), [
    ({"tile": (1, 64, 80), "part": (1, 1, 1)}, "a block has 5,120 threads; the most are 1,024"),
    ({"tile": (1, 64, 80), "part": (1, 8, 8), "depth_step": 96, "stages": 1, "split": 16}, "what it keeps in shared"),
    ({"tile": (1, 64, 80), "part": (1, 32, 40)}, "what it keeps in register takes 5,120 bytes; there are 1,020"),
])  # fmt: skip
def test_a_program_that_no_sm_runs_is_refused_by_its_reason(change: dict[str, Any], message: str) -> None:
    graph, costs = dense()
    (kernel,) = kernel_by_kernel(fixed_pattern_plan(graph), costs).runs
    tiles = replace(kernel.tiles, split=1)
    tiles = replace(tiles, **change)

    with pytest.raises(ScheduleError, match=re.escape(message)):
        checked_steps("kernel", kernel.layer, steps_of(kernel.layer, tiles, VIEW.spec.sms.warp), VIEW)


def test_statements_outside_of_the_loops_of_threads_are_illegal() -> None:
    graph, costs = dense()
    (kernel,) = kernel_by_kernel(fixed_pattern_plan(graph), costs).runs
    steps = [step for step in steps_of(kernel.layer, kernel.tiles, 32) if not isinstance(step, Bind)]
    reasons = illegal(loop_program(NaiveProgram(kernel.layer), tuple(steps)), gpu_limits(VIEW))

    assert any("is not inside of one loop of blocks, outermost" in reason for reason in reasons)
