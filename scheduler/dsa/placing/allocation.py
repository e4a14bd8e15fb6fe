"""Addresses in a memory: which buffers stay in it for their live ranges, which are spilled, which gaps are left.

A buffer lies at one address for all its live range, so that what is free may be too scattered for another one, as in a
real memory. All live ranges are known before anything runs, and so the addresses are chosen for all buffers together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from dsascape.scheduler.dsa.placing.occupied_addresses import OccupiedAddresses


@dataclass(frozen=True, slots=True)
class LiveBuffer:
    """What ``owner`` needs of a memory: bytes for the steps of its live range, and some more beside at single steps."""

    owner: int
    size_bytes: int
    live: range
    beside: Mapping[int, int] = field(default_factory=dict)
    """By step: bytes of another buffer that is there for that step only."""


class Block(NamedTuple):
    """Bytes from ``address`` on."""

    address: int
    size_bytes: int


Gap = tuple[int, int]
"""A free block, while many are tried: address and bytes."""


def gaps(blocks: Iterable[Block], capacity_bytes: int) -> list[Gap]:
    """Return what ``blocks`` leave free, from the lowest address on."""
    found, free = [], 0
    for address, size_bytes in sorted(blocks):
        if address > free:
            found.append((free, address - free))
        end = address + size_bytes
        free = end if end > free else free
    if free < capacity_bytes:
        found.append((free, capacity_bytes - free))
    return found


def put(sizes: Sequence[int], free: Iterable[Gap]) -> list[Block] | None:
    """Return a block for each of ``sizes`` in the gaps ``free``; None if one finds no gap for itself.

    The largest takes the smallest gap that holds it, and so on; where that fails a cleverer packing might not.
    """
    left = list(free)
    found: list[Block | None] = [None] * len(sizes)
    for number in sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True):
        wanted, place, least = sizes[number], -1, 0
        for gap, (_, size_bytes) in enumerate(left):
            if size_bytes >= wanted and (place < 0 or size_bytes < least):
                place, least = gap, size_bytes
        if place < 0:
            return None
        address = left[place][0]
        found[number] = Block(address, wanted)
        left[place] = address + wanted, least - wanted
    return [block for block in found if block is not None]


def fit(sizes: Sequence[int], free: Sequence[int]) -> bool:
    """Return whether buffers of ``sizes`` find room in gaps of ``free`` bytes, the largest first, each in one gap."""
    total = sum(sizes)
    if not free or total > sum(free):
        return total == 0
    return total <= free[0] or put(sizes, [(0, size) for size in free]) is not None


def without_spilled(buffers: Iterable[LiveBuffer], capacity_bytes: int, *, longest: bool = True) -> list[LiveBuffer]:
    """Return the buffers that are granted when what is too much at a step is spilled, for all its live range (Fig. 12).

    It is the longest-lived of all that are alive then (GraphTurbo, section 4.3), the latest of equals; or, if not
    ``longest``, the one that comes last. Not in the paper: what does not even fit alone is spilled before, so that
    nothing that lives longer makes room for it in vain. Every buffer has an owner of its own.
    """
    coming: dict[int, list[LiveBuffer]] = {}
    beside: dict[int, dict[int, int]] = {}
    for buffer in buffers:
        if buffer.size_bytes + max(buffer.beside.values(), default=0) > capacity_bytes:
            continue  # for what never fits nobody makes room
        coming.setdefault(buffer.live.start, []).append(buffer)
        for step, size_bytes in buffer.beside.items():
            beside.setdefault(step, {})[buffer.owner] = size_bytes
    alive: dict[int, LiveBuffer] = {}
    alive_bytes = 0
    ending: list[tuple[int, int]] = []
    first_to_go: list[tuple[int, int, int]] = []
    kept: dict[int, LiveBuffer] = {}
    for step in sorted({*coming, *beside}):
        while ending and ending[0][0] <= step:
            ended = alive.pop(heappop(ending)[1], None)
            alive_bytes -= 0 if ended is None else ended.size_bytes
        for buffer in coming.get(step, ()):
            alive[buffer.owner] = kept[buffer.owner] = buffer
            alive_bytes += buffer.size_bytes
            heappush(ending, (buffer.live.stop, buffer.owner))
            heappush(first_to_go, (-len(buffer.live) if longest else 0, -buffer.live.start, -buffer.owner))
        extra = beside.get(step, {})
        needed_bytes = alive_bytes + sum([size for owner, size in extra.items() if owner in alive])
        while needed_bytes > capacity_bytes:
            victim = -heappop(first_to_go)[2]
            spilled = alive.pop(victim, None)
            if spilled is not None:
                del kept[victim]
                alive_bytes -= spilled.size_bytes
                needed_bytes -= spilled.size_bytes + extra.get(victim, 0)
    return list(kept.values())


def addresses(buffers: Sequence[LiveBuffer], capacity_bytes: int, apart_steps: int = 0) -> dict[int, int]:
    """Return the address of every buffer that finds a gap; of a few orders, the one that leaves out the fewest bytes.

    An owner's further buffers count: it finds its place with all of them or not at all. Where there is room, a buffer
    keeps away from those that ended up to ``apart_steps`` before it, so that it need not wait for their last use.
    """
    orders = (
        sorted(buffers, key=lambda w: (-w.size_bytes, w.live.start, w.owner)),
        sorted(buffers, key=lambda w: (-len(w.live), -w.size_bytes, w.owner)),
        sorted(buffers, key=lambda w: (w.live.start, -len(w.live), w.owner)),
    )
    best: dict[int, int] = {}
    least = sum(buffer.size_bytes for buffer in buffers) + 1
    for apart in dict.fromkeys((apart_steps, 0)):
        for order in orders:
            found, missing = _in_order(order, capacity_bytes, apart, least)
            if missing < least:
                best, least = found, missing
            if not least:
                return best
    return best


def _in_order(
    buffers: Sequence[LiveBuffer], capacity_bytes: int, apart_steps: int, most_missing: int
) -> tuple[dict[int, int], int]:
    """Return the addresses when one buffer after the other takes the smallest gap that is free for all its live range.

    A gap that is also free ``apart_steps`` before and after goes before all others. With them the bytes of the buffers
    that are left out; from ``most_missing`` on the search ends.
    """
    steps = sum([len(buffer.live) for buffer in buffers])
    held = OccupiedAddresses(2 * steps // max(len(buffers), 1))
    found: dict[int, int] = {}
    missing = 0
    for buffer in buffers:
        taken: list[tuple[range, Block]] = []
        beside = [(range(step, step + 1), size) for step, size in sorted(buffer.beside.items())]
        for live, size_bytes in ((buffer.live, buffer.size_bytes), *beside):
            address = None
            for more in dict.fromkeys((apart_steps, 0)):
                begin, end = live.start - more, live.stop + more
                there = held.during(begin, end)
                own = [_ends(block) for other, block in taken if other.start < end and begin < other.stop]
                address = _smallest_gap(sorted([*there, *own]) if own else there, capacity_bytes, size_bytes)
                if address is not None:
                    break
            if address is None:
                missing += buffer.size_bytes
                break
            taken.append((live, Block(address, size_bytes)))
        else:
            found[buffer.owner] = taken[0][1].address
            for live, block in taken:
                held.add(live, block.address, block.size_bytes)
        if missing >= most_missing:
            break
    return found, missing


def _smallest_gap(there: Iterable[tuple[int, int]], capacity_bytes: int, size_bytes: int) -> int | None:
    """Return where the smallest gap that holds ``size_bytes`` begins, the lowest of equals; ``there``: in order."""
    found, least, free = None, capacity_bytes + 1, 0
    for begin, end in there:
        if size_bytes <= begin - free < least and begin > free:
            found, least = free, begin - free
        free = max(free, end)
    return free if size_bytes <= capacity_bytes - free < least and capacity_bytes > free else found


def _ends(block: Block) -> tuple[int, int]:
    return block.address, block.address + block.size_bytes
