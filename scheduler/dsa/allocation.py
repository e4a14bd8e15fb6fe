"""Addresses in a memory: which buffers stay in it for their live ranges, which are spilled, which gaps are left.

A buffer lies at one address for all its live range, so that what is free may be too scattered for another one, as in a
real memory. All live ranges are known before anything runs, and so the addresses are chosen for all buffers together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LiveBuffer:
    """What ``owner`` needs of a memory: bytes for the steps of its live range, and some more beside at single steps."""

    owner: int
    size_bytes: int
    live: range
    beside: Mapping[int, int] = field(default_factory=dict)
    """By step: bytes of another buffer that is there for that step only."""


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes from ``address`` on."""

    address: int
    size_bytes: int


def gaps(blocks: Iterable[Block], capacity_bytes: int) -> Iterator[Block]:
    """Yield what ``blocks`` leave free, from the lowest address on."""
    free = 0
    for block in sorted(blocks, key=lambda b: b.address):
        if block.address > free:
            yield Block(free, block.address - free)
        free = max(free, block.address + block.size_bytes)
    if free < capacity_bytes:
        yield Block(free, capacity_bytes - free)


def put(sizes: Sequence[int], free: Iterable[Block]) -> list[Block] | None:
    """Return a block for each of ``sizes`` in the gaps ``free``; None if one finds no gap for itself.

    The largest takes the smallest gap that holds it, and so on; where that fails a cleverer packing might not.
    """
    free_gaps = list(free)
    found = {}
    for number in sorted(range(len(sizes)), key=lambda n: (-sizes[n], n)):
        place = min((n for n, r in enumerate(free_gaps) if r.size_bytes >= sizes[number]), default=-1,
                    key=lambda n: free_gaps[n].size_bytes)  # fmt: skip
        if place < 0:
            return None
        gap = free_gaps[place]
        found[number] = Block(gap.address, sizes[number])
        free_gaps[place] = Block(gap.address + sizes[number], gap.size_bytes - sizes[number])
    return [found[number] for number in range(len(sizes))]


def fit(sizes: Sequence[int], free: Sequence[int]) -> bool:
    """Return whether buffers of ``sizes`` find room in gaps of ``free`` bytes, the largest first, each in one gap."""
    total = sum(sizes)
    if not free or total > sum(free):
        return total == 0
    return total <= free[0] or put(sizes, [Block(0, size) for size in free]) is not None


def without_spilled(buffers: Iterable[LiveBuffer], capacity_bytes: int, *, longest: bool = True) -> list[LiveBuffer]:
    """Return the buffers that are granted when what is too much at a step is spilled, for all its live range (Fig. 12).

    It is the longest-lived of all that are alive then (GraphTurbo, section 4.3), the latest of equals; or, if not
    ``longest``, the one that comes last.
    """
    coming: dict[int, list[LiveBuffer]] = {}
    beside: dict[int, dict[int, int]] = {}
    for buffer in buffers:
        coming.setdefault(buffer.live.start, []).append(buffer)
        for step, size_bytes in buffer.beside.items():
            beside.setdefault(step, {})[buffer.owner] = size_bytes
    alive: dict[int, LiveBuffer] = {}
    kept: dict[int, LiveBuffer] = {}
    for step in sorted({*coming, *beside}):
        alive = {owner: buffer for owner, buffer in alive.items() if step in buffer.live}
        for buffer in coming.get(step, ()):
            alive[buffer.owner] = kept[buffer.owner] = buffer
        extra = beside.get(step, {})
        while sum(w.size_bytes + extra.get(owner, 0) for owner, w in alive.items()) > capacity_bytes:
            victim = max(alive, key=lambda owner: (_rank(alive[owner], longest=longest), owner))
            del alive[victim], kept[victim]
    return list(kept.values())


def _rank(buffer: LiveBuffer, *, longest: bool) -> tuple[int, int]:
    return (len(buffer.live) if longest else 0, buffer.live.start)


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
            found = _in_order(order, capacity_bytes, apart)
            missing = sum(buffer.size_bytes for buffer in buffers if buffer.owner not in found)
            if missing < least:
                best, least = found, missing
            if not least:
                return best
    return best


def _in_order(buffers: Iterable[LiveBuffer], capacity_bytes: int, apart_steps: int) -> dict[int, int]:
    """Return the addresses when one buffer after the other takes the smallest gap that is free for all its live range.

    A gap that is also free ``apart_steps`` before and after goes before all others.
    """
    held: dict[int, list[Block]] = {}
    found: dict[int, int] = {}
    for buffer in buffers:
        parts = [
            (buffer.live, buffer.size_bytes),
            *((range(s, s + 1), size) for s, size in sorted(buffer.beside.items())),
        ]
        taken: list[tuple[range, Block]] = []
        for live, size_bytes in parts:
            free_gaps: list[Block] = []
            for more in dict.fromkeys((apart_steps, 0)):
                steps = range(live.start - more, live.stop + more)
                there = [block for step in steps for block in held.get(step, ())]
                there += [block for other, block in taken if set(other) & set(steps)]
                free_gaps = [gap for gap in gaps(there, capacity_bytes) if gap.size_bytes >= size_bytes]
                if free_gaps:
                    break
            if not free_gaps:
                break
            smallest = min(free_gaps, key=lambda gap: (gap.size_bytes, gap.address))
            taken.append((live, Block(smallest.address, size_bytes)))
        else:
            found[buffer.owner] = taken[0][1].address
            for live, block in taken:
                for step in live:
                    held.setdefault(step, []).append(block)
    return found
