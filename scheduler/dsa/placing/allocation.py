"""Static address allocation in a memory: live buffers, spilling, addresses, free gaps.

A buffer keeps one address for its whole live range, so free space may be too fragmented for another one, as in a real
memory. All live ranges are known in advance, so addresses are chosen for all buffers together.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from dsascape.scheduler.dsa.placing.occupied_addresses import OccupiedAddresses


@dataclass(frozen=True, slots=True)
class LiveBuffer:
    """Buffer of ``owner``: bytes for the steps of its live range, plus additional bytes at single steps."""

    owner: int
    size_bytes: int
    live: range
    scratch_bytes: Mapping[int, int] = field(default_factory=dict)
    """Bytes, by step, of an additional buffer that lives for that step only."""


class Block(NamedTuple):
    """Contiguous bytes from ``address`` on."""

    address: int
    size_bytes: int


Gap = tuple[int, int]
"""Free block: (address, bytes)."""


def gaps(blocks: Iterable[Block], capacity_bytes: int) -> list[Gap]:
    """Return the gaps between ``blocks`` in a memory of ``capacity_bytes``, from the lowest address on."""
    free_blocks, free = [], 0
    for address, size_bytes in sorted(blocks):
        if address > free:
            free_blocks.append((free, address - free))
        end = address + size_bytes
        free = end if end > free else free
    if free < capacity_bytes:
        free_blocks.append((free, capacity_bytes - free))
    return free_blocks


def put(sizes: Sequence[int], free: Iterable[Gap]) -> list[Block] | None:
    """Return a block for each of ``sizes`` in the gaps ``free``; None if one does not fit.

    Best fit in order of decreasing size; this heuristic may fail where another packing would succeed.
    """
    left = list(free)
    placed: list[Block | None] = [None] * len(sizes)
    for number in sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True):
        wanted, place, least = sizes[number], -1, 0
        for gap, (_, size_bytes) in enumerate(left):
            if size_bytes >= wanted and (place < 0 or size_bytes < least):
                place, least = gap, size_bytes
        if place < 0:
            return None
        address = left[place][0]
        placed[number] = Block(address, wanted)
        left[place] = address + wanted, least - wanted
    return [block for block in placed if block is not None]


def fit(sizes: Sequence[int], free: Sequence[int]) -> bool:
    """Return whether buffers of ``sizes`` fit gaps of ``free`` bytes (the largest first), each within one gap."""
    total = sum(sizes)
    if not free or total > sum(free):
        return total == 0
    return total <= free[0] or put(sizes, [(0, size) for size in free]) is not None


def without_spilled(
    buffers: Iterable[LiveBuffer], capacity_bytes: int, *, longest: bool = True, kept: Container[int] = ()
) -> list[LiveBuffer]:
    """Return the buffers that stay when the memory overflows and others are spilled for their whole live range.

    At each step that overflows, the live buffer with the longest live range is spilled (GraphTurbo, section 4.3 and
    Fig. 12), the latest on a tie; or, if not ``longest``, the one allocated last. Not in the paper: buffers that do not
    fit even alone are spilled first, so that nothing else is spilled for them in vain. Every buffer has a distinct
    owner. Those of the owners ``kept`` are never spilled, even where they overflow the memory.
    """
    coming: dict[int, list[LiveBuffer]] = {}
    scratch: dict[int, dict[int, int]] = {}
    for buffer in buffers:
        if buffer.size_bytes + max(buffer.scratch_bytes.values(), default=0) > capacity_bytes:
            continue  # never fits: spill nothing else for it
        coming.setdefault(buffer.live.start, []).append(buffer)
        for step, size_bytes in buffer.scratch_bytes.items():
            scratch.setdefault(step, {})[buffer.owner] = size_bytes
    alive: dict[int, LiveBuffer] = {}
    alive_bytes = 0
    ending: list[tuple[int, int]] = []
    first_to_go: list[tuple[int, int, int]] = []
    left: dict[int, LiveBuffer] = {}
    for step in sorted({*coming, *scratch}):
        while ending and ending[0][0] <= step:
            ended = alive.pop(heappop(ending)[1], None)
            alive_bytes -= 0 if ended is None else ended.size_bytes
        for buffer in coming.get(step, ()):
            alive[buffer.owner] = left[buffer.owner] = buffer
            alive_bytes += buffer.size_bytes
            heappush(ending, (buffer.live.stop, buffer.owner))
            if buffer.owner not in kept:
                heappush(first_to_go, (-len(buffer.live) if longest else 0, -buffer.live.start, -buffer.owner))
        extra = scratch.get(step, {})
        needed_bytes = alive_bytes + sum([size for owner, size in extra.items() if owner in alive])
        while needed_bytes > capacity_bytes and first_to_go:
            victim = -heappop(first_to_go)[2]
            spilled = alive.pop(victim, None)
            if spilled is not None:
                del left[victim]
                alive_bytes -= spilled.size_bytes
                needed_bytes -= spilled.size_bytes + extra.get(victim, 0)
    return list(left.values())


def addresses(buffers: Sequence[LiveBuffer], capacity_bytes: int, apart_steps: int = 0) -> dict[int, int]:
    """Return the address of every buffer that fits, by owner; of a few orders, the one with the fewest bytes left out.

    An owner is placed with all of its further buffers or not at all. Where possible, a buffer avoids addresses of
    buffers that ended up to ``apart_steps`` steps before it, so that it need not wait for their last use.
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
            placed, missing = _in_order(order, capacity_bytes, apart, least)
            if missing < least:
                best, least = placed, missing
            if not least:
                return best
    return best


def _in_order(
    buffers: Sequence[LiveBuffer], capacity_bytes: int, apart_steps: int, most_missing: int
) -> tuple[dict[int, int], int]:
    """Return (addresses, bytes left out) when each buffer in order takes the smallest gap free for its live range.

    Gaps that are also free ``apart_steps`` before and after are preferred. The search ends once ``most_missing`` bytes
    are left out.
    """
    steps = sum([len(buffer.live) for buffer in buffers])
    held = OccupiedAddresses(2 * steps // max(len(buffers), 1))
    placed: dict[int, int] = {}
    missing = 0
    for buffer in buffers:
        taken: list[tuple[range, Block]] = []
        scratch = [(range(step, step + 1), size) for step, size in sorted(buffer.scratch_bytes.items())]
        for live, size_bytes in ((buffer.live, buffer.size_bytes), *scratch):
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
            placed[buffer.owner] = taken[0][1].address
            for live, block in taken:
                held.add(live, block.address, block.size_bytes)
        if missing >= most_missing:
            break
    return placed, missing


def _smallest_gap(there: Iterable[tuple[int, int]], capacity_bytes: int, size_bytes: int) -> int | None:
    """Return the address of the smallest gap of at least ``size_bytes``, the lowest on a tie; None if there is none.

    ``there``: occupied (begin, end), ascending.
    """
    best, least, free = None, capacity_bytes + 1, 0
    for begin, end in there:
        if size_bytes <= begin - free < least and begin > free:
            best, least = free, begin - free
        free = max(free, end)
    return free if size_bytes <= capacity_bytes - free < least and capacity_bytes > free else best


def _ends(block: Block) -> tuple[int, int]:
    return block.address, block.address + block.size_bytes
