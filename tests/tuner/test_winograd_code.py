"""Convolutions by Winograd's algorithm compute what onnxruntime computes, in every tile and at every border."""

from dataclasses import replace

import pytest

from tests.tuner.runs import in_tiles

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.fusion import plan_from_groups
from dsascape.fusion.plan import FusionPlan, Group
from dsascape.scheduler.cpu.schedule.steps import Chosen, steps_of
from dsascape.scheduler.cpu.search.tiling import KnownTiles, choose_tiling
from dsascape.scheduler.kernels.cut import layers_in_order
from dsascape.tuner.codegen.kernels import generate
from dsascape.tuner.measure import Budget, Job
from dsascape.tuner.on_device.listing import Listing
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.tuner.on_device.session import Session
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.executable import executable
from tests.graphs import Net
from tests.scheduler.kernels.drawn import LANES, NARROW
from tests.tuner.runs import deviations, tiles_of

pytestmark = pytest.mark.tvm

IN_BOTH_WAYS = pytest.mark.parametrize("in_phases", [False, True], ids=["tile by tile", "in phases"])


def planned(height: int, width: int, channels: int = 16, pad: int = 1, *, residual: bool = False) -> FusionPlan:
    """Return a pointwise convolution, and one of 3x3 with what follows it."""
    net = Net()
    image = net.input(1, 8, height, width)
    before = net.relu(net.conv(image, channels, 1))
    after = net.conv(before, channels, 3, pad=pad)
    after = net.relu(net.add(after, before) if residual else net.bias(after))
    graph = net.graph(after, dtype="fp32")
    return plan_from_groups(graph, [Group((0, 1)), Group(tuple(range(2, len(graph.ops))))])


def in_tiles_of(plan: FusionPlan, size: int, *, in_phases: bool) -> dict[int, Chosen]:
    analysis, phased = Analysis(plan.graph), frozenset({2} if in_phases else ())
    layers = layers_in_order(analysis, plan.groups[1].ops, frozenset(), frozenset({(2, size)}), phased)
    tiles = [choose_tiling(layer, "fp32", NARROW, KnownTiles()).tiles for layer in layers]
    steps = [steps_of(layer, own, LANES) for layer, own in zip(layers, tiles, strict=True)]
    return {**in_tiles(plan, {0: tiles_of(plan)[0]}), 1: Chosen(tuple(steps), size)}


@pytest.mark.parametrize(("size", "height", "width"), [(4, 12, 12), (2, 9, 7), (6, 9, 7), (4, 3, 13), (2, 1, 5)])
@IN_BOTH_WAYS
def test_results_are_those_of_direct_convolution(size: int, height: int, width: int, *, in_phases: bool) -> None:
    plan = planned(height, width)
    found = deviations(plan, in_tiles_of(plan, size, in_phases=in_phases))
    assert max(found.values()) < KERNEL_TOLERANCE


@IN_BOTH_WAYS
def test_so_they_are_without_padding(*, in_phases: bool) -> None:
    plan = planned(10, 11, pad=0)
    assert max(deviations(plan, in_tiles_of(plan, 4, in_phases=in_phases)).values()) < KERNEL_TOLERANCE


@IN_BOTH_WAYS
def test_what_is_added_behind_it_is_added(*, in_phases: bool) -> None:
    plan = planned(9, 9, residual=True)
    assert max(deviations(plan, in_tiles_of(plan, 4, in_phases=in_phases)).values()) < KERNEL_TOLERANCE


@IN_BOTH_WAYS
def test_channels_that_no_vector_divides_are_computed(*, in_phases: bool) -> None:
    plan = planned(8, 8, channels=11)
    assert max(deviations(plan, in_tiles_of(plan, 2, in_phases=in_phases)).values()) < KERNEL_TOLERANCE


def test_several_tiles_along_both_sides_fit_together() -> None:
    plan = planned(16, 16)
    (layer,) = layers_in_order(Analysis(plan.graph), plan.groups[1].ops, frozenset(), frozenset({(2, 4)}))
    tiles = choose_tiling(layer, "fp32", NARROW, KnownTiles()).tiles
    cut = replace(tiles, tile=(1, 16, 4, 8), register=(1, 8, 1, 4), order=(0, 2, 3, 1), parallel=2)
    assert max(deviations(plan, {0: tiles_of(plan)[0], 1: cut}, {1: 4}).values()) < KERNEL_TOLERANCE


def test_what_the_data_is_made_of_is_computed_in_front_of_its_transforms() -> None:
    net = Net()
    image = net.input(1, 16, 9, 9)
    before = net.relu(image)
    graph = net.graph(net.add(net.conv(before, 16, 3), before), dtype="fp32")
    plan = plan_from_groups(graph, [Group((0, 1, 2))])
    layers = layers_in_order(Analysis(graph), (0, 1, 2), frozenset(), frozenset({(1, 4)}), frozenset({1}))

    assert [layer.outputs for layer in layers] == [("conv1:data", "relu1"), ("conv1:products",), ("add1",)]
    steps = [steps_of(layer, choose_tiling(layer, "fp32", NARROW, KnownTiles()).tiles, LANES) for layer in layers]
    assert max(deviations(plan, {0: Chosen(tuple(steps), 4)}).values()) < KERNEL_TOLERANCE


def test_kernels_that_cut_it_otherwise_have_no_code() -> None:
    plan = planned(8, 8)
    chosen = in_tiles_of(plan, 4, in_phases=True)
    code = generate(plan, executable(plan.graph), {**chosen, 1: Chosen(chosen[1].layers[:2], 4)})
    assert [each.reason for each in code.missing] == ["it has code in 3 kernels, not in 2"]


@IN_BOTH_WAYS
def test_a_measurement_and_a_bundle_have_the_transformed_weights(*, in_phases: bool) -> None:
    plan = planned(8, 8)
    chosen = in_tiles(plan, in_tiles_of(plan, 4, in_phases=in_phases))
    network = executable(plan.graph)
    code = generate(plan, network, chosen)
    packings = {kernel.name: kernel.packings for kernel in code.kernels}

    listing = Listing(
        network, 0, code.kernels, packings=lambda kernel, name: packings[kernel].get(name), written_out=code.executable
    )

    assert {"w2:winograd4", "conv2:of-data", "conv2:of-rows"} <= {array.name for array in listing.arrays}
    session = Session(Job(plan, chosen, LANES, 1, budget=Budget(kernel_s=0.01, network_s=0.01)))
    assert [session.kernel(position).correct for position in range(2)] == [True, True]
    assert session.network(()).correct
