"""The built-in choice as rewriting steps: what `LoopTiles` say about a layer's loops on the cores of a CPU."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.structure.anchors import Anchor, anchor_of, vector_lanes
from dsascape.scheduler.cpu.structure.chains import (
    Made,
    loops_apart,
    made_in_front,
    read_spans,
    sink_spans,
    streamed_softmax,
)
from dsascape.scheduler.cpu.structure.masked_rows import masked_rows
from dsascape.scheduler.cpu.structure.nests import lies_apart, summed_run, sums_one_by_one
from dsascape.scheduler.cpu.structure.partial_sums import MOST_VECTORS, partial_sums
from dsascape.scheduler.cpu.structure.shared_operands import shared_dims
from dsascape.scheduler.cpu.structure.widened import read_along, widening_of
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.lanes import dividing
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.illegal import Limits
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import SUMS, LoopKind, Stage, reduction_loops
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import (
    CacheRead,
    CacheWrite,
    ComputeAt,
    Inline,
    Layout,
    Level,
    Outline,
    Parallel,
    PartialSums,
    Running,
    Step,
    Steps,
    Tile,
    Unroll,
    Vectorise,
)
from dsascape.scheduler.kernels.streaming import Softmax
from dsascape.scheduler.kernels.structure.anchors import anchored_nest, is_padded, shared_rows
from dsascape.scheduler.kernels.structure.parts import is_computed_before, parts_of
from dsascape.scheduler.kernels.structure.passes import kept_tensors
from dsascape.workloads.loopnest import Access, Extents, LoopNest

_MOST_UNROLLED = 16
"""Iterations of a loop that stores results of a register tile, where it is unrolled."""
_USES = 8
"""Elements for each of which a factor is used at least, where it is computed beforehand."""
WHOLE = ".whole"
"""Suffix of the name of a stage that computes whole vectors, of which the result copies the part inside of it."""


def steps_of(layer: Layer, tiles: LoopTiles, lanes: int) -> Steps:
    """Return the steps that make the naive program of ``layer`` the one of ``tiles``, for vectors of ``lanes``."""
    return tuple(_Writing(layer, tiles, lanes).steps())


class _Writing:
    """The steps of one layer."""

    def __init__(self, layer: Layer, tiles: LoopTiles, lanes: int) -> None:
        self.layer, self.tiles, self.lanes = layer, tiles, lanes
        self.naive = NaiveProgram(layer)
        self.stages = self.naive.stages
        self.kept: set[str] = set()
        masked = masked_rows(layer)
        self.dealt = -1 if masked is None else masked.dim

    def steps(self) -> Iterator[Step]:
        """Yield all steps: first those that name what has loops of its own, then those that say which."""
        parts = parts_of(self.layer) if self.tiles.upstream else (self.layer,)
        anchor = anchor_of(parts[-1], self.tiles)
        found = list(self._anchored(parts, anchor) if anchor is not None else self.of_rows())
        before = set(self.kept)
        found += self._made_once()
        needed = self._read_by([name for name in self.stages if name in self.kept - before])
        yield from (Inline(name) for name in self.stages if name not in self.kept)
        yield from [
            step for step in found
            if not isinstance(step, ComputeAt) or step.stage not in needed or step.scope == "register"
        ]  # fmt: skip

    def _read_by(self, once: Sequence[str]) -> set[str]:
        """Return the stages that others, which are computed once before all, are computed of: so they are, too."""
        found: set[str] = set()
        waiting = list(once)
        while waiting:
            stage = self.stages[waiting.pop()]
            read = {each.tensor for nest in stage.nests for each in nest.reads}.intersection(self.stages) - found
            found |= read
            waiting += read
        return found

    def _made_once(self) -> list[Step]:
        """Return the loops of what is computed once, before all others: sums that no part of the kernel has.

        Also of what is dear to compute, and read for many elements each, as the factors of channels in squeeze and
        excitation, which depend on nothing that the kernel sums.
        """
        found: list[Step] = []
        for name, stage in self.stages.items():
            if stage.kind == "sum" and name not in self.kept:
                self.kept |= {name, stage.tensor}
                found += self._kept(self.stages[stage.tensor], 0)
                continue
            of_readers = [math.prod(self.stages[each].shape) for each in self.naive.readers.get(name, ())]
            few = max(of_readers, default=0) >= _USES * math.prod(stage.shape)
            is_dear = any(nest.per_output.special for nest in stage.nests)
            if name not in self.kept and few and is_dear and self._comes_from_outside(stage):
                self.kept.add(name)
                found.append(Vectorise(name, self.lanes, "halved"))
        return found

    def _comes_from_outside(self, stage: Stage) -> bool:
        """Whether elements of a stage are made element by element of what the kernel reads."""
        reads = [self.stages.get(read.tensor) for nest in stage.nests for read in nest.reads]
        is_map = stage.kind == "map" and not any(map(reduction_loops, stage.nests))
        return is_map and all(each is None or self._comes_from_outside(each) for each in reads)

    def _anchored(self, parts: Sequence[Layer], anchor: Anchor) -> Iterator[Step]:
        sink = parts[-1].sink.name
        softmax = streamed_softmax(self.layer) if self.tiles.streamed else None
        sums = anchor.nest.write.tensor + SUMS
        for made in made_in_front(self.layer, self.tiles):
            if softmax is None:
                yield from self._front(made, sink, made.loops)
            elif anchored_nest(made.layer) is None:
                yield Running(sums, softmax.rows, softmax.exponentials, softmax.maximum, softmax.total)
                yield from _Writing(made.layer, self.tiles, self.lanes).of_part(made, softmax, sums)
                self.kept |= {softmax.exponentials}
                self.kept |= {name + end for name in (softmax.maximum, softmax.total) for end in ("", SUMS)}
            else:
                yield from self._front(made, sums, 1)
        yield from self._last(parts[-1], anchor, is_alone=len(parts) == 1)

    def _last(self, part: Layer, anchor: Anchor, *, is_alone: bool) -> Iterator[Step]:
        """Yield the steps around the last anchor: the sink's tiles, what is in registers, and copies for a tile."""
        tiles, nest, sink = self.tiles, anchor.nest, part.sink.name
        dims, own = len(tiles.tile), vector_lanes(nest, tiles, self.lanes)
        is_cut = anchor.padded[anchor.vector_dim] != nest.write.shape[anchor.vector_dim]
        of_tile = Level("space", tiles.order, _along(tiles.order, tiles.whole_registers))
        of_registers = Level("space", tiles.order, _along(tiles.order, tiles.register))
        sums = nest.write.tensor + SUMS
        self.kept |= {sink, sums}
        yield from self._copies(part, nest, sink, is_alone=is_alone)
        if is_cut and tiles.depth_step is None:
            self.kept.add(sink + WHOLE)
            yield CacheWrite(sink + WHOLE, sink)
            yield ComputeAt(sink + WHOLE, sink, 2 * dims, "register")
            yield from (Vectorise(sink + WHOLE, own), Unroll(sink + WHOLE, _MOST_UNROLLED))
        yield Tile(sink, (of_tile, of_registers))
        yield Parallel(sink, tiles.parallel, self.dealt)
        if not is_cut:
            yield Vectorise(sink, own)
        if not is_cut and tiles.depth_step is None:
            yield Unroll(sink, _MOST_UNROLLED)
        innermost = self._innermost(anchor)
        every = Level("reduction", innermost, (1,) * len(innermost))
        if tiles.depth_step is None:
            yield ComputeAt(sums, sink, 2 * dims, "register")
            yield Tile(sums, (every,))
        else:
            step = Level("reduction", anchor.reductions[-1:], (tiles.depth_step,))
            yield ComputeAt(sums, sink, dims, "stack")
            yield Tile(sums, (step, of_registers, every))
        yield from (Vectorise(sums, own), Unroll(sums))
        yield from self._layouts(nest, anchor, tiles, sums)

    def _innermost(self, anchor: Anchor) -> tuple[int, ...]:
        """Return the reduction loops inside of a step of the depth, outermost first.

        Loops over blocks of widened weights come before those inside of blocks: what is the same for a block is loaded
        once for it.
        """
        widening = widening_of(self.layer, anchor.nest)
        if widening is None:
            return anchor.reductions
        made = next(read for read in anchor.nest.reads if read.tensor == widening.write.tensor)
        own = {loop: own.terms[0][0] for index, own in zip(made.indices, widening.write.indices, strict=True)
               for loop, _ in index.terms}  # fmt: skip
        return tuple(sorted(
            anchor.reductions, key=lambda loop: -sum(loop in own and read.uses(own[loop]) for read in widening.reads)
        ))  # fmt: skip

    def of_part(self, made: Made, softmax: Softmax, sums: str) -> Iterator[Step]:
        """Yield the steps of a softmax's rows that are computed in parts, each for one iteration of the ``sums``.

        Rows of the maximum are inside of those of the exponentials, rows of the sum behind all of these.
        """
        order = tuple([dim for dim in made.layer.sink.order if dim != softmax.columns])
        rows, count = len(order), partial_sums(made.extents[softmax.columns], self.lanes)
        for name, place in ((softmax.maximum, (softmax.exponentials, rows)), (softmax.total, (sums, 1))):
            yield Tile(name, (Level("space", self.stages[name].order, (1,) * len(self.stages[name].order)),))
            yield ComputeAt(name + SUMS, name, len(self.stages[name].order), "register")
            if count > 1:
                yield from (PartialSums(name + SUMS, count, (softmax.loop,)), Vectorise(name + SUMS, self.lanes))
            yield ComputeAt(name, *place)
        yield Tile(softmax.exponentials, (Level("space", order, (1,) * rows),))
        yield Vectorise(softmax.exponentials, self.lanes, "halved")
        yield ComputeAt(softmax.exponentials, sums, 1)

    def _front(self, made: Made, consumer: str, loops: int) -> Iterator[Step]:
        """Yield the steps of a part in front of the last: its register tiles for what so many ``loops`` need.

        These are loops of the ``consumer``.
        """
        part, tiles = made.layer, made.tiles
        anchor = anchor_of(part, tiles)
        if anchor is None:
            rows = _Writing(part, tiles, self.lanes)
            yield from rows.of_rows()
            self.kept |= rows.kept
            yield ComputeAt(part.sink.name, consumer, loops)
            return
        result, sums = part.sink.name, anchor.nest.write.tensor + SUMS
        own = vector_lanes(anchor.nest, tiles, self.lanes)
        self.kept |= {result, sums}
        yield ComputeAt(result, consumer, loops, "stack", tiles.register)
        yield Outline(result)
        for name, read in self._copied(part, anchor.nest):
            yield CacheRead(name, read.tensor, sums)
            yield ComputeAt(name, result, loops_apart(anchor.nest, read, tiles.order))
            yield Vectorise(name, tiles.lanes(self.lanes), "dividing")
        yield Tile(result, (Level("space", tiles.order, _along(tiles.order, tiles.register)),))
        yield from (Vectorise(result, own), Unroll(result, _MOST_UNROLLED))
        yield ComputeAt(sums, result, len(tiles.order), "register")
        yield Tile(sums, (Level("reduction", anchor.reductions, (1,) * len(anchor.reductions)),))
        yield from (Vectorise(sums, own), Unroll(sums))
        if all(each % tiles.register[anchor.vector_dim] == 0 for each in _begins(made, anchor)):
            yield from self._layouts(anchor.nest, anchor, tiles, sums)

    def _copies(self, part: Layer, nest: LoopNest, sink: str, *, is_alone: bool) -> Iterator[Step]:
        """Yield the steps of the copies, with padding, that the last anchor reads: as far in as they are used once."""
        tiles, dims = self.tiles, len(self.tiles.tile)
        for name, read in self._copied(part, nest):
            loops = dims
            if not is_alone:
                apart = loops_apart(nest, read, tiles.order) if tiles.depth_step is None else 0
                spans = read_spans(nest, read, sink_spans(part.sink.shape, tiles))
                depends = [tiles.order.index(dim) + 1 for span in spans for dim, _ in span.steps]
                loops = dims + apart if apart else max([tiles.parallel, *depends])
            yield CacheRead(name, read.tensor, nest.write.tensor + SUMS)
            yield ComputeAt(name, sink, loops)
            yield Vectorise(name, tiles.lanes(self.lanes), "dividing")

    def _copied(self, part: Layer, nest: LoopNest) -> Iterator[tuple[str, Access]]:
        """Yield names of copies and what they copy: what is read with padding, and what the part computes before."""
        seen: set[str] = set()
        for read in nest.reads:
            if is_padded(nest, read) or is_computed_before(part, nest, read):
                name = f"{read.tensor}.copy"
                if read.tensor not in seen:
                    self.kept.add(name)
                    yield name, read
                seen.add(read.tensor)

    def _layouts(self, nest: LoopNest, anchor: Anchor, tiles: LoopTiles, sums: str) -> Iterator[Step]:
        """Yield how weights of an anchor lie: in panels as wide as a register tile, in the order of its loops."""
        tensors = self.layer.graph.tensors
        for read in nest.reads:
            is_reduced = any(nest.loops[loop].reduction for index in read.indices for loop, _ in index.terms)
            if is_reduced and read.tensor in self.layer.inputs and tensors[read.tensor].role == "weight":
                layout = _layout(nest, read, anchor, tiles, sums)
                if layout is not None:
                    yield layout
        widening = widening_of(self.layer, nest)
        if widening is not None:
            made = next(read for read in nest.reads if read.tensor == widening.write.tensor)
            for read, dim in read_along(widening, made, nest, anchor.vector_dim):
                rest = tuple([each for each in range(len(read.indices)) if each != dim])
                yield Layout(widening.write.tensor, read.tensor, dim, tiles.register[anchor.vector_dim], rest)

    def of_rows(self) -> Iterator[Step]:
        """Yield the steps of a layer without register tiles: rows of the sink, or one result after the other."""
        layer, tiles, sink = self.layer, self.tiles, self.layer.sink.name
        kept = [name for name in self.stages if name in (*layer.outputs, *kept_tensors(layer))]
        sums = [name for name in self.stages if self.stages[name].kind == "sum"]
        self.kept |= {*kept, *[name for name in sums if name.removesuffix(SUMS) in kept]}
        rows = 0
        if len(kept) > 1 and sums and len(layer.outputs) == 1:
            leading = [tiles.tile[dim] == 1 for dim in layer.sink.order[:-1]]
            alone = leading.index(False) if False in leading else len(leading)
            rows = min(alone, shared_rows(layer))
        for name in kept:
            yield from self._kept(self.stages[name], rows)
            if name != sink and rows:
                yield ComputeAt(name, sink, rows)
            elif tiles.parallel:
                most = len(self.stages[name].shape) - (not sums_one_by_one(layer, self.lanes))
                loops = min(tiles.parallel, rows) if rows else max(min(tiles.parallel, most), 0)
                yield Parallel(name, loops, self.dealt if self.stages[name].shape == layer.sink.shape else -1)

    def _kept(self, stage: Stage, rows: int) -> Iterator[Step]:
        """Yield the loops of what is kept: vectors along its innermost dimension, or sums that registers hold."""
        name, order = stage.name, stage.order
        if name + SUMS not in self.kept:
            yield Tile(name, (Level("space", order[:rows], (1,) * rows),) if name == self.layer.sink.name else ())
            yield Vectorise(name, self.lanes, "halved")
            return
        nest, sums = stage.nests[0], name + SUMS
        run = summed_run(self.layer, nest)
        extent = math.prod([nest.loops[loop].extent for loop in run])
        count = partial_sums(extent, self.lanes) if run else 1
        sizes = [1] * len(stage.shape)
        dim, width, vectors = self._vectors(stage, rows, is_apart=not run and lies_apart(self.layer, nest))
        if count == 1 and width > 1:
            sizes[dim] = width * vectors
            yield from (Vectorise(name, width), Unroll(name), Vectorise(sums, width), Unroll(sums))
        shared = shared_dims(self.layer) if count > 1 and stage.shape == self.layer.sink.shape else ()
        if all(self.tiles.tile[dim] > 1 for dim in shared):
            order = (*[dim for dim in order if dim not in shared], *shared)
        yield Tile(name, (Level("space", order, _along(order, sizes)),))
        yield ComputeAt(sums, name, len(order), "register")
        loops = reduction_loops(nest)
        yield Tile(sums, (Level("reduction", tuple([loop for loop in loops if loop not in run or count == 1]),
                                (1,) * (len(loops) - (len(run) if count > 1 else 0))),))
        if count > 1:
            yield from (PartialSums(sums, count, run), Vectorise(sums, self.lanes))

    def _vectors(self, stage: Stage, rows: int, *, is_apart: bool) -> tuple[int, int, int]:
        """Return the dimension of a reduction's vectors, their lanes, and how many registers hold at a time."""
        outside = rows if stage.name == self.layer.sink.name else 0
        if not rows and self.tiles.parallel and len(stage.order) > 1:
            outside = 1  # at least the outermost loop is split over threads
        inner = stage.order[outside:]
        long = [dim for dim in inner if self._extent(stage, dim, rows) > 1]
        if not long or is_apart:
            return -1, 1, 1
        extent = self._extent(stage, long[-1], rows)
        width = dividing(extent, self.lanes)
        most = max(each for each in range(1, MOST_VECTORS + 1) if extent // width % each == 0)
        return long[-1], width, most

    def _extent(self, stage: Stage, dim: int, rows: int) -> int:
        """Return the elements of a dimension that are computed for one row of the sink."""
        sink = self.layer.sink
        if rows and stage.name != sink.name and dim < len(sink.shape) and dim in sink.order[:rows]:
            return 1 if stage.shape[dim] == sink.shape[dim] else stage.shape[dim]
        return stage.shape[dim]


def _layout(nest: LoopNest, read: Access, anchor: Anchor, tiles: LoopTiles, reader: str) -> Layout | None:
    """Return how an anchor's weight lies; None if vectors do not run along one of its dimensions."""
    along = nest.moving(nest.write.indices[anchor.vector_dim])
    dims = [dim for dim, index in enumerate(read.indices) if nest.moving(index) == along]
    plain = all(index.divisor == index.window == 1 and not index.opaque for index in read.indices)
    if len(dims) != 1 or not plain:
        return None
    rest = [dim for dim in range(len(read.indices)) if dim != dims[0]]
    place = {loop: number for number, loop in enumerate(anchor.reductions)}
    rest.sort(key=lambda dim: max((place.get(loop, -1) for loop, _ in read.indices[dim].terms), default=-1))
    return Layout(reader, read.tensor, dims[0], tiles.register[anchor.vector_dim], tuple(rest))


def _begins(made: Made, anchor: Anchor) -> Iterator[int]:
    """Yield where the boxes of all tiles begin along the vectors: the first one, and how much further each next is."""
    span = made.spans[anchor.vector_dim]
    return iter((span.first, *(step for _, step in span.steps)))


def _along(order: Sequence[int], sizes: Sequence[int]) -> Extents:
    return tuple([sizes[dim] for dim in order])



class Chosen(NamedTuple):
    """Loops of a group's kernel as a schedule has them."""

    layers: tuple[Steps, ...]
    """Steps of each of its layers, in order."""
    algorithm: int = 0
    """Algorithm of its convolution (`workloads.nest_by_nest.Algorithms`); 0: directly."""


def program_of(layer: Layer, tiles: LoopTiles, lanes: int) -> LoopProgram:
    """Return the loops of ``layer`` in tiles, for vectors of ``lanes``."""
    return loop_program(NaiveProgram(layer), steps_of(layer, tiles, lanes))


_REGISTER_BYTES = 2**16
"""Most that the buffers in registers may take: what registers do not hold lies on a stack of a few megabytes."""
_STACK_BYTES = 2**30
"""Most that one thread's buffers may take: they are allocated like any memory, so nearly all there is."""


def cpu_limits(view: CpuView) -> Limits:
    """Return what the code of a CPU can have: loops of its kinds, and buffers of a thread that its memory holds."""
    threads = max(view.thread_counts)
    kinds: frozenset[LoopKind] = frozenset({"serial", "parallel", "vector", "unrolled"})
    return Limits(kinds, {"register": _REGISTER_BYTES, "stack": _STACK_BYTES // threads})
