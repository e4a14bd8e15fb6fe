"""Elements that the iterations of a loop nest touch, computed from its index expressions one by one."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dsascape.workloads.loopnest import Index

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]


def touched_places(index: Index, size: int, loops: Mapping[int, Ints], count: int) -> list[tuple[Ints, Mask]]:
    """Return by way of touching (windows have several) the place of every iteration, and whether it is there.

    ``size``: elements of the dimension; ``loops``: the values, in each of ``count`` iterations, of the loops that
    ``index`` names. Places that data chooses are not known; what has to work for any data has to for data that choose
    the first place, the second and so on, and these are returned.
    """
    if index.opaque and not index.table:
        number = np.zeros(count, np.int64)
        for loop, _ in index.terms:
            number = number * (loops[loop].max(initial=0) + 1) + loops[loop]
        return [(number % size, np.ones(count, bool))]
    value = np.full(count, index.offset, np.int64)
    for loop, stride in index.terms:
        value = value + stride * loops[loop]
    if index.opaque:
        value = np.array(index.table, np.int64)[np.clip(value, 0, len(index.table) - 1)]
        return [(value, np.ones(count, bool))]
    divides = value % index.divisor == 0 if index.rounding == "exact" else np.ones(count, bool)
    value = value // index.divisor
    ways = []
    for step in range(index.window):
        place = value + step
        if index.clamp:
            ways.append((np.clip(place, 0, size - 1), divides))
        else:
            there = divides & (place >= 0) & (place < size)
            ways.append((np.where(there, place, 0), there))
    return ways


def loop_values(extents: Mapping[int, int]) -> dict[int, Ints]:
    """Return the values of the loops in every iteration of the nest that they make, the last loop fastest."""
    grid = np.meshgrid(*(np.arange(extent) for extent in extents.values()), indexing="ij")
    return {loop: values.ravel() for loop, values in zip(extents, grid, strict=True)}
