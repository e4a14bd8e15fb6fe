"""Sizes of tiles that the search for a layer's loops tries, and how many of its loops threads share."""

import math
from collections.abc import Iterator, Sequence

from dsascape.scheduler.cpu.structure.anchors import is_aligned
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.structure.anchors import anchored_nest
from dsascape.scheduler.parts import divisors
from dsascape.workloads.loopnest import Extents


def sizes_along(layer: Layer, dim: int, register: int, few: Sequence[int], grain: int) -> list[int]:
    """Return tiles of one register tile, up to a ``few`` and all: they divide the number of register tiles.

    Where a dimension consists of parts, such as channels of groups, a tile is inside of one, or consists of whole ones.
    Those that are not all are multiples of ``grain``.
    """
    nest, number = anchored_nest(layer), -(-layer.sink.shape[dim] // register)
    assert nest is not None
    least = min(grain // math.gcd(grain, register), number)
    counts = [each * least for each in divisors(-(-number // least))]
    possible = [each for each in counts if is_aligned(nest, dim, each * register)]
    some = [max([each for each in possible if each <= most * least], default=least) for most in few]
    return [min(count, number) * register for count in dict.fromkeys([least, *some, number])]


def row_tiles(
    layer: Layer, outer: list[int], register: Extents, few: Sequence[int], grains: Extents
) -> Iterator[list[int]]:
    """Yield tiles without their vector dimension: whole along more and more dimensions, the innermost first."""
    tile = [sizes_along(layer, dim, register[dim], few, grains[dim])[0] for dim in range(len(register))]
    yield list(tile)
    for dim in outer:
        for size in sizes_along(layer, dim, register[dim], few, grains[dim])[1:]:
            tile[dim] = size
            yield list(tile)


def parallel_loops(
    tile: Sequence[int], order: Sequence[int], shape: Extents, threads: int, view: CpuView
) -> int:
    """Return how many loops over tiles are fused into the parallel one to make enough chunks for ``threads``."""
    wanted = threads * view.tuning.chunks_per_thread
    parallel, fused = 0, 1
    while threads > 1 and parallel < len(shape) and fused < wanted:
        dim = order[parallel]
        fused *= -(-shape[dim] // tile[dim])
        parallel += 1
    return parallel if fused > 1 else 0
