"""What follows from sizes, copies and shares on a GPU: widths of threads, prefetching, loops that threads share.

Mutations and crossover change what is drawn; this brings the steps that depend on it in line.
"""

import math
from dataclasses import replace

from dsascape.scheduler.gpu.held_stages import HeldStages
from dsascape.scheduler.kernels.loops.naive import reduction_extents
from dsascape.scheduler.kernels.loops.nodes import SUMS, reduction_loops
from dsascape.scheduler.kernels.loops.steps import (
    Bind,
    CacheRead,
    Level,
    Prefetch,
    ShareReduction,
    Steps,
    Tensorise,
    Tile,
)
from dsascape.tuner.search.genes import step_of, with_step, without
from dsascape.workloads.loopnest import Extents


def copies_of(steps: Steps, sums: str) -> tuple[CacheRead, ...]:
    """Return the copies that a stage of sums reads."""
    return tuple([step for step in steps if isinstance(step, CacheRead) and step.reader == sums])


def settled_on_grid(held: HeldStages, steps: Steps, warp: int) -> Steps:
    """Return ``steps`` with all that follows from sizes, copies and shares set anew, for warps of so many threads."""
    for tensor, (nest, described) in held.nests.items():
        tile = step_of(steps, tensor + SUMS, Tile)
        if tile is None:
            continue
        is_staged = bool(copies_of(steps, tensor + SUMS))
        is_tiled = len(tile.levels) > 1
        share = step_of(steps, tensor + SUMS, ShareReduction)
        loops = reduction_loops(nest)
        depth = described.depth_loop
        if share is not None and share.count == 1:
            steps, share = without(steps, tensor + SUMS, ShareReduction), None
        if share is not None:
            share = replace(share, loops=(depth,) if is_staged and depth is not None else loops)
            steps = with_step(steps, share)
        shared = () if share is None else share.loops
        order = loops if depth is None else (*[loop for loop in loops if loop != depth], depth)
        own = tuple([loop for loop in order if loop not in shared])
        inner = Level("reduction", own, (1,) * len(own))
        if not is_tiled:
            steps = with_step(steps, replace(tile, levels=(inner,)))
        else:
            steps = steps if is_staged else _at_once(held, steps, tensor)
            steps = with_step(steps, replace(tile, levels=(_outer(tile, shared, len(loops)), inner)))
            steps = _with_prefetch(steps, tensor + SUMS, reduction_extents(nest).get(depth, 1) if depth else 1)
    return _with_widths(held, steps, warp)


def _at_once(held: HeldStages, steps: Steps, tensor: str) -> Steps:
    """Return steps that compute all of a product in front of the last together, whose operands are not staged."""
    holder = held.holder(held.naive.stages[tensor + SUMS])
    tile = None if holder in (None, held.sink) else step_of(steps, str(holder), Tile)
    if tile is None or len(tile.levels) == 1:
        return steps
    shape = held.naive.stages[tile.stage].shape
    whole = replace(tile.levels[0], sizes=tuple([shape[dim] for dim in tile.levels[0].order]))
    return with_step(steps, replace(tile, levels=(whole, *tile.levels[1:])))


def _outer(tile: Tile, shared: tuple[int, ...], loops: int) -> Level:
    """Return the level of a product's steps; without loops where threads share all reductions as one."""
    return Level("reduction", (), ()) if len(shared) == loops > 1 else tile.levels[0]


def _with_prefetch(steps: Steps, sums: str, extent: int) -> Steps:
    """Return steps that prefetch no copies of a product with a single step, and single ones of a product without."""
    tile = step_of(steps, sums, Tile)
    assert tile is not None
    outer, found = tile.levels[0], copies_of(steps, sums)
    if not found and outer.order:
        return with_step(steps, replace(tile, levels=(replace(outer, sizes=(extent,)), *tile.levels[1:])))
    is_single = outer.sizes is not None and outer.order != () and outer.sizes[0] >= extent
    for copy in found if is_single else ():
        steps = without(steps, copy.stage, Prefetch)
    return steps


def _with_widths(held: HeldStages, steps: Steps, warp: int) -> Steps:
    """Return steps in which loops around instructions of tensor units are of warps, and other loops of threads."""
    sink = step_of(steps, held.sink, Tile)
    for name in held.kept:
        bind = step_of(steps, name, Bind)
        own = [stage.name for stage in held.sums if held.is_in(stage, name)]
        if bind is None or sink is None:
            continue
        width = warp if any(step_of(steps, sums, Tensorise) is not None for sums in own) else 1
        is_shared = any(step_of(steps, sums, ShareReduction) is not None for sums in own)
        least = 0 if is_shared or name != held.sink else bind.least_threads
        cluster = _cluster(bind, held.naive.stages[name].shape, sink.levels[0]) if width > 1 else ()
        steps = with_step(steps, replace(bind, width=width, least_threads=least, cluster=cluster))
        if name != held.sink and any(held.nests[sums.removesuffix(SUMS)][1].is_anchor for sums in own):
            steps = _as_large_as(steps, name, sink.levels[-1])
    return steps


def _cluster(bind: Bind, shape: Extents, grid: Level) -> tuple[int, ...]:
    """Return the blocks of a cluster, halved along loops of the grid that have fewer; none where one is left."""
    if not bind.cluster or grid.sizes is None or len(grid.order) != len(bind.cluster):
        return ()
    cluster = []
    for dim, size, blocks in zip(grid.order, grid.sizes, bind.cluster, strict=True):
        neighbours = blocks
        while neighbours > -(-shape[dim] // size):
            neighbours //= 2
        cluster.append(neighbours)
    return tuple(cluster) if math.prod(cluster) > 1 else ()


def _as_large_as(steps: Steps, name: str, part: Level) -> Steps:
    """Return steps in which threads compute parts of a product in shared memory as large as those of the sink."""
    tile = step_of(steps, name, Tile)
    if tile is None or len(tile.levels) != 1 or part.sizes is None:
        return steps
    (own,) = tile.levels
    sizes = dict(zip(part.order, part.sizes, strict=True)) if len(part.order) == len(own.order) else {}
    changed = replace(own, sizes=tuple([sizes.get(dim, 1) for dim in own.order]))
    return with_step(steps, replace(tile, levels=(changed,)))
