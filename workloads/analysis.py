"""What is derived from one network and asked for again and again, worked out once.

An `Analysis` is made next to its graph and passed to whoever plans, schedules or lowers it. What is derived is a plain
function of the analysis and of arguments that can be compared: ``analysis.of(tensor_matches, ops, dim)`` returns
``tensor_matches(analysis, ops, dim)``. Each function has a table of its own, which forgets its oldest entries.
"""

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any, Generic, TypeVar, TypeVarTuple

from dsascape.workloads.graph import Graph

MOST_ENTRIES = 50_000
"""Of one table."""

_MISSING = object()

_Args = TypeVarTuple("_Args")
_T = TypeVar("_T")


class Table(Generic[_T]):
    """Values by what they depend on; beyond ``most`` entries the oldest are forgotten."""

    __slots__ = ("_most", "_values")

    def __init__(self, most: int = MOST_ENTRIES) -> None:
        self._most = most
        self._values: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return the value of ``key``, made if it is not there."""
        values = self._values
        found: _T = values.get(key, _MISSING)  # keys are long: they are hashed once
        if found is not _MISSING:
            return found
        value = make()
        if len(values) >= self._most:
            del values[next(iter(values))]
        values[key] = value
        return value

    def known(self, key: Hashable) -> _T | None:
        """Return the value of ``key``, if it is there."""
        return self._values.get(key)

    def values(self) -> Iterable[_T]:
        """Return all values."""
        return self._values.values()

    def __len__(self) -> int:
        return len(self._values)


class Analysis:
    """A graph and what has been derived from it. Two analyses are equal only if they are one object."""

    def __init__(self, graph: Graph, most_entries: int = MOST_ENTRIES) -> None:
        self.graph = graph
        self._most_entries = most_entries
        self._tables: dict[Callable[..., Any], Table[Any]] = {}

    def of(self, derive: Callable[["Analysis", *_Args], _T], *args: *_Args) -> _T:
        """Return ``derive(self, *args)``, worked out once; the arguments can be hashed."""
        table = self._tables.get(derive)
        if table is None:
            table = self.table(derive)
        value: _T = table.get(args, partial(derive, self, *args))
        return value

    def table(self, derive: Callable[..., _T], most_entries: int = 0) -> Table[_T]:
        """Return the table of what ``derive`` has returned, for a key that is shorter than its arguments.

        ``most_entries``: where the values are large, a bound of its own.
        """
        table = self._tables.get(derive)
        if table is None:
            table = self._tables[derive] = Table(most_entries or self._most_entries)
        return table

    def __repr__(self) -> str:
        return f"Analysis({self.graph.name}, batch {self.graph.batch})"
