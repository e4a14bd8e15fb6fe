"""Sizes that are numbers, or columns of numbers: one row for each candidate of a sketch.

Arithmetic on a column is that on each of its rows, so a function that adds, multiplies and compares with the functions
here answers for a single program and for a lattice of them alike.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.int64]
"""One whole number for each candidate: an array of one dimension."""
Size = int | Column
"""Number of elements or iterations, the same for all candidates or a column of theirs."""


_RecordT = TypeVar("_RecordT")


class MixedRowsError(ValueError):
    """A question that shapes a tree has one answer for some rows, and another one for the others."""

    def __init__(self, rows: npt.NDArray[np.bool_]) -> None:
        super().__init__("rows differ in the shape of their trees")
        self.rows = rows
        """Whether the answer is yes, by row."""


def anywhere(holds: Any) -> bool:
    """Whether a condition holds in any row."""
    return holds if isinstance(holds, bool) else bool(holds.any())


def everywhere(holds: Any) -> bool:
    """Whether a condition holds in every row."""
    return holds if isinstance(holds, bool) else bool(holds.all())


def alike(holds: Any) -> bool:
    """Return the answer that all rows give to a question; raise ``MixedRowsError`` where they give two."""
    if isinstance(holds, bool):
        return holds
    if np.ndim(holds) == 0:
        return bool(holds)
    if holds.all():
        return True
    if holds.any():
        raise MixedRowsError(holds)
    return False


def alike_where(holds: Any, asked: Any) -> bool:
    """Return the answer of all rows that a question is ``asked`` of; no where it is asked of none."""
    if isinstance(asked, bool) and isinstance(holds, bool):
        return holds and asked
    where, yes = np.broadcast_arrays(asked, holds)
    if not where.any():
        return False
    if (yes | ~where).all():
        return True
    if (yes & where).any():
        raise MixedRowsError(yes & where)
    return False


def common(size: Size) -> int:
    """Return the number that all rows have; raise ``MixedRowsError`` where they have several."""
    if isinstance(size, int):
        return size
    if not (size == size[0]).all():
        raise MixedRowsError(size == size[0])
    return int(size[0])


def same(one: Any, other: Any) -> bool:
    """Whether two records, tuples or sizes are equal in every row."""
    if one is other:
        return True
    try:
        return bool(one == other)
    except ValueError:  # there are columns in them
        pass
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return isinstance(one, int | np.ndarray) and isinstance(other, int | np.ndarray) and everywhere(one == other)
    if isinstance(one, tuple):
        return isinstance(other, tuple) and len(one) == len(other) and all(map(same, one, other))
    if is_dataclass(one):
        return type(one) is type(other) and all(
            same(getattr(one, each.name), getattr(other, each.name)) for each in fields(one)
        )
    return bool(one == other)


def distinct(records: Sequence[_RecordT]) -> tuple[_RecordT, ...]:
    """Return the records that are not equal to one before them in every row."""
    found: list[_RecordT] = []
    for each in records:
        if not any(same(each, other) for other in found):
            found.append(each)
    return tuple(found)


@overload
def ceil_div(whole: int, part: int) -> int: ...
@overload
def ceil_div(whole: Size, part: Size) -> Size: ...
def ceil_div(whole: Size, part: Size) -> Size:
    """Return how many parts ``whole`` is cut into, the last one as large as what is left."""
    return -(-whole // part)


@overload
def least(one: int, other: int) -> int: ...
@overload
def least(one: Size, other: Size) -> Size: ...
def least(one: Size, other: Size) -> Size:
    """Return the smaller one, row by row."""
    if isinstance(one, int) and isinstance(other, int):
        return min(one, other)
    return cast(Column, np.minimum(one, other))


@overload
def most(one: int, other: int) -> int: ...
@overload
def most(one: Size, other: Size) -> Size: ...
def most(one: Size, other: Size) -> Size:
    """Return the larger one, row by row."""
    if isinstance(one, int) and isinstance(other, int):
        return max(one, other)
    return cast(Column, np.maximum(one, other))


@overload
def chosen(holds: Any, one: int, other: int) -> int: ...
@overload
def chosen(holds: Any, one: Size, other: Size) -> Size: ...
def chosen(holds: Any, one: Size, other: Size) -> Size:
    """Return ``one`` in rows in which a condition holds, and ``other`` in those where it does not."""
    if isinstance(holds, bool):
        return one if holds else other
    return cast(Column, np.where(holds, one, other))


def by_row(make: Callable[..., Any], *sizes: Any) -> Any:
    """Return ``make(*sizes)``, or a column of its answers where some of the sizes are columns.

    Candidates with equal sizes are asked once.
    """
    if not any(isinstance(each, np.ndarray) for each in sizes):
        return make(*sizes)
    known: dict[tuple[Any, ...], Any] = {}
    rows = list(zip(*[each.tolist() for each in np.broadcast_arrays(*sizes)], strict=True))
    for row in rows:
        if row not in known:
            known[row] = make(*row)
    return np.array([known[row] for row in rows])


_ROUNDING = 1e-9
"""Share of one that sums of shares may be off by."""


def whole(amount: Any) -> Column:
    """Return an amount, or a column of them, rounded up to whole numbers."""
    return cast(Column, np.ceil(np.asarray(amount) - _ROUNDING).astype(np.int64))


def most_of(sizes: Iterable[Size], at_least: int = 0) -> Size:
    """Return the largest of several sizes and ``at_least``, row by row."""
    found: Size = at_least
    for each in sizes:
        found = most(found, each)
    return found


def row_of(size: Size, row: int) -> int:
    """Return the number of one candidate."""
    return size if isinstance(size, int) else int(size[row])


def largest(size: Size) -> int:
    """Return the largest number of any row."""
    return size if isinstance(size, int) else int(size.max())
