"""The tiles of a grid, read off the tree of its program: what the cost model folds over, whoever wrote the steps.

The search makes tiles by the hundred for each kernel and has no need of trees; tests hold that the tree of any tiles is
read as these tiles. Programs that others write, such as a tuner or a schedule's file, are costed by what is read here.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dsascape.scheduler.gpu.nests import BlockNest, nests_of
from dsascape.scheduler.gpu.tiles import ComputeUnit, FrontTiles, GpuTiles, Rows
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.nodes import SUMS, Loop, LoopKind, Statement, statements_of
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import ShareReduction
from dsascape.workloads.loopnest import Extents


def read_tiles(layer: Layer, program: LoopProgram) -> GpuTiles:
    """Return the tiles of ``layer`` that ``program`` has; raise ``StepError`` where it has no blocks and threads."""
    return _Reading(layer, program).tiles()


@dataclass(frozen=True, slots=True)
class _Names:
    """Loops around a statement by what runs them, those that a fused loop stands for one by one, and their extents."""

    blocks: Mapping[str, int]
    together: Mapping[str, int]
    """Loops that all threads of a block go through in step, outside of those of the threads."""
    threads: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Accumulated:
    """Accumulation of one contraction: part of a thread, steps, unit, and where its statement stands."""

    part: Extents
    depth_step: int | None
    unit: ComputeUnit
    around: tuple[Loop, ...]
    statement: Statement
    rows: Rows
    """Padding of the rows of copies of its operands."""


class _Reading:
    def __init__(self, layer: Layer, program: LoopProgram) -> None:
        self.layer, self.program = layer, program
        nests = nests_of(layer)
        own = [each.nest.write.tensor for each in reversed(layer.nests) if not each.is_view]
        self.fronts = [(own[number], nests.nests[number]) for number in nests.fronts]
        self.statistics = [own[number] for number in nests.statistics]
        self.anchor = (own[nests.anchor], nests.nests[nests.anchor]) if nests.anchor >= 0 else None
        self.piece = self._piece()

    def _piece(self) -> tuple[str, int] | None:
        """Return the loop over pieces of the depth for which a softmax is computed at a time, and their iterations."""
        if self.anchor is None:
            return None
        sums, depth = self.anchor[0] + SUMS, self.anchor[1].depth_loop
        if sums not in self.program.running or depth is None:
            return None
        _, statement = self._found(sums, "update")
        return max(dict(statement.reduced)[depth].terms, key=lambda term: term[1])

    def tiles(self) -> GpuTiles:
        sink = self.layer.sink
        around, statement = self._found(sink.name, "store")
        names, dims = _names(around), range(len(sink.shape))
        along = [dict(each.terms) for each in statement.element]
        tile = tuple([
            min([stride for loop, stride in along[dim].items() if loop in names.blocks], default=sink.shape[dim])
            for dim in dims
        ])  # fmt: skip
        part = tuple([
            -(-tile[dim] // math.prod([names.threads[loop] for loop in along[dim] if loop in names.threads]))
            for dim in dims
        ])  # fmt: skip
        order = [dim for loop in names.blocks for dim in dims if loop in along[dim]]
        moving = {loop for each in along for loop in each}
        anchor = None if self.anchor is None else self._accumulated(*self.anchor)
        return GpuTiles(
            tile, tuple(dict.fromkeys([*[dim for dim in dims if dim not in order], *order])), part,
            self._beside(names.threads, moving, tile, part), None if anchor is None else anchor.depth_step,
            max([buffer.slots for buffer in self.program.buffers]), "lanes" if anchor is None else anchor.unit,
            math.prod([extent for loop, extent in names.blocks.items() if loop not in moving]),
            tuple([self._front(*each) for each in self.fronts]), self._sharing(),
            stream=None if self.piece is None else self.piece[1], rows=() if anchor is None else anchor.rows,
            cluster=self._cluster(around[0], along),
        )  # fmt: skip

    def _cluster(self, blocks: Loop, along: Sequence[Mapping[str, int]]) -> Extents:
        """Return the blocks along each dimension that form a cluster; empty where none do."""
        own = tuple([math.prod([count for name, count in blocks.cluster if name in terms]) for terms in along])
        return own if blocks.cluster else ()

    def _sharing(self) -> tuple[int, ...]:
        """Return the threads that share each of the statistics in shared memory."""
        steps = {step.stage: step.count for step in self.program.steps if isinstance(step, ShareReduction)}
        return tuple([steps.get(tensor + SUMS, 1) for tensor in self.statistics])

    def _beside(self, threads: Mapping[str, int], moving: set[str], tile: Extents, part: Extents) -> int:
        """Return how many threads share the reduction of a part, or are there for other stages' elements."""
        sharing = math.prod([extent for loop, extent in threads.items() if loop not in moving])
        parts = math.prod([-(-size // each) for size, each in zip(tile, part, strict=True)])
        return max(sharing, self.program.threads // (parts * self.program.width))

    def _front(self, tensor: str, nest: BlockNest) -> FrontTiles:
        found = self._accumulated(tensor, nest)
        pieces = () if self.piece is None else self.piece[:1]
        together = [name for name in _names(found.around).together if name not in pieces]
        strides = [
            min([stride for loop, stride in each.terms if loop in together], default=None)
            for each in found.statement.element
        ]
        if not any(strides):
            return FrontTiles(found.part, found.depth_step, found.unit, rows=found.rows)
        box = self._box(found)
        at_once = tuple([size if stride is None else stride for size, stride in zip(box, strides, strict=True)])
        return FrontTiles(found.part, found.depth_step, found.unit, at_once, found.rows)

    def _box(self, found: _Accumulated) -> Extents:
        """Return the elements of each dimension that a block computes, of one piece where it goes piece by piece."""
        outside = _blocks(found.around) | set(() if self.piece is None else self.piece[:1])
        extents = {name: extent for name, extent in self.program.extents.items() if name not in outside}
        own = [tuple([term for term in each.terms if term[0] in extents]) for each in found.statement.element]
        return tuple([Affine(0, terms).span(extents)[1] for terms in own])

    def _accumulated(self, tensor: str, nest: BlockNest) -> _Accumulated:
        """Return how a contraction's sums are accumulated, and its operands staged."""
        name = tensor + SUMS
        around, statement = self._found(name, "update")
        buffer, stage = self.program.buffer(name), self.program.stage(name)
        part = [1] * len(stage.shape)
        for dim, size in zip(stage.order, buffer.shape, strict=True):
            part[dim] = size
        by_tensor = {tensor: self.program.buffer(copy) for tensor, copy in self.program.copies(name).items()}
        copies = [each for each in by_tensor.values() if self.program.stage(each.name).kind == "copy"]
        operands = [by_tensor.get(read.tensor) for read in stage.nests[0].reads[:2]]
        padded = tuple([None if each is None else each.rows for each in operands])
        depth_step = None
        if copies:
            depth = dict(statement.reduced).get(-1 if nest.depth_loop is None else nest.depth_loop, Affine())
            depth_step = dict(depth.terms).get(copies[0].inside, nest.depth)
        elif all(read.source == "shared" for read in nest.reads[:2]) and nest.depth_loop is not None:
            terms = dict(statement.reduced)[nest.depth_loop].terms
            steps = [stride for term in terms if term != self.piece for stride in term[1:]]
            depth_step = max(steps) if len(steps) > 1 else nest.depth
        kinds: set[LoopKind] = {loop.kind for loop in around}
        unit: ComputeUnit = "tensor" if "tensor" in kinds else "lanes"
        return _Accumulated(tuple(part), depth_step, unit, around, statement, padded if any(padded) else ())

    def _found(self, stage: str, role: str) -> tuple[tuple[Loop, ...], Statement]:
        for around, each in statements_of(self.program.body):
            if each.stage == stage and each.role == role:
                if [loop.kind for loop in around[:1]] != ["block"] or all(loop.kind != "thread" for loop in around):
                    raise StepError(f"{stage} is computed in no loops of blocks and threads")
                return around, each
        raise StepError(f"{stage} has no loops of its own")


def _names(around: tuple[Loop, ...]) -> _Names:
    place = max([number for number, loop in enumerate(around) if loop.kind == "thread"])
    together = [loop for loop in around[1:place] if loop.kind != "thread"]
    return _Names(dict(_each(around[0])), dict(pair for loop in together for pair in _each(loop)),
                  dict(_each(around[place])))  # fmt: skip


def _blocks(around: tuple[Loop, ...]) -> set[str]:
    return {name for name, _ in _each(around[0])}


def _each(loop: Loop) -> Iterator[tuple[str, int]]:
    yield from loop.fused or ((loop.name, loop.extent),)
