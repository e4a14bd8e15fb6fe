"""Memoized analyses of one network.

An `Analysis` is created with its graph and passed to planners, schedulers and lowerings. A derived result is a plain
function of the analysis and of hashable arguments: ``analysis.of(tensor_matches, ops, dim)`` returns
``tensor_matches(analysis, ops, dim)``. Each function has a bounded table of its own, which evicts its oldest entries.
"""

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any, Generic, TypeVar, TypeVarTuple

from dsascape.workloads.graph import Graph

MOST_ENTRIES = 50_000
"""Entries of one table at most, unless it has a bound of its own."""

_MISSING = object()

_Args = TypeVarTuple("_Args")
_T = TypeVar("_T")


class Table(Generic[_T]):
    """Bounded memo: values by hashable key; beyond ``most`` entries the oldest are evicted."""

    __slots__ = ("_most", "_values")

    def __init__(self, most: int = MOST_ENTRIES) -> None:
        self._most = most
        self._values: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return the value of ``key``; where there is none, call ``make`` and store its result."""
        values = self._values
        stored: _T = values.get(key, _MISSING)  # keys are long: they are hashed once
        if stored is not _MISSING:
            return stored
        value = make()
        if len(values) >= self._most:
            del values[next(iter(values))]
        values[key] = value
        return value

    def peek(self, key: Hashable) -> _T | None:
        """Return the stored value of ``key``, None if there is none."""
        return self._values.get(key)

    def values(self) -> Iterable[_T]:
        """Return all stored values, oldest first."""
        return self._values.values()

    def __len__(self) -> int:
        return len(self._values)


class Analysis:
    """A graph and the memoized results derived from it. Two analyses are equal only if they are one object."""

    def __init__(self, graph: Graph, most_entries: int = MOST_ENTRIES) -> None:
        self.graph = graph
        self._most_entries = most_entries
        self._tables: dict[Callable[..., Any], Table[Any]] = {}

    def of(self, derive: Callable[["Analysis", *_Args], _T], *args: *_Args) -> _T:
        """Return ``derive(self, *args)``, memoized; the arguments have to be hashable."""
        table = self._tables.get(derive)
        if table is None:
            table = self.table(derive)
        value: _T = table.get(args, partial(derive, self, *args))
        return value

    def table(self, derive: Callable[..., _T], most_entries: int = 0) -> Table[_T]:
        """Return the memo table of ``derive``, for callers that have a shorter key than its arguments.

        ``most_entries``: bound of this table, for large values; 0 for the analysis's own.
        """
        table = self._tables.get(derive)
        if table is None:
            table = self._tables[derive] = Table(most_entries or self._most_entries)
        return table

    def __repr__(self) -> str:
        return f"Analysis({self.graph.name}, batch {self.graph.batch})"
