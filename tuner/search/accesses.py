"""What the statements of a loop program read and write, as affine expressions of the loops around them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dsascape.scheduler.kernels.loops.affine import Affine, Range, loop_ranges, read_ranges
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import Loop, Stage, Statement, reads_of
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.workloads.loopnest import Extents, Operations


@dataclass
class BufferAccess:
    """Use of one buffer by one statement: the places that it reads or writes in one iteration."""

    buffer: str
    shape: Extents
    """Extents as they lie in memory, outermost first."""
    element_bytes: int
    places: list[tuple[Affine, ...]]
    """Indices of each read, and of the write, if any; by dimension as it lies in memory."""
    windows: tuple[int, ...]
    """Neighbours along each dimension that one iteration reads at once."""
    is_read: bool = False
    is_written: bool = False
    moving: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By loop, the greatest stride along each dimension among all places."""

    def finish(self) -> "BufferAccess":
        """Return itself, with the strides of loops worked out."""
        rank = len(self.shape)
        for place in self.places:
            for dim, each in enumerate(place):
                for loop, stride in each.terms:
                    own = list(self.moving.get(loop, (0,) * rank))
                    own[dim] = max(own[dim], abs(stride))
                    self.moving[loop] = tuple(own)
        return self


@dataclass(frozen=True)
class Uses:
    """One statement, the loops around it, what it computes in one iteration, and the buffers that it uses."""

    statement: Statement
    around: tuple[Loop, ...]
    operations: Operations
    """Operations of one iteration, with those of inlined stages."""
    accesses: tuple[BufferAccess, ...]
    padded: int
    """Reads that may lie outside of their tensor."""


class Accesses:
    """The accesses of one program."""

    def __init__(self, naive: NaiveProgram, program: LoopProgram) -> None:
        self._naive, self._program = naive, program
        self._buffers = {buffer.name: buffer for buffer in program.buffers}
        self._stages = {stage.name: stage for stage in program.stages}

    def of(self, around: tuple[Loop, ...], statement: Statement) -> Uses:
        """Return what ``statement`` uses."""
        stage = self._stages[statement.stage]
        found: dict[str, BufferAccess] = {}
        element = [Range(each, 1) for each in statement.element]
        self._add(found, stage.name, stage, element, is_written=True)
        operations, padded = Operations(), 0
        if statement.role in ("update", "rest", "store"):
            reduced = {loop: Range(value, 1) for loop, value in statement.reduced}
            operations, padded = self._add_reads(found, stage, element, reduced, self._program.copies(stage.name))
        if statement.role in ("update", "rest", "fold"):
            found[stage.name].is_read = True
        return Uses(statement, around, operations, tuple([each.finish() for each in found.values()]), padded)

    def _add_reads(
        self, found: dict[str, BufferAccess], stage: Stage, element: Sequence[Range], reduced: Mapping[int, Range],
        copies: Mapping[str, str],
    ) -> tuple[Operations, int]:  # fmt: skip
        """Add what a stage reads for one element; return the operations, and how many reads may be outside."""
        if stage.kind == "copy":
            return self._add_read(found, stage.source, element)
        operations, padded = Operations(), 0
        for nest in stage.nests[:1]:
            operations += nest.per_iteration if stage.kind == "sum" else nest.per_output
            loops = loop_ranges(nest, tuple(element), self._program.extents)
            loops = [
                reduced.get(number, Range(each.first, 1) if nest.loops[number].reduction else each)
                for number, each in enumerate(loops)
            ]
            for read in reads_of(stage, (nest,)):
                ranges = read_ranges(read, loops, self._program.extents)
                name = copies.get(read.tensor, read.tensor)
                inside, outside = self._add_read(found, name, ranges)
                operations += inside
                padded += outside
        return operations, padded

    def _add_read(
        self, found: dict[str, BufferAccess], name: str, ranges: Sequence[Range]
    ) -> tuple[Operations, int]:
        """Add one read: of a buffer or a tensor, or by what is inlined, of what that reads."""
        inlined = self._naive.stages.get(name)
        if name in self._buffers or inlined is None:
            return Operations(), self._add(found, name, self._stages.get(name), ranges)
        one = tuple([Range(each.first, 1) for each in ranges])
        return self._add_reads(found, inlined, one, {}, {})

    def _add(
        self, found: dict[str, BufferAccess], name: str, stage: Stage | None, ranges: Sequence[Range], *,
        is_written: bool = False,
    ) -> int:  # fmt: skip
        buffer = self._buffers.get(name)
        if buffer is not None and stage is not None:
            order = stage.order
            own = tuple([ranges[dim].first + buffer.first[dim] * -1 for dim in order])
            shape, size = buffer.shape[: len(order)], buffer.element_bytes
        else:
            order = self._naive.order_of(name, len(ranges))
            own = tuple([ranges[dim].first for dim in order])
            shape, size = self._shape(name, order), self._naive.element_bytes(name)
        windows = tuple([ranges[dim].extent for dim in order])
        access = found.get(name)
        if access is None:
            found[name] = access = BufferAccess(name, shape, size, [], windows)
        if own not in access.places:
            access.places.append(own)
        access.windows = tuple(map(max, access.windows, windows))
        access.is_written |= is_written
        access.is_read |= not is_written
        extents = self._program.extents
        spans = [each.span(extents) for each in own]
        return int(any(low < 0 or high > most for (low, high), most in zip(spans, shape, strict=True)))

    def _shape(self, name: str, order: Sequence[int]) -> Extents:
        described = self._naive.layer.graph.tensors.get(name)
        assert described is not None
        return tuple([described.shape[dim] for dim in order])


def touched(access: BufferAccess, inside: Sequence[Loop], extents: Mapping[str, int]) -> Iterator[Extents]:
    """Yield the elements of each dimension that are used while the innermost loops run: none, one, two and so on.

    ``inside`` are the loops, innermost first.
    """
    covered = list(access.windows)
    most = access.shape
    covered = [each + more for each, more in zip(covered, _spread(access), strict=True)]
    yield tuple(map(min, covered, most))
    for loop in inside:
        for name, extent in loop.fused or ((loop.name, loop.extent),):
            moving = access.moving.get(name)
            if moving is not None:
                covered = [each + stride * (extent - 1) for each, stride in zip(covered, moving, strict=True)]
        yield tuple(map(min, covered, most))


def _spread(access: BufferAccess) -> list[int]:
    """Return by how much several places of one iteration lie apart along each dimension."""
    if len(access.places) == 1:
        return [0] * len(access.shape)
    offsets = list(zip(*[[each.offset for each in place] for place in access.places], strict=True))
    return [max(each) - min(each) for each in offsets] if offsets else []


def stride_of(access: BufferAccess, loop: str) -> int:
    """Return by how many elements a place moves from one iteration of a loop to the next; 0: not at all."""
    moving = access.moving.get(loop)
    if moving is None:
        return 0
    return sum([stride * math.prod(access.shape[dim + 1 :]) for dim, stride in enumerate(moving)])
