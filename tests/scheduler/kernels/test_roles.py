"""Taps of a window among a product's loops: derived from access maps, not from the operator's name."""

import pytest
from hypothesis import given, settings

from dsascape.hw_models import ClusteredDsa, with_values
from dsascape.scheduler.dsa.deciding.unit_choice import choose_units, unit_ps
from dsascape.scheduler.dsa.view import DsaView
from dsascape.scheduler.kernels.compiled import loop_roles
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.loopnest import LoopNest
from tests.graphs import Net, machine, machines, networks
from tests.tiers import examples


def layer(net: Net, output: str) -> Layer:
    """Return the last operator of a network as a layer."""
    graph = net.graph(output)
    return Layer(graph, (len(graph.ops) - 1,), Analysis(graph))


def product_of(net: Net, output: str) -> LoopNest:
    nest = layer(net, output).contraction
    assert nest is not None
    return nest


def named(nest: LoopNest) -> dict[str, str]:
    """Return the role of each loop by its name."""
    return {loop.name: role for loop, role in zip(nest.loops, loop_roles(nest) or (), strict=True)}


def test_the_window_of_a_convolution_moves_along_the_image_and_its_channels_do_not() -> None:
    net = Net()
    roles = named(product_of(net, net.conv(net.input(1, 3, 16, 16), 8, 7, 2)))

    assert (roles["ic"], roles["k0"], roles["k1"]) == ("depth", "taps", "taps")


def test_channels_within_a_group_are_no_window_though_they_share_a_dimension_with_the_groups() -> None:
    net = Net()
    roles = named(product_of(net, net.conv(net.input(1, 8, 6, 6), 8, 3, groups=2)))

    assert (roles["g"], roles["ic"], roles["k0"], roles["k1"]) == ("count", "depth", "taps", "taps")


def test_windows_side_by_side_are_windows() -> None:
    """The patches of a vision transformer: windows of four elements, four apart."""
    net = Net()
    roles = named(product_of(net, net.conv(net.input(1, 3, 16, 16), 8, 4, 4, pad=0)))

    assert (roles["ic"], roles["k0"], roles["k1"]) == ("depth", "taps", "taps")


def test_a_transposed_convolution_has_a_window_too() -> None:
    net = Net()
    x = net.op("ConvTranspose", [net.input(1, 6, 5, 5), net.weight(6, 4, 2, 2)], (1, 4, 10, 10), strides=[2, 2])
    nest = product_of(net, x)
    work = layer(net, x).tile_work((1, 4, 10, 10)).nests[0]

    assert [named(nest)[name] for name in ("ic", "k0", "k1")] == ["depth", "taps", "taps"]
    assert work.matrix_shape == (100, 4, 6, 1, 6, 10)  # of the four taps, one reaches an element


def test_a_matrix_product_has_no_taps() -> None:
    net = Net()

    assert set(named(product_of(net, net.dense(net.input(4, 8), 6))).values()) == {"run", "columns", "depth"}


@pytest.mark.parametrize(("groups", "shape"), [(1, (64, 8, 8 * 9, 1, 8, 8)), (8, (64, 1, 9, 8, 1, 8))])
def test_the_depth_at_one_tap_is_the_channels_that_a_result_depends_on(groups: int, shape: tuple[int, ...]) -> None:
    net = Net()
    work = layer(net, net.conv(net.input(1, 8, 8, 8), 8, 3, groups=groups)).tile_work((1, 8, 8, 8))

    assert work.nests[0].matrix_shape == shape


@settings(max_examples=examples(60), deadline=None)
@given(spec=machines(), graph=networks())
def test_no_tile_is_faster_on_an_array_that_adds_up_over_channels_alone(spec: ClusteredDsa, graph: Graph) -> None:
    if "matrix" not in spec.units:
        return
    narrow, wide = (
        DsaView(with_values(spec, {"units.matrix.sums_over": over}), 1) for over in ("channels", "channels_and_taps")
    )
    for op in range(len(graph.ops)):
        one = layer_of(Analysis(graph), (op,))
        if one is None or one.is_ordered:
            continue
        shape = one.sink.shape
        units = choose_units(one, shape, wide, "fp16")
        alone, together = (unit_ps(one.tile_work(shape), units, view, "fp16") for view in (narrow, wide))
        assert all(more >= less for more, less in zip(alone, together, strict=True))


def test_a_convolution_of_three_channels_takes_its_taps_times_the_slowest_of_three_rows() -> None:
    """8 x 8 positions and 16 kernels on 16 x 16 cells: 4 blocks, 9 taps each, 16 cycles until the results have left."""
    matrix = {
        "kind": "matrix", "macs_per_cycle": {"fp16": 256}, "native_tile": [16, 16, 1], "array": "systolic",
        "sums_over": "channels",
    }  # fmt: skip
    vector = {"kind": "vector", "lanes": {"fp16": 1}, "special_cycles": 2.0, "efficiency": 1.0}
    view = DsaView(machine(units={"matrix": matrix, "vector": vector}, clock="1 GHz"), 1)
    net = Net()
    first = layer(net, net.conv(net.input(1, 3, 8, 8), 16))

    assert list(unit_ps(first.tile_work((1, 16, 8, 8)), ("matrix",), view, "fp16")) == [(30 + 3 + 4 * 9 * 16) * 1000]
