"""A transposed convolution takes the time of its multiply-accumulates, for any stride."""

import numpy as np
import pytest
from onnx import ModelProto, helper

from dsascape import simulate
from dsascape.experiments.question.points import RunRecord
from dsascape.scheduler.cpu.structure.nests import anchor_work
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net
from tests.workloads.onnx_models import model, read

MACHINES = ("kirin990", "snapdragon865", "a100", "adreno640")


def upsampling(stride: int, channels: int = 32, groups: int = 1) -> ModelProto:
    """Return an image of 128 x 128 pixels that each meet 2 x 2 taps, of 2 ``stride`` x 2 ``stride``."""
    weight = np.ones((channels, 16 // groups, 2 * stride, 2 * stride), np.float32)
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[stride] * 2, pads=[stride // 2] * 4,
                            output_padding=[stride % 2] * 2, group=groups)  # fmt: skip
    return model(node, inputs={"x": [1, channels, 128 // stride, 128 // stride]}, w=weight)


def run(built: ModelProto, machine: str) -> RunRecord:
    return simulate(read(built), machine, policy="fixed-pattern").record


@pytest.mark.parametrize("machine", MACHINES)
def test_as_many_operations_take_about_as_long_at_any_stride(machine: str) -> None:
    """At stride 16 there are 64 times as many taps as at stride 2, and as many of them meet a pixel."""
    times = {stride: run(upsampling(stride), machine).latency_s for stride in (2, 4, 8, 16)}

    assert max(times.values()) <= 2.2 * times[2]


@pytest.mark.parametrize("machine", MACHINES)
def test_it_takes_no_longer_than_the_convolution_that_all_taps_would_be(machine: str) -> None:
    weight = np.ones((16, 32, 4, 4), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 2, 2])
    whole = run(model(node, inputs={"x": [1, 32, 128, 128]}, w=weight), machine)

    assert run(upsampling(2), machine).latency_s <= whole.latency_s


def test_a_register_tile_of_whole_phases_loads_a_tap_once_for_all_pixels_of_its_phase() -> None:
    net = Net()
    y = net.op("ConvTranspose", [net.input(1, 4, 8, 8), net.weight(4, 8, 4, 4)], (1, 8, 16, 16),
               strides=[2, 2], pads=[1, 1, 1, 1])  # fmt: skip
    layer = layer_of(Analysis(net.graph(y, dtype="fp32")), (0,))
    assert layer is not None
    work = anchor_work(layer)
    data, weight = work.reads

    assert work.iterations == 4 * 2 * 2
    assert [weight.loads_along(3, pixels) for pixels in (1, 2, 3, 4, 6)] == [1, 2, 3, 2, 2]
    assert [data.loads_along(3, pixels) for pixels in (1, 2, 3, 4, 6)] == [1, 1, 3, 2, 3]
