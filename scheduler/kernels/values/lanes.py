"""Numbers of several lanes at a time, of which some may take no part: those of a vector, or the threads of a block."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dsascape.workloads.arithmetic.numbers import NumpyNumbers
from dsascape.workloads.operators.registry import Array


class LaneNumbers(NumpyNumbers):
    """Numbers of all lanes that run a statement together, of which some may not take part."""

    def __init__(self) -> None:
        self.lanes = 1
        self.active = np.ones(1, bool)
        self.owners: list[Array] = [np.zeros(1, np.int64)]
        """For each number of loops of lanes: which of their lanes each lane belongs to."""
        self._known: dict[tuple[Any, ...], Any] = {}

    def where(self, conditions: Sequence[Any], compute: Callable[[], Any], other: Any = None) -> Any:
        if not conditions:
            return compute()
        holds = self.spread(self.both(*conditions))
        with self.among(holds):
            found = compute()
        return np.where(holds, found, self.like(found, 0) if other is None else other)

    def once(self, name: str, place: Sequence[Any], compute: Callable[[], Any]) -> Any:
        key = (name, self.active.tobytes(), *[np.asarray(each).tobytes() for each in place])
        if key not in self._known:
            self._known[key] = compute()
        return self._known[key]

    def forget(self) -> None:
        """Begin another statement: elements may have changed."""
        self._known = {}

    def spread(self, value: Any) -> Array:
        """Return a value as one of each lane."""
        return np.broadcast_to(value, (self.lanes,))

    @contextmanager
    def among(self, holds: Array) -> Iterator[None]:
        """Run with those lanes alone for which ``holds`` is true, of those that are active."""
        before = self.active
        self.active = before & holds
        try:
            yield
        finally:
            self.active = before

    @contextmanager
    def spread_over(self, extent: int, *, is_loop: bool, anew: bool = False) -> Iterator[None]:
        """Run with so many lanes in place of each; ``is_loop``: lanes of a loop that may have buffers of their own.

        ``anew``: in place of all lanes, which are threads that share out the iterations.
        """
        lanes, active, owners = self.lanes, self.active, self.owners
        self.lanes = extent if anew else lanes * extent
        self.active = np.full(extent, active.any()) if anew else np.repeat(active, extent)
        self.owners = [np.zeros(extent, np.int64)] if anew else [np.repeat(each, extent) for each in owners]
        self.owners += [np.arange(self.lanes)] if is_loop else []
        try:
            yield
        finally:
            self.lanes, self.active, self.owners = lanes, active, owners
