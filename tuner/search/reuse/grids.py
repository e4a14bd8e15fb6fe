"""Shapes as programs of a GPU's space, and back: what Algorithm 1 of ETO asks of the kernel that it tunes.

A program keeps the sketch of the reused one, and what it has besides shapes: whether operands are copied to shared
memory and how far ahead, who shares reductions. Fetches go along the longest reduction, and the parts of a thread lie
together (no virtual split): programs have no others. Rows of copies are padded as in the built-in choice where threads
would meet in banks, which the authors' programs leave to the shapes. Parts are always written out and copies made in
the longest vectors that fit, so that the rounds for pragmas and vectors have no other programs to offer.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dsascape.scheduler.kernels.loops.naive import NaiveProgram, reduction_extents
from dsascape.scheduler.kernels.loops.nodes import SUMS
from dsascape.scheduler.kernels.loops.steps import (
    Bind,
    CacheRead,
    Prefetch,
    ShareReduction,
    Steps,
    Tensorise,
    Tile,
)
from dsascape.tuner.search.genes import step_of, tile_groups, with_factors, with_step
from dsascape.tuner.search.grid_settled import copies_of
from dsascape.tuner.search.grid_space import GridSpace
from dsascape.tuner.search.reuse.hierarchical import Features, Hierarchical, SpaceOfShapes, expected_trials
from dsascape.tuner.search.reuse.nests import major_nest
from dsascape.tuner.search.reuse.operators import FeatureRatios, ReuseError, SketchSet
from dsascape.tuner.search.reuse.shapes import MajorNest, Shapes
from dsascape.tuner.search.reuse.sketch_sets import CROSS_THREAD, MULTI_LEVEL, TENSOR, TWO_LEVEL
from dsascape.tuner.search.space import Program


@dataclass(frozen=True, slots=True)
class Carried:
    """Decisions that a program takes over from the one that it reuses, besides those that Algorithm 1 searches."""

    on_tensor_units: bool
    goes_in_steps: bool
    """Whether the reduction goes in steps: a multi-level tile sketch."""
    is_shared: bool
    """Whether the sketch has threads or blocks share the reduction: cross-thread reduction."""
    is_copied: bool
    """Whether operands are fetched to shared memory."""
    ahead: int
    """Steps that copies are made ahead."""
    sharing: int
    """Threads, or blocks, that share the reduction."""
    by: Literal["thread", "block"]
    least_threads: int


class ReusableGrid:
    """A kernel of one operator on a GPU, with the major nest that shapes refer to."""

    def __init__(self, space: GridSpace) -> None:
        """Take a kernel's space; raise ``ReuseError`` if its major nest has other dimensions than its result."""
        self.space = space
        layer = space.naive.layer
        nest = major_nest([compiled.nest for compiled in layer.nests])
        tensors = layer.graph.tensors
        orders = {access.tensor: _order(space.naive, access.tensor, len(access.shape)) for access in
                  (*nest.reads, nest.write)}  # fmt: skip
        element_bytes = max([space.naive.element_bytes(name) for name in layer.inputs if name in tensors], default=4)
        self.nest = MajorNest(nest, orders, element_bytes)
        self.tensor = nest.write.tensor
        is_alone = [each for each in space.held.nests.values() if each[1].front is not None]
        if self.nest.space != layer.sink.shape or is_alone or len(space.groups(space.sketches[0].steps)) != 1:
            raise ReuseError(f"{layer.sink.name}: its major loop nest has other dimensions than its result")

    @property
    def kinds(self) -> SketchSet:
        """Kinds of its sketches, one entry for each."""
        return sketch_kinds(self.space)

    def expected_trials(self, other: "ReusableGrid", ratios: FeatureRatios, rng: random.Random) -> float:
        """Return how many programs a reuse of the other kernel's fastest program tries in the mean."""
        return expected_trials(self.nest, other.nest, ratios, rng, self.shapes_in_steps)

    def search(
        self, reused: "ReusableGrid", program: Program, ratios: FeatureRatios,
        fastest: Callable[[Sequence[Program]], Program | None],
    ) -> Program | None:  # fmt: skip
        """Return the fastest program that Algorithm 1 finds, given another kernel's; None where none runs."""
        carried, features = reused.carried(program.steps), reused.features(program.steps)
        rounds = Hierarchical(self.nest, features, ratios, self.shapes_of_space(carried))
        return rounds.search(lambda shapes: self.program(shapes, carried), fastest)

    @property
    def depth(self) -> int | None:
        """Place of the longest reduction loop among the reduction loops; None without one."""
        loop = self.space.held.nests[self.tensor][1].depth_loop
        return None if loop is None else self.nest.reduction_loops.index(loop)

    def shapes_of_space(self, carried: Carried) -> SpaceOfShapes:
        """Return what shapes programs can have that carry these decisions."""
        return replace(self.shapes_in_steps, is_fetched=carried.is_copied and carried.goes_in_steps)

    @property
    def shapes_in_steps(self) -> SpaceOfShapes:
        """Shapes of programs whose operands are fetched in steps, where there are such programs."""
        is_tiled = self.space.held.nests[self.tensor][1].is_tiled
        depth = self.depth
        cut = () if depth is None else (depth,)
        return SpaceOfShapes(with_virtual=False, cut=cut, is_fetched=is_tiled and depth is not None)

    def carried(self, steps: Steps) -> Carried:
        """Return what a program takes over from ``steps`` of this kernel."""
        sums = self.tensor + SUMS
        tile, share = step_of(steps, sums, Tile), step_of(steps, sums, ShareReduction)
        bind = step_of(steps, self.space.sink, Bind)
        copies = copies_of(steps, sums)
        ahead = max([step_of(steps, copy.stage, Prefetch) is not None for copy in copies], default=False)
        prefetch = next((step for step in steps if isinstance(step, Prefetch)), None)
        in_steps = tile is not None and len(tile.levels) > 1
        return Carried(
            step_of(steps, sums, Tensorise) is not None, in_steps, share is not None and not in_steps, bool(copies),
            0 if prefetch is None or not ahead else prefetch.ahead, 1 if share is None else share.count,
            "thread" if share is None else share.by, 0 if bind is None else bind.least_threads,
        )  # fmt: skip

    def shapes(self, steps: Steps) -> Shapes:
        """Return the shapes of a program of this kernel; its blocks and threads need not divide the result."""
        sink = step_of(steps, self.space.sink, Tile)
        assert sink is not None
        outer, inner = [dict(zip(level.order, level.sizes or (), strict=True)) for level in sink.levels]
        block = tuple([min(outer[dim], size) for dim, size in enumerate(self.nest.space)])
        thread = tuple([min(inner[dim], block[dim]) for dim in range(len(block))])
        loads = [1] * len(self.nest.reduction)
        tile, depth = step_of(steps, self.tensor + SUMS, Tile), self.depth
        if tile is not None and len(tile.levels) > 1 and tile.levels[0].order and depth is not None:
            (step,) = tile.levels[0].sizes or (1,)
            loads[depth] = -(-self.nest.reduction[depth] // step)
        return Shapes(block, (1,) * len(block), thread, tuple(loads))

    def features(self, steps: Steps) -> Features:
        """Return the features of a program of this kernel: blocks, threads without those that share a reduction."""
        shapes = self.shapes(steps)
        blocks = math.prod([-(-size // own) for size, own in zip(self.nest.space, shapes.block, strict=True)])
        threads = math.prod([-(-size // own) for size, own in zip(shapes.block, shapes.thread, strict=True)])
        has_copies = bool(copies_of(steps, self.tensor + SUMS))
        shared = blocks * self.nest.fetched(shapes.block, shapes.loads) if has_copies else 0
        return Features(blocks, blocks * threads, shared)

    def program(self, shapes: Shapes, carried: Carried) -> Program | None:
        """Return the program with these shapes, and all else as it is carried over (GetS); None if it is not legal."""
        found = self._sketch(carried)
        if found is None:
            return None
        group = next(group for group in tile_groups(found) if group.consumer == self.space.sink)
        space = {
            dim: (size // block, block // part, part)
            for dim, (size, block, part) in enumerate(zip(self.nest.space, shapes.block, shapes.thread, strict=True))
        }
        steps = with_factors(found, group.space, space)
        sums = self.tensor + SUMS
        if group.reductions:
            extents = reduction_extents(self.nest.nest)
            fetches = dict(zip(self.nest.reduction_loops, shapes.loads, strict=True))
            rest = len(group.reductions) - 1
            factors = {
                loop: (fetches[loop], -(-extent // fetches[loop])) if rest else (extent,)
                for loop, extent in extents.items()
            }
            steps = with_factors(steps, group.reductions, factors)
        steps = self._with_copies(steps, carried)
        if carried.sharing > 1:
            loops = tuple(reduction_extents(self.nest.nest))
            steps = with_step(steps, ShareReduction(sums, carried.sharing, loops, carried.by))
        bind = step_of(steps, self.space.sink, Bind)
        assert bind is not None
        program = self.space.completed(with_step(steps, replace(bind, least_threads=carried.least_threads)))
        return None if program is None else self.space.unhindered(program)

    def _with_copies(self, steps: Steps, carried: Carried) -> Steps:
        names = [step.stage for step in steps if isinstance(step, CacheRead)]
        if not carried.is_copied:
            return tuple([step for step in steps if step.stage not in names])
        return (*steps, *[Prefetch(name, carried.ahead) for name in names if carried.ahead])

    def _sketch(self, carried: Carried) -> Steps | None:
        """Return the sketch of the same kind as the reused program's; None where the kernel has none."""
        for sketch in self.space.sketches:
            own = self.carried(sketch.steps)
            if (own.on_tensor_units, own.goes_in_steps, own.is_shared) == (
                carried.on_tensor_units, carried.goes_in_steps, carried.is_shared,
            ):  # fmt: skip
                return sketch.steps
        return None


def _order(naive: NaiveProgram, tensor: str, rank: int) -> tuple[int, ...]:
    return naive.order_of(tensor, rank)


def sketch_kinds(space: GridSpace) -> tuple[str, ...]:
    """Return the kinds of a kernel's sketches, one entry for each."""
    return tuple(sorted([
        next((kind for rule, kind in _KINDS.items() if rule in sketch.derivation), TWO_LEVEL)
        for sketch in space.sketches
    ]))  # fmt: skip


_KINDS = {"tile_on_tensor_units": TENSOR, "tile_and_fuse": MULTI_LEVEL, "share_reduction": CROSS_THREAD}
"""Kinds of sketches by the rules that make them."""
