"""Candidates of a layer, costed with sizes as columns: each as by itself, and the best of all is taken."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler.gpu.candidates import candidates, grid_orders, runs
from dsascape.scheduler.gpu.clusters import clustered
from dsascape.scheduler.gpu.cost.padding import padded
from dsascape.scheduler.gpu.lattice import Lattice
from dsascape.scheduler.gpu.residency import Found
from dsascape.scheduler.gpu.steps import steps_of
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.tiling import KnownTiles, choose_tiling
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import Grid, estimate_ps, grid_of, off_chip_of
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.nest_by_nest import written_out
from tests.graphs import Net, networks
from tests.scheduler.gpu.test_streams import GRAPHS
from tests.scheduler.kernels.drawn import whole_layer
from tests.tiers import examples

MACHINES = ("a100", "adreno640", "h100", "mali_g76", "p100", "t4")
INFINITE = float("inf")


def layers(graph: Graph) -> Iterator[Layer]:
    """Yield the operators of a network as layers, and all of it as one."""
    out = Analysis(graph).of(written_out, frozenset[int]())
    for ops in (*[(op,) for op in range(len(graph.ops))], range(len(graph.ops))):
        layer = layer_of(out.analysis, out.ops(ops))
        if layer is not None:
            yield layer


def steps_in(layer: Layer, tiles: GpuTiles, view: GpuView) -> Steps:
    return steps_of(layer, tiles, view.spec.sms.warp, view.tensor)


def counts(grid: Grid) -> list[int]:
    issued = grid.code.issued
    return [*issued.counts, issued.waits, grid.code.shared_bytes, grid.needs.registers_per_thread]


def check(layer: Layer, view: GpuView, tried: Sequence[GpuTiles]) -> int:
    """Check that grids are those of the candidates' own programs, or bound them; return how many are bounds."""
    lattice = Lattice.of(layer, tried, view)
    bounds = 0
    for tiles in tried:
        try:
            own = grid_of(layer, steps_in(layer, tiles, view), view)
        except StepError:
            assert tiles not in lattice.tiles
            continue
        place = lattice.tiles.index(tiles)
        grid = lattice.grids[place]
        if lattice.is_exact[place]:  # along dimensions of one block no order counts
            assert grid == replace(own, shape=replace(own.shape, order=grid.shape.order))
        else:
            bounds += 1
            assert all(least <= number for least, number in zip(counts(grid), counts(own), strict=True))
    return bounds


def some(layer: Layer, view: GpuView, count: int) -> list[GpuTiles]:
    every = [clustered(layer, tiles, view) for tiles in (*candidates(layer, view), *runs(layer, view))]
    every = list(dict.fromkeys(every))
    return random.Random(0).sample(every, min(count, len(every)))


@settings(deadline=None, max_examples=examples(60))
@given(graph=networks(), machine=st.sampled_from(MACHINES), dtype=st.sampled_from(("fp16", "fp32", "int8")))
def test_grids_of_a_lattice_are_those_of_its_candidates(graph: Graph, machine: str, dtype: str) -> None:
    view = GpuView(load_hardware(machine, Gpu), dtype)
    for layer in layers(graph.with_dtype(dtype)):
        check(layer, view.of(layer), some(layer, view.of(layer), 10))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", GRAPHS)
def test_so_are_those_of_softmaxes_in_pieces(name: str) -> None:
    layer = whole_layer(GRAPHS[name].with_dtype("fp32"))
    view = GpuView(load_hardware("a100", Gpu), "fp32")
    check(layer, view, some(layer, view, examples(60, few=12)))


def test_candidates_that_differ_in_loops_that_are_written_out_are_bounds() -> None:
    """Of a pooling window of 7x7, more or fewer results of a thread make more or fewer than 256 instructions."""
    net = Net()
    layer = whole_layer(net.graph(net.pool(net.input(1, 16, 56, 56), 7, 1), dtype="fp32"))
    view = GpuView(load_hardware("h100", Gpu), "fp32")

    assert check(layer, view, list(candidates(layer, view)))


@settings(deadline=None, max_examples=examples(36))
@given(graph=networks(), machine=st.sampled_from(MACHINES))
def test_no_candidate_is_faster_than_the_choice(graph: Graph, machine: str) -> None:
    """Every candidate in every order of its blocks, with rows as they are and padded; traffic is worth 2 %."""
    view = GpuView(load_hardware(machine, Gpu), "fp16")
    view = replace(view, tuning=replace(view.tuning, padded=1024))
    for layer in layers(graph):
        own, times_ps = view.of(layer), list[float]()
        for tiles in candidates(layer, own):
            try:
                plain = steps_in(layer, clustered(layer, tiles, own), own)
                grids = [grid_of(layer, steps, own) for steps in {plain: None, padded(layer, plain, own): None}]
            except StepError:
                continue
            times_ps += [
                estimate_ps(grid, own, off_chip_of(layer, grid, order, own).total)
                for grid in grids for order in grid_orders(layer)
            ]  # fmt: skip
        choice = choose_tiling(layer, Found(), own, KnownTiles())
        if choice is not None and min(times_ps, default=INFINITE) < INFINITE:
            assert choice.estimate_ps <= 1.02 * min(times_ps)
