"""A rough time of a kernel in tiles: the order in which the search costs its candidates.

It decides nothing by itself: the first few are costed as loop programs (`scheduler.cpu.cost`), and the fastest of these
is taken. Counted are register tiles of the anchors, copies with padding, and what caches pass on of each part's
operands while its loops over tiles run; epilogues, masks and conflicts are not.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from dsascape.hw_models.caches.lines import CacheShape, Lines
from dsascape.hw_models.caches.nests import Nest
from dsascape.hw_models.caches.passing import passed_on
from dsascape.hw_models.cpu.machine import DRAM, CorePace
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.search.register_cycles import register_cost
from dsascape.scheduler.cpu.structure.chains import depth_of, made_in_front
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.footprints import footprints_of, touched_lines
from dsascape.scheduler.kernels.lanes import dividing
from dsascape.scheduler.kernels.layer import DEPTH, Layer
from dsascape.scheduler.kernels.structure.anchors import anchored_nest
from dsascape.scheduler.kernels.structure.parts import parts_of
from dsascape.workloads.loopnest import Extents

_FEW_INSTRUCTIONS = 20
"""Instructions for each vector of rows without an anchor, as of a softmax: assumed."""


class _Part(NamedTuple):
    """A part of a kernel, as often as a thread computes it."""

    layer: Layer
    tiles: LoopTiles
    extents: Sequence[int]
    """Elements of its sink that are computed at a time."""
    depth: int
    """Iterations of its depth that are."""
    times: float


def rough_ps(layer: Layer, tiles: LoopTiles, threads: int, dtype: str, view: CpuView) -> float:
    """Return about what a kernel takes on so many threads: the slowest of them, if nothing overlaps."""
    counts, used = tiles_of_chunk(layer.sink.shape, tiles, threads)
    pace, of_kind = view.on_cores(used)[-1]
    if not parts_of(layer):
        return view.spec.region_ps(used) + _of_rows_ps(layer, dtype, pace, view) / used
    every = _parts(layer, tiles, counts)
    cycles = sum([part.times * (_cycles(part, dtype, pace, view) + _copies(part, dtype, pace, view)) for part in every])
    caches: list[tuple[CacheShape, int]] = [(shape, min(shared, of_kind)) for shape, shared in pace.caches]
    if view.shared_shape is not None:
        caches.append((view.shared_shape, view.sharing_last(used)))
    nests = [_nest(part, view.spec.line_bytes) for part in every]
    moved_ps = 0.0
    for name, (shape, cores) in zip(view.caches, caches, strict=True):
        own, lines = shape.of_cores(cores), 0.0
        lost = 1 - own.keeps(sum([_touched(part, nest, cores) for part, nest in zip(every, nests, strict=True)]))
        for part, nest in zip(every, nests, strict=True):
            once = passed_on(nest, own, write_allocate=view.spec.write_allocate).total
            lines += once * (1 + max(part.times - 1, 0.0) * lost)
        moved_ps += lines * view.spec.line_bytes / pace.bytes_per_ps[name]
    return view.spec.region_ps(used) + cycles * pace.cycle_ps + moved_ps


def _parts(layer: Layer, tiles: LoopTiles, counts: Sequence[int]) -> list[_Part]:
    """Return what a thread with ``counts`` tiles along each dimension computes: with parts in front, tile by tile."""
    last, shape = parts_of(layer)[-1], layer.sink.shape
    in_front = made_in_front(layer, tiles)
    if not in_front:
        whole = [min(size, part * count) for size, part, count in zip(shape, tiles.tile, counts, strict=True)]
        return [_Part(last, tiles, whole, depth_of(last), 1.0)]
    share = math.prod(counts) / math.prod([-(-size // part) for size, part in zip(shape, tiles.tile, strict=True)])
    every = [
        _Part(made.layer, made.tiles, made.extents, depth_of(made.layer), made.times * made.run * made.filled * share)
        for made in in_front
    ]
    depth = depth_of(last)
    step = (tiles.depth_step or depth) if tiles.streamed else depth
    return [*every, _Part(last, tiles, tiles.within(shape), step, math.prod(counts) * depth / step)]


def _touched(part: _Part, nest: Nest, cores: int) -> float:
    """Return the lines that a part touches at a time, for one of ``cores``, which share weights."""
    if anchored_nest(part.layer) is None:
        return nest.body_lines[0]
    operands = footprints_of(part.layer).operands
    return sum([
        lines.count / (cores if operand.array.is_packed else 1)
        for operand, lines in zip(operands, nest.touched[0], strict=True)
    ])


def tiles_of_chunk(shape: Extents, tiles: LoopTiles, threads: int) -> tuple[list[int], int]:
    """Return the tiles of a full chunk along each dimension of the sink, and the threads that have a chunk."""
    counts = [-(-size // part) for size, part in zip(shape, tiles.tile, strict=True)]
    fused = tiles.order[: tiles.parallel]
    iterations = math.prod([counts[dim] for dim in fused])
    left = each = -(-iterations // min(threads, iterations))
    for dim in reversed(fused):
        counts[dim] = min(counts[dim], left)
        left = -(-left // counts[dim])
    return counts, -(-iterations // each)


def _of_rows_ps(layer: Layer, dtype: str, pace: CorePace, view: CpuView) -> float:
    """Return about what a kernel without an anchor takes on one thread: its arithmetic, and its operands once."""
    every = [work.operations for work in layer.tile_work(layer.sink.shape).nests]
    instructions = sum([made.macs + made.simple + made.special * pace.core.special_cycles for made in every])
    moved = sum([operand.used_bytes for operand in footprints_of(layer).operands])
    cycles = instructions / max(view.lanes(dtype), 1) / pace.core.fma_pipes
    return cycles * pace.cycle_ps + moved / pace.bytes_per_ps[DRAM]


def _cycles(part: _Part, dtype: str, pace: CorePace, view: CpuView) -> float:
    """Return the cycles of a part's register tiles."""
    register, vector_dim = part.tiles.register, part.tiles.vector_dim
    number = math.prod([-(-size // own) for size, own in zip(part.extents, register, strict=True)])
    if anchored_nest(part.layer) is None:
        return _FEW_INSTRUCTIONS * number * math.prod(register) / max(view.lanes(dtype), 1) / pace.core.issue_width
    depth = depth_of(part.layer)
    if vector_dim < 0:
        return number * math.prod(register) * part.depth / pace.core.pipes_of(dtype)
    passes = depth / min(part.tiles.depth_step or depth, depth)
    again = 2 * (passes - 1) * math.prod(register) / max(view.lanes(dtype), 1)  # partial sums: stored, taken up
    cycles = register_cost(part.layer, register, vector_dim, dtype, view.issue).cycles * part.depth / depth
    return number * (cycles + again / min(pace.core.loads_per_cycle, pace.core.stores_per_cycle))


def _copies(part: _Part, dtype: str, pace: CorePace, view: CpuView) -> float:
    """Return the cycles of what a part's tiles copy with padding: a load and a store for each vector."""
    tiles = [min(size, own) for size, own in zip(part.extents, part.tiles.tile, strict=True)]
    number = math.prod([-(-size // own) for size, own in zip(part.extents, tiles, strict=True)])
    vectors = 0.0
    for operand in footprints_of(part.layer).operands:
        if operand.is_copied:
            box = [reach.of((*tiles, part.depth)) for reach in operand.reaches]
            vectors += math.prod(box) / dividing(box[-1], max(view.lanes(dtype), 1))
    return number * vectors * (1 / pace.core.loads_per_cycle + 1 / pace.core.stores_per_cycle)


def _nest(part: _Part, line_bytes: int) -> Nest:
    """Return the loops of a part and the lines of operands that they touch.

    What follows the anchor is touched once per register tile. Rows without an anchor are read and written, in part.
    """
    if anchored_nest(part.layer) is None:
        own = Lines(part.layer.sink.bytes_of(math.prod(part.extents)) / line_bytes)
        return Nest((), ((own, own),), (False, True))
    found, tiles = footprints_of(part.layer), part.tiles
    extents = [*part.extents, part.depth]
    trips, rows = list[int](), [tuple(extents)]

    def loop(axis: int, inside: int) -> None:
        count, extents[axis] = -(-extents[axis] // inside), min(inside, extents[axis])
        if count > 1:
            trips.append(count)
            rows.append(tuple(extents))

    for dim in tiles.order:
        loop(dim, tiles.tile[dim])
    if tiles.depth_step is not None:
        loop(DEPTH, tiles.depth_step)
    for dim in tiles.order:
        loop(dim, tiles.register[dim])
    of_registers = len(trips)
    loop(DEPTH, 1)
    outside = tuple([len(trips) if each.feeds_depth else of_registers for each in found.operands])
    lines = touched_lines(part.layer, line_bytes)
    touched = tuple([lines.of_operands(row) for row in rows])
    return Nest(tuple(trips), touched, found.is_written, outside=outside)
