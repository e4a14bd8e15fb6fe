"""Generated code of transposed convolutions visits only taps that meet an element, for any stride."""

import math
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.fusion import fixed_pattern_plan, plan_from_groups
from dsascape.fusion.plan import Group
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.gpu.steps import program_of
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.work import program_grid
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.tuner.codegen.gpu.blocks import gpu_function
from dsascape.tuner.codegen.gpu.phases import Loops
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE, cpu_session
from dsascape.workloads import Graph, import_onnx
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net
from tests.scheduler.kernels.drawn import varied
from tests.tiers import examples
from tests.tuner.gpu.looped import VIEW, check, difference, values_of
from tests.tuner.loops import loops_around
from tests.tuner.runs import deviations, generated

pytestmark = pytest.mark.tvm


@dataclass(frozen=True)
class Window:
    """One number a dimension; ``pads`` and ``extra`` (behind the last output) of none is zero."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...] = ()
    extra: tuple[int, ...] = ()


def transposed(net: Net, x: str, channels: int, window: Window, groups: int = 1, *, bias: bool = False) -> str:
    rank = len(window.kernel)
    pads, extra = window.pads or (0,) * 2 * rank, window.extra or (0,) * rank
    batch, inner, *image = net.shape[x]
    sizes = [
        stride * (image[d] - 1) + extra[d] + (taps - 1) * dilation + 1 - pads[d] - pads[rank + d]
        for d, (taps, stride, dilation) in enumerate(zip(window.kernel, window.strides, window.dilations, strict=True))
    ]
    operands = [x, net.weight(inner, channels // groups, *window.kernel), *([net.weight(channels)] if bias else [])]
    return net.op(
        "ConvTranspose", operands, (batch, channels, *sizes), strides=list(window.strides), group=groups,
        dilations=list(window.dilations), pads=list(pads), output_padding=list(extra),
    )  # fmt: skip


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """Draw a transposed convolution of one to three dimensions, perhaps with an operator in front and one behind."""
    net, rank = Net(), draw(st.integers(1, 3))

    def each(lo: int, hi: int, count: int = rank) -> tuple[int, ...]:
        return tuple(draw(st.integers(lo, hi)) for _ in range(count))

    kernel, strides, dilations, image = each(1, 5 - rank + 1), each(1, 5 - rank + 1), each(1, 3), each(2, 6 - rank)
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    pads = tuple(draw(st.integers(0, min(k * d - d, 3))) for k, d in zip(kernel, dilations, strict=True))
    behind = tuple(draw(st.integers(0, min(k * d - d, 3))) for k, d in zip(kernel, dilations, strict=True))
    extra = tuple(draw(st.integers(0, stride - 1)) for stride in strides)
    x = net.input(draw(st.integers(1, 2)), groups * draw(st.integers(1, 4)), *image)
    x = net.relu(x) if draw(st.booleans()) else x
    channels = groups * draw(st.integers(1, 9))
    total = [(i - 1) * s + e for i, s, e in zip(image, strides, extra, strict=True)]
    low = [0 if t < a + b else a for t, a, b in zip(total, pads, behind, strict=True)]
    high = [0 if t < a + b else b for t, a, b in zip(total, pads, behind, strict=True)]
    window = Window(kernel, strides, dilations, (*low, *high), extra)
    y = transposed(net, x, channels, window, groups, bias=draw(st.booleans()))
    return net.graph(net.unary("Sigmoid", y) if draw(st.booleans()) else y, dtype="fp32")


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=networks())
def test_any_transposed_convolution_is_right_on_a_cpu(graph: Graph) -> None:
    wrong = {name: by for name, by in deviations(fixed_pattern_plan(graph)).items() if by > KERNEL_TOLERANCE}
    assert wrong == {}


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=networks(), order=st.sampled_from(get_args(Loops)))
def test_any_transposed_convolution_is_right_on_a_gpu(graph: Graph, order: Loops) -> None:
    check(fixed_pattern_plan(graph), order)


@st.composite
def automatic(draw: st.DrawFn) -> onnx.ModelProto:
    """Draw a transposed convolution whose padding follows from ``auto_pad`` or ``output_shape``."""
    rank = draw(st.integers(1, 2))

    def each(lo: int, hi: int) -> list[int]:
        return [draw(st.integers(lo, hi)) for _ in range(rank)]

    # No images of one element: TVM's simplifier divides by zero in some, such as 3 taps by strides of 3 on (1, 2, 1).
    kernel, strides, dilations, image = each(1, 4), each(1, 3), each(1, 2), each(2, 5)
    extra = [draw(st.integers(0, stride - 1)) for stride in strides]
    attributes: dict[str, Any] = {"auto_pad": draw(st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"]))}
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    free = [s * (i - 1) + e + n for s, i, e, n in zip(strides, image, extra, spans, strict=True)]
    if attributes["auto_pad"].startswith("SAME"):  # where there is less, onnxruntime's image is not the standard's
        assume(all(size >= s * i for size, s, i in zip(free, strides, image, strict=True)))
    if draw(st.booleans()):
        attributes["output_shape"] = [draw(st.integers(1, size)) for size in free]
    groups = draw(st.sampled_from([1, 2]))
    node = helper.make_node(
        "ConvTranspose", ["x", "w"], ["y"], strides=strides, dilations=dilations, output_padding=extra, group=groups,
        **attributes,
    )  # fmt: skip
    body = helper.make_graph(
        [node], "automatic", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2 * groups, *image])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones((2 * groups, 3, *kernel), np.float32), "w")],
    )  # fmt: skip
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(model=automatic())
def test_padding_that_follows_from_sizes_is_onnxruntimes(model: onnx.ModelProto) -> None:
    graph = import_onnx(model.SerializeToString())
    image = graph.tensors["x"].shape
    (own,) = cpu_session(model.SerializeToString()).run(None, {"x": np.ones(image, np.float32)})

    assert graph.tensors["y"].shape == own.shape
    assert max(deviations(fixed_pattern_plan(graph)).values()) <= KERNEL_TOLERANCE


WINDOWS = {
    "whole periods": Window((4, 4), (2, 2), (1, 1), (1, 1, 1, 1)),
    "one phase with fewer taps": Window((3, 3), (2, 2), (1, 1), (1, 0, 1, 1)),
    "phases without taps": Window((1, 2), (3, 3), (1, 1)),
    "dilated, all phases": Window((3, 3), (2, 2), (3, 3), (2, 2, 2, 2)),
    "dilated, some outputs without taps": Window((3, 3), (4, 2), (2, 2)),
    "long strides": Window((8, 6), (4, 3), (1, 1), (2, 2, 2, 1)),
    "stride one": Window((3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
}


def upsampled(name: str, inner: int = 6) -> Graph:
    net = Net()
    y = transposed(net, net.input(1, inner, 5, 4), 10, WINDOWS[name], bias=True)
    return net.graph(net.relu(y), dtype="fp32")


CPU_TILES = [
    LoopTiles((1, 8, 3, 4), (0, 2, 3, 1), 2, (1, 8, 1, 4), 1, None),
    LoopTiles((1, 4, 4, 6), (1, 0, 2, 3), 1, (1, 4, 2, 3), 1, None),
    LoopTiles((1, 12, 4, 4), (0, 2, 3, 1), 0, (1, 4, 1, 2), 1, 2),
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("tiles", CPU_TILES)
@pytest.mark.parametrize("name", WINDOWS)
def test_results_do_not_depend_on_whether_tiles_hold_whole_phases(name: str, tiles: LoopTiles) -> None:
    found = deviations(fixed_pattern_plan(upsampled(name)), {0: tiles})
    assert max(found.values()) <= KERNEL_TOLERANCE


GPU_TILES = [
    GpuTiles((1, 10, 1, 4), (0, 2, 3, 1), (1, 5, 1, 1), 1, 2, 2, "lanes"),
    GpuTiles((1, 4, 2, 3), (0, 2, 3, 1), (1, 2, 1, 3), 1, 4, 1, "lanes"),
    GpuTiles((1, 10, 7, 5), (0, 1, 2, 3), (1, 2, 1, 3), 3, 3, 2, "lanes"),
    GpuTiles((1, 5, 1, 1), (0, 1, 2, 3), (1, 1, 1, 1), 2, None, 1, "lanes"),
]


@pytest.mark.sampled(20)
@pytest.mark.parametrize("inner", [1, 6])
@pytest.mark.parametrize("tiles", GPU_TILES)
@pytest.mark.parametrize("name", WINDOWS)
def test_blocks_stage_what_their_tile_meets_as_the_schedule_says(name: str, tiles: GpuTiles, inner: int) -> None:
    graph = upsampled(name, inner)
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None
    network = varied(graph)
    program = program_of(layer, tiles, 32)
    code = gpu_function(layer, network, program, 32, "kernel", as_loops="first")

    assert difference(code, layer.outputs, graph, values_of(network)) <= KERNEL_TOLERANCE
    assert code.shared_bytes == program_grid(layer, program, VIEW).needs.shared_bytes


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("behind", [True, False])
def test_a_transposed_convolution_may_be_one_of_two_in_a_kernel(name: str, behind: bool) -> None:
    net = Net()
    x = net.input(1, 6, 5, 4)
    x = net.relu(net.conv(x, 5)) if behind else x
    y = net.relu(transposed(net, x, 7, WINDOWS[name]))
    graph = net.graph(y if behind else net.conv(y, 6), dtype="fp32")
    plan = plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])

    assert max(deviations(plan).values()) <= KERNEL_TOLERANCE
    check(plan)


@pytest.mark.parametrize("name", WINDOWS)
def test_loops_over_taps_are_as_long_as_a_phase_has_taps(name: str) -> None:
    window = WINDOWS[name]
    (code,) = generated(fixed_pattern_plan(upsampled(name))).kernels

    described = zip(window.kernel, window.strides, window.dilations, strict=True)
    taps = [-(-size // (stride // math.gcd(stride, dilation))) for size, stride, dilation in described]
    around = loops_around(code.programs[0], "convtranspose1.sum", "update")
    serial = [loop for loop in around if loop.startswith("serial")]
    assert serial[-len([tap for tap in taps if tap > 1]) - 1 :] == [f"serial {tap}" for tap in (*taps, 6) if tap > 1]
