"""Placement (section 4.3): memory and address of every tensor slice, with spilling.

A slice occupies its address from its write to its last read. Where the local buffers do not hold all live slices, the
one with the longest live range is spilled to the global buffer, from there to the further levels that a machine may
have, one after the other, and then to DDR (Fig. 12); so are slices that fit no gap, since addresses are fixed for the
whole live range. A slice is spilled for its whole live range, not from the overflow on: placement is static, and
writing further out at once costs one store instead of an additional load and store.

The local buffers' weight window stays free for weights and tiles passing through. A slice that the cores would mostly
have to exchange, because its readers are bound differently, goes to the global buffer, as mismatches do in Algorithm 4.
On a machine without one, whose cores reach each other directly, it is exchanged, as DDR is slower.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

from dsascape.fusion.costs import OnChipMemory
from dsascape.scheduler.dsa.placing.allocation import LiveBuffer, addresses, without_spilled
from dsascape.scheduler.dsa.placing.needs import evaluated_cores, lacking
from dsascape.scheduler.dsa.schedule.schedule import BufferScope, LayerRun, TensorSlice, live_ranges
from dsascape.scheduler.dsa.view import DDR, LOCAL
from dsascape.scheduler.errors import PinError
from dsascape.workloads.analysis import Table

_MOST_EXCHANGED = 10_000
"""Size of the cache of exchanged bytes per placement."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Capacity for slices of each on-chip memory, and placement options."""

    local_bytes: int
    """Bytes per core of the local buffers."""
    outer: tuple[tuple[str, int], ...] = ()
    """Bytes per cluster of each memory between the local buffers and DDR, by name, innermost first."""
    uses_local: bool = True
    """Whether slices may be in the local buffers; False: none are, as in the ablation's first variant."""
    spills_longest: bool = True
    """Whether the slice with the longest live range is spilled first; False: the one written last."""
    most_exchanged: float = 0.5
    """Maximum share of a core's part of a slice that may come from other cores' local buffers; 1 without a global
    buffer."""
    apart_steps: int = 0
    """Number of layers that may still be executing when the next one begins: slices avoid their addresses."""

    @classmethod
    def of(cls, memories: Sequence[OnChipMemory], spared_bytes: int = 0, **options: Any) -> "Capacity":
        """Return the capacity of on-chip ``memories``, innermost first, less ``spared_bytes`` of each local buffer."""
        local, *outer = memories
        rooms = tuple([(memory.name, memory.outputs_bytes) for memory in outer])
        return cls(local.outputs_bytes - spared_bytes, rooms, **options)

    def largest_bytes(self, cores: int) -> int:
        """Return the bytes of the largest memory that one cluster of ``cores`` keeps slices in."""
        return max([cores * self.local_bytes * self.uses_local, *(size_bytes for _, size_bytes in self.outer)])


@dataclass(frozen=True, slots=True)
class PinnedMemory:
    """Memory of a slice that the user fixes, and where the file says so."""

    memory: BufferScope
    where: str


class Placement:
    """Placement problem: slices to be placed, with derived data that does not depend on capacities.

    ``runs`` are in execution order. ``mismatched`` slices go to the global buffer, if there is one and they fit
    (Algorithm 4, l. 12). ``pinned``: memories that the user fixes, by slice; these slices are not spilled.
    """

    def __init__(
        self, runs: Sequence[LayerRun], slices: tuple[TensorSlice, ...], mismatched: Container[int] = (),
        pinned: Mapping[int, PinnedMemory] | None = None,
    ) -> None:  # fmt: skip
        self._runs = tuple(runs)
        self._pinned = pinned or {}
        self._slices = slices
        self._mismatched = mismatched
        self._exchanged: Table[Mapping[int, int] | None] = Table(_MOST_EXCHANGED)
        """Cached `_exchanged` by (slice, maximum exchanged share)."""

    def within(self, capacity: Capacity) -> tuple[TensorSlice, ...]:
        """Return the slices with their memories and addresses.

        A slice in the local buffers occupies one part in each core's, and at its readers additionally the halo that
        cores fetch from each other. Raises ``PinError`` for a pinned slice that has no place in its memory.
        """
        near: list[LiveBuffer] = []
        kept = self._pinned_to(LOCAL)
        if capacity.uses_local or kept:
            may_be = self._may_be_near(capacity)
            near = without_spilled(may_be, capacity.local_bytes, longest=capacity.spills_longest, kept=kept)
        local = addresses(near, capacity.local_bytes, capacity.apart_steps)
        found = {number: (LOCAL, address) for number, address in local.items()}
        for memory, size_bytes in capacity.outer:
            kept = self._pinned_to(memory)
            elsewhere = {*found, *self._pinned} - kept
            coming = [buffer for buffer in self._far if buffer.owner not in elsewhere]
            staying = without_spilled(coming, size_bytes, longest=capacity.spills_longest, kept=kept)
            there = addresses(staying, size_bytes)
            found.update((number, (memory, address)) for number, address in there.items())
        self._check_pinned(found, capacity)
        return tuple([_placed(each, found.get(number)) for number, each in enumerate(self._slices)])

    def _pinned_to(self, memory: str) -> frozenset[int]:
        """Return the slices that the user fixes to ``memory``."""
        return frozenset([number for number, pin in self._pinned.items() if pin.memory == memory])

    def _check_pinned(self, found: Container[int], capacity: Capacity) -> None:
        """Raise ``PinError`` for a pinned slice without an address in its memory."""
        room_bytes = {LOCAL: capacity.local_bytes, **dict(capacity.outer)}
        staying = {buffer.owner for buffer in self._far}
        for number, pin in self._pinned.items():
            if pin.memory == DDR or number in found:
                continue
            each = self._slices[number]
            if number not in staying:
                raise PinError(
                    f"{pin.where}: output: {each.tensor!r} is a result of the network, or nothing reads it; needs ddr"
                )
            size_bytes = each.core_bytes if pin.memory == LOCAL else each.size_bytes
            raise PinError(
                f"{pin.where}: output: {each.tensor!r} needs {size_bytes} B of {pin.memory} from its write to its last"
                f" read; {room_bytes.get(pin.memory, 0)} B are for outputs, what lives beside it included"
            )

    @cached_property
    def _readers(self) -> Mapping[int, Sequence[tuple[LayerRun, int, str]]]:
        """Readers of each slice: (run, step, tensor name)."""
        readers: dict[int, list[tuple[LayerRun, int, str]]] = {}
        for step, run in enumerate(self._runs):
            for name, held in run.reads.items():
                for number in held:
                    readers.setdefault(number, []).append((run, step, name))
        return readers

    @cached_property
    def _far(self) -> Sequence[LiveBuffer]:
        """Slices that may stay on chip, with their sizes and live ranges in memories beyond the local buffers."""
        lives, readers, slices = live_ranges(self._runs), self._readers, self._slices
        # results leave, even if read
        results = {run.layer.graph.storage[name] for run in self._runs[:1] for name in run.layer.graph.outputs}
        staying = [number for number in lives if number in readers and slices[number].tensor not in results]
        return [LiveBuffer(number, slices[number].size_bytes, lives[number]) for number in staying]

    @cached_property
    def _looked_at(self) -> Callable[[int], tuple[int, ...]]:
        """Cached function from a step to the cores whose needs are evaluated."""
        return cache(lambda step: evaluated_cores(self._runs[step], self._slices))

    def _may_be_near(self, capacity: Capacity) -> Iterator[LiveBuffer]:
        """Yield the slices eligible for the local buffers: those that fit and are not mostly exchanged."""
        most_exchanged, has_outer = capacity.most_exchanged, any(size_bytes for _, size_bytes in capacity.outer)
        for buffer in self._far:
            number, each = buffer.owner, self._slices[buffer.owner]
            size_bytes, pin = each.core_bytes, self._pinned.get(buffer.owner)
            if pin is not None:
                if pin.memory == LOCAL:
                    halos = _exchanged(each, self._readers[number], self._looked_at, 1.0)
                    yield LiveBuffer(number, size_bytes, buffer.live, halos or {})
                continue
            if not capacity.uses_local:
                continue
            never_fits = size_bytes > capacity.local_bytes  # and is spilled whatever cores would exchange of it
            if never_fits or (number in self._mismatched and has_outer):
                continue
            work_out = partial(_exchanged, each, self._readers[number], self._looked_at, most_exchanged)
            halos = self._exchanged.get((number, most_exchanged), work_out)
            if halos is not None:
                yield LiveBuffer(number, size_bytes, buffer.live, halos)


def _placed(each: TensorSlice, found: tuple[str, int] | None) -> TensorSlice:
    if found is not None:
        return each.at(*found)
    return each if each.memory == DDR else each.at(DDR, None)


def _exchanged(
    each: TensorSlice,
    readers: Sequence[tuple[LayerRun, int, str]],
    cores: Callable[[int], tuple[int, ...]],
    most_exchanged: float,
) -> Mapping[int, int] | None:
    """Return, by step, the bytes of a slice that a core fetches from others; None if one lacks ``most_exchanged``.

    ``cores``: the cores to evaluate, by step.
    """
    halo_bytes: dict[int, int] = {}
    for run, step, name in readers:
        missing = lacking(run, name, (each,), cores(step))
        if missing.share > most_exchanged:
            return None
        if missing.elements:
            size_bytes = run.layer.graph.tensors[name].bytes_of(missing.elements)
            halo_bytes[step] = halo_bytes.get(step, 0) + size_bytes
    return halo_bytes
