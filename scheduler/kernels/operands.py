"""How much of the arrays that a layer reads and writes its tiles need, and the lines which that is.

A tile is given as its extents: elements per dimension of the sink, and behind them iterations of the depth loop, where
``DEPTH`` finds them.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import itemgetter
from typing import NamedTuple

from dsascape.hw_models.caches.lines import Array, Lines, box_lines
from dsascape.workloads.analysis import Table
from dsascape.workloads.loopnest import Extents


@dataclass(frozen=True, slots=True)
class Reach:
    """How many elements of one dimension of an operand a tile needs."""

    base: int
    """For a tile of single elements."""
    most: int
    slopes: tuple[tuple[int, float], ...]
    """Dimensions of the sink, or ``DEPTH``, and by how much more for each further element of the tile."""

    def of(self, tile: Extents) -> int:
        """Return it for a tile."""
        if not self.slopes:
            return min(self.base, self.most)
        more = 0.0
        for dim, slope in self.slopes:
            more += slope * (tile[dim] - 1)
        reached = self.base + math.ceil(more - 1e-9)
        return reached if reached < self.most else self.most

    @property
    def has_gaps(self) -> bool:
        """Whether a dimension may move it further than what single elements reach."""
        return any(slope > self.base for _, slope in self.slopes)

    def pieces(self, tile: Extents) -> tuple[int, int]:
        """Return the same as pieces of consecutive elements: how long each is, and how many there are.

        A dimension that moves it further than what the others reach leaves a gap.
        """
        extent, pieces, hull = float(self.base), 1, self.of(tile)
        for dim, slope in sorted(self.slopes, key=itemgetter(1)):
            count = tile[dim]
            if count > 1 and slope > extent:
                pieces *= count
            elif pieces == 1:
                extent += slope * (count - 1)
            elif count > 1:
                return hull, 1
        whole = min(math.ceil(extent - 1e-9), self.most)
        return (whole, pieces) if whole * pieces < hull else (hull, 1)



class Met(NamedTuple):
    """How many of the tiles need an operand, by how large they are along one dimension of the sink."""

    axis: int
    least: float
    """Share of the smallest tiles that need it."""
    slope: float
    """Share for each element of a larger tile; all that are large enough need it."""

    def of(self, tile: Extents) -> float:
        """Return the mean share of such tiles."""
        return min(max(self.least, self.slope * tile[self.axis]), 1.0)


@dataclass(frozen=True)
class Operand:
    """A stored array that a layer reads or writes, its dimensions as they lie in memory."""

    name: str
    """In the first layer of its signature; equal layers have others in the same place."""
    array: Array
    reaches: tuple[Reach, ...]
    is_written: bool
    depends_on: frozenset[int]
    """Dimensions of the sink that choose which part of it a tile needs."""
    feeds_depth: bool
    """Whether the depth loop reads it; what follows the anchor is read, and written, once per register tile."""
    is_copied: bool = False
    """Whether each tile copies its part of it, with padding, and goes on with the copy."""
    part: int = 0
    """Number of the part of the kernel (`structure.parts.parts_of`) that fetches it: the first one to read it."""
    met: tuple[Met, ...] = ()
    """Where not every tile needs it: along which dimensions of the sink."""
    is_taken_at_once: bool = False
    """Whether each result needs several elements of it, without going through them one by one: whoever has them makes
    all results of the same elements, as a fast transform of a line does."""

    @cached_property
    def size_bytes(self) -> int:
        """Of the whole array."""
        return math.ceil(math.prod(self.array.shape) * self.array.element_bytes)

    @property
    def used_bytes(self) -> int:
        """What the whole layer uses of it."""
        return math.ceil(math.prod([reach.most for reach in self.reaches]) * self.array.element_bytes)

    @cached_property
    def has_gaps(self) -> bool:
        """Whether what a tile needs may be several pieces, with gaps in between."""
        return any(reach.has_gaps for reach in self.reaches)

    def moved_at(self, axes: Sequence[int]) -> int:
        """Return the depth of the innermost of loops along ``axes`` that comes to other elements of it."""
        return max([depth + 1 for depth, axis in enumerate(axes) if axis in self.depends_on], default=0)

    @property
    def varies_with(self) -> tuple[int, ...]:
        """Dimensions of the sink, or ``DEPTH``, along which larger tiles need more of it."""
        slopes = [dim for reach in self.reaches for dim, _ in reach.slopes]
        return tuple(dict.fromkeys([*slopes, *[met.axis for met in self.met]]))

    def lines(self, tile: Extents, line_bytes: int) -> Lines:
        """Return the lines that a tile touches; where not every tile does, in the mean."""
        found = self._lines(tile, line_bytes)
        share = math.prod([met.of(tile) for met in self.met])
        return found if share == 1 else Lines(found.count * share, found.runs, found.pitch_lines, found.jumps * share)

    def _lines(self, tile: Extents, line_bytes: int) -> Lines:
        if not self.has_gaps:
            return box_lines(self.array, [reach.of(tile) for reach in self.reaches], line_bytes)
        cut = [reach.pieces(tile) for reach in self.reaches]
        pieces = math.prod([number for _, number in cut])
        found = box_lines(self.array, [extent for extent, _ in cut], line_bytes)
        if pieces == 1:
            return found
        hull = box_lines(self.array, [reach.of(tile) for reach in self.reaches], line_bytes)
        return Lines(min(found.count * pieces, hull.count), found.runs * pieces, 0)


@dataclass(frozen=True)
class Footprints:
    """The operands of a layer, inputs that it reads first and outputs behind them."""

    operands: tuple[Operand, ...]
    places: tuple[int, ...]
    """Per operand: its place among the layer's inputs, followed by its outputs."""
    depth: int
    """Iterations of the depth loop; 1 without one."""
    @cached_property
    def is_written(self) -> tuple[bool, ...]:
        """Whether the layer writes it, per operand."""
        return tuple([operand.is_written for operand in self.operands])


class TouchedLines:
    """The lines that tiles of one layer touch. Tiles that differ where it does not matter share them."""

    def __init__(self, found: Footprints, line_bytes: int) -> None:
        self._line_bytes = line_bytes
        alike: dict[object, Table[Lines]] = {}  # operands of one shape, as those of a concatenation
        self._operands = [
            (each, _picking(each.varies_with), alike.setdefault((each.array, each.reaches, each.met), Table()))
            for each in found.operands
        ]
        self._rows: Table[tuple[Lines, ...]] = Table()

    def of_operands(self, tile: Extents) -> tuple[Lines, ...]:
        """Return what a tile touches of each operand."""
        row = self._rows.peek(tile)
        return self._rows.get(tile, partial(self._row, tile)) if row is None else row

    def _row(self, tile: Extents) -> tuple[Lines, ...]:
        line_bytes, row = self._line_bytes, []
        for operand, pick, known in self._operands:
            picked = pick(tile)
            lines = known.peek(picked)
            row.append(known.get(picked, partial(operand.lines, tile, line_bytes)) if lines is None else lines)
        return tuple(row)



def _picking(dims: tuple[int, ...]) -> Callable[[Extents], Hashable]:
    """Return what picks the extents along ``dims``."""
    return itemgetter(*dims) if dims else itemgetter(slice(0))
