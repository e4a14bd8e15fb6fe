"""How the elements that a thread moves lie in memory, and those of the threads beside it.

Sizes of a lattice are columns; what a warp's access takes is no arithmetic on them, so each candidate has a pattern.
Candidates with equal patterns are worked out once (`scheduler.gpu.cost.warps`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dsascape.scheduler.kernels.cost.counted import Move
from dsascape.scheduler.kernels.cost.places import Position
from dsascape.scheduler.kernels.loops.columns import Size
from dsascape.scheduler.kernels.loops.lattice import row_taken

Moves = tuple[tuple[int, int], ...]
"""Iterations of each loop that threads are numbered along, outermost first, and by how many elements it moves."""


class Pattern(NamedTuple):
    """Elements that threads load or store; loops of one iteration are left out."""

    threads: Moves
    in_band: tuple[tuple[int, int], ...]
    """Stride and iterations of the loops of a band that move what a thread takes, neighbours first."""
    goes_on: int
    """Iterations of loops around a band with which its elements go on in memory."""
    place: Position | None = None
    """Place of an element, where that is no affine expression of the threads' loops."""
    names: tuple[str, ...] = ()
    """The threads' loops, where ``place`` is given."""

    @property
    def run(self) -> int:
        """Elements of a band that follow each other in memory."""
        run = 1
        for stride, extent in self.in_band:
            run = run * extent if stride == run else run
        return run

    @property
    def elements(self) -> int:
        """Elements of a band."""
        count = 1
        for _, extent in self.in_band:
            count *= extent
        return count

    @property
    def run_of_threads(self) -> tuple[int, tuple[int, ...]]:
        """Elements that follow each other in memory along threads, and by how many others are apart."""
        run, moves = 1, self.threads if self.place is None else ()
        while moves and moves[-1][1] == run:
            run *= moves[-1][0]
            moves = moves[:-1]
        return run, tuple([stride for _, stride in moves])

    def neighbours(self, most: int) -> int:
        """Return how many neighbours a thread takes at once as arrays lie, ``most`` at most."""
        return aligned(most, max(self.run, self.goes_on), [stride for _, stride in self.threads])


def patterns_of(move: Move, rows: int) -> list[Pattern]:
    """Return the pattern of each of ``rows`` candidates."""
    strides = dict(move.use.place.value.terms)
    loops = [loop for loop in move.loops if loop.kind == "thread"]
    threads = [(_listed(loop.extent, rows), _listed(strides.get(loop.name, 0), rows)) for loop in loops]
    band = [
        (_listed(strides[loop.name], rows), _listed(loop.extent, rows)) for loop in move.loops
        if loop.is_in_band and loop.kind not in ("thread", "vector") and loop.name in strides
    ]  # fmt: skip
    going = [_listed(each, rows) for each in move.goes_on]
    found = []
    for row in range(rows):
        here = [(extents[row], apart[row]) for extents, apart in threads]
        around = 1
        for each in going:
            around *= each[row]
        inside = sorted([(abs(apart[row]), extents[row]) for apart, extents in band if extents[row] > 1])
        own = Pattern(tuple([each for each in here if each[0] > 1]), tuple(inside), around)
        if not move.use.place.is_known:
            names = tuple([loop.name for loop, (extent, _) in zip(loops, here, strict=True) if extent > 1])
            own = own._replace(place=row_taken(move.use.place, row), names=names)
        found.append(own)
    return found


def _listed(size: Size, rows: int) -> list[int]:
    return size.tolist() if isinstance(size, np.ndarray) else [size] * rows


def aligned(most: int, run: int, apart: Sequence[int]) -> int:
    """Return how many neighbours are taken at once: a power of two that a run has and all strides keep aligned."""
    found = 1 << (max(most, 1).bit_length() - 1)
    while found > 1 and (run % found or any(stride % found for stride in apart)):
        found //= 2
    return found
