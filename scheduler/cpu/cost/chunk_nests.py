"""The loops of a chunk and the lines that they touch: what the traffic of caches follows from."""

import math

from dsascape.hw_models.caches.lines import Lines
from dsascape.hw_models.caches.nests import Nest
from dsascape.scheduler.cpu.cost.streamed import footprints_in, nest_of_rows, touched_lines_in
from dsascape.scheduler.cpu.schedule.chunks import Chunks, split_operands
from dsascape.scheduler.cpu.schedule.tiles import TiledLoops
from dsascape.scheduler.cpu.structure.bounded_rows import BOUNDED_ROWS
from dsascape.scheduler.cpu.structure.chains import Made, fronts_of, loops_apart
from dsascape.scheduler.cpu.structure.widened import widening_of
from dsascape.scheduler.kernels.footprints import footprints_of, touched_lines
from dsascape.scheduler.kernels.layer import DEPTH, Layer
from dsascape.scheduler.kernels.structure.anchors import anchored_nest
from dsascape.scheduler.kernels.structure.parts import link_read, parts_of
from dsascape.workloads.loopnest import Extents


def nest_of_chunk(layer: Layer, tiled: TiledLoops, chunks: Chunks, line_bytes: int) -> Nest:
    """Return the loops of one full chunk and the lines that they touch."""
    found = footprints_in(layer, tiled)
    shape, depth = layer.sink.shape, found.depth
    tile = tiled.tile(shape)
    at_once = tuple([min(part, BOUNDED_ROWS) for part in tile])
    computed = layer.computed_part(shape, at_once)
    whole = [min(size, part * count) for size, part, count in zip(computed, tile, chunks.per_dim, strict=True)]
    extents = [*whole, depth]
    trips: list[int] = []
    axes: list[int] = []
    rows = [tuple(extents)]
    extents[DEPTH] = min(depth, layer.depth_extent_of(at_once)) if layer.is_bounded else depth

    def loop(axis: int, inside: int) -> None:
        count, extents[axis] = -(-extents[axis] // inside), min(inside, extents[axis])
        if count > 1:
            trips.append(count)
            axes.append(axis)
            rows.append(tuple(extents))

    in_front = fronts_of(layer, tiled)
    made_at = 0
    for number, (axis, inside) in enumerate(tiled.loops[: tiled.of_tile]):
        loop(axis, inside)
        made_at = len(trips) if in_front and number + 1 == in_front[-1].loops else made_at
    of_tile = len(trips)
    made_at = made_at if in_front else of_tile
    if found.passes:
        return _in_passes(layer, tile, (trips, axes, rows), line_bytes)
    held_depth = depth
    for number, (axis, inside) in enumerate(tiled.loops[tiled.of_tile :], tiled.of_tile):
        loop(axis, inside)
        if in_front and number + 1 == in_front[-1].loops:
            made_at, held_depth = len(trips), extents[DEPTH]
    of_registers, step = len(trips), extents[DEPTH]
    loop(DEPTH, 1)
    last = len(trips)
    outside = [
        made_at if each.is_in_front else of_tile if each.is_copied
        else each.moved_at(axes) if each.is_taken_at_once else last if each.feeds_depth else of_registers
        for each in found.operands
    ]  # fmt: skip
    held: tuple[float, ...] = ()
    anchor = anchored_nest(layer)
    if found.has_buffers and (anchor is None or widening_of(layer, anchor) is None):
        buffer = layer.tile_work(tile).internal_bytes / line_bytes
        held = tuple([buffer if place <= of_tile else 0.0 for place in range(last + 1)])
    lines, copies = touched_lines_in(layer, tiled, line_bytes), len(found.copied)
    touched = [lines.of_operands(row) for row in rows]
    if copies:
        copied = (*tile, held_depth)
        of_copies = [copied] * copies
        if in_front and len(found.buffers) > 1:
            of_copies[-1] = (*_copied_from_front(layer, tiled, tile), held_depth)
        for place, row in enumerate(rows):
            parts = tuple([tuple(map(min, row, copied, own)) for own in of_copies])
            touched[place] += lines.of_copies(tuple(of_copies), parts)
    if step > 1:  # loops over taps are around that of the depth, whose iterations find each other's lines
        touched[last] = tuple([
            Lines(each.count, each.runs, 0, each.jumps) if each.pitch_lines else each for each in touched[last]
        ])
    return Nest(
        tuple(trips), tuple(touched), found.nest_writes, held, (*outside, *[last] * copies),
        tuple(axes), (*found.moved_by, *[frozenset(axes)] * copies),
    )  # fmt: skip


def _in_passes(
    layer: Layer, tile: Extents, loops: tuple[list[int], list[int], list[Extents]], line_bytes: int
) -> Nest:
    """Return the loops over tiles that are gone over in passes; what a tile keeps for later passes is its own array."""
    found, lines = footprints_of(layer), touched_lines(layer, line_bytes)
    trips, axes, rows = loops
    kept = Lines(layer.tile_work(tile).internal_bytes / line_bytes)
    return Nest(
        tuple(trips), tuple([(*lines.of_operands(row), kept) for row in rows]), (*found.is_written, True),
        axes=tuple(axes), moved_by=(*found.moved_by, frozenset()), passes=found.passes,
    )  # fmt: skip


def _copied_from_front(layer: Layer, tiled: TiledLoops, tile: Extents) -> Extents:
    """Return the part of a tile that what its anchor reads of the part in front is copied for at once."""
    *_, front, last = parts_of(layer)
    anchor = anchored_nest(last)
    assert anchor is not None
    order = tuple([axis for axis, _ in tiled.loops[tiled.of_tile :] if axis >= 0])
    apart = order[: loops_apart(anchor, link_read(anchor, front.sink.name), order)]
    return tuple([tiled.register[dim] if dim in apart else size for dim, size in enumerate(tile)])


def nest_in_front(made: Made, line_bytes: int) -> Nest:
    """Return the loops of a part in front for one tile of the kernel's sink, or one step of its depth."""
    if made.is_of_rows_in_parts:
        return nest_of_rows(made, line_bytes)
    tile = made.tiled.tile(made.extents)
    counts = tuple([-(-size // part) for size, part in zip(made.extents, tile, strict=True)])
    return nest_of_chunk(made.layer, made.tiled, Chunks(1, 1, 1, counts), line_bytes)


def nest_of_cores(
    layer: Layer, tiled: TiledLoops, chunks: Chunks, chunk: Nest, cores: int, line_bytes: int
) -> Nest:
    """Return what ``cores`` that each run such a chunk at the same pace touch together: the nest of a shared cache.

    Chunks that differ only along dimensions on which an operand does not depend use the same lines of it. All chunks
    are taken to be full ones; where the last is not, the whole of an operand is that much larger.
    """
    if cores == 1:
        return chunk
    own = footprints_of(layer).own_arrays  # of which every core has its own
    bounds = [*lines_together(layer, tiled, chunks, cores, line_bytes), *[(float(cores), math.inf)] * own]
    touched = tuple([
        tuple([Lines(min(lines.count * factor, most)) for lines, (factor, most) in zip(row, bounds, strict=True)])
        for row in chunk.touched
    ])
    held = tuple([lines * cores for lines in chunk.held])
    return Nest(chunk.trips, touched, chunk.is_written, held, chunk.outside, passes=chunk.passes)


def lines_together(
    layer: Layer, tiled: TiledLoops, chunks: Chunks, cores: int, line_bytes: int
) -> list[tuple[float, float]]:
    """Return for each operand by how much more lines ``cores`` touch than one of them, and how many it has."""
    found, bounds = footprints_of(layer), []
    for operand, is_split in zip(found.operands, split_operands(found, chunks), strict=True):
        full = chunks.count / chunks.in_all if is_split else 1.0
        apart = math.prod([number for dim, number in chunks.parts if dim in operand.depends_on])
        bounds.append((min(cores, apart * full), math.ceil(operand.size_bytes / line_bytes) * full))
    return bounds
