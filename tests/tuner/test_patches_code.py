"""Convolutions over patches compute what onnxruntime computes, whatever their windows, strides and tiles."""

import pytest

from tests.tuner.runs import in_tiles

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dataclasses import replace
from typing import NamedTuple

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dsascape.fusion import plan_from_groups
from dsascape.fusion.plan import FusionPlan, Group
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.search.tiling import KnownTiles, choose_tiling
from dsascape.scheduler.kernels.cut import layers_in_order
from dsascape.tuner.measure import Budget, Job
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.tuner.on_device.session import Session
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.nest_by_nest import PATCHES
from tests.graphs import Net
from tests.scheduler.kernels.drawn import LANES, NARROW
from tests.tiers import examples
from tests.tuner.runs import deviations, tiles_of

pytestmark = pytest.mark.tvm


class Convolution(NamedTuple):
    """A convolution of a square image; ``pad`` -1 is half its window."""

    side: int
    channels: int = 8
    results: int = 8
    kernel: int = 3
    stride: int = 1
    pad: int = -1
    batch: int = 1


DRAWN = st.builds(
    Convolution, side=st.integers(5, 12), channels=st.integers(2, 12), results=st.integers(2, 20),
    kernel=st.sampled_from([1, 2, 3, 5]), stride=st.integers(1, 3), pad=st.sampled_from([-1, 0]),
    batch=st.integers(1, 2),
)  # fmt: skip


def planned(drawn: Convolution, *, residual: bool = False) -> FusionPlan:
    """Return a pointwise convolution, and one behind it with what follows that."""
    net = Net()
    before = net.relu(net.conv(net.input(drawn.batch, 3, drawn.side, drawn.side), drawn.channels, 1))
    after = net.conv(before, drawn.results, drawn.kernel, drawn.stride, pad=drawn.pad)
    after = net.relu(net.add(after, before) if residual else net.bias(after))
    graph = net.graph(after, dtype="fp32")
    return plan_from_groups(graph, [Group((0, 1)), Group(tuple(range(2, len(graph.ops))))])


def over_patches(plan: FusionPlan) -> dict[int, LoopTiles]:
    (layer,) = layers_in_order(Analysis(plan.graph), plan.groups[1].ops, frozenset(), frozenset({(2, PATCHES)}))
    return {0: tiles_of(plan)[0], 1: choose_tiling(layer, "fp32", NARROW, KnownTiles()).tiles}


@settings(max_examples=examples(5, few=3), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(drawn=DRAWN, rows=st.integers(1, 4), pixels=st.sampled_from([1, 3, 4, 7]), is_parallel=st.booleans())
def test_results_are_those_of_direct_convolution(
    drawn: Convolution, rows: int, pixels: int, is_parallel: bool
) -> None:  # fmt: skip
    plan = planned(drawn)
    tiles = over_patches(plan)
    own = tiles[1]
    (front,) = own.upstream
    _, _, height, width = plan.graph.tensors[plan.graph.ops[-1].outputs[0]].shape
    cut = replace(
        own, tile=(1, own.tile[1], min(rows, height), width), parallel=2 if is_parallel else 0, order=(0, 2, 3, 1),
        register=(1, own.register[1], 1, 1),
        upstream=(replace(front, register=(1, pixels, 1, front.register[3])),),
    )  # fmt: skip
    for each in (own, cut):
        assert max(deviations(plan, {**tiles, 1: each}, {1: PATCHES}).values()) < KERNEL_TOLERANCE


def test_what_is_added_behind_it_is_added() -> None:
    plan = planned(Convolution(9), residual=True)
    assert max(deviations(plan, over_patches(plan), {1: PATCHES}).values()) < KERNEL_TOLERANCE


@pytest.mark.parametrize("kernel", [1, 3])
def test_a_bias_of_the_convolution_itself_is_added(kernel: int) -> None:
    net = Net()
    before = net.relu(net.conv(net.input(1, 3, 9, 9), 8, 1))
    operands = [before, net.weight(16, 8, kernel, kernel), net.weight(16)]
    graph = net.graph(net.relu(net.op("Conv", operands, (1, 16, 9, 9), pads=[kernel // 2] * 4)), dtype="fp32")
    plan = plan_from_groups(graph, [Group((0, 1)), Group((2, 3))])

    assert max(deviations(plan, over_patches(plan), {1: PATCHES}).values()) < KERNEL_TOLERANCE


def test_a_measurement_finds_it_correct_on_two_threads() -> None:
    plan = planned(Convolution(13, 16, 24, 5, 2))
    chosen = in_tiles(plan, over_patches(plan), {1: PATCHES})
    session = Session(Job(plan, chosen, LANES, 2, budget=Budget(kernel_s=0.01, network_s=0.01)))
    assert [session.kernel(position).correct for position in range(2)] == [True, True]
    assert session.network(()).correct
