"""Sizes that are numbers, or columns of numbers: one row for each candidate of a sketch.

Arithmetic on a column is that on each of its rows, so a function that adds, multiplies and compares with the functions
here answers for a single program and for a lattice of them alike.
"""

from typing import Any, cast

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.int64]
"""One whole number for each candidate: an array of one dimension."""
Size = int | Column
"""Number of elements or iterations, the same for all candidates or a column of theirs."""


class MixedRowsError(ValueError):
    """A question that shapes a tree has one answer for some rows, and another one for the others."""

    def __init__(self, rows: npt.NDArray[np.bool_]) -> None:
        super().__init__("rows differ in the shape of their trees")
        self.rows = rows
        """Whether the answer is yes, by row."""


def anywhere(holds: Any) -> bool:
    """Whether a condition holds in any row."""
    return bool(holds) if isinstance(holds, bool) else bool(np.any(holds))


def everywhere(holds: Any) -> bool:
    """Whether a condition holds in every row."""
    return bool(holds) if isinstance(holds, bool) else bool(np.all(holds))


def alike(holds: Any) -> bool:
    """Return the answer that all rows give to a question; raise ``MixedRowsError`` where they give two."""
    if isinstance(holds, bool) or np.ndim(holds) == 0:
        return bool(holds)
    if holds.all():
        return True
    if holds.any():
        raise MixedRowsError(holds)
    return False


def ceil_div(whole: Size, part: Size) -> Size:
    """Return how many parts ``whole`` is cut into, the last one as large as what is left."""
    return -(-whole // part)


def least(one: Size, other: Size) -> Size:
    """Return the smaller one, row by row."""
    if isinstance(one, int) and isinstance(other, int):
        return min(one, other)
    return cast(Column, np.minimum(one, other))


def most(one: Size, other: Size) -> Size:
    """Return the larger one, row by row."""
    if isinstance(one, int) and isinstance(other, int):
        return max(one, other)
    return cast(Column, np.maximum(one, other))


def chosen(holds: Any, one: Size, other: Size) -> Size:
    """Return ``one`` in rows in which a condition holds, and ``other`` in those where it does not."""
    if isinstance(holds, bool):
        return one if holds else other
    return cast(Column, np.where(holds, one, other))


def row_of(size: Size, row: int) -> int:
    """Return the number of one candidate."""
    return size if isinstance(size, int) else int(size[row])


def largest(size: Size) -> int:
    """Return the largest number of any row."""
    return size if isinstance(size, int) else int(size.max())
