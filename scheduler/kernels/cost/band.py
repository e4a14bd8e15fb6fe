"""Registers that one load or store needs in a band: in one iteration of all loops that are not written out."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dsascape.scheduler.kernels.cost.placed import LANES, Around, Placed
from dsascape.scheduler.kernels.cost.places import Position, Use
from dsascape.scheduler.kernels.loops.columns import Size, alike, anywhere, chosen, largest, least, row_of
from dsascape.scheduler.kernels.loops.lattice import row_taken, rows_of


def gathers(use: Use, around: Sequence[Around]) -> bool:
    """Whether lanes of a vector load or store neither neighbours nor one element."""
    lanes = [each.name for each in around if each.kind == "vector"]
    strides = dict(use.place.value.terms)
    return any(name in use.place.unknown or (name in strides and alike(strides[name] != 1)) for name in lanes)


def registers_of(use: Use, placed: Placed) -> Size:
    """Return the registers of a band that a load needs: the distinct places that loops written out reach."""
    strides = dict(use.place.value.terms)
    terms = [
        (abs(strides[each.name]), each.extent) for each in placed.around
        if each.is_in_band and each.kind not in LANES and each.name in strides
    ]  # fmt: skip
    plain = math.prod([extent for _, extent in terms], start=1)
    if not use.place.is_known:
        plain = math.prod([
            each.extent for each in placed.around
            if each.is_in_band and each.kind not in LANES and each.name in use.place.moving
        ], start=1)  # fmt: skip
    if not use.place.is_affine or (use.place.is_known and _is_nested(terms)):
        return plain
    if not use.place.is_known:
        return _derived(plain, use, placed)
    numbers = [number for term in terms for number in term]
    if all(isinstance(number, int) for number in numbers):
        return _reached([largest(number) for number in numbers])
    kinds, rows = np.unique(np.stack(np.broadcast_arrays(*numbers)), axis=1, return_inverse=True)
    return np.array([_reached(tuple(map(int, kind))) for kind in kinds.T], np.int64)[rows.reshape(-1)]


def _reached(numbers: Sequence[int]) -> int:
    """Return how many places loops reach: stride and iterations of each, one after the other."""
    reached = {0}
    for stride, extent in zip(numbers[::2], numbers[1::2], strict=True):
        reached = {each + stride * number for each in reached for number in range(extent)}
    return len(reached)


def _derived(plain: Size, use: Use, placed: Placed) -> Size:
    """Return the distinct places of a band of which quotients or rests are parts; ``plain`` where they are many."""
    loops = {each.name: each.extent for each in placed.around if each.is_in_band and each.kind not in LANES}
    return chosen(plain > _MOST_ENUMERATED, plain, reached(use.place, loops)) if loops else plain


def reached(place: Position, extents: Mapping[str, Size]) -> Size:
    """Return how many places all iterations of loops come to: counted one by one, up to `_MOST_ENUMERATED`."""
    rows = rows_of((place, tuple(extents.values())))
    if rows > 1:
        every = [
            reached(row_taken(place, row), {name: row_of(extent, row) for name, extent in extents.items()})
            for row in range(rows)
        ]  # fmt: skip
        return np.array(every, np.int64)
    sizes = [largest(extent) for extent in extents.values()]
    if math.prod(sizes) > _MOST_ENUMERATED:
        return math.prod(sizes)
    numbers = [own.reshape(-1) for own in np.indices(sizes)]
    return int(np.unique(np.asarray(place.at(dict(zip(extents, numbers, strict=True))))).size)


def registers_alive(distinct: Size, use: Use, placed: Placed) -> Size:
    """Return the registers of a load that are needed at a time: those that a loop written out comes back to.

    One where no loop does: each is used up before the next one is loaded.
    """
    moving = use.place.moving
    live: Size = 1
    is_kept: Any = False
    for loop in placed.around:
        if loop.is_in_band and loop.kind not in LANES:
            again = loop.name not in moving
            live = live * chosen(is_kept & (not again), loop.extent, 1) if not again else live
            is_kept = is_kept | (again & (loop.extent > 1))
    return least(live, distinct)


_MOST_ENUMERATED = 1 << 16
"""Places of a band that are enumerated, where loops overlap or divide; all count as distinct beyond that."""


def _is_nested(terms: Sequence[tuple[Size, Size]]) -> bool:
    """Whether all iterations of loops reach distinct places: each goes beyond what those inside of it cover."""
    covered: Size = 0
    for stride, extent in sorted(terms, key=lambda each: largest(each[0])):
        if anywhere((stride <= covered) & (extent > 1)):
            return False
        covered = covered + stride * (extent - 1)
    return True
