"""What the threads of warps ask memory for together: sectors of global memory, wavefronts of shared memory.

Threads have numbers by the loops that are bound to them; so many that follow each other are a warp. One access of a
warp asks for the distinct sectors of its elements, or, in shared memory, takes as many turns as words meet in one bank.
Which these are depends on where the first element lies in a sector, or among the banks: on all other loops, which are
counted by that rest alone. Loops that conditions depend on are gone through with the threads.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dsascape.scheduler.kernels.cost.placed import Around
from dsascape.scheduler.kernels.cost.places import Use
from dsascape.scheduler.kernels.cost.trips import Limit, Within
from dsascape.scheduler.kernels.loops.nodes import Condition

_MOST_CELLS = 1 << 20
"""Accesses that are gone through one by one at most; beyond that, conditions count by the share that meets them."""
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Warps:
    """Sizes that the requests of warps depend on: those of NVIDIA's GPUs (CUDA C++ Programming Guide, from 5.x on)."""

    threads: int = 32
    sector_bytes: int = 32
    banks: int = 32
    bank_bytes: int = 4


WARPS = Warps()


@dataclass(frozen=True, slots=True)
class Requests:
    """Accesses of whole warps, and what these ask for: sectors, or wavefronts of shared memory."""

    requests: int
    transactions: int


def requests(
    use: Use, around: Sequence[Around], conditions: Sequence[Limit], warps: Warps
) -> Requests | None:
    """Return what warps ask for in all iterations of the loops ``around``; None where no closed form says so.

    That is where sizes are columns, data chooses places, lanes of a vector lie inside of threads, a mask bounds a loop,
    or loops that run as one come to places that are no expression of theirs.
    """
    extents = {each.name: each.extent for each in around}
    kinds = {each.kind for each in around}
    limits = [*conditions, *use.conditions]
    is_plain = all(isinstance(extent, int) for extent in extents.values()) and use.place.is_affine
    is_plain = is_plain and (use.run is None or use.place.is_known)
    if not is_plain or "vector" in kinds or any(isinstance(each, Within) for each in limits) or use.share < 1:
        return None
    return _Requests(use, around, [each for each in limits if isinstance(each, Condition)], warps).counted()


class _Requests:
    def __init__(
        self, use: Use, around: Sequence[Around], conditions: Sequence[Condition], warps: Warps
    ) -> None:
        self._use, self._warps = use, warps
        self._conditions = [each for each in conditions if any(name in _names(around) for name, _ in each.value.terms)]
        self._extents: dict[str, int] = {each.name: int(each.extent) for each in around}
        self._threads = [each.name for each in around if each.kind == "thread"]
        size = use.element_bytes
        bytes_apart = warps.banks * warps.bank_bytes if use.scope == "shared" else warps.sector_bytes
        self._rests = max(bytes_apart // size, 1)
        """Places, in elements, at which the first one lies in a sector, or among the banks."""

    def counted(self) -> Requests:
        """Return the requests of all iterations."""
        others = [name for name in self._extents if name not in self._threads]
        bound = {name for each in self._conditions for name, _ in each.value.terms}
        bound |= self._use.place.unknown
        tied = [name for name in others if name in bound]
        lanes = math.prod([self._extents[name] for name in self._threads])
        share = 1.0
        if lanes * math.prod([self._extents[name] for name in tied]) * self._rests > _MOST_CELLS:
            share, self._conditions, tied = self._share(), [], []
        free = self._rests_of([name for name in others if name not in tied])
        at, active, warp = self._lanes(tied)
        places = np.broadcast_to(np.asarray(self._use.place.at(at)), active.shape)
        asked = transactions = 0
        for rest in np.flatnonzero(free):
            own = self._transactions(places[active] + rest, warp[active])
            asked += int(free[rest]) * np.unique(warp[active]).size
            transactions += int(free[rest]) * own
        return Requests(round(asked * share), round(transactions * share))

    def _share(self) -> float:
        share = 1.0
        for each in self._conditions:
            outside = {name: 1 for name, _ in each.value.terms}
            low, end = each.value.span({**outside, **self._extents})
            share *= min(max((each.limit - low) / (end - low), 0.0), 1.0)
        return share

    def _rests_of(self, loops: Sequence[str]) -> Whole:
        """Return how many iterations of loops come to each rest of the place by a sector, or by all banks."""
        strides: Mapping[str, int] = dict(self._use.place.value.terms)
        found = np.zeros(self._rests, np.int64)
        found[0] = 1
        for name in loops:
            steps = np.arange(self._extents[name]) * strides.get(name, 0) % self._rests
            every = np.bincount(steps, minlength=self._rests)
            apart = np.arange(self._rests)
            found = every[(apart[:, None] - apart) % self._rests] @ found
        return found

    def _lanes(self, tied: Sequence[str]) -> tuple[dict[str, Whole], npt.NDArray[np.bool_], Whole]:
        """Return the iterations of each loop for each thread, whether it takes part, and the number of its warp."""
        names = [*tied, *self._threads]
        shape = [self._extents[name] for name in names]
        at = {name: own.reshape(-1) for name, own in zip(names, np.indices(shape), strict=True)} if names else {}
        count = math.prod(shape)
        active = np.ones(count, bool)
        for each in self._conditions:
            value = each.value.offset + sum([at[name] * stride for name, stride in each.value.terms if name in at], 0)
            active &= np.broadcast_to(np.asarray(value) < each.limit, active.shape)
        lanes = math.prod([self._extents[name] for name in self._threads])
        number = np.arange(count)
        per_block = -(-lanes // self._warps.threads)
        return at, active, number // lanes * per_block + number % lanes // self._warps.threads

    def _transactions(self, places: Whole, warp: Whole) -> int:
        if not places.size:
            return 0
        addresses = places * self._use.element_bytes
        if self._use.scope != "shared":
            return int(_pairs(warp, addresses // self._warps.sector_bytes).shape[1])
        words = _pairs(warp, addresses // self._warps.bank_bytes)
        banks, asked = np.unique(words[0] * self._warps.banks + words[1] % self._warps.banks, return_counts=True)
        most = np.zeros(int(words[0].max()) + 1, np.int64)
        np.maximum.at(most, banks // self._warps.banks, asked)
        return int(most.sum())


def _pairs(one: Whole, other: Whole) -> Whole:
    """Return the distinct pairs, as two rows."""
    return np.unique(np.stack([one, other]), axis=1)


def _names(around: Sequence[Around]) -> set[str]:
    return {each.name for each in around}
