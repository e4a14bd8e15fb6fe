"""The candidates of a layer, costed on their loop programs: those of one sketch together, their sizes as columns.

A sketch is what steps say apart from sizes; candidates that share one have one tree, and counts of it are columns
(`scheduler.kernels.loops.lattice`).
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dsascape.hw_models.gpu.sm import ACCESS, ISSUE, LANES, SHARED, SPECIAL, TENSOR
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.gpu.steps import steps_from
from dsascape.scheduler.gpu.tiles import FrontTiles, GpuTiles
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import Costed, Grid, costed_grids
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.lattice import by_shape
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.workloads.loopnest import Extents

_PIPES = (LANES, SPECIAL, ISSUE, ACCESS, TENSOR)


@dataclass(frozen=True, eq=False)
class Lattice:
    """Candidates that steps can be made of, in the order in which they were given."""

    tiles: Sequence[GpuTiles]
    grids: Sequence[Grid]
    """The grid of each, or one that issues no more instructions and takes no more registers."""
    is_exact: Sequence[bool]
    """Whether it is the candidate's own grid."""
    instructions: NDArray[np.float64]
    """By candidate and pipe of an SM: what all blocks together issue there, passes of bank conflicts aside."""
    shared_bytes: NDArray[np.float64]
    """By candidate: what all blocks together move in shared memory."""
    l2_bytes: NDArray[np.float64]

    @staticmethod
    def of(layer: Layer, tried: Iterable[GpuTiles], view: GpuView) -> "Lattice":
        """Return the candidates ``tried`` for ``layer``, without those that no steps make."""
        every, naive = list(dict.fromkeys(tried)), NaiveProgram(layer)
        costed = dict[int, Costed]()
        for sketch, places in _sketches(every):
            clusters = _sizes([every[place].cluster or (1,) * len(layer.sink.shape) for place in places])
            for found, rows in by_shape((sketch, clusters), lambda own: _grids(naive, *own, view)):
                if not isinstance(found, StepError):
                    costed.update(zip([places[row] for row in rows.tolist()], found, strict=True))
        places = sorted(costed)
        tiles, grids = [every[place] for place in places], [costed[place].grid for place in places]
        by_candidate = []
        for grid in grids:
            issued = grid.code.issued
            by_pipe = (
                issued.fma + issued.arithmetic, issued.special, issued.total, issued.load + issued.store, issued.matrix
            )  # fmt: skip
            by_candidate.append([grid.blocks * count for count in by_pipe])
        return Lattice(
            tiles, grids, [costed[place].is_exact for place in places],
            np.array(by_candidate, dtype=np.float64).reshape(len(grids), len(_PIPES)),
            np.array([grid.blocks * grid.code.shared_bytes for grid in grids], dtype=np.float64),
            np.array([grid.l2_bytes for grid in grids], dtype=np.float64),
        )  # fmt: skip

    def bounds_ps(self, view: GpuView, dram_bytes: float) -> NDArray[np.float64]:
        """Return for each candidate a time that it cannot beat if no less than ``dram_bytes`` move from and to DRAM.

        That is the time of the busiest pipe if all SMs are equally busy, and that of each memory at its bandwidth; it
        holds with rows of copies padded, too.
        """
        spec = view.spec
        rates = view.pace.warps_per_cycle
        slowness = np.array([1 / rates[pipe] if pipe in rates else 0.0 for pipe in _PIPES])
        cycles = (self.instructions * slowness).max(axis=1)
        cycles = np.maximum(cycles, self.shared_bytes / view.pace.bytes_per_cycle[SHARED])
        bounds: NDArray[np.float64] = cycles * (spec.cycle_ps / spec.sms.count)
        bounds = np.maximum(bounds, self.l2_bytes * (PS_PER_S / spec.l2.bandwidth_bytes_per_s))
        bounds = np.maximum(bounds, dram_bytes * PS_PER_S / spec.dram.sustained_bytes_per_s)
        return bounds + spec.launch_ps


def _grids(naive: NaiveProgram, tiles: GpuTiles, clusters: Extents, view: GpuView) -> list[Costed]:
    """Return the grids of candidates whose sizes are columns; ``clusters``: blocks of theirs, which change no loops."""
    steps = steps_from(naive, tiles, view.spec.sms.warp, view.tensor)
    return costed_grids(Reads(naive, loop_program(naive, steps)), clusters, view)


def _sketches(every: Sequence[GpuTiles]) -> Iterator[tuple[GpuTiles, list[int]]]:
    """Yield tiles with columns of sizes, but clusters, and the places in ``every`` of those that they stand for."""
    places = defaultdict[Hashable, list[int]](list)
    for place, tiles in enumerate(every):
        fronts = tuple([(each.unit, each.depth_step is None, each.at_once is None) for each in tiles.fronts])
        places[
            tiles.order, tiles.unit, tiles.depth_step is None, tiles.split, tiles.shares > 1, tiles.stream, fronts
        ].append(place)
    for own in places.values():
        yield _joined([every[place] for place in own]), own


def _joined(own: Sequence[GpuTiles]) -> GpuTiles:
    """Return candidates of one sketch as one, whose sizes are columns where they differ."""
    first = own[0]
    fronts = tuple([
        FrontTiles(
            _sizes([each.part for each in same]), _step([each.depth_step for each in same]), same[0].unit,
            None if same[0].at_once is None else _sizes([each.at_once or () for each in same]),
        )
        for same in zip(*[each.fronts for each in own], strict=True)
    ])  # fmt: skip
    return GpuTiles(
        _sizes([each.tile for each in own]), first.order, _sizes([each.part for each in own]), first.split,
        _step([each.depth_step for each in own]), _size([each.stages for each in own]), first.unit,
        _size([each.shares for each in own]), fronts, first.stream,
    )  # fmt: skip


def _step(steps: Sequence[int | None]) -> int | None:
    return None if steps[0] is None else _size([step or 0 for step in steps])


def _sizes(rows: Sequence[Extents]) -> Extents:
    return tuple([_size(sizes) for sizes in zip(*rows, strict=True)])


def _size(sizes: Sequence[int]) -> int:
    """Return a number that is common, or a column."""
    column: int = sizes[0] if len(set(sizes)) == 1 else np.array(sizes)  # type: ignore[assignment]
    return column
