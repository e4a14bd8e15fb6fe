"""Exact cache simulation: every access of a loop nest in order, in sets with LRU replacement."""

import itertools
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.hw_models.caches.nests import Access


@dataclass(frozen=True)
class Counted:
    """Lines fetched and written back, per array."""

    fetched: tuple[int, ...]
    written: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.fetched) + sum(self.written)


def simulated(
    trips: Sequence[int], accesses: Sequence[Access], line_bytes: int, lines: int, sets: int = 1,
    *, write_allocate: bool = True,
) -> Counted:  # fmt: skip
    """Return what a cache of ``lines`` in ``sets`` passes on; arrays begin with a line, each after the one before."""
    held: list[OrderedDict[int, int]] = [OrderedDict() for _ in range(sets)]
    dirty: set[int] = set()
    known: set[int] = set()
    fetched, written = [0] * len(accesses), [0] * len(accesses)
    owner: dict[int, int] = {}
    addresses = _addresses(accesses, line_bytes)
    for counts in itertools.product(*map(range, trips)):
        for place, (access, strides, start) in enumerate(addresses):
            if any(not 0 <= index < size for index, size in zip(access.at(counts), access.shape, strict=True)):
                continue
            line = (start + sum(map(int.__mul__, strides, access.at(counts)))) // line_bytes
            chosen = held[line % sets]
            if line in chosen:
                chosen.move_to_end(line)
            else:
                if len(chosen) == lines // sets:
                    old, _ = chosen.popitem(last=False)
                    if old in dirty:
                        dirty.remove(old)
                        written[owner[old]] += 1
                chosen[line] = place
                is_new = access.is_written and line not in known
                fetched[place] += not (is_new and not write_allocate)
            known.add(line)
            owner[line] = place
            if access.is_written:
                dirty.add(line)
    for line in dirty:
        written[owner[line]] += 1
    return Counted(tuple(fetched), tuple(written))


@dataclass(frozen=True)
class _Placed:
    shape: tuple[int, ...]
    terms: tuple[tuple[tuple[int, int], ...], ...]
    is_written: bool

    def at(self, counts: Sequence[int]) -> list[int]:
        return [sum([stride * counts[loop] for loop, stride in terms]) for terms in self.terms]


def _addresses(accesses: Sequence[Access], line_bytes: int) -> list[tuple[_Placed, list[int], int]]:
    found, start = [], 0
    for access in accesses:
        pitch, strides = int(access.array.element_bytes), []
        for size in reversed(access.array.shape):
            strides.append(pitch)
            pitch *= size
        found.append((_Placed(access.array.shape, access.terms, access.is_written), strides[::-1], start))
        start += -(-pitch // line_bytes) * line_bytes
    return found
