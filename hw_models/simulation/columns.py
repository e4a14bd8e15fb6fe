"""Columns of integers: compact storage for tens of thousands of instructions, one or several numbers per row.

Columns are arrays of 32 bits, which compiled code reads in place. They are not changed once they are shared.
"""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, TypeAlias, overload

if TYPE_CHECKING:
    Column: TypeAlias = array[int]
    """One 32-bit integer per row."""
else:  # which takes no parameter before Python 3.12
    Column = array


def column(numbers: Iterable[int] = ()) -> Column:
    """Return a column of ``numbers``; raise ``OverflowError`` for one beyond 32 bits."""
    return array("i", numbers)


def times(numbers: Sequence[int]) -> Sequence[int]:
    """Return a column of 64-bit integers, or ``numbers`` unchanged if one of them is larger."""
    try:
        return array("q", numbers)
    except OverflowError:
        return numbers


def _from_zero() -> Column:
    return column((0,))


@dataclass(slots=True, repr=False)
class Rows(Sequence[tuple[int, ...]]):
    """Rows of varying length: row ``n`` is ``items[first[n]:first[n + 1]]``."""

    first: Column = field(default_factory=_from_zero)
    items: Column = field(default_factory=column)

    @classmethod
    def of(cls, rows: Iterable[Collection[int]]) -> "Rows":
        """Return ``rows`` in two columns; raise ``OverflowError`` for a number beyond 32 bits."""
        listed = list(rows)
        return cls(column((0, *accumulate(map(len, listed)))), column(chain.from_iterable(listed)))

    @property
    def pair(self) -> tuple[Column, Column]:
        """Columns ``first`` and ``items``, as compiled code takes them."""
        return self.first, self.items

    def append(self, row: Sequence[int]) -> None:
        """Append a row; only while the rows are being built."""
        self.items.extend(row)
        self.first.append(len(self.items))

    def __len__(self) -> int:
        return len(self.first) - 1

    @overload
    def __getitem__(self, index: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[tuple[int, ...], ...]: ...
    def __getitem__(self, index: int | slice) -> tuple[int, ...] | tuple[tuple[int, ...], ...]:
        if isinstance(index, slice):
            return tuple([self[place] for place in range(*index.indices(len(self)))])
        place = range(len(self))[index]
        return tuple(self.items[self.first[place] : self.first[place + 1]])

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        listed = tuple(self.items)
        return (listed[begin:end] for begin, end in pairwise(self.first))

    def __repr__(self) -> str:
        return f"Rows.of({list(self)})"
