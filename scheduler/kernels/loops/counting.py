"""Counts of an interpreted run: executions, registers loaded and stored, vectors, transactions, lines of caches.

The rules are a compiler's and a machine's, applied to what really happens, event by event:

- Lanes of a vector that load neighbours, or the same element, load one register; others load one each (a gather).
- In one iteration of all loops that are not unrolled (a band), each register is loaded once; in the next one again,
  unless that needs exactly the registers of the last, and nobody else has stored to the array: then it is hoisted.
  Likewise what is stored: where the next band stores the same registers, and nobody else has loaded them, once for
  both. Nothing is hoisted out of a block of a grid.
- A band holds its accumulators, and each register that it loads from its first use to its last. Where these are more
  than there are, it spills as many as are too many: each is stored and loaded.
- Registers that are loaded, and what is stored, go through caches of whole lines, each an LRU of its size.
- Threads of a warp that load together ask for sectors of global memory (transactions), or for words of the banks of
  shared memory, one after the other where these meet in a bank (wavefronts).
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from dsascape.scheduler.kernels.loops.nodes import Role
from dsascape.scheduler.kernels.loops.observed import Access, Event, Execution
from dsascape.workloads.operators.registry import Array

Part = tuple[str, Role]
"""A stage, and the role of a statement in it."""


@dataclass(frozen=True, slots=True)
class CountedMachine:
    """What counts depend on."""

    registers: int = 32
    """Vector registers of one thread; what a band needs beyond them is spilled."""
    line_bytes: int = 64
    caches_bytes: tuple[int, ...] = ()
    """Capacity of each level, the innermost first."""
    warp: int = 32
    sector_bytes: int = 32
    bank_bytes: int = 4
    banks: int = 32


@dataclass
class Moved:
    """Traffic between one statement and one array."""

    elements: int = 0
    """Lanes that load or store."""
    registers: int = 0
    """Registers loaded, hoisted ones aside, or stored: instructions of one thread or of one vector."""
    gathered: int = 0
    """Registers among ``registers`` that gathers and scatters move: one for each lane."""
    requests: int = 0
    """Instructions of warps."""
    transactions: int = 0
    """Sectors of global memory, or wavefronts of shared memory, that warps ask for."""


@dataclass
class Counts:
    """An observer of a run that counts; figures are complete after `finish`."""

    machine: CountedMachine = field(default_factory=CountedMachine)
    executions: Counter[Part] = field(default_factory=Counter)
    """Statements run: one for all lanes of a vector, one for each thread."""
    elements: Counter[Part] = field(default_factory=Counter)
    """Lanes that have run them."""
    bands: Counter[Part] = field(default_factory=Counter)
    """Iterations of the innermost loops that are not unrolled: each has a branch and moves addresses."""
    loads: dict[tuple[Part, str], Moved] = field(default_factory=dict)
    """Loads by statement and array; of buffers in registers only ``elements``."""
    stores: dict[tuple[Part, str], Moved] = field(default_factory=dict)
    """Stores by statement and array; of buffers in registers only ``elements``."""
    spills: Counter[Part] = field(default_factory=Counter)
    """Registers stored and loaded again, as a band has too many."""
    misses: Sequence[Counter[str]] = ()
    """Lines that each level of caches does not have, by array."""
    _element_bytes: dict[str, int] = field(default_factory=dict)
    _caches: list[OrderedDict[int, None]] = field(default_factory=list)
    _bands: dict[Part, "_Band"] = field(default_factory=dict)
    _loaded: dict[tuple[Part, str], "_Registers"] = field(default_factory=dict)
    """Registers that the last band of a part has loaded of an array, as long as they have what is there."""
    _stored: dict[tuple[Part, str], "_Registers"] = field(default_factory=dict)
    """Registers that the last band of a part has stored to an array, as long as nobody else needs them."""
    _now: Part = ("", "store")
    _are_threads: bool = False

    def __post_init__(self) -> None:
        self.misses = [Counter() for _ in self.machine.caches_bytes]
        self._caches = [OrderedDict() for _ in self.machine.caches_bytes]

    def __call__(self, event: Event) -> None:
        """Take note of an event."""
        if isinstance(event, Execution):
            self._execute(event)
        elif isinstance(event, Access):
            self._access(event)
        else:
            self._begin_block()

    def finish(self) -> "Counts":
        """Count what the last bands have loaded, and return the counts."""
        for part in list(self._bands):
            self._close(part)
        return self

    def copied_bytes(self, part: Part) -> Mapping[tuple[str, str], int]:
        """Return the bytes that a statement of a copy has moved, by the arrays that it read and wrote."""
        (target,) = [array for each, array in self.stores if each == part]
        sizes = self._element_bytes
        return {
            (array, target): moved.elements * sizes[array]
            for (each, array), moved in self.loads.items() if each == part
        }  # fmt: skip

    def _execute(self, event: Execution) -> None:
        part = event.statement.stage, event.statement.role
        self._now, self._are_threads = part, event.are_threads
        self.executions[part] += event.lanes if event.are_threads else 1
        self.elements[part] += event.lanes
        band = self._bands.get(part)
        if band is not None and band.number != event.band:
            self._close(part)
        self._bands.setdefault(part, _Band(event.band)).executions += 1

    def _begin_block(self) -> None:
        for part in list(self._bands):
            self._close(part)
        self._loaded.clear()
        self._stored.clear()

    def _access(self, event: Access) -> None:
        memory, key = event.memory, (self._now, event.memory.name)
        self._element_bytes[memory.name] = memory.data.dtype.itemsize
        moved = (self.stores if event.is_store else self.loads).setdefault(key, Moved())
        moved.elements += event.lanes.size
        band = self._bands[self._now]
        if memory.scope == "register":
            band.held.setdefault(memory.name, _Registers()).add(event, self._are_threads, band.executions)
            return
        self._forget(memory.name, loaded=event.is_store)
        registers = band.stored if event.is_store else band.loaded
        registers.setdefault(memory.name, _Registers()).add(event, self._are_threads, band.executions)

    def _forget(self, array: str, *, loaded: bool) -> None:
        """Let other parts load an array anew, as it is stored to, or store it, as it is loaded."""
        for part, band in self._bands.items():
            if part != self._now:
                self._count_registers(part, band, array, loads=loaded)
                (self._loaded if loaded else self._stored).pop((part, array), None)

    def _close(self, part: Part) -> None:
        """End a band: count what it has loaded that the one before it had not."""
        band = self._bands.pop(part)
        self.bands[part] += 1
        for loads, arrays in ((True, band.loaded), (False, band.stored)):
            for array in list(arrays):
                self._count_registers(part, band, array, loads=loads)
        needed = _most_live(list(band.needed.values())) + sum([each.of_thread for each in band.held.values()])
        self.spills[part] += max(needed - self.machine.registers, 0)

    def _count_registers(self, part: Part, band: "_Band", array: str, *, loads: bool) -> None:
        """Count what a band has loaded of an array, or stored, so far, if the last one had not the same registers."""
        own = (band.loaded if loads else band.stored).pop(array, None)
        if own is None:
            return
        moved, last = (self.loads, self._loaded) if loads else (self.stores, self._stored)
        if loads:
            band.needed[array] = own
        now = self._are_threads
        before = last.get((part, array))
        if before is None or not own.is_part_of(before):
            for event, self._are_threads in own.events:
                self._count(moved[part, array], event)
            last[part, array] = own
        self._are_threads = now

    def _count(self, moved: Moved, event: Access) -> None:
        """Count one access of all lanes: its instructions, and what it asks memory for."""
        size = event.memory.data.dtype.itemsize
        if self._are_threads:
            moved.registers += event.lanes.size
            moved.requests += np.unique(event.lanes // self.machine.warp).size
            moved.transactions += self._transactions(event)
        else:
            apart = np.unique(np.diff(event.addresses))
            is_one = apart.size == 0 or (apart.size == 1 and int(apart[0]) in (0, size))
            moved.registers += 1 if is_one else event.lanes.size
            moved.gathered += 0 if is_one else event.lanes.size
        ends = np.stack([event.addresses, event.addresses + size - 1], axis=1) // self.machine.line_bytes
        for line in dict.fromkeys(ends.reshape(-1).tolist()):
            self._look_up(line, event.memory.name)

    def _transactions(self, event: Access) -> int:
        warps = event.lanes // self.machine.warp
        if event.memory.scope != "shared":
            return _distinct(warps, event.addresses // self.machine.sector_bytes)
        words = event.addresses // self.machine.bank_bytes
        pairs = np.unique(np.stack([warps, words], axis=1), axis=0)
        of_banks = np.stack([pairs[:, 0], pairs[:, 1] % self.machine.banks], axis=1)
        banks, asked = np.unique(of_banks, axis=0, return_counts=True)
        return sum(int(asked[banks[:, 0] == warp].max()) for warp in np.unique(warps))

    def _look_up(self, line: int, array: str) -> None:
        """Look a line up in each cache until one has it; those before it take it in."""
        for cache, misses, size in zip(self._caches, self.misses, self.machine.caches_bytes, strict=True):
            if line in cache:
                cache.move_to_end(line)
                return
            misses[array] += 1
            cache[line] = None
            if len(cache) * self.machine.line_bytes > size:
                cache.popitem(last=False)


@dataclass
class _Registers:
    """Registers of one array that a band uses."""

    names: set[object] = field(default_factory=set)
    """Addresses of a vector's lanes; of threads, one name for each register of each."""
    events: list[tuple[Access, bool]] = field(default_factory=list)
    """The first use of each, and whether threads use it."""
    live: dict[tuple[int, object], tuple[int, int]] = field(default_factory=dict)
    """By lane and name, the first and the last execution of the band that uses it."""
    _of_threads: Counter[int] = field(default_factory=Counter)

    @property
    def of_thread(self) -> int:
        """Registers of the thread that has most."""
        return max(self._of_threads.values(), default=0)

    def is_part_of(self, before: "_Registers") -> bool:
        """Whether each lane that takes part has exactly the registers that it had before."""
        if not self._of_threads.keys() <= before._of_threads.keys():
            return False
        if len(self.names) == len(before.names):
            return self.names == before.names
        return self.names <= before.names and all(
            before._of_threads[lane] == own for lane, own in self._of_threads.items()
        )

    def add(self, event: Access, are_threads: bool, execution: int) -> None:
        """Add the registers of an access by an execution of the band, those aside that are there already."""
        own: list[object] = [event.addresses.tobytes()]
        lanes = [0]
        if are_threads:
            lanes = event.lanes.tolist()
            own = list(zip(lanes, event.addresses.tolist(), strict=True))
        for lane, name in zip(lanes, own, strict=True):
            first, _ = self.live.get((lane, name), (execution, execution))
            self.live[lane, name] = first, execution
        new = [place for place, each in enumerate(own) if each not in self.names]
        if not new:
            return
        self.names.update(own)
        self._of_threads.update([lanes[place] for place in new])
        if len(new) < len(own):
            event = Access(event.memory, event.addresses[new], event.lanes[new], event.is_store)
        self.events.append((event, are_threads))


def _most_live(arrays: Sequence[_Registers]) -> int:
    """Return how many registers a thread needs at a time, each from its first use to its last."""
    ends: dict[int, Counter[int]] = {}
    for each in arrays:
        for (lane, _), (first, last) in each.live.items():
            own = ends.setdefault(lane, Counter())
            own[first] += 1
            own[last + 1] -= 1
    return max([max(accumulate([own[at] for at in sorted(own)])) for own in ends.values()], default=0)


@dataclass
class _Band:
    """Registers of one statement in one iteration of all loops that are not unrolled."""

    number: int
    executions: int = 0
    loaded: dict[str, _Registers] = field(default_factory=dict)
    stored: dict[str, _Registers] = field(default_factory=dict)
    needed: dict[str, _Registers] = field(default_factory=dict)
    """Those loaded that have been counted already."""
    held: dict[str, _Registers] = field(default_factory=dict)
    """Of buffers in registers."""


def _distinct(one: Array, other: Array) -> int:
    """Return the number of distinct pairs."""
    return int(np.unique(np.stack([one, other], axis=1), axis=0).shape[0])
