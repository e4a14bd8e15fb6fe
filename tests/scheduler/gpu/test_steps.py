"""What the cost model says of a block is what its loop program has: threads, shared memory, sums in registers."""

import math
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler import make_policy
from dsascape.scheduler.gpu.code import block_needs
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.schedule import GpuKernel, kernel_by_kernel
from dsascape.scheduler.gpu.steps import program_of
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.loops.nodes import loops_of
from dsascape.scheduler.kernels.loops.shared_memory import shared_memory
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from tests.graphs import networks
from tests.tiers import examples

VIEW = GpuView(load_hardware("h100", Gpu), "fp32", GpuTuning(tensor_units=False, shared_reductions=False))


def differences(kernels: tuple[GpuKernel, ...], view: GpuView) -> Iterator[tuple[str, object, object]]:
    """Yield kernels whose program and cost model say different things: name, what either says.

    Shared memory may be less: a tensor that a reshape scatters is not kept there.
    """
    warp = view.spec.sms.warp
    for kernel in kernels:
        program, needs = program_of(kernel.layer, kernel.tiles, warp), block_needs(kernel.layer, kernel.tiles, view)
        grid = max(loop.extent for loop in loops_of(program.body) if loop.kind == "block")
        has = -(-program.threads // warp) * warp, grid
        said = needs.threads, math.prod(kernel.tiles.blocks_along(kernel.layer.sink.shape))
        size = shared_memory(program).size_bytes
        if has != said or size > needs.shared_bytes:
            yield kernel.name, (*has, size), (*said, needs.shared_bytes)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=networks(dtype="fp32"))
def test_a_block_of_any_kernel_takes_what_its_program_has(graph: Graph) -> None:
    kernels = kernel_by_kernel(fixed_pattern_plan(graph), GpuCosts(VIEW, Analysis(graph))).runs

    assert list(differences(kernels, VIEW)) == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("policy", ["fixed-pattern", "ago"])
@pytest.mark.parametrize("network", [
    "mobilenet-v2", "resnet18", "squeezenet", "shufflenet-v2", "bert-tiny", "mobilevit", "dcgan", "efficientnet-b0",
])  # fmt: skip
def test_blocks_of_a_network_take_what_their_programs_have(network: str, policy: str) -> None:
    graph = load_network(network).with_dtype("fp32")
    costs = GpuCosts(VIEW, Analysis(graph))
    kernels = kernel_by_kernel(make_policy(policy).plan(graph, costs), costs).runs

    assert list(differences(kernels, VIEW)) == []
