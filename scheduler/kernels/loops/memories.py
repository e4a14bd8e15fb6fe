"""Arrays that an interpreter's statements load from and store to: parameters, and buffers while they last."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dsascape.scheduler.kernels.loops.nodes import Buffer, strides_of
from dsascape.scheduler.kernels.loops.observed import Access, Memory
from dsascape.scheduler.kernels.values.lanes import LaneNumbers
from dsascape.workloads.operators.registry import Array

_LINE_BYTES = 64
"""Alignment of arrays in memory: the line of every cache in use."""


class InterpreterError(RuntimeError):
    """A program that stores beyond the end of a buffer, or adds to one element from several lanes at a time."""


class Memories:
    """The arrays of one run, at addresses that never overlap."""

    def __init__(self, numbers: LaneNumbers, tell: Callable[[Access], None] | None) -> None:
        self._numbers, self._tell = numbers, tell
        self._known: dict[str, Memory] = {}
        self._next_address = 0

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def __getitem__(self, name: str) -> Memory:
        return self._known[name]

    def take(self, name: str, value: Array, shape: tuple[int, ...]) -> None:
        """Take in a parameter of ``shape``, as it lies in memory."""
        data = np.ascontiguousarray(value).reshape(1, -1)
        self._known[name] = Memory(name, "global", data, shape, strides_of(shape, None), self._room(data.nbytes))

    def allocate(self, buffer: Buffer, dtype: str) -> None:
        """Make a buffer anew: one for each lane that runs now, if it is a thread's own."""
        known, depth = self._known.get(buffer.name), len(self._numbers.owners) - 1
        depth = 0 if buffer.scope in ("shared", "global") else depth
        owners = self._numbers.lanes if depth else 1
        address = self._room(buffer.size_bytes * owners) if known is None else known.address
        data = _unwritten((owners, buffer.elements * buffer.slots), dtype)
        strides = strides_of(buffer.shape, buffer.rows)
        self._known[buffer.name] = Memory(buffer.name, buffer.scope, data, buffer.shape, strides, address, depth)

    def _room(self, size_bytes: int) -> int:
        address = self._next_address
        self._next_address += -(-max(size_bytes, 1) // _LINE_BYTES) * _LINE_BYTES
        return address

    def load(self, name: str, indices: Sequence[Any], slot: Any = 0) -> Any:
        """Return the elements at ``indices``, behind the first ``slot`` ones; 0 for lanes that take no part.

        What lies beyond the ends of an array, as a vector's last lanes may, has not been written.
        """
        memory = self._known[name]
        place, owners, lanes = self._where(memory, indices, slot)
        found = _unwritten((self._numbers.lanes,), str(memory.data.dtype))
        found[~self._numbers.active] = 0
        is_there = (place >= 0) & (place < memory.data.shape[1])
        found[lanes[is_there]] = memory.data[owners[is_there], place[is_there]]
        self._say(memory, place, owners, lanes, is_store=False)
        return found

    def store(self, name: str, indices: Sequence[Any], slot: Any, value: Any, *, accumulates: bool) -> None:
        """Store a value; raise ``InterpreterError`` if that goes beyond the end, or lanes accumulate in one element."""
        memory = self._known[name]
        place, owners, lanes = self._where(memory, indices, slot)
        if lanes.size and (place.min() < 0 or place.max() >= memory.data.shape[1]):
            raise InterpreterError(f"{name!r} of shape {list(memory.shape)} is stored at {int(place.max())}")
        if accumulates and np.unique(owners * memory.data.shape[1] + place).size < place.size:
            raise SameElementError(f"{name!r}: several lanes add to the same element at a time")
        memory.data[owners, place] = self._numbers.spread(value)[lanes]
        self._say(memory, place, owners, lanes, is_store=True)

    def _where(self, memory: Memory, indices: Sequence[Any], slot: Any) -> tuple[Array, Array, Array]:
        """Return place, owner and number of the lanes that take part."""
        (lanes,) = np.nonzero(self._numbers.active)
        total = slot
        for index, stride in zip(indices, memory.strides, strict=True):
            total = total + index * stride
        place = self._numbers.spread(total)[lanes].astype(np.int64)
        return place, self._numbers.owners[memory.depth][lanes], lanes

    def _say(self, memory: Memory, place: Array, owners: Array, lanes: Array, *, is_store: bool) -> None:
        if self._tell is not None and lanes.size:
            addresses = memory.address + (owners * memory.data.shape[1] + place) * memory.data.dtype.itemsize
            self._tell(Access(memory, addresses, lanes, is_store))


class SameElementError(InterpreterError):
    """Lanes that accumulate in the same element at a time."""


def _unwritten(shape: tuple[int, ...], dtype: str) -> Array:
    """Return elements that nothing has been stored in."""
    if np.issubdtype(np.dtype(dtype), np.floating):
        return np.full(shape, np.nan, dtype)
    return np.full(shape, False if dtype == "bool" else np.iinfo(dtype).min, dtype)
