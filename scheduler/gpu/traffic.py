"""What a kernel's blocks move between SMs, L2 and DRAM.

Between an SM and the L2, every block moves the sectors of its own operands and results once: shared memory, registers
and the SM's first cache keep them for as long as the block runs, and nothing stays for the next block.

Between L2 and DRAM it matters which blocks run at the same time, as these find what one of them has fetched. Blocks are
handed out in the order of the grid and advance through the depth loop at the same pace. So the L2 sees a loop over
groups of concurrent blocks, in it the steps of the depth, in these the blocks of the group; what it passes on follows
from the distance between the uses of each sector (`hw_models.caches`), as with a CPU's shared cache. What a later
kernel still finds is worked out for whole tensors (`scheduler.gpu.residency`). Whole sectors are written without being
fetched.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.hw_models.caches.lines import CacheShape, random_placement_hit_rate
from dsascape.hw_models.caches.nests import Nest
from dsascape.hw_models.caches.passing import passed_on
from dsascape.scheduler.gpu.residency import Found
from dsascape.scheduler.gpu.tiles import blocks_along
from dsascape.scheduler.gpu.transforms import passes_of
from dsascape.scheduler.kernels.footprints import footprints_of, touched_lines
from dsascape.scheduler.kernels.layer import DEPTH, Layer
from dsascape.workloads.loopnest import Extents
from dsascape.workloads.memo import memoized


@dataclass(frozen=True, slots=True)
class OffChip:
    """Bytes between L2 and DRAM per operand of the layer's footprints, for a kernel that begins with an empty L2."""

    fetched: tuple[float, ...]
    first: tuple[float, ...]
    """Bytes fetched because nothing in the kernel has used them before; part of ``fetched``."""
    written: tuple[float, ...]

    @property
    def total(self) -> float:
        """Both ways."""
        return sum(self.fetched) + sum(self.written)

    def left(self, found: Found) -> float:
        """Return what moves where the L2 has some operands already, and keeps some results."""
        spared = [self.first[place] for place in sorted(found.read)]
        spared += [self.written[place] for place in sorted(found.written)]
        return self.total - sum(spared)


def once_bytes(layer: Layer, found: Found) -> float:
    """Return the bytes of what ``layer`` reads and writes, without what the L2 has or keeps."""
    footprints = footprints_of(layer)
    work = layer.tile_work(layer.sink.shape)
    inputs = len(layer.inputs)
    spared = 0
    for place in sorted(found.read):
        name = layer.inputs[footprints.places[place]]
        spared += work.operand_bytes[name]
    for place in sorted(found.written):
        tensor = layer.graph.tensors[layer.outputs[footprints.places[place] - inputs]]
        spared += tensor.size_bytes
    return max(sum(work.operand_bytes.values()) + work.output_bytes - spared, 0)


@memoized
def l2_bytes(layer: Layer, tile: Extents, sector_bytes: int) -> int:
    """Return what a block that computes ``tile`` moves between its SM and the L2."""
    found, lines, passes = footprints_of(layer), touched_lines(layer, sector_bytes), passes_of(layer, tile)
    touched = [each.count for each in lines.of_operands((*tile, min(found.depth, layer.depth_extent_of(tile))))]
    if passes > 1:  # each takes as much of a line as it makes of it
        share, shape = math.prod(tile) / math.prod(layer.sink.shape), layer.sink.shape
        whole = [each.count * share for each in lines.of_operands((*shape, found.depth))]
        at_once = [operand.is_taken_at_once for operand in found.operands]
        touched = [part if taken else own for part, own, taken in zip(whole, touched, at_once, strict=True)]
    return passes * sum([math.ceil(count) for count in touched]) * sector_bytes


@memoized
def off_chip(
    layer: Layer, tile: Extents, depth_step: int | None, order: tuple[int, ...], concurrent: int, l2: CacheShape,
    sector_bytes: int,
) -> OffChip:  # fmt: skip
    """Return what passes the L2 where so many blocks of ``tile`` run at the same time, numbered in ``order``.

    ``depth_step``: iterations of the depth in which they advance (`GridShape`); None: all of them.
    """
    nest = _nest(layer, tile, depth_step, order, concurrent, sector_bytes)
    passed = passed_on(nest, l2, write_allocate=False)
    first = [min(lines.count, fetched) for lines, fetched in zip(nest.touched[0], passed.fetched, strict=True)]

    def in_bytes(lines: Sequence[float]) -> tuple[float, ...]:
        return tuple([count * sector_bytes for count in lines])

    between = _between_passes(layer, tile, l2, sector_bytes)
    fetched, written = [
        [own + more for own, more in zip(lines, between, strict=True)] for lines in (passed.fetched, passed.written)
    ]
    return OffChip(in_bytes(fetched), in_bytes(first), in_bytes(written))


def _between_passes(layer: Layer, tile: Extents, l2: CacheShape, sector_bytes: int) -> list[float]:
    """Return the sectors per operand that go to DRAM behind a pass over a transform's results, and come back."""
    found = footprints_of(layer)
    more = passes_of(layer, tile) - 1
    if not more:
        return [0.0] * len(found.operands)
    whole = touched_lines(layer, sector_bytes).of_operands((*layer.sink.shape, found.depth))
    touched = 2 * sum([lines.count for lines, is_written in zip(whole, found.is_written, strict=True) if is_written])
    lost = more * (1 - random_placement_hit_rate(touched / l2.lines))
    return [lost * lines.count * is_written for lines, is_written in zip(whole, found.is_written, strict=True)]


@memoized
def _nest(
    layer: Layer, tile: Extents, depth_step: int | None, order: tuple[int, ...], concurrent: int, sector_bytes: int
) -> Nest:
    found = footprints_of(layer)
    shape = layer.computed_part(layer.sink.shape, tile)
    counts = blocks_along(shape, tile)
    together = [1] * len(shape)
    left = concurrent
    for dim in reversed(order):
        together[dim] = min(counts[dim], left)
        left = max(1, left // together[dim])
    lines, extents = touched_lines(layer, sector_bytes), [*shape, found.depth]
    trips: list[int] = []
    axes: list[int] = []
    touched = [lines.of_operands(tuple(extents))]

    def loop(axis: int, count: int, inside: int) -> None:
        extents[axis] = inside
        if count > 1:
            trips.append(count)
            axes.append(axis)
            touched.append(lines.of_operands(tuple(extents)))

    group = tuple([min(size, n * part) for size, n, part in zip(shape, together, tile, strict=True)])
    extents[DEPTH] = depth = min(found.depth, layer.depth_extent_of(group))
    for dim in order:
        loop(dim, -(-counts[dim] // together[dim]), group[dim])
    of_group = len(trips)
    if depth_step is not None:
        steps = min(depth_step, depth)
        loop(DEPTH, -(-depth // steps), steps)
    for dim in order:
        loop(dim, together[dim], min(shape[dim], tile[dim]))
    outside = tuple([
        operand.moved_at(axes) if operand.is_taken_at_once else len(trips) if operand.feeds_depth else of_group
        for operand in found.operands
    ])  # fmt: skip
    return Nest(tuple(trips), tuple(touched), found.is_written, outside=outside)
