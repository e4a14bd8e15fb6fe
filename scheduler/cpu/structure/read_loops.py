"""The loops around a kernel's anchors, read off the tree of its program: what the cost model folds over.

The search looks at hundreds of tiles for each kernel, and has these loops of its own tiles without building the tree
(`LoopTiles.tiled`); tests hold that both are the same. Programs that others write, such as a tuner, are read here.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dsascape.scheduler.cpu.schedule.tiles import FrontLoops, Span, TiledLoops
from dsascape.scheduler.cpu.structure.masked_rows import masked_rows
from dsascape.scheduler.kernels.layer import DEPTH, Layer
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.nodes import SUMS, Loop, LoopKind, Role, Statement, statements_of
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import ComputeAt, Parallel, Tile
from dsascape.scheduler.kernels.structure.anchors import anchored_nest, shared_rows
from dsascape.scheduler.kernels.structure.parts import parts_of
from dsascape.scheduler.kernels.structure.passes import passes_of
from dsascape.workloads.loopnest import Extents

_FURTHER = -2
"""Stands for a reduction loop that is not the anchor's longest."""


@dataclass(frozen=True, slots=True)
class _AxisLoop:
    """A loop around the statement that is read: what it goes along, and what one iteration covers."""

    name: str
    node: str
    """Name of the tree's loop: another one where that stands for several."""
    axis: int
    inside: int
    extent: int
    kind: LoopKind


def read_loops(layer: Layer, program: LoopProgram) -> TiledLoops:
    """Return the loops around the register tiles of the anchors of ``layer``, or around its rows."""
    parts = parts_of(layer) or (layer,)
    last = _Part(parts[-1], program)
    found = last.tiled(_rows(layer, program) or _first_level(program, layer.sink.name, layer.sink.shape))
    dealt = [step.dealt >= 0 for step in program.steps if isinstance(step, Parallel) and step.stage == layer.sink.name]
    found = replace(found, is_dealt=masked_rows(layer) is None or any(dealt))
    if not parts[1:]:
        return found
    fronts = tuple([_front(_Part(part, program), last) for part in parts[:-1]])
    return replace(found, fronts=fronts)


class _Part:
    """The statement of one anchor, or of the rows of a kernel without one, and the loops around it."""

    def __init__(self, part: Layer, program: LoopProgram) -> None:
        nest = anchored_nest(part)
        sums = "" if nest is None else nest.write.tensor + SUMS
        self.sink, self.program, self.nest = part.sink, program, nest
        in_parts = [step.exponentials for step in program.running.values() if step.tensor == part.sink.name]
        self.stage = next(iter(in_parts), part.sink.name)
        """Stage that holds the result of this part: of a softmax in parts, the exponentials."""
        self.rows = _rows(part, program) or None
        self.weights = {name for name in part.inputs if part.graph.tensors[name].role == "weight"}
        self.has_sums = any(stage.name == sums for stage in program.stages)
        self.is_held = not self.has_sums or program.buffer(sums).scope == "register"
        self.copied = [copy for stage in (sums, part.sink.name) for copy in program.copies(stage).values()]
        around, statement = _found(
            program, sums if self.has_sums else self.stage, "update" if self.has_sums else "store"
        )
        self.loops = list(_axes(part, around, statement))

    @cached_property
    def held(self) -> list[_AxisLoop]:
        """Loops of the register tile."""
        return [loop for loop in self.loops if loop.kind in ("unrolled", "vector") and loop.axis >= 0]

    @cached_property
    def unrolled(self) -> int:
        """Iterations of reduction loops that are written out one by one."""
        return math.prod([loop.extent for loop in self.loops if loop.kind == "unrolled" and loop.axis < 0])

    @cached_property
    def outside(self) -> list[_AxisLoop]:
        """Loops outside of the register tiles and of the reduction that registers hold the sums of."""
        serial = [loop for loop in self.loops if loop.kind not in ("unrolled", "vector")]
        ends = [
            number + 1
            for number, loop in enumerate(serial)
            if loop.axis >= 0 or (loop.inside > self.unrolled and not self.is_held)
        ]
        return serial[: max(ends, default=0)]

    @cached_property
    def listed(self) -> list[_AxisLoop]:
        """Loops among `outside` along the sink's dimensions and the anchor's longest reduction."""
        return [loop for loop in self.outside if loop.axis != _FURTHER]

    def tiled(self, first_level: Sequence[int] | None, around: Collection[str] = ()) -> TiledLoops:
        """Return the loops but for those ``around``; a tile is what the first level covers, or copies are made for."""
        listed, shape = [loop for loop in self.listed if loop.name not in around], self.sink.shape
        parallel = sum(loop.kind == "parallel" for loop in listed)
        if first_level is None:
            of_tile = max(self._inside_of(listed, copy) for copy in self.copied) if self.copied else 0
        else:
            ends = [
                number + 1
                for number, loop in enumerate(listed)
                if loop.axis >= 0 and loop.inside >= first_level[loop.axis]
            ]
            of_tile = max([parallel, *ends])
        register = tuple([
            math.prod([loop.extent for loop in self.held if loop.axis == dim]) for dim in range(len(shape))
        ])  # fmt: skip
        innermost = next((dim for dim in reversed(self.sink.order) if shape[dim] > 1), -1)
        return TiledLoops(
            tuple([(loop.axis, loop.inside) for loop in listed]), parallel, of_tile, register,
            next((loop.axis for loop in self.held if loop.kind == "vector"), innermost),
            math.prod([loop.extent for loop in self.outside if loop.axis == _FURTHER]),
            self.unrolled, has_panels=self._has_panels(),
        )  # fmt: skip

    def _has_panels(self) -> bool:
        """Whether weights that the anchor reads vectors of lie in panels along these."""
        if self.nest is None:
            return True
        along = {dim: self.nest.moving(index) for dim, index in enumerate(self.nest.write.indices)}
        vector = next((loop.axis for loop in self.held if loop.kind == "vector"), -1)
        reductions = [number for number, loop in enumerate(self.nest.loops) if loop.reduction]
        weights = [read for read in self.nest.reads if read.tensor in self.weights and any(map(read.uses, reductions))]
        return all(
            any(each.tensor == read.tensor and self.nest.moving(read.indices[each.dim]) == along[vector]
                for each in self.program.layouts)
            for read in weights
            if vector >= 0 and any(read.uses(loop) for loop, _ in along[vector].terms)
        )  # fmt: skip

    def _inside_of(self, listed: Sequence[_AxisLoop], stage: str) -> int:
        """Return how many of the loops a buffer is made anew in."""
        return _loops_to(listed, self.program.buffer(stage).inside)


def _front(part: _Part, last: _Part) -> FrontLoops:
    """Return what an anchor in front of the last makes: its box, inside of which of the last one's loops, how often."""
    if part.program.buffer_or_none(part.stage) is None:
        raise StepError(f"{part.sink.name}, which one anchor makes for another, has no loops of its own")
    buffer = part.program.buffer(part.stage)
    loops = _loops_to(last.listed, buffer.inside)
    around = {loop.name: loop for loop in last.listed[:loops]}
    place = {dim: number for number, dim in enumerate(part.sink.order)}
    spans = []
    for dim, first in enumerate(buffer.first):
        steps: dict[int, int] = {}
        for name, stride in first.terms:
            if name not in around:
                raise StepError(f"{part.sink.name} is computed inside of {name}, a loop of another anchor's reduction")
            axis = around[name].axis
            steps[axis] = min(steps.get(axis, stride), stride)
        spans.append(Span(first.offset, buffer.shape[place[dim]], tuple(sorted(steps.items()))))
    times = math.prod([loop.extent for loop in last.listed[:loops]])
    tiled = part.tiled(part.rows, around)
    box = tuple([(dim, span.extent) for dim, span in enumerate(spans)])
    parallel = 0 if loops or not tiled.parallel else len(box) + tiled.parallel  # inside of others', none is
    tiled = replace(tiled, loops=box + tiled.loops, parallel=parallel, of_tile=len(box) + tiled.of_tile)
    return FrontLoops(tuple(spans), loops, times, tiled)


def _loops_to(listed: Sequence[_AxisLoop], name: str) -> int:
    """Return how many loops there are up to the one with that name; none where it is not among them."""
    return max([number + 1 for number, loop in enumerate(listed) if loop.node == name], default=0)


def _found(program: LoopProgram, stage: str, role: Role) -> tuple[tuple[Loop, ...], Statement]:
    for around, each in statements_of(program.body):
        if each.stage == stage and each.role == role:
            return around, each
    raise StepError(f"{stage} has no loops of its own")


def _axes(layer: Layer, around: tuple[Loop, ...], statement: Statement) -> Iterator[_AxisLoop]:
    """Yield the loops around a statement that move it, those that a fused loop stands for one by one."""
    strides = {loop: (dim, stride) for dim, each in enumerate(statement.element) for loop, stride in each.terms}
    for number, each in statement.reduced:
        axis = DEPTH if number == layer.depth_loop else _FURTHER
        strides |= {loop: (axis, stride) for loop, stride in each.terms}
    for loop in around:
        for name, extent in loop.fused or ((loop.name, loop.extent),):
            if name in strides:
                yield _AxisLoop(name, loop.name, *strides[name], extent, loop.kind)


def _rows(layer: Layer, program: LoopProgram) -> list[int]:
    """Return what is computed of the sink at a time, where a layer is gone over in passes; nothing for any other.

    That is a row, or as many of them as what is kept is computed for together.
    """
    if passes_of(layer) is None:
        return []
    sink = layer.sink
    innermost = next((place for place, dim in reversed(list(enumerate(sink.order))) if sink.shape[dim] > 1), 0)
    inside = [
        step.loops for step in program.steps
        if isinstance(step, ComputeAt) and step.consumer == sink.name and not step.stage.endswith(SUMS)
    ]  # fmt: skip
    outside = sink.order[: min([shared_rows(layer), innermost, *inside])]
    return [1 if dim in outside else size for dim, size in enumerate(sink.shape)]


def _first_level(program: LoopProgram, sink: str, shape: Extents) -> list[int]:
    """Return the elements of each dimension that the outermost level of the sink's tiles covers."""
    covered = list(shape)
    for step in program.steps:
        if isinstance(step, Tile) and step.stage == sink and step.levels and step.levels[0].sizes is not None:
            for dim, size in zip(step.levels[0].order, step.levels[0].sizes, strict=True):
                covered[dim] = size
    return covered
