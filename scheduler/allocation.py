"""Addresses in a memory: what stays in it from step to step, what is spilled, and which gaps are left.

A buffer lies at one address for all its life, so that what is free may be too scattered for another one, as in a real
memory. All lives are known before anything runs, and so the addresses are chosen for all buffers together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Tenant:
    """What ``owner`` needs of a memory: bytes for the steps of its ``life``, and some more beside at single steps."""

    owner: int
    size_bytes: int
    life: range
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
    rooms = list(free)
    found = {}
    for number in sorted(range(len(sizes)), key=lambda n: (-sizes[n], n)):
        place = min((n for n, r in enumerate(rooms) if r.size_bytes >= sizes[number]), default=-1,
                    key=lambda n: rooms[n].size_bytes)  # fmt: skip
        if place < 0:
            return None
        room = rooms[place]
        found[number] = Block(room.address, sizes[number])
        rooms[place] = Block(room.address + sizes[number], room.size_bytes - sizes[number])
    return [found[number] for number in range(len(sizes))]


def fit(sizes: Sequence[int], free: Sequence[int]) -> bool:
    """Return whether buffers of ``sizes`` find room in gaps of ``free`` bytes, the largest first, each in one gap."""
    total = sum(sizes)
    if not free or total > sum(free):
        return total == 0
    return total <= free[0] or put(sizes, [Block(0, size) for size in free]) is not None


def without_spilled(tenants: Iterable[Tenant], capacity_bytes: int, *, longest: bool = True) -> list[Tenant]:
    """Return the tenants that are granted when what is too much at a step is spilled, for all its life (Fig. 12).

    It is the longest-lived of all that are alive then (GraphTurbo, section 4.3), the latest of equals; or, if not
    ``longest``, the one that comes last.
    """
    coming: dict[int, list[Tenant]] = {}
    beside: dict[int, dict[int, int]] = {}
    for tenant in tenants:
        coming.setdefault(tenant.life.start, []).append(tenant)
        for step, size_bytes in tenant.beside.items():
            beside.setdefault(step, {})[tenant.owner] = size_bytes
    alive: dict[int, Tenant] = {}
    kept: dict[int, Tenant] = {}
    for step in sorted({*coming, *beside}):
        alive = {owner: tenant for owner, tenant in alive.items() if step in tenant.life}
        for tenant in coming.get(step, ()):
            alive[tenant.owner] = kept[tenant.owner] = tenant
        extra = beside.get(step, {})
        while sum(w.size_bytes + extra.get(owner, 0) for owner, w in alive.items()) > capacity_bytes:
            victim = max(alive, key=lambda owner: (_rank(alive[owner], longest=longest), owner))
            del alive[victim], kept[victim]
    return list(kept.values())


def _rank(tenant: Tenant, *, longest: bool) -> tuple[int, int]:
    return (len(tenant.life) if longest else 0, tenant.life.start)


def addresses(tenants: Sequence[Tenant], capacity_bytes: int, apart_steps: int = 0) -> dict[int, int]:
    """Return the address of every tenant that finds a gap; of a few orders, the one that leaves out the fewest bytes.

    An owner's further buffers count: it finds its place with all of them or not at all. Where there is room, a buffer
    keeps away from those that ended up to ``apart_steps`` before it, so that it need not wait for their last use.
    """
    orders = (
        sorted(tenants, key=lambda w: (-w.size_bytes, w.life.start, w.owner)),
        sorted(tenants, key=lambda w: (-len(w.life), -w.size_bytes, w.owner)),
        sorted(tenants, key=lambda w: (w.life.start, -len(w.life), w.owner)),
    )
    best: dict[int, int] = {}
    least = sum(tenant.size_bytes for tenant in tenants) + 1
    for apart in dict.fromkeys((apart_steps, 0)):
        for order in orders:
            found = _in_order(order, capacity_bytes, apart)
            missing = sum(tenant.size_bytes for tenant in tenants if tenant.owner not in found)
            if missing < least:
                best, least = found, missing
            if not least:
                return best
    return best


def _in_order(tenants: Iterable[Tenant], capacity_bytes: int, apart_steps: int) -> dict[int, int]:
    """Return the addresses when one tenant after the other takes the smallest gap that is free for all its life.

    A gap that is also free ``apart_steps`` before and after goes before all others.
    """
    held: dict[int, list[Block]] = {}
    found: dict[int, int] = {}
    for tenant in tenants:
        parts = [
            (tenant.life, tenant.size_bytes),
            *((range(s, s + 1), size) for s, size in sorted(tenant.beside.items())),
        ]
        taken: list[tuple[range, Block]] = []
        for life, size_bytes in parts:
            rooms: list[Block] = []
            for more in dict.fromkeys((apart_steps, 0)):
                steps = range(life.start - more, life.stop + more)
                there = [block for step in steps for block in held.get(step, ())]
                there += [block for other, block in taken if set(other) & set(steps)]
                rooms = [gap for gap in gaps(there, capacity_bytes) if gap.size_bytes >= size_bytes]
                if rooms:
                    break
            if not rooms:
                break
            smallest = min(rooms, key=lambda gap: (gap.size_bytes, gap.address))
            taken.append((life, Block(smallest.address, size_bytes)))
        else:
            found[tenant.owner] = taken[0][1].address
            for life, block in taken:
                for step in life:
                    held.setdefault(step, []).append(block)
    return found
