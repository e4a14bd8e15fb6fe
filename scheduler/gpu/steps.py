"""The built-in choice as rewriting steps: what `GpuTiles` say about a layer's loops on blocks and threads of a GPU.

The stages that are held (`scheduler.gpu.held_stages`) have loops of threads, with sums accumulated in registers inside
of them; all else is computed where it is read. Operands of products are copied to shared memory where their tiles
stage them, but for those that are read at places that no affine map says.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dsascape.hw_models.gpu.spec import TensorUnits
from dsascape.scheduler.gpu.held_stages import HeldStages
from dsascape.scheduler.gpu.nests import BlockNest
from dsascape.scheduler.gpu.staging import sharing, slots
from dsascape.scheduler.gpu.streams import softmax_in_front
from dsascape.scheduler.gpu.tiles import ComputeUnit, GpuTiles
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.affine import Ranges
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.columns import alike, by_row, least
from dsascape.scheduler.kernels.loops.naive import NaiveProgram, reduction_extents
from dsascape.scheduler.kernels.loops.nodes import SUMS, Stage, reduction_loops
from dsascape.scheduler.kernels.loops.plans import Plans
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import (
    Bind,
    CacheRead,
    ComputeAt,
    Inline,
    Level,
    Prefetch,
    Running,
    Scope,
    ShareReduction,
    Step,
    Steps,
    Tensorise,
    Tile,
    Unroll,
)
from dsascape.workloads.loopnest import Extents

STAGED = ".staged"
"""Suffix of the name of a copy in shared memory."""


def steps_of(layer: Layer, tiles: GpuTiles, warp: int, tensor: TensorUnits | None = None) -> Steps:
    """Return the steps that make the naive program of ``layer`` the one of ``tiles``, for warps of so many threads.

    ``tensor``: the tensor units, for tiles that use them.
    """
    return steps_from(NaiveProgram(layer), tiles, warp, tensor)


def steps_from(naive: NaiveProgram, tiles: GpuTiles, warp: int, tensor: TensorUnits | None = None) -> Steps:
    """Return the steps that make a naive program the one of ``tiles``, as `steps_of` does."""
    return tuple(_Writing(naive, tiles, warp, tensor).steps())


def program_of(layer: Layer, tiles: GpuTiles, warp: int, tensor: TensorUnits | None = None) -> LoopProgram:
    """Return the loops of ``layer`` in ``tiles``."""
    return loop_program(NaiveProgram(layer), steps_of(layer, tiles, warp, tensor))


@dataclass(frozen=True, slots=True)
class _Held:
    """A stage on threads of its own, and how the sums that it reads are accumulated in its parts."""

    name: str
    part: Extents
    split: int
    depth_step: int | None
    unit: ComputeUnit
    at_once: Extents | None = None
    """Elements that all threads compute before they begin with others; None: all of them."""


class _Writing:
    """The steps of one layer."""

    def __init__(self, naive: NaiveProgram, tiles: GpuTiles, warp: int, tensor: TensorUnits | None) -> None:
        layer = naive.layer
        self.layer, self.tiles, self.tensor = layer, tiles, tensor
        self.warp, self.threads = warp, tiles.threads(warp)
        self.softmax = None if tiles.stream is None else softmax_in_front(layer)
        if tiles.stream is not None and self.softmax is None:
            raise StepError(f"{layer.sink.name!r} has no softmax in front of its last product to compute in pieces")
        self.stages = HeldStages(naive, tiles.tile, self.softmax)
        self.naive, self.nests = self.stages.naive, self.stages.nests
        self.sink, self.dims, self.kept = self.stages.sink, self.stages.dims, self.stages.kept
        written = [tensor for tensor, (_, nest) in self.nests.items() if nest.is_anchor]
        self.sums = written[0] + SUMS if written else ""
        """The stage of the last product's sums."""
        stages = list(self.naive.stages)
        self.in_pieces = frozenset(stages[: stages.index(self.sums)] if self.softmax is not None else ())
        """Stages that are computed for a piece of the last product's depth at a time."""

    def steps(self) -> Iterator[Step]:
        """Yield all steps: first those that name what has loops of its own, then those that say which."""
        held = [self._held(name) for name in self.kept]
        own = {name: [stage for stage in self.stages.sums if self.stages.is_in(stage, name)] for name in self.kept}
        yield from (
            Inline(name) for name, stage in self.naive.stages.items() if stage.kind == "map" and name not in self.kept
        )
        placed = [step for each in held for step in self._placed(each, own[each.name])]
        placed += [step for name in self.stages.beside for step in self.stages.stored(name)]
        shared = [
            (each, stage, loops) for each in held for stage in own[each.name]
            if (loops := self._loops_shared(each, self.nests[stage.tensor][1]))
        ]  # fmt: skip
        needed = self._needed(placed) if any(each.name != self.sink for each, _, _ in shared) else {}
        for each, stage, loops in shared:
            placed += self._shared_out(each, stage, loops, needed)
        yield from placed

    def _held(self, name: str) -> _Held:
        """Return what the tiles say about a kept stage: those of the sink, of a contraction before it, or none."""
        tiles, shape = self.tiles, self.naive.stages[name].shape
        if name == self.sink:
            return _Held(name, tiles.part, tiles.split, tiles.depth_step, tiles.unit)
        for tensor, (_, nest) in self.nests.items():
            if not nest.is_tiled or not self.stages.is_in(self.naive.stages[tensor + SUMS], name):
                continue
            if nest.front is None:  # the anchor, whose results others need: in parts as large as those of the tile
                part = tuple(map(least, tiles.part, shape)) if len(shape) == self.dims else (1,) * len(shape)
                return _Held(name, part, 1, tiles.depth_step, tiles.unit)
            front = tiles.fronts[nest.front]
            if len(front.part) == len(shape):
                return _Held(name, front.part, 1, front.depth_step, front.unit, front.at_once)
        return _Held(name, (1,) * len(shape), 0, None, "lanes")

    def _placed(self, held: _Held, sums: Sequence[Stage]) -> Iterator[Step]:
        """Yield the loops of a kept stage, and those of the sums that it reads."""
        name, order = held.name, self.naive.stages[held.name].order
        of_parts = Level("space", order, tuple([held.part[dim] for dim in order]))
        blocks, cluster = 0, self.tiles.cluster
        if name == self.sink:
            grid, blocks = self.tiles.order, self.dims
            of_tiles = Level("space", grid, tuple([self.tiles.tile[dim] for dim in grid]))
            yield Tile(name, (of_tiles, of_parts))
        else:
            scope: Scope = "global" if name in self.layer.outputs else "shared"
            around = (self.sums, 1) if name in self.in_pieces else (self.sink, self.dims)
            yield ComputeAt(name, *around, scope)
            at_once = held.at_once
            outer = () if at_once is None else (Level("space", order, tuple([at_once[dim] for dim in order])),)
            yield Tile(name, (*outer, of_parts))
        is_shared = any(self._loops_shared(held, self.nests[stage.tensor][1]) for stage in sums)
        width = self.warp if held.unit == "tensor" else 1
        least = self.tiles.parts(self.tiles.tile) * self.tiles.split if name == self.sink and not is_shared else 0
        serial = 0 if held.at_once is None else len(order)
        neighbours = tuple([cluster[dim] for dim in self.tiles.order]) if cluster and blocks else ()
        yield Bind(name, blocks, len(order), serial, width, width * least, neighbours)
        yield Unroll(name)
        for stage in sums:
            yield ComputeAt(stage.name, name, blocks + serial + len(order), "register")
            yield from self._accumulated(held, stage)

    def _accumulated(self, held: _Held, stage: Stage) -> Iterator[Step]:
        """Yield the loops of sums: steps of the depth, in each of which operands are staged, and what is in a step."""
        nest, described = self.nests[stage.tensor]
        depth, loops = described.depth_loop, reduction_loops(nest)
        step = held.depth_step if described.compiled.roles is not None else None
        levels = []
        if stage.name == self.sums and self.softmax is not None and self.tiles.stream is not None and depth is not None:
            softmax, piece = self.softmax, self.tiles.stream
            yield Running(stage.name, softmax.rows, softmax.exponentials, softmax.maximum, softmax.total)
            levels.append(Level("reduction", (depth,), (piece,)))
            step = None if step is None else least(step, piece)
        if step is not None and depth is not None:
            levels.append(Level("reduction", (depth,), (least(step, described.depth),)))
            loops = (*[loop for loop in loops if loop != depth], depth)
        shared = self._loops_shared(held, described)
        own = tuple([loop for loop in loops if loop not in shared])
        yield Tile(stage.name, (*levels, Level("reduction", own, (1,) * len(own))))
        yield Unroll(stage.name)
        if held.unit == "tensor" and self.tensor is not None and described.compiled.roles is not None:
            yield Tensorise(stage.name, self.tensor.rows, self.tensor.columns, self.tensor.depth)
        if step is not None:
            for number, read in enumerate(self.stages.copied(nest, described)):
                copy = f"{stage.name}{STAGED}{number}"
                yield CacheRead(copy, read.tensor, stage.name, "shared")
                yield ComputeAt(copy, stage.name, len(levels), "shared")
                yield Bind(copy, 0, len(read.shape))
                ahead = slots(described, step, self.tiles.stages) - 1
                if levels and alike(ahead > 0):
                    yield Prefetch(copy, ahead)

    def _loops_shared(self, held: _Held, nest: BlockNest) -> tuple[int, ...]:
        """Return the reduction loops that threads or blocks share: the one that is staged, or all of them."""
        loops = reduction_loops(nest.compiled.nest)
        if alike(held.split == 1) and (held.name != self.sink or alike(self.tiles.shares == 1)):
            return ()
        if held.depth_step is not None and nest.compiled.roles is not None:
            return () if nest.depth_loop is None else (nest.depth_loop,)
        return loops

    def _shared_out(
        self, held: _Held, stage: Stage, loops: tuple[int, ...], needed: Mapping[str, Ranges]
    ) -> Iterator[Step]:
        """Yield who shares a reduction: as the sink's tiles say, else as many threads as there are for each element."""
        if held.name == self.sink:
            shares = self.tiles.shares
            if alike(shares > 1):
                yield ShareReduction(stage.name, shares, loops, "block", held.split)
            else:
                yield ShareReduction(stage.name, held.split, loops)
            return
        executed = reduction_extents(stage.nests[0])
        if held.name in self.in_pieces and self.tiles.stream is not None:
            executed = {loop: least(extent, self.tiles.stream) for loop, extent in executed.items()}
        elements = math.prod([each.extent for each in needed[held.name]])
        count = by_row(sharing, self.threads, elements, math.prod([executed[loop] for loop in loops]))
        if alike(count > 1):
            yield ShareReduction(stage.name, count, loops)

    def _needed(self, placed: Sequence[Step]) -> Mapping[str, Ranges]:
        """Return what a tile of the sink needs of the kept stages."""
        inlined = [Inline(name) for name in self.naive.stages if name not in self.kept and not name.endswith(SUMS)]
        return self.stages.demanded(Plans(self.naive, (*inlined, *placed)), self.kept)
