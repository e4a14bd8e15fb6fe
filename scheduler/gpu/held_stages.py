"""Stages of a layer that threads of a block compute in loops of their own: tensors in shared memory, and the sink.

Sums are accumulated in registers by the stage that reads them; a tensor that other threads need lies in shared memory
(`scheduler.gpu.nests`), as does each part of one that is put together. What is left is computed where it is read, also
a tensor without sums of its own of which a block would need more than its tile does, as a reshape scatters it.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from dsascape.scheduler.gpu.nests import BlockNest, nests_of
from dsascape.scheduler.kernels.loops.affine import Affine, Range, Ranges
from dsascape.scheduler.kernels.loops.columns import alike, by_row, least, most
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import SUMS, Stage
from dsascape.scheduler.kernels.loops.plans import Plans
from dsascape.scheduler.kernels.loops.steps import Bind, ComputeAt, Inline, Level, Step, Tile, Unroll
from dsascape.scheduler.kernels.streaming import Softmax
from dsascape.workloads.loopnest import Access, Extents, LoopNest


class HeldStages:
    """The stages of one layer whose blocks compute tiles of one size."""

    def __init__(self, naive: NaiveProgram, tile: Extents, softmax: Softmax | None = None) -> None:
        """``tile``: elements of each dimension of the sink that a block computes, or columns of candidates' sizes.

        ``softmax``: computed in pieces.
        """
        layer = naive.layer
        self.naive, self.layer, self.tile, self.softmax = naive, layer, tile, softmax
        self.sink, self.dims = layer.sink.name, len(layer.sink.shape)
        own = [each.nest for each in reversed(layer.nests) if not each.is_view]
        described = nests_of(layer).nests  # of an equal layer, whose tensors may have other names
        self.written = [nest.write.tensor for nest in own]
        self.nests = {nest.write.tensor: (nest, each) for nest, each in zip(own, described, strict=True)}

    @property
    def blocks(self) -> Extents:
        """Blocks along each dimension of the sink."""
        return tuple([-(-size // each) for size, each in zip(self.layer.sink.shape, self.tile, strict=True)])

    @cached_property
    def sums(self) -> list[Stage]:
        """The stages of sums, first to last."""
        return [stage for stage in self.naive.stages.values() if stage.kind == "sum"]

    @cached_property
    def kept(self) -> list[str]:
        """The stages in shared memory, and the sink, first to last."""
        alone = {
            name for name in self.layer.outputs
            if self.loops_around(name) is None and not self.naive.is_read_whole(name, self.sink)
        }
        shared = [name for name, (_, described) in self.nests.items() if described.is_shared]
        found = {self.sink, *[name for name in shared if name not in alone]}
        for name in sorted(found - {self.sink, *self.layer.outputs}):
            if len(self.naive.stages[name].nests) > 1:  # of what is put together, a block keeps each part by itself
                parts = {part for part in self._parts_of(name) if part not in found and self._has_sums(part, found)}
                found = (found | parts) - ({name} if parts else set())
        for stage in reversed(self.sums):
            holders, is_reduced = self._holders(stage.tensor, found)
            if is_reduced or len(holders) != 1:
                found.add(stage.tensor)
        for name in sorted(found - {self.sink, *self.layer.outputs}):
            if not self._has_sums(name, found - {name}) and not self._is_exact(name):
                found.discard(name)
        if self.softmax is not None:  # sums of products with exponentials are divided at the end
            found = found - {self.softmax.rows} | {self.softmax.exponentials}
        return [name for name in self.naive.stages if name in found]

    def _parts_of(self, name: str) -> list[str]:
        """Return the tensors of the kernel that the nests of one read."""
        reads = [read.tensor for nest in self.naive.stages[name].nests for read in nest.reads]
        return [each for each in dict.fromkeys(reads) if each in self.naive.stages]

    def _has_sums(self, name: str, kept: set[str]) -> bool:
        """Whether a tensor is made of sums that are accumulated for it, not for another kept one."""
        stage = self.naive.stages.get(name)
        if stage is None:
            return False
        if name + SUMS in self.naive.stages:
            return True
        return any(self._has_sums(each, kept) for each in self._parts_of(name) if each not in kept)

    def _is_exact(self, name: str) -> bool:
        """Whether what a tile needs of a tensor is known to be no more than it is: no reshape scatters it."""
        places = [number for number, tensor in enumerate(self.written) if tensor == name]

        def outputs(*tile: int) -> int:
            works = nests_of(self.layer).works(self.layer, tile)
            return sum([works[number].outputs for number in places])

        return alike(self._box_of(name) <= by_row(outputs, *self.tile))

    def _box_of(self, name: str) -> int:
        """Return how many elements of a tensor a tile of the sink needs, if all in between is inlined."""
        ranges = self._boxes.get(name)
        return 0 if ranges is None else math.prod([each.extent for each in ranges])

    @cached_property
    def _boxes(self) -> Mapping[str, Ranges]:
        """What a tile of the sink needs of each tensor, if all in between is inlined."""
        inlined = [Inline(each) for each, stage in self.naive.stages.items() if stage.kind == "map"]
        within = [ComputeAt(stage.name, self.sink, self.dims, "register") for stage in self.sums]
        within += [
            ComputeAt(each, self.sink, self.dims, "global") for each in self.layer.outputs
            if each != self.sink and self.naive.is_read_whole(each, self.sink)
        ]  # fmt: skip
        return self.demanded(Plans(self.naive, (*inlined, *within)), self.naive.stages)

    def _holders(self, tensor: str, kept: set[str]) -> tuple[set[str], bool]:
        """Return the kept stages that read ``tensor`` by inlined ones, and whether a reduction does."""
        if tensor in kept:
            return {tensor}, False
        holders: set[str] = set()
        is_reduced = False
        for reader in self.naive.readers.get(tensor, ()):
            if reader.endswith(SUMS) and self.naive.stages[reader].kind == "sum":
                is_reduced = True
                continue
            further, also = self._holders(reader, kept)
            holders, is_reduced = holders | further, is_reduced or also
        return holders, is_reduced

    @property
    def beside(self) -> tuple[str, ...]:
        """Results that are not kept."""
        return tuple([name for name in self.layer.outputs if name not in self.kept])

    def stored(self, name: str) -> Iterator[Step]:
        """Yield the loops that store a result which is not kept: along with the sink, or by itself."""
        stage, loops = self.naive.stages[name], self.loops_around(name)
        if loops == 2 * self.dims:
            yield ComputeAt(name, self.sink, loops, "global")
            yield Unroll(name)
        elif loops is not None:
            yield ComputeAt(name, self.sink, loops, "global")
            yield Bind(name, 0, len(stage.order))
        else:
            yield Tile(name, (Level("space", stage.order, _run(stage, math.prod(self.blocks))),))
            yield Bind(name, len(stage.order), len(stage.order))

    def loops_around(self, name: str) -> int | None:
        """Return in how many loops of the sink a result is stored: those of threads, of blocks, or none (None)."""
        shape, whole = self.naive.stages[name].shape, self.layer.sink.shape
        if shape == whole:
            return 2 * self.dims
        fits = len(shape) == len(whole) and all(a == b or 1 in (a, b) for a, b in zip(shape, whole, strict=True))
        return self.dims if fits else None

    def is_in(self, stage: Stage, name: str) -> bool:
        """Whether the stage ``name`` is the one that accumulates the sums of ``stage``."""
        holders, _ = self._holders(stage.tensor, set(self.kept))
        return holders == {name}

    def demanded(self, plans: Plans, goals: Iterable[str]) -> Mapping[str, Ranges]:
        """Return what a tile of the sink needs of stages, ``goals`` among them."""
        loops = {f"block{dim}": count for dim, count in enumerate(self.blocks)}
        box = tuple([
            Range(Affine(0, ((f"block{dim}", size),)), size) for dim, size in enumerate(self.tile)
        ])  # fmt: skip
        return plans.demanded(self.sink, self.dims, box, {}, loops, goals)

    def holder(self, stage: Stage) -> str | None:
        """Return the kept stage that accumulates the sums of ``stage``; None if several read them, or none."""
        return next((name for name in self.kept if self.is_in(stage, name)), None)

    def copied(self, nest: LoopNest, described: BlockNest) -> Iterator[Access]:
        """Yield the operands of a product that can be copied: those that are not in shared memory already."""
        seen = set(self.kept)
        for operand, read in enumerate(nest.reads[:2]):
            if described.is_copied(operand) and read.tensor not in seen:
                seen.add(read.tensor)
                yield read


def _run(stage: Stage, blocks: int) -> Extents:
    """Return how many elements of each dimension, outermost first, make a block's share where there are so many."""
    left = -(-math.prod(stage.shape) // blocks)
    sizes = []
    for dim in reversed(stage.order):
        sizes.append(least(stage.shape[dim], left))
        left = most(1, -(-left // stage.shape[dim]))
    return tuple(reversed(sizes))
