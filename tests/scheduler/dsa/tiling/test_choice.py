"""Equal tile requests are searched once, and get the result that their own search would give."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import ClusteredDsa
from dsascape.scheduler import ScheduleError
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.execution import decide
from dsascape.scheduler.dsa.deciding.kernel_by_kernel import through_ddr
from dsascape.scheduler.dsa.deciding.unit_choice import choose_units
from dsascape.scheduler.dsa.tiling.candidates import TileCandidates
from dsascape.scheduler.dsa.tiling.choice import TileChooser, TilingCache
from dsascape.scheduler.dsa.tiling.search import choose_tiling
from dsascape.scheduler.dsa.tiling.tiling import Route, TileRequest
from dsascape.scheduler.dsa.view import DDR, DsaView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, machine, machines, networks
from tests.tiers import examples

KIB = 1024
MIB = 1024 * KIB
VIEW = DsaView(machine(), 1)


def request_of(layer: Layer, local_bytes: int = 64 * KIB) -> TileRequest:
    shape = layer.sink.shape
    return TileRequest(
        layer=layer, box=shape, part=shape, cores=1, units=choose_units(layer, shape, VIEW, "fp16"),
        routes={name: Route(1.0, 0.0, 1) for name in layer.inputs}, output_memory=DDR, local_gaps=(local_bytes,),
        global_gaps=(1024 * KIB,), dtype="fp16",
    )  # fmt: skip


def two_alike() -> tuple[Layer, Layer]:
    """Return two convolutions of activations."""
    net = Net("alike")
    graph = net.graph(net.conv(net.conv(net.conv(net.input(1, 8, 32, 32), 8), 8), 8))
    analysis = Analysis(graph)
    return Layer(graph, (1,), analysis), Layer(graph, (2,), analysis)


def chooser() -> TileChooser:
    return TileChooser(VIEW, 64 * KIB, 1024 * KIB, TilingCache())


def test_requests_that_differ_in_free_space_alone_share_a_lattice_and_what_it_keeps_reads_no_free_space() -> None:
    layer, _ = two_alike()
    requests = [replace(request_of(layer, size), doubled=doubled) for size, doubled in ((KIB, False), (MIB, True))]
    first, second = [each.apart_from_space for each in requests]

    assert (first == second, hash(first) == hash(second)) == (True, True)
    assert TileCandidates(requests[0], VIEW).lattice is TileCandidates(requests[1], VIEW).lattice
    prefetching = replace(requests[0], prefetch=(KIB, MIB))
    assert prefetching.apart_from_space == replace(requests[0], prefetch=(MIB, KIB)).apart_from_space
    assert prefetching.apart_from_space != first
    assert TileCandidates(prefetching, VIEW).lattice is not TileCandidates(requests[0], VIEW).lattice
    with pytest.raises(AttributeError, match="doubled is left out of this part of the tile request"):
        bool(first.doubled)
    with pytest.raises(TypeError):
        sum(first.local_gaps)


def test_equal_layers_share_a_tiling_each_under_its_own_names() -> None:
    first, second = two_alike()
    tiles = chooser()

    one = tiles.choose(request_of(first))
    assert len(tiles.cache.tilings) == 1
    other = tiles.choose(request_of(second))
    assert len(tiles.cache.tilings) == 1

    assert (list(one.loads), list(other.loads)) == (["conv1", "w2"], ["conv2", "w3"])
    assert other == choose_tiling(request_of(second), VIEW)


def test_tiles_that_are_best_with_the_buffers_to_themselves_are_kept_where_they_fit() -> None:
    layer, _ = two_alike()
    tiles = chooser()
    alone = tiles.choose(request_of(layer))

    assert tiles.choose(request_of(layer, sum(alone.local_buffers))) == alone
    assert len(tiles.cache.tilings) == 1


def test_where_they_do_not_fit_tiles_are_sought_for_just_the_room_there_is() -> None:
    layer, _ = two_alike()
    tiles = chooser()
    alone = tiles.choose(request_of(layer))
    little = sum(alone.local_buffers) - 1

    tiling = tiles.choose(request_of(layer, little))
    assert sum(tiling.local_buffers) <= little
    assert tiling == choose_tiling(request_of(layer, little), VIEW)


def test_a_layer_that_cannot_fit_is_reported_with_its_network() -> None:
    layer, _ = two_alike()
    tiles = TileChooser(VIEW, 4, 1024 * KIB, TilingCache())

    with pytest.raises(ScheduleError, match="alike: layer 'conv2': its smallest tile needs"):
        tiles.choose(request_of(layer, 4))


@settings(max_examples=examples(40))
@given(one=networks(), other=networks(), spec=machines())
def test_cached_results_of_one_network_change_nothing_for_another(one: Graph, other: Graph, spec: ClusteredDsa) -> None:
    view, cache = DsaView(spec, spec.clusters), TilingCache()

    def decided(graph: Graph, cache: TilingCache) -> str:
        costs = DsaCosts(view, Analysis(graph), "fp16", cache)
        try:
            return decide(through_ddr(fixed_pattern_plan(graph), costs), costs, "test").in_full()
        except ScheduleError as refused:
            return str(refused)

    decided(one, cache)
    assert decided(other, cache) == decided(other, TilingCache())
