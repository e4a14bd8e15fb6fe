"""Steps of a layer: the search over blocks, threads and stages, judged by the machine model.

The search is small and always finds the same. Candidates are tiles, all of which are costed on their loop programs
(`scheduler.gpu.lattice`). Each has a bound, the time of its busiest pipe or memory. They are looked at in the order of
their bounds, with latencies, waves, and the traffic that the order of their blocks makes, until no bound is near the
best time. Those that would be best without bank conflicts are tried with padded rows. Of nearly equal times the least
traffic wins, that of DRAM first, then the time, then what is tried first. Products whose blocks fit into no SM are
computed without staging.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dsascape.hw_models.gpu.occupancy import occupancy
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.errors import PinError
from dsascape.scheduler.gpu.candidates import candidates, grid_orders, runs
from dsascape.scheduler.gpu.clusters import clustered
from dsascape.scheduler.gpu.cost.padding import padded
from dsascape.scheduler.gpu.fixed import FixedTiles, with_fixed
from dsascape.scheduler.gpu.fronts import tried_by
from dsascape.scheduler.gpu.lattice import Lattice
from dsascape.scheduler.gpu.residency import Found
from dsascape.scheduler.gpu.steps import steps_of
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.traffic import once_bytes
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import Grid, estimate_ps, grid_of, off_chip_of
from dsascape.scheduler.kernels.footprints import footprints_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.sources import named, numbered
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.wording import count
from dsascape.workloads.memo import Table, memoized

_MOST_LAYERS = 2_000
"""Whose candidates are kept."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """The steps of a layer, and how long its kernel is estimated to take, launch included."""

    steps: Steps
    """Steps of the kernel; tensors go by their numbers, so that equal layers have equal steps (`sources.numbered`)."""
    order: tuple[int, ...]
    """Order of the grid's dimensions."""
    estimate_ps: float
    moved_bytes: tuple[float, float]
    """From and to DRAM, from and to the L2."""

    def steps_of(self, layer: Layer) -> Steps:
        """Return the steps of ``layer``, or of an equal one."""
        return named(NaiveProgram(layer), self.steps)


class _Choice(NamedTuple):
    """A candidate in the best order of its blocks."""

    tiles: GpuTiles
    grid: Grid
    dram_bytes: float
    estimate_ps: float
    least_ps: float
    """Estimate without bank conflicts, which padded rows may come to."""
    has_padding: bool = False

    @property
    def moved_bytes(self) -> tuple[float, float]:
        """From and to DRAM, from and to the L2."""
        return self.dram_bytes, self.grid.l2_bytes


class KnownTiles:
    """Results that are kept between runs on one machine."""

    def __init__(self) -> None:
        self.tilings: Table[Tiling | None] = Table(function=choose_tiling)


def choose_tiling(
    layer: Layer, found: Found, view: GpuView, known: KnownTiles, fixed: FixedTiles | None = None
) -> Tiling | None:
    """Return the tiling of ``layer`` that is estimated to be fastest; equal layers get the same.

    ``found``: what of its operands the L2 has, and which results stay there. None: no block of it fits into an SM.
    ``fixed``: values that the user fixes. Raises ``PinError`` where no block has them, or none of those fits.
    """
    part = view.timing
    make = partial(_search, layer, found, part) if fixed is None else partial(_fixed, layer, found, part, fixed)
    return known.tilings.get((layer.signature, found, part, fixed), make)


def least_ps(layer: Layer, view: GpuView) -> float:
    """Return what moving the data of ``layer`` once takes, or computing it, whichever is longer, with the launch.

    Of what is read with gaps, or where data says, less may move.
    """
    spec, nests = view.spec, [each.nest for each in layer.nests]
    size_bytes = 0
    if not any(index.opaque for nest in nests for read in nest.reads for index in read.indices):
        size_bytes = sum([each.used_bytes for each in footprints_of(layer).operands if not each.has_gaps])
    moving_ps = size_bytes * PS_PER_S / spec.dram.sustained_bytes_per_s
    peak_macs_per_s = spec.peak_macs_per_s(view.product or view.dtype)
    return spec.launch_ps + max(moving_ps, layer.whole_macs * PS_PER_S / peak_macs_per_s)


def has_tiling(layer: Layer, view: GpuView) -> bool:
    """Return whether an SM holds a block of ``layer``, which is where `choose_tiling` gives some."""

    def is_held(grid: Grid) -> bool:
        return occupancy(view.spec.sms, grid.needs).blocks > 0

    def fits(lattice: Lattice) -> bool:
        held = [number for number, grid in enumerate(lattice.grids) if is_held(grid)]
        held.sort(key=lambda number: not lattice.is_exact[number])
        return any(is_held(_own_grid(layer, lattice, number, view)) for number in held)

    return fits(_tried(layer, view)) or fits(_lattice(layer, runs(layer, view), view))


def _own_grid(layer: Layer, lattice: Lattice, number: int, view: GpuView) -> Grid:
    """Return the grid of a candidate's own program."""
    if lattice.is_exact[number]:
        return lattice.grids[number]
    return grid_of(layer, steps_of(layer, lattice.tiles[number], view.spec.sms.warp, view.tensor), view)


def _tried(layer: Layer, view: GpuView) -> Lattice:
    """Return the candidates of ``layer``, worked out once for equal layers."""
    return _tried_on(layer, tried_by(layer, view))


@memoized(most=_MOST_LAYERS)
def _tried_on(layer: Layer, view: GpuView) -> Lattice:
    return _lattice(layer, candidates(layer, view), view)


def _lattice(layer: Layer, tried: Iterable[GpuTiles], view: GpuView) -> Lattice:
    return Lattice.of(layer, [clustered(layer, tiles, view) for tiles in tried], view)


def _search(layer: Layer, found: Found, view: GpuView) -> Tiling | None:
    own = _best(layer, found, _tried(layer, view), view, grid_orders(layer))
    return own or _best(layer, found, _lattice(layer, runs(layer, view), view), view, grid_orders(layer))


def _fixed(layer: Layer, found: Found, view: GpuView, fixed: FixedTiles) -> Tiling:
    """Return the best tiling with the fixed values."""
    lattice = _lattice(layer, with_fixed(layer, [*candidates(layer, view), *runs(layer, view)], fixed), view)
    orders = grid_orders(layer) if fixed.order is None else (fixed.order,)
    best = _best(layer, found, lattice, view, orders)
    if best is None:
        if not lattice.grids:
            raise PinError(f"{fixed.where}: no loops of layer {layer.sink.name!r} have these values")
        needs = lattice.grids[0].needs
        raise PinError(
            f"{fixed.where}: no SM of {view.spec.name} holds a block of layer {layer.sink.name!r} with these values: it"
            f" takes {count(needs.threads, 'thread')} of {count(needs.registers_per_thread, 'register')} and"
            f" {needs.shared_bytes} B of shared memory"
        )
    return best


def _best(
    layer: Layer, found: Found, lattice: Lattice, view: GpuView, orders: Sequence[tuple[int, ...]]
) -> Tiling | None:  # fmt: skip
    """Return the best candidate, in one of ``orders``; None if no SM holds a block of any."""
    worth = 1 + view.tuning.time_for_traffic
    choices = _promising(layer, found, lattice, view, orders)
    choices += _with_padding(layer, choices, view)
    shortest_ps = min([each.estimate_ps for each in choices], default=math.inf)
    near = [each for each in choices if each.estimate_ps <= worth * shortest_ps]
    if not near:
        return None
    best = min(near, key=lambda choice: (choice.moved_bytes, choice.estimate_ps))
    steps = steps_of(layer, best.tiles, view.spec.sms.warp, view.tensor)
    steps = padded(layer, steps, view) if best.has_padding else steps
    return Tiling(numbered(NaiveProgram(layer), steps), best.tiles.order, best.estimate_ps, best.moved_bytes)


def _promising(
    layer: Layer, found: Found, lattice: Lattice, view: GpuView, orders: Sequence[tuple[int, ...]]
) -> list[_Choice]:
    """Return the candidates that may be near the best time, each with its best order."""
    least_bytes = once_bytes(layer, found)
    bounds_ps = lattice.bounds_ps(view, least_bytes)
    worth = 1 + view.tuning.time_for_traffic
    choices: list[_Choice] = []
    shortest_ps = math.inf
    for number in _in_order(lattice, bounds_ps):
        if bounds_ps[number] > worth * shortest_ps:
            continue
        tiles, grid = lattice.tiles[number], lattice.grids[number]
        at_least_ps = estimate_ps(grid.without_conflicts, view, least_bytes)
        if not lattice.is_exact[number] and at_least_ps < math.inf and at_least_ps <= worth * shortest_ps:
            grid = _own_grid(layer, lattice, number, view)
            at_least_ps = estimate_ps(grid.without_conflicts, view, least_bytes)
        if at_least_ps == math.inf or at_least_ps > worth * shortest_ps:
            continue
        without = grid.without_conflicts
        dram_bytes, _, order = min([
            (off_chip_of(layer, grid, order, view).left(found), place, order) for place, order in enumerate(orders)
        ])
        estimates_ps = [estimate_ps(each, view, dram_bytes) for each in dict.fromkeys([grid, without])]
        choices.append(_Choice(replace(tiles, order=order), grid, dram_bytes, estimates_ps[0], estimates_ps[-1]))
        shortest_ps = min(shortest_ps, estimates_ps[0])
    return choices


def _in_order(lattice: Lattice, bounds_ps: NDArray[np.float64]) -> list[int]:
    """Return the candidates as they are looked at: those whose grid is known first, each by its bound."""
    order: list[int] = np.lexsort((bounds_ps, ~np.array(lattice.is_exact, dtype=bool))).tolist()
    return order


def _with_padding(layer: Layer, choices: Sequence[_Choice], view: GpuView) -> list[_Choice]:
    """Return choices with the rows of their copies padded, as far as that may be near the best time.

    The first that would be fastest without bank conflicts are tried, as many as `GpuTuning.padded`.
    """
    if not (view.spec.sms.shared.banks and view.tuning.padding_words):
        return []
    worth = 1 + view.tuning.time_for_traffic
    shortest_ps = min([each.estimate_ps for each in choices], default=math.inf)
    with_conflicts = [each for each in choices if each.grid.code.issued.further_passes]
    found: list[_Choice] = []
    for each in sorted(with_conflicts, key=lambda choice: choice.least_ps)[: view.tuning.padded]:
        if each.least_ps > worth * shortest_ps:
            break
        plain = steps_of(layer, each.tiles, view.spec.sms.warp, view.tensor)
        steps = padded(layer, plain, view)
        if steps != plain:
            grid = grid_of(layer, steps, view)
            taken_ps = estimate_ps(grid, view, each.dram_bytes)
            found.append(each._replace(grid=grid, estimate_ps=taken_ps, has_padding=True))
            shortest_ps = min(shortest_ps, taken_ps)
    return [each for each in found if each.estimate_ps < math.inf]
