"""Tiles cover a core's part exactly once, fit the free space, and are nearly as fast as the optimum."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import ClusteredDsa, load_hardware
from dsascape.scheduler import DsaTuning, ScheduleError
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.kernel_by_kernel import through_ddr
from dsascape.scheduler.dsa.deciding.unit_choice import choose_units
from dsascape.scheduler.dsa.tiling.candidates import TileCandidates
from dsascape.scheduler.dsa.tiling.search import TilingError, choose_tiling, paper_tiling
from dsascape.scheduler.dsa.tiling.tiling import Route, TileRequest, Tiling
from dsascape.scheduler.dsa.view import DsaView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, machine, machines, networks
from tests.tiers import examples

WITHIN = 4.0
"""How much slower than the best of all tiles, by estimate, the chosen ones may be: the search is greedy. The most that
was seen is 3.2, with a local buffer of 64 bytes."""
SMALL = DsaView(machine(), 1)
MOST_TILES = DsaTuning().most_tiles


@dataclass(frozen=True)
class Case:
    request: TileRequest
    view: DsaView

    def chosen(self) -> Tiling:
        """Return the chosen tiles; a draw in which nothing fits is not what the test is about."""
        try:
            return chosen(self.request, self.view)
        except TilingError:
            assume(False)
            raise


def chosen(request: TileRequest, view: DsaView | None = None) -> Tiling:
    """Return what the search chooses, on the small machine if on no other."""
    return choose_tiling(request, SMALL if view is None else view)


def runs_through_ddr(graph: Graph, view: DsaView) -> Iterator[tuple[Layer, tuple[int, ...], int]]:
    """Yield the layer of every kernel, one core's part of its output, and the cores at work."""
    layout = through_ddr(fixed_pattern_plan(graph), DsaCosts(view, Analysis(graph), "fp16"))
    for run in layout.runs:
        yield run.layer, run.binding.part_extents(run.extents), run.binding.cores


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a layer of a network whose operands come from DDR, with the space of a drawn machine."""
    spec: ClusteredDsa = draw(machines())
    view = DsaView(spec, spec.clusters)
    layer, part, cores = draw(st.sampled_from(list(runs_through_ddr(draw(networks()), view))))
    request = TileRequest(
        layer=layer,
        box=layer.sink.shape,
        part=part,
        cores=cores,
        units=choose_units(layer, part, view, "fp16"),
        routes={name: Route(1.0, 0.0, draw(st.sampled_from([1, cores]))) for name in layer.inputs},
        output_memory=draw(st.sampled_from(["ddr", "local_buffer"])),
        local_gaps=(draw(st.sampled_from([64, 512, 4096, 65536])),),
        global_gaps=(view.global_buffer_bytes,),
        dtype="fp16",
    )
    return Case(request, view)


def by_hand(channels: int, budget_bytes: int) -> TileRequest:
    """Return the request for a pointwise convolution over 1 x ``channels`` x 8 x 8 on one core."""
    net = Net()
    graph = net.graph(net.conv(net.input(1, channels, 8, 8), channels, 1))
    layer = Layer(graph, (0,), Analysis(graph))
    routes = {name: Route(1.0, 0.0, 1) for name in layer.inputs}
    shape = layer.sink.shape
    return TileRequest(
        layer=layer, box=shape, part=shape, cores=1, units=choose_units(layer, shape, SMALL, "fp16"), routes=routes,
        output_memory="ddr", local_gaps=(budget_bytes,), global_gaps=(2**20,), dtype="fp16",
    )  # fmt: skip


@settings(max_examples=examples(80))
@given(case=cases())
def test_tiles_cover_a_cores_part_exactly_once(case: Case) -> None:
    tiling = case.chosen()
    times = np.zeros(case.request.part, int)
    for position, extents, depth_step, _ in tiling.steps():
        if depth_step == 0:
            starts = [place * size for place, size in zip(position, tiling.tile, strict=True)]
            times[tuple(slice(lo, lo + size) for lo, size in zip(starts, extents, strict=True))] += 1

    assert (times == 1).all()


@settings(max_examples=examples(80))
@given(case=cases())
def test_passes_over_the_depth_add_up_to_all_of_it(case: Case) -> None:
    tiling = case.chosen()
    depths: dict[tuple[int, ...], list[int | None]] = {}
    for position, _, _, depth in tiling.steps():
        depths.setdefault(position, []).append(depth)

    for found in depths.values():
        assert len(found) == tiling.depth_steps
        assert found == [None] or sum(depth or 0 for depth in found) == tiling.depth_extent


@settings(max_examples=examples(80))
@given(case=cases())
def test_tiles_in_flight_fit_the_space_there_is(case: Case) -> None:
    tiling, request = case.chosen(), case.request
    work = request.layer.tile_work(tiling.tile, tiling.depth)
    versions = {name: 2 if tiling.loads[name] > 1 else 1 for name in tiling.loads}
    tiles = math.prod(tiling.counts)
    leaving = work.output_bytes * min(tiles, 2) if request.output_memory != "local_buffer" else 0
    needed = sum(versions[name] * work.operand_bytes[name] for name in versions) + work.between_bytes + leaving

    assert needed == sum(tiling.local_buffers) <= request.local_gaps[0]
    assert sum(tiling.global_buffers) <= request.global_gaps[0]


@settings(max_examples=examples(80))
@given(case=cases())
def test_where_kernels_are_shared_what_passes_the_global_buffer_once_has_one_buffer_and_tiles_are_no_slower(
    case: Case,
) -> None:
    request, tunings = case.request, [DsaTuning(kernels_divided="never"), DsaTuning(kernels_divided="always")]
    try:
        doubled, single = (choose_tiling(request, DsaView(case.view.spec, 2, tuning)) for tuning in tunings)
    except TilingError:
        assume(False)
        raise
    assert single.estimate_ps <= doubled.estimate_ps
    assert sum(single.global_buffers) <= request.global_gaps[0]
    if single.global_buffers:
        *_, passing, again, storing, storing_again = single.global_buffers
        kept = {*single.staged, *single.prefetched}
        loads = {min(times, 2) for name, times in single.loads.items() if name not in kept}
        assert 0 <= again <= passing
        assert again == passing or 1 in loads
        assert again == 0 or 2 in loads
        assert storing_again == (storing if math.prod(single.counts) > 1 else 0)


@settings(max_examples=examples(80))
@given(case=cases())
def test_weights_are_loaded_in_full_at_least_once(case: Case) -> None:
    tiling, layer = case.chosen(), case.request.layer
    work = layer.tile_work(tiling.tile, tiling.depth)
    part = layer.tile_work(tiling.part)

    for name in (name for name in tiling.loads if layer.graph.tensors[name].role == "weight"):
        assert tiling.loads[name] * work.operand_bytes[name] >= part.operand_bytes[name]


@settings(max_examples=examples(80))
@given(case=cases())
def test_an_operand_is_loaded_as_often_as_its_tile_changes(case: Case) -> None:
    tiling, layer = case.chosen(), case.request.layer
    for name, times in tiling.loads.items():
        depends = layer.dependencies.get(name, frozenset())
        changes, before = 0, None
        for position, _, depth_step, _ in tiling.steps():
            now = (*(place for dim, place in enumerate(position) if dim in depends), depth_step if -1 in depends else 0)
            changes += now != before
            before = now

        assert times == changes, name


def fastest_ps(case: Case, most_tiles: int) -> float:
    """Return the least estimate of all tiles that fit: every dimension is halved any number of times."""
    candidates = TileCandidates(case.request, case.view)
    sizes = (*case.request.part, candidates.depth_extent)
    halved = (dict.fromkeys(-(-size >> times) for times in range(size.bit_length() + 1)) for size in sizes)
    tried = (
        candidates.candidate(tuple(tile), None if depth == candidates.depth_extent else depth)
        for *tile, depth in itertools.product(*halved)
    )
    return min(t.estimate_ps for t in tried if candidates.fits(t) and t.cut.passes <= most_tiles)


@settings(max_examples=examples(25))
@given(case=cases())
def test_the_chosen_tiles_are_nearly_as_fast_as_the_best(case: Case) -> None:
    tiling = case.chosen()
    most_tiles = max(MOST_TILES, tiling.passes)

    assert tiling.estimate_ps <= WITHIN * fastest_ps(case, most_tiles)


@settings(max_examples=examples(60))
@given(case=cases(), further=machines(), prefetch=st.sampled_from([None, (128, 4096), (2048, 2**16)]))
def test_cached_results_of_other_machines_change_no_tiling(
    case: Case, further: ClusteredDsa, prefetch: tuple[int, int] | None
) -> None:
    """Cuts and what they ask of the chip are kept with the network, for machines that differ in DDR and in room."""
    spec, request = case.view.spec, replace(case.request, prefetch=prefetch)
    other = spec.model_copy(update={"ddr": further.ddr, "dma": further.dma, "local_buffer": further.local_buffer})
    layer = request.layer
    anew = replace(request, layer=Layer(layer.graph, layer.ops, Analysis(layer.graph)))

    for view in (case.view, DsaView(other, other.clusters)):
        assert outcome(request, view) == outcome(anew if view is not case.view else request, view)


def outcome(request: TileRequest, view: DsaView) -> tuple[Tiling | None, float]:
    """Return the chosen tiles and their estimate; nothing where not even the smallest fit."""
    try:
        found = choose_tiling(request, view)
    except TilingError:
        return None, 0.0
    return found, found.estimate_ps


class TestByHand:
    def test_a_part_that_fits_is_one_tile_or_a_few(self) -> None:
        assert 1 <= chosen(by_hand(16, 2**20)).passes <= MOST_TILES

    def test_with_little_room_a_product_is_cut_along_its_depth(self) -> None:
        """Beginning with the whole depth alone would end with tiles that take a fifth longer."""
        net = Net()
        x = net.add(net.matmul(net.input(512, 768), net.weight(768, 3072)), net.weight(3072))
        graph, spec = net.graph(net.binary("Mul", x, net.unary("Sigmoid", x))), load_hardware("stcp920", ClusteredDsa)
        view, part = DsaView(spec, spec.clusters), (64, 3072)
        layer = Layer(graph, tuple(range(len(graph.ops))), Analysis(graph))
        routes = {name: Route(0.0, 1.0, 2) for name in layer.inputs}
        routes |= {name: Route(1.0, 0.0, 4) for name in layer.inputs if graph.tensors[name].role == "weight"}
        request = TileRequest(
            layer=layer, box=(512, 3072), part=part, cores=8, units=choose_units(layer, part, view, "fp16"),
            routes=routes, output_memory="local_buffer", local_gaps=(48 * 1024,), global_gaps=(3 * 2**20,),
            dtype="fp16",
        )  # fmt: skip
        case = Case(request, view)
        tiling = case.chosen()

        assert tiling.depth_steps > 1
        assert tiling.estimate_ps <= 1.05 * fastest_ps(case, tiling.passes)

    def test_half_the_space_makes_at_least_two_tiles(self) -> None:
        whole = chosen(by_hand(16, 2**20)).tile_bytes
        tiling = chosen(by_hand(16, 2 * 16 * 64))

        assert tiling.tile_bytes < whole
        assert math.prod(tiling.counts) * tiling.depth_steps >= 2

    def test_what_does_not_fit_in_any_way_names_the_layer_and_what_to_raise(self) -> None:
        with pytest.raises(
            TilingError,
            match=r"layer 'conv1': its smallest tile needs \d+ B .*; 4 and .* free: raise local_buffer.cap",
        ):
            chosen(by_hand(16, 4))

    def test_operands_that_are_there_already_are_not_loaded(self) -> None:
        request = by_hand(16, 2**20)
        tiling = chosen(replace(request, routes={"w1": request.routes["w1"]}))

        assert list(tiling.loads) == ["w1"]

    def test_like_layers_share_a_tiling_under_their_own_names(self) -> None:
        tiling = chosen(by_hand(16, 2048))
        renamed = tiling.with_names(("x", "w"))

        assert list(renamed.loads) == ["x", "w"]
        assert list(renamed.loads.values()) == list(tiling.loads.values())
        assert replace(renamed, loads=tiling.loads, staged=tiling.staged) == tiling


def test_a_unit_that_lacks_the_dtype_is_named() -> None:
    request = by_hand(4, 2**20)

    with pytest.raises(ScheduleError, match="small: unit 'vector' computes fp16, not int8"):
        choose_units(request.layer, request.part, SMALL, "int8")


class TestPaperTiles:
    """Section 4.1: the two outermost dimensions, batch and rows here, each by the largest divisor that fits.

    A row of the convolution by hand takes 256 bytes in and out, its weights take 512.
    """

    @staticmethod
    def tile(budget_bytes: int) -> tuple[int, ...]:
        return chosen(replace(by_hand(16, budget_bytes), paper_tiles=True)).tile

    def test_a_layer_that_fits_is_not_cut(self) -> None:
        assert self.tile(512 + 2 * 8 * 256) == (1, 16, 8, 8)

    def test_rows_are_cut_by_the_largest_divisor_that_fits_twice_for_overlap(self) -> None:
        assert self.tile(512 + 4 * 2 * 256) == (1, 16, 2, 8)
        assert self.tile(512 + 4 * 2 * 256 - 1) == (1, 16, 1, 8)

    def test_where_a_row_does_not_fit_tiles_are_searched(self) -> None:
        assert math.prod(self.tile(1024)) * 2 < 1024
        assert paper_tiling(replace(by_hand(16, 1024), paper_tiles=True), SMALL) is None
