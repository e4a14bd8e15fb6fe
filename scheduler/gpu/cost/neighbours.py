"""Elements that one thread loads or stores in a band, and how they follow each other in memory."""

import math
from collections.abc import Iterator

from dsascape.scheduler.gpu.cost.warps import aligned
from dsascape.scheduler.kernels.cost.counted import Move


def _written_out(move: Move) -> Iterator[tuple[int, int]]:
    """Yield stride and iterations of the loops of a band that move what is loaded or stored, neighbours first."""
    strides = dict(move.use.place.value.terms)
    own = [
        (abs(int(strides[loop.name])), int(loop.extent)) for loop in move.loops
        if loop.is_in_band and loop.kind not in ("thread", "vector") and loop.name in strides
    ]  # fmt: skip
    yield from sorted(own)


def run_of(move: Move) -> int:
    """Return how many elements of a band follow each other in memory."""
    run = 1
    for stride, extent in _written_out(move):
        run = run * extent if stride == run else run
    return run


def in_band(move: Move) -> int:
    """Return how many elements of a band there are."""
    return math.prod([extent for _, extent in _written_out(move)])


def aligned_neighbours(move: Move, most: int) -> int:
    """Return how many neighbours a thread takes at once as arrays lie, ``most`` at most."""
    strides = dict(move.use.place.value.terms)
    apart = [int(strides.get(loop.name, 0)) for loop in move.loops if loop.kind == "thread"]
    return aligned(most, max(run_of(move), going_on(move)), apart)


def going_on(move: Move) -> int:
    """Return with how many iterations of loops around a band its elements go on in memory."""
    return math.prod([int(each) for each in move.goes_on])
