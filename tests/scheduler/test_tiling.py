"""Tiles cover a core's part exactly once, fit the space there is, and are nearly as fast as the best ones."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hw_models import load_hardware
from scheduler import Schedule, ScheduleError, make_policy, tile_search
from scheduler.device import DsaDevice
from scheduler.tile_search import MOST_TILES, TilingError, choose_tiling, paper_tiling
from scheduler.tiling import Route, TileRequest, Tiling
from scheduler.work import Layer
from tests.graphs import Net, machine, machines, networks

WITHIN = 4.0
"""How much slower than the best of all tiles, by estimate, the chosen ones may be: the search is greedy. The most that
was seen is 3.2, with a local buffer of 64 bytes."""


@dataclass(frozen=True)
class Case:
    request: TileRequest
    device: DsaDevice

    def chosen(self) -> Tiling:
        """Return the chosen tiles; a draw in which nothing fits is not what the test is about."""
        try:
            return choose_tiling(self.request, self.device)
        except TilingError:
            assume(False)
            raise


def runs_through_ddr(schedule: Schedule) -> Iterator[tuple[Layer, tuple[int, ...], int]]:
    for instance in schedule.instances:
        for run in instance.runs:
            yield run.layer, run.binding.part_extents([hi - lo for lo, hi in run.box]), run.binding.cores


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a layer of a network whose operands come from DDR, with the space of a drawn machine."""
    graph, spec = draw(networks()), draw(machines())
    layers = list(runs_through_ddr(make_policy("fixed-pattern").schedule(graph, spec, "fp16")))
    layer, part, cores = draw(st.sampled_from(layers))
    device = DsaDevice(spec, spec.clusters)
    request = TileRequest(
        layer=layer,
        box=layer.sink.shape,
        part=part,
        cores=cores,
        routes={name: Route(1.0, 0.0, draw(st.sampled_from([1, cores]))) for name in layer.inputs},
        output_scope=draw(st.sampled_from(["ddr", "local_buffer"])),
        local_gaps=(draw(st.sampled_from([64, 512, 4096, 65536])),),
        shared_gaps=(device.global_buffer_bytes,),
        dtype="fp16",
        windows=None,
    )
    return Case(request, device)


def by_hand(channels: int, budget_bytes: int) -> TileRequest:
    """Return the request for a pointwise convolution over 1 x ``channels`` x 8 x 8 on one core."""
    net = Net()
    graph = net.graph(net.conv(net.input(1, channels, 8, 8), channels, 1))
    layer = Layer(graph, (0,))
    routes = {name: Route(1.0, 0.0, 1) for name in layer.inputs}
    shape = layer.sink.shape
    return TileRequest(
        layer=layer, box=shape, part=shape, cores=1, routes=routes, output_scope="ddr", local_gaps=(budget_bytes,),
        shared_gaps=(2**20,), dtype="fp16", windows=None,
    )  # fmt: skip


@settings(max_examples=80)
@given(case=cases())
def test_tiles_cover_a_cores_part_exactly_once(case: Case) -> None:
    tiling = case.chosen()
    times = np.zeros(case.request.part, int)
    for position, extents, depth_step, _ in tiling.steps():
        if depth_step == 0:
            starts = [place * size for place, size in zip(position, tiling.tile, strict=True)]
            times[tuple(slice(lo, lo + size) for lo, size in zip(starts, extents, strict=True))] += 1

    assert (times == 1).all()


@settings(max_examples=80)
@given(case=cases())
def test_passes_over_the_depth_add_up_to_all_of_it(case: Case) -> None:
    tiling = case.chosen()
    depths: dict[tuple[int, ...], list[int | None]] = {}
    for position, _, _, depth in tiling.steps():
        depths.setdefault(position, []).append(depth)

    for found in depths.values():
        assert len(found) == tiling.depth_steps
        assert found == [None] or sum(depth or 0 for depth in found) == tiling.depth_extent


@settings(max_examples=80)
@given(case=cases())
def test_tiles_in_flight_fit_the_space_there_is(case: Case) -> None:
    tiling, request = case.chosen(), case.request
    work = request.layer.tile_work(tiling.tile, tiling.depth)
    versions = {name: 2 if tiling.loads[name] > 1 else 1 for name in tiling.loads}
    tiles = math.prod(tiling.counts)
    leaving = work.output_bytes * min(tiles, 2) if request.output_scope != "local_buffer" else 0
    needed = sum(versions[name] * work.operand_bytes[name] for name in versions) + work.internal_bytes + leaving

    assert needed == tiling.buffer_bytes <= request.local_gaps[0]
    if case.device.global_buffer_bytes:
        assert tiling.staging_bytes <= request.shared_gaps[0]


@settings(max_examples=80)
@given(case=cases())
def test_weights_are_loaded_in_full_at_least_once(case: Case) -> None:
    tiling, layer = case.chosen(), case.request.layer
    work = layer.tile_work(tiling.tile, tiling.depth)
    part = layer.tile_work(tiling.part)

    for name in (name for name in tiling.loads if layer.graph.tensors[name].role == "weight"):
        assert tiling.loads[name] * work.operand_bytes[name] >= part.operand_bytes[name]


@settings(max_examples=80)
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
    search = tile_search._Search(case.request, case.device)
    sizes = (*case.request.part, search._candidates.depth_extent)
    tried = (search._tiling(h) for h in itertools.product(*(range((size - 1).bit_length() + 1) for size in sizes)))
    return min(
        tiling.estimate_ps
        for tiling in tried
        if search._fits(tiling) and math.prod(tiling.counts) * tiling.depth_steps <= most_tiles
    )


@settings(max_examples=25)
@given(case=cases())
def test_the_chosen_tiles_are_nearly_as_fast_as_the_best(case: Case) -> None:
    tiling = case.chosen()
    most_tiles = max(MOST_TILES, math.prod(tiling.counts) * tiling.depth_steps)

    assert tiling.estimate_ps <= WITHIN * fastest_ps(case, most_tiles)


class TestByHand:
    def test_a_part_that_fits_is_one_tile_or_a_few_that_overlap(self) -> None:
        tiling = choose_tiling(by_hand(16, 2**20), DsaDevice(machine(), 1))

        assert math.prod(tiling.counts) <= MOST_TILES
        assert all(times >= 1 for times in tiling.loads.values())

    def test_with_little_room_a_product_is_cut_along_its_depth(self) -> None:
        """Beginning with the whole depth alone would end with tiles that take a fifth longer."""
        net = Net()
        x = net.add(net.matmul(net.input(512, 768), net.weight(768, 3072)), net.weight(3072))
        graph, spec = net.graph(net.binary("Mul", x, net.unary("Sigmoid", x))), load_hardware("stcp920")
        layer = Layer(graph, tuple(range(len(graph.ops))))
        routes = {name: Route(0.0, 1.0, 2) for name in layer.inputs}
        routes |= {name: Route(1.0, 0.0, 4) for name in layer.inputs if graph.tensors[name].role == "weight"}
        request = TileRequest(
            layer=layer, box=(512, 3072), part=(64, 3072), cores=8, routes=routes, output_scope="local_buffer",
            local_gaps=(48 * 1024,), shared_gaps=(3 * 2**20,), dtype="fp16", windows=None,
        )  # fmt: skip
        case = Case(request, DsaDevice(spec, spec.clusters))
        tiling = case.chosen()

        assert tiling.depth_steps > 1
        assert tiling.estimate_ps <= 1.05 * fastest_ps(case, math.prod(tiling.counts) * tiling.depth_steps)

    def test_half_the_space_makes_at_least_two_tiles(self) -> None:
        whole = choose_tiling(by_hand(16, 2**20), DsaDevice(machine(), 1)).tile_bytes
        tiling = choose_tiling(by_hand(16, 2 * 16 * 64), DsaDevice(machine(), 1))

        assert tiling.tile_bytes < whole
        assert math.prod(tiling.counts) * tiling.depth_steps >= 2

    def test_what_does_not_fit_in_any_way_names_the_layer_and_what_to_raise(self) -> None:
        with pytest.raises(
            TilingError,
            match=r"layer 'conv1': its smallest tile needs \d+ bytes .*; 4 and .* free: raise local_buffer.cap",
        ):
            choose_tiling(by_hand(16, 4), DsaDevice(machine(), 1))

    def test_operands_that_are_there_already_are_not_loaded(self) -> None:
        request = by_hand(16, 2**20)
        tiling = choose_tiling(replace(request, routes={"w1": request.routes["w1"]}), DsaDevice(machine(), 1))

        assert list(tiling.loads) == ["w1"]

    def test_like_layers_share_a_tiling_under_their_own_names(self) -> None:
        tiling = choose_tiling(by_hand(16, 2048), DsaDevice(machine(), 1))
        renamed = tiling.with_names(("x", "w"))

        assert list(renamed.loads) == ["x", "w"]
        assert list(renamed.loads.values()) == list(tiling.loads.values())
        assert replace(renamed, loads=tiling.loads, staged=tiling.staged) == tiling


def test_a_unit_that_lacks_the_dtype_is_named() -> None:
    request = replace(by_hand(4, 2**20), dtype="int8")

    with pytest.raises(ScheduleError, match="small: unit 'vector' computes fp16, not int8"):
        choose_tiling(request, DsaDevice(machine(), 1))


class TestPaperTiles:
    """Section 4.1: the two outermost dimensions, batch and rows here, each by the largest divisor that fits.

    A row of the convolution by hand takes 256 bytes in and out, its weights take 512.
    """

    @staticmethod
    def tile(budget_bytes: int) -> tuple[int, ...]:
        request = replace(by_hand(16, budget_bytes), paper_tiles=True)
        return choose_tiling(request, DsaDevice(machine(), 1)).tile

    def test_what_fits_is_not_cut(self) -> None:
        assert self.tile(512 + 2 * 8 * 256) == (1, 16, 8, 8)

    def test_rows_are_cut_by_the_largest_divisor_that_fits_twice_for_overlap(self) -> None:
        assert self.tile(512 + 4 * 2 * 256) == (1, 16, 2, 8)
        assert self.tile(512 + 4 * 2 * 256 - 1) == (1, 16, 1, 8)

    def test_where_a_row_does_not_fit_tiles_are_searched(self) -> None:
        assert math.prod(self.tile(1024)) * 2 < 1024
        assert paper_tiling(replace(by_hand(16, 1024), paper_tiles=True), DsaDevice(machine(), 1)) is None
