"""Memoized analyses of one network.

An `Analysis` is created with its graph and passed to planners, schedulers and lowerings. A derived result is a plain
function of the analysis and of hashable arguments: ``analysis.of(tensor_matches, ops, dim)`` returns
``tensor_matches(analysis, ops, dim)``. Each function has a bounded table of its own, which evicts its oldest entries.
A function that is `memoized` where it is defined is called as any other: ``tensor_matches(analysis, ops, dim)``.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar, TypeVarTuple

from dsascape.workloads.graph import Graph
from dsascape.workloads.memo import MOST_ENTRIES, Memos, Table

__all__ = ["Analysis", "Table"]

_Args = TypeVarTuple("_Args")
_T = TypeVar("_T")


class Analysis:
    """A graph and the memoized results derived from it. Two analyses are equal only if they are one object."""

    memo_key = memo_identity = None
    """All of a network's results that are stored here belong to the one analysis."""

    def __init__(
        self, graph: Graph, most_entries: int = MOST_ENTRIES, made_of: "Analysis | None" = None
    ) -> None:
        """Keep results of ``graph``; ``made_of``: network that it is a changed one of, most of whose layers it has."""
        self.graph = graph
        self._most_entries = most_entries
        self.memos: Memos = {}
        self.memos_of_layers: Memos = {} if made_of is None else made_of.memos_of_layers
        """Results that equal layers share, also those of the network that this one is made of."""

    def of(self, derive: Callable[["Analysis", *_Args], _T], *args: *_Args) -> _T:
        """Return ``derive(self, *args)``, memoized; the arguments have to be hashable."""
        table = self.memos.get(derive)
        if table is None:
            table = self.table(derive)
        value: _T = table.get(args, partial(derive, self, *args))
        return value

    def table(self, derive: Callable[..., _T], most_entries: int = 0) -> Table[_T]:
        """Return the memo table of ``derive``, for callers that have a shorter key than its arguments.

        ``most_entries``: bound of this table, for large values; 0 for the analysis's own.
        """
        table = self.memos.get(derive)
        if table is None:
            table = self.memos[derive] = Table(most_entries or self._most_entries, derive)
        return table

    def __repr__(self) -> str:
        return f"Analysis({self.graph.name}, batch {self.graph.batch})"
