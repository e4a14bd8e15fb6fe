"""Work of nests that a mask bounds, as register tiles of a few rows have it."""

from dataclasses import replace

from dsascape.scheduler.kernels.tile_work import NestWork

BOUNDED_ROWS = 8
"""Rows of a register tile, for all of which a bounded loop runs as far as for the last: assumed."""


def bounded_work(work: NestWork) -> NestWork:
    """Return the work of a whole nest with the iterations of a bounded loop that register tiles have in the mean."""
    nest = work.nest
    if nest.bound is None:
        return work
    extents = [*nest.extents]
    extents[nest.bound.outer] = min(BOUNDED_ROWS, extents[nest.bound.outer])
    nest.bound.cut(extents, nest.extents)
    extents[nest.bound.outer] = nest.extents[nest.bound.outer]
    return replace(work, extents=tuple(map(min, extents, work.extents)), operations=nest.operations())
