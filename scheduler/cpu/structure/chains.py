"""Loops of kernels with several anchors (`scheduler.kernels.structure.parts`) on a CPU.

A part in front computes what the next part's anchor reads, for one tile of the sink at a time, in register tiles of its
own; its result stays in a buffer of the tile's size. Which elements those are follows from the access maps, halo
included: what neighbouring tiles compute twice is known exactly.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from dsascape.scheduler.cpu.schedule.tiles import LoopTiles, Span, Spans, UpstreamTiles
from dsascape.scheduler.kernels.layer import DEPTH, Layer
from dsascape.scheduler.kernels.streaming import Softmax, softmax_of
from dsascape.scheduler.kernels.structure.anchors import anchored_nest, is_padded
from dsascape.scheduler.kernels.structure.parts import is_computed_before, link_read, parts_of
from dsascape.workloads.index import Index
from dsascape.workloads.loopnest import Access, Extents, LoopNest
from dsascape.workloads.memo import memoized


@dataclass(frozen=True, slots=True)
class Made:
    """What one part in front makes for each tile of the sink."""

    layer: Layer
    spans: Spans
    """Of its sink, in whole register tiles: all that it makes for one tile of the kernel's sink."""
    loops: int
    """How many loops over tiles, from the outermost, it is computed inside of: the others go on with what there is."""
    times: int
    """How often it is computed."""
    run: float
    """Share of these times in the mean that a mask does not leave out."""
    filled: float
    """Share of `extents` that it makes in the mean: the last step of the depth may be shorter than the others."""
    tiles: LoopTiles
    """Tiles that its loops follow from; a tile is the part that one copy with padding serves, or the whole box."""

    @property
    def extents(self) -> Extents:
        """The elements per dimension that it makes at once."""
        return tuple([span.extent for span in self.spans])


def streamed_softmax(layer: Layer) -> Softmax | None:
    """Return the softmax between two products of ``layer`` that running statistics can be kept of; None if none can.

    The last product's longest reduction goes along its rows, and nothing of that product is copied beforehand.
    """
    *front, last = parts_of(layer) or (layer,)
    anchor = anchored_nest(last)
    if len(front) != _WITH_ROWS or anchor is None or last.depth_loop is None or anchored_nest(front[-1]) is not None:
        return None
    (op,), graph = front[-1].ops, layer.graph
    softmax = softmax_of(graph.ops[op])
    if softmax is None or softmax.rows != front[-1].sink.name:
        return None
    read, reductions = link_read(anchor, softmax.rows), [loop for loop in anchor.loops if loop.reduction]
    goes_along = read.indices[softmax.columns] == Index(((last.depth_loop, 1),))
    is_copied = any(is_padded(anchor, each) or is_computed_before(last, anchor, each) for each in anchor.reads)
    longest = math.prod([loop.extent for loop in reductions]) == anchor.loops[last.depth_loop].extent
    return softmax if goes_along and longest and not is_copied else None


_WITH_ROWS = 2
"""Parts in front of the product behind a softmax: another product, and its rows."""


@memoized
def tile_grains(layer: Layer) -> tuple[int, ...]:
    """Return by dimension of the sink what sizes of tiles are multiples of.

    More than 1 where the part in front makes one element for so many neighbours, in the tiles of Winograd's algorithm.
    """
    grains = [1] * len(layer.sink.shape)
    last: tuple[int | None, ...] = tuple(range(len(grains)))
    for behind, part in itertools.pairwise(reversed(parts_of(layer))):
        anchor = anchored_nest(behind)
        if anchor is None:  # a softmax of rows, whose elements lie where those of the part in front lie
            continue
        read = link_read(anchor, part.sink.name)
        moved: list[int | None] = []
        for index in read.indices:
            loops = {loop for loop, _ in index.terms}
            own = [dim for dim, each in zip(last, anchor.write.indices, strict=True)
                   if dim is not None and loops & {loop for loop, _ in each.terms}]  # fmt: skip
            for dim in own:
                grains[dim] = math.lcm(grains[dim], index.divisor)
            moved.append(own[0] if len(own) == 1 else None)
        last = tuple(moved)
    return tuple(grains)


def made_in_front(layer: Layer, tiles: LoopTiles) -> tuple[Made, ...]:
    """Return what the parts of ``layer`` in front of the last make for ``tiles`` of that, first part first."""
    if not tiles.upstream:
        return ()
    parts = parts_of(layer)
    sink = parts[-1].sink
    counts = tile_counts(sink.shape, tiles)
    spans = sink_spans(sink.shape, tiles)
    steps_of_depth = -(-depth_of(parts[-1]) // (tiles.depth_step or 1))
    found: list[Made] = []
    for behind, part, own in zip(reversed(parts[1:]), reversed(parts[:-1]), tiles.upstream, strict=True):
        box = box_in_front(behind, part, spans, tiles.depth_step if tiles.streamed else None)
        spans = tuple([span.rounded(size) for span, size in zip(box, own.register, strict=True)])
        depends = {dim for span in spans for dim, _ in span.steps}
        loops = max([tiles.parallel, *(tiles.order.index(dim) + 1 for dim in depends - {DEPTH})])
        if DEPTH in depends:
            loops = len(tiles.order) + 1
        times = math.prod([counts[dim] for dim in tiles.order[:loops]])
        times *= steps_of_depth if DEPTH in depends else 1
        run, filled = _run_share(layer, tiles, spans), _filled(layer, spans)
        found.append(Made(part, spans, loops, times, run, filled, _tiles_of(part, own, spans)))
    return tuple(reversed(found))


def _run_share(layer: Layer, tiles: LoopTiles, spans: Spans) -> float:
    """Return the share of the steps of the depth that a mask has tiles of the sink run through, in the mean."""
    if not layer.is_bounded or not any(dim == DEPTH for span in spans for dim, _ in span.steps):
        return 1.0
    return layer.depth_extent_of(tiles.within(layer.sink.shape)) / max(math.prod(layer.depth_extents), 1)


def _filled(layer: Layer, spans: Spans) -> float:
    """Return the share that all of the depth is of whole steps of it; 1 where nothing goes in steps."""
    depth, steps = depth_of(parts_of(layer)[-1]), [step for span in spans for dim, step in span.steps if dim == DEPTH]
    return min([depth / (-(-depth // step) * step) for step in steps], default=1.0)


def _tiles_of(part: Layer, own: UpstreamTiles, spans: Spans) -> LoopTiles:
    anchor = anchored_nest(part)
    if anchor is None:
        rows = tuple([1 if dim != own.vector_dim else span.extent for dim, span in enumerate(spans)])
        return LoopTiles(rows, own.order, 0, own.register, own.vector_dim, None)
    copied = [read for read in anchor.reads if is_padded(anchor, read) or is_computed_before(part, anchor, read)]
    apart = own.order[: min([loops_apart(anchor, read, own.order) for read in copied], default=0)]
    tile = tuple([own.register[dim] if dim in apart else span.extent for dim, span in enumerate(spans)])
    return LoopTiles(tile, own.order, 0, own.register, own.vector_dim, None)


def depth_of(layer: Layer) -> int:
    """Return the iterations of the longest reduction loop of a part's anchor."""
    anchor, loop = anchored_nest(layer), layer.depth_loop
    return 1 if anchor is None or loop is None else anchor.loops[loop].extent


def box_in_front(behind: Layer, layer: Layer, written: Spans, step: int | None = None) -> Spans:
    """Return what ``layer`` has to make for ``behind`` to write so much of its own sink.

    A border that all tiles together need is not computed: a copy adds it. ``step``: iterations of the depth of
    ``behind`` that it is made for; None for all.
    """
    anchor = anchored_nest(behind)
    if anchor is None:
        return written  # of the same rows
    read = link_read(anchor, layer.sink.name)
    spans = read_spans(anchor, read, written, behind.depth_loop, step)
    if not is_padded(anchor, read):
        return spans
    return tuple([span if span.steps else _inside(span, size) for span, size in zip(spans, read.shape, strict=True)])


def tile_counts(shape: Extents, tiles: LoopTiles) -> tuple[int, ...]:
    """Return the number of tiles along each dimension of the sink."""
    return tuple([-(-size // part) for size, part in zip(shape, tiles.whole_registers, strict=True)])


def sink_spans(shape: Extents, tiles: LoopTiles) -> Spans:
    """Return which elements of the sink belong to each tile."""
    counts = tile_counts(shape, tiles)
    return tuple(
        Span(0, part, ((dim, part),) if count > 1 else ())
        for dim, (part, count) in enumerate(zip(tiles.whole_registers, counts, strict=True))
    )


def _inside(span: Span, size: int) -> Span:
    first = max(span.first, 0)
    return Span(first, min(span.first + span.extent, size) - first)


def read_spans(
    nest: LoopNest, read: Access, written: Spans, depth: int | None = None, step: int | None = None
) -> Spans:  # fmt: skip
    """Return which elements ``nest`` reads to write ``written``, in steps of the loop ``depth`` where one is given."""
    loops = {place: Span(0, loop.extent) for place, loop in enumerate(nest.loops)}
    if depth is not None and step is not None:
        loops[depth] = Span(0, step, ((DEPTH, step),))
    for index, span in zip(nest.write.indices, written, strict=True):
        loops.update({loop: span for loop, _ in nest.moving(index).terms})
    return tuple([_span_of(index, loops) for index in read.indices])


def loops_apart(nest: LoopNest, read: Access, order: tuple[int, ...]) -> int:
    """Return how many loops over dimensions of the output, outermost first, never come to the same elements twice."""
    read_along = [nest.moving(index) for index in read.indices]
    count = 0
    for dim in order:
        along = nest.moving(nest.write.indices[dim])
        if along.terms and along not in read_along:
            break
        count += 1
    return count


def _span_of(index: Index, loops: Mapping[int, Span]) -> Span:
    first, extent = index.offset, 1
    steps: dict[int, int] = {}
    for loop, stride in index.terms:
        span = loops[loop]
        first += stride * (span.first if stride > 0 else span.first + span.extent - 1)
        extent += abs(stride) * (span.extent - 1)
        for dim, step in span.steps:
            steps[dim] = steps.get(dim, 0) + stride * step
    if index.divisor != 1:
        extent = (first % index.divisor + extent - 1) // index.divisor + 1
        first, steps = first // index.divisor, {dim: step // index.divisor for dim, step in steps.items()}
    return Span(first, extent, tuple(sorted(steps.items())))
