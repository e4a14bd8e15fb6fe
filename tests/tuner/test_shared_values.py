"""Values used twice are computed once: in generated code, in compile time, and in the machine model."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

import tvm_ffi
from tvm import tirx

from dsascape.fusion import plan_from_groups
from dsascape.fusion.plan import Group
from dsascape.hw_models import Cpu, Gpu, load_hardware
from dsascape.scheduler.cpu.search.tiling import KnownTiles, choose_tiling
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.schedule import kernel_by_kernel
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.tuner.codegen.gpu.kernels import generate_gpu
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.executable import executable
from tests.graphs import Net
from tests.scheduler.cpu.running import codes_of
from tests.tuner.runs import deviations, generated

pytestmark = pytest.mark.tvm


def swish(net: Net, x: str, count: int) -> str:
    for _ in range(count):
        x = net.binary("Mul", x, net.unary("Sigmoid", x))
    return x


def behind_a_convolution(net: Net, count: int) -> str:
    return swish(net, net.conv(net.input(1, 4, 6, 6), 8), count)


def in_front_of_one_with_padding(net: Net, count: int) -> str:
    return net.conv(swish(net, net.input(1, 4, 6, 6), count), 8)


def between_two(net: Net, count: int) -> str:
    return net.conv(swish(net, net.conv(net.input(1, 4, 6, 6), 8, 1), count), 8)


def alone(net: Net, count: int) -> str:
    return swish(net, net.input(3, 26), count)


def in_a_softmax(net: Net, count: int) -> str:
    return net.softmax(swish(net, net.input(3, 26), count))


def in_a_normalisation(net: Net, count: int) -> str:
    return swish(net, net.layer_norm(swish(net, net.input(3, 26), count)), count)


def in_parts_of_a_join(net: Net, count: int) -> str:
    x = net.input(1, 4, 6, 6)
    return net.concat(swish(net, x, count), swish(net, net.relu(x), count))


PLACES: dict[str, Callable[[Net, int], str]] = {
    each.__name__: each
    for each in (
        behind_a_convolution, in_front_of_one_with_padding, between_two, alone, in_a_softmax, in_a_normalisation,
        in_parts_of_a_join,
    )
}  # fmt: skip


def fused(place: str, count: int) -> Any:
    net = Net()
    graph: Graph = net.graph(PLACES[place](net, count), dtype="fp32")
    return plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])


def sigmoids(function: Any) -> int:
    """Return how many divisions the code has: one for each sigmoid that it computes."""
    found: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.Div, found.append))
    return len(found)


@pytest.mark.parametrize("place", PLACES)
def test_a_chain_that_reads_everything_twice_is_computed_as_onnxruntime_does(place: str) -> None:
    assert max(deviations(fused(place, 3)).values()) <= KERNEL_TOLERANCE


@pytest.mark.parametrize("place", PLACES)
def test_code_grows_by_the_same_with_each_operator(place: str) -> None:
    codes = [generated(fused(place, count)) for count in (2, 4, 8)]
    two, four, eight = (sum(sigmoids(kernel.function) for kernel in code.kernels) for code in codes)

    assert two
    assert eight - four <= 2 * (four - two)


@pytest.mark.parametrize("place", PLACES)
def test_code_for_a_gpu_does_too(place: str) -> None:
    """In OpenCL, which has no stores of several elements: these are written out."""
    view = GpuView(load_hardware("h100", Gpu), "fp32", GpuTuning(tensor_units=False, shared_reductions=False))

    def of(count: int) -> int:
        plan = fused(place, count)
        schedule = kernel_by_kernel(plan, GpuCosts(view, Analysis(plan.graph)))
        code = generate_gpu(schedule, executable(plan.graph), view.spec.sms.warp, language="opencl")
        return sum(sigmoids(kernel.code.function) for kernel in code.kernels)

    two, four, eight = of(2), of(4), of(8)
    assert two
    assert eight - four <= 2 * (four - two)


def test_the_model_counts_an_exponential_for_each_that_the_code_computes() -> None:
    plan = fused("alone", 5)
    layer = layer_of(Analysis(plan.graph), plan.groups[0].ops)
    assert layer is not None
    (kernel,) = generated(plan).kernels
    pieces = 2  # the row of 26 is a loop over six vectors of four, and one of two

    view = CpuView(load_hardware("snapdragon855", Cpu))
    (code,) = codes_of(layer, choose_tiling(layer, "fp32", view, KnownTiles()).tiles, "fp32", view.code)
    (own,) = [op for op in fused("alone", 1).graph.ops if op.kind == "Sigmoid"]
    assert sigmoids(kernel.function) == 5 * pieces
    assert code.operations.special == 5 * own.operations.special
