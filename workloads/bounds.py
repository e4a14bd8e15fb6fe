"""Bounds of one loop of a nest by another: attention in which a query sees only some keys.

A query that is the ``outer`` iteration o sees the keys i with ``i <= o + offset`` (causal: none behind itself), and
with a ``window`` only the last ones of these, ``i > o + offset - window``. All other iterations are not executed:
nothing is read, computed or written for them. All that is said about bounded nests follows from the counts made here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.workloads.index import Interval, is_count
from dsascape.workloads.memo import memoized_in_process


@dataclass(frozen=True, slots=True)
class Band:
    """Pairs of a row and a column of a matrix: column <= row + ``offset``, and > row + ``offset`` - ``window``.

    ``window``: columns that a row has at most; 0: all from the first. Every row has to have a column.
    """

    offset: int
    window: int = 0

    def __post_init__(self) -> None:
        if not is_count(self.offset) or not is_count(self.window):
            raise ValueError(f"band with offset {self.offset!r}, window {self.window!r}; needs whole numbers from 0")

    def columns(self, rows: Interval, extent: int) -> Interval:
        """Return the hull of the columns, of ``extent``, of the rows ``rows``; empty if there are none."""
        first, end = rows
        low = max(first + self.offset - self.window + 1, 0) if self.window else 0
        return (low, max(min(end + self.offset, extent), low)) if first < end else (low, low)

    def rows(self, columns: Interval, extent: int) -> Interval:
        """Return the hull of the rows, of ``extent``, of the columns ``columns``; empty if there are none."""
        first, end = columns
        low = max(first - self.offset, 0)
        high = min(end - 1 - self.offset + self.window, extent) if self.window else extent
        return (low, max(high, low)) if first < end else (low, low)

    def pairs(self, rows: Interval, columns: Interval) -> int:
        """Return the number of pairs of ``rows`` and ``columns``."""
        above = self._up_to(self.offset, rows, columns)
        return above - (self._up_to(self.offset - self.window, rows, columns) if self.window else 0)

    @staticmethod
    def _up_to(offset: int, rows: Interval, columns: Interval) -> int:
        """Return the number of pairs with column <= row + ``offset``."""
        width, shift = max(columns[1] - columns[0], 0), offset + 1 - columns[0]
        return _clipped_sum(max(rows[1], rows[0]) + shift, width) - _clipped_sum(rows[0] + shift, width)

    def mean_columns(self, step: int, rows: int, columns: int) -> int:
        """Return the columns that ``step`` rows in a row have together, rounded up: the mean over all such tiles."""
        return _columns(self, step, rows, columns)[0]

    def most_columns(self, step: int, rows: int, columns: int) -> int:
        """Return the most columns that ``step`` rows in a row have together."""
        return _columns(self, step, rows, columns)[1]

    def tiles(self, tile: tuple[int, int], shape: tuple[int, int]) -> int:
        """Return how many tiles (rows, columns) of a matrix of ``shape`` have any pair."""
        return _tiles(self, tile, shape)


@dataclass(frozen=True, slots=True)
class Bound:
    """Band that bounds loop ``inner`` of a nest (its columns) by loop ``outer`` (its rows)."""

    outer: int
    inner: int
    band: Band

    def narrow(self, ranges: list[Interval], extents: Sequence[int]) -> None:
        """Narrow the two loops' ``ranges`` to the hull of the iterations that are executed; both empty if none are."""
        outer, inner = ranges[self.outer], ranges[self.inner]
        if not self.band.pairs(outer, inner):
            ranges[self.outer] = (outer[0], outer[0])
            ranges[self.inner] = (inner[0], inner[0])
            return
        inner = _both(inner, self.band.columns(outer, extents[self.inner]))
        ranges[self.outer] = _both(outer, self.band.rows(inner, extents[self.outer]))
        ranges[self.inner] = _both(inner, self.band.columns(ranges[self.outer], extents[self.inner]))

    def executed(self, extents: Sequence[int]) -> int:
        """Return the pairs of iterations of the two loops, of ``extents``, that are executed."""
        return self.band.pairs((0, extents[self.outer]), (0, extents[self.inner]))

    def cut(self, extents: list[int], whole: Sequence[int], *, most: bool = False) -> None:
        """Narrow the inner loop of a tile, if it is whole, to the iterations that tiles have in the mean, or at most.

        ``extents``: iterations of each loop of the tile, out of ``whole``. Iterations between the first and the last of
        a tile's rows are executed for all of them.
        """
        if extents[self.inner] == whole[self.inner] and extents[self.outer]:
            of_band = self.band.most_columns if most else self.band.mean_columns
            columns = of_band(extents[self.outer], whole[self.outer], whole[self.inner])
            extents[self.inner] = min(extents[self.inner], columns)

    def moved(self, places: Sequence[int]) -> "Bound":
        """Return the bound of a nest whose loops are at other places: ``places`` by the places before."""
        return Bound(places[self.outer], places[self.inner], self.band)


def _both(one: Interval, other: Interval) -> Interval:
    low = max(one[0], other[0])
    return low, max(min(one[1], other[1]), low)


def _clipped_sum(end: int, most: int) -> int:
    """Return the sum of all whole numbers below ``end``, each cut to 0 .. ``most``."""
    inside = min(max(end - 1, 0), most)
    return inside * (inside + 1) // 2 + max(end - 1 - most, 0) * most


@memoized_in_process(4096)
def _columns(band: Band, step: int, rows: int, columns: int) -> tuple[int, int]:
    ends = [band.columns((row, min(row + step, rows)), columns) for row in range(0, rows, step)]
    lengths = [high - low for low, high in ends] or [0]
    return -(-sum(lengths) // len(lengths)), max(lengths)


@memoized_in_process(4096)
def _tiles(band: Band, tile: tuple[int, int], shape: tuple[int, int]) -> int:
    found = 0
    for row in range(0, shape[0], tile[0]):
        low, high = band.columns((row, min(row + tile[0], shape[0])), shape[1])
        found += -(-high // tile[1]) - low // tile[1] if low < high else 0
    return found
