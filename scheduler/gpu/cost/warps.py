"""What one access of the warps of a block takes: bytes, and passes of shared memory or of the first cache.

Where threads' accesses begin follows from the loops that they are numbered along. While threads go on with their
parts, and with a reduction, all threads of a warp move alike, so that the first access of each stands for the others.
The first cache looks up one line in a pass, as wide as all banks of shared memory.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dsascape.hw_models.gpu.banks import passes_per_access
from dsascape.hw_models.gpu.spec import WORD_BYTES
from dsascape.scheduler.gpu.cost.pattern import Moves, Pattern
from dsascape.workloads.memo import memoized_in_process

_MOST_THREADS = 4096
"""Threads that stand for all others of a copy, which go on in the same way."""


class Access(NamedTuple):
    """One access of a warp, in the mean over the warps of a block."""

    size_bytes: float
    """Distinct bytes."""
    further_passes: float
    """Passes beyond the first, in which threads meet in a bank of shared memory."""
    further_lines: float
    """Passes of the first cache beyond those that its bytes take."""


@memoized_in_process(65536)
def access_of(
    pattern: Pattern, elements: int, element_bytes: float, warp: int, banks: int, of_copy: bool = False
) -> Access:  # fmt: skip
    """Return the access of a warp each of whose threads takes so many neighbours at once.

    ``of_copy``: they are neighbours along the loops that threads are numbered along, of which there are fewer then.
    """
    if pattern.place is None:
        moves = pattern.threads
        if of_copy:
            run, others = pattern.run_of_threads
            moves = (*moves[: len(others)], (-(-run // elements), elements))
        return _access(addresses_of(_few(moves)), elements, element_bytes, warp, banks)
    shape = [extent for extent, _ in pattern.threads]
    numbers = np.indices(shape).reshape(len(shape), math.prod(shape))[:, :_MOST_THREADS]
    at = dict(zip(pattern.names, numbers, strict=True))
    places = np.broadcast_to(np.asarray(pattern.place.at(at)), numbers.shape[1:])
    return _access(places.astype(np.int64), elements, element_bytes, warp, banks)


def _few(moves: Moves) -> Moves:
    """Return the loops that the first threads are numbered along, innermost ones whole."""
    found: list[tuple[int, int]] = []
    threads = 1
    for count, stride in reversed(moves):
        found.append((min(count, -(-_MOST_THREADS // threads)), stride))
        threads *= found[-1][0]
    return tuple(reversed(found))


def addresses_of(moves: Moves) -> NDArray[np.int64]:
    """Return by thread the element that its access begins with."""
    found = np.zeros(1, dtype=np.int64)
    for count, stride in moves:
        found = (found[:, None] + np.arange(count, dtype=np.int64) * stride).reshape(-1)
    return found


def _access(first: NDArray[np.int64], elements: int, element_bytes: float, warp: int, banks: int) -> Access:
    missing = -len(first) % warp
    rows = np.concatenate([first, np.repeat(first[-1:], missing)]).reshape(-1, warp)
    begin = np.sort(rows, axis=1)
    gaps = np.minimum(np.diff(begin, axis=1), elements)
    size_bytes = float((elements + gaps.sum(axis=1)).mean()) * element_bytes
    if not banks:
        return Access(size_bytes, 0.0, 0.0)
    width = banks * WORD_BYTES
    ends = (begin + elements) * element_bytes - 1
    lines = np.sort(np.concatenate([begin * element_bytes // width, ends // width], axis=1), axis=1)
    touched = 1 + (np.diff(lines, axis=1) > 0).sum(axis=1)
    least = max(elements * element_bytes * min(warp, len(first)) / width, 1.0)
    passes = passes_per_access(first, elements, element_bytes, warp, banks)
    return Access(size_bytes, passes, float(np.maximum(touched - least, 0).mean()))
