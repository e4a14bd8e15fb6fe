"""Shapes as programs of a CPU's space, and back: what Algorithm 1 of ETO asks of the kernel that it tunes.

Features are read off the loops of a program, whoever wrote it: a search, or the built-in choice. A program keeps,
besides shapes, where the reused one finishes sums and makes copies, and how far it writes out the reduction; of these,
a later round tries other lengths written out. Sketches and orders of loops are the kernel's own.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.naive import reduction_extents
from dsascape.scheduler.kernels.loops.nodes import SUMS, Loop, Statement, statements_of
from dsascape.scheduler.kernels.loops.steps import (
    CacheRead,
    ComputeAt,
    Parallel,
    PartialSums,
    Steps,
    Tile,
    Unroll,
    UnrollReduction,
)
from dsascape.scheduler.kernels.structure.parts import parts_of
from dsascape.tuner.search.genes import TileGroup, step_of, tile_groups, with_factors, with_step
from dsascape.tuner.search.locations import moved, places
from dsascape.tuner.search.reuse.loop_rounds import LoopRounds, expected_trials, serial_dims
from dsascape.tuner.search.reuse.loop_shapes import CoreFacts, LoopFeatures, LoopNestShapes, LoopShapes
from dsascape.tuner.search.reuse.nests import major_nest
from dsascape.tuner.search.reuse.operators import FeatureRatios, ReuseError, SketchSet
from dsascape.tuner.search.reuse.read_loops import read_loops
from dsascape.tuner.search.reuse.shapes import MajorNest
from dsascape.tuner.search.reuse.sketch_sets import APART, FUSED, PARTIAL_SUMS, PLAIN
from dsascape.tuner.search.settled import MOST_UNROLLED
from dsascape.tuner.search.space import Program, Space

Place = Literal["kernel", "block", "tile", "step"]
"""Loops that something is made inside of: none, those of blocks, those of tiles, those of steps of the reduction."""
LATER = 2
"""Lengths of the reduction, written out, that the last round tries at most."""


@dataclass(frozen=True, slots=True)
class CarriedLoops:
    """Decisions that a program takes over from the one that it reuses, besides those that Algorithm 1 searches."""

    is_held: bool
    """Whether registers hold sums over the whole reduction."""
    finished: Place
    """Loops inside of which sums are finished: what follows them, such as a bias, is computed there."""
    copies: Place
    """Loops inside of which copies with padding are made."""
    written_out: int
    """Iterations of the reduction that are written out."""
    vector_dim: int
    partial_sums: int
    """Partial sums of one element, where a reduction is cut into such; else 1."""


class ReusableLoops:
    """A kernel of one operator on a CPU, with the major nest that shapes refer to."""

    def __init__(self, space: Space) -> None:
        """Take a kernel's space; raise ``ReuseError`` where its loops are not those of one product of its result."""
        self.space = space
        layer, view = space.naive.layer, space.machine.cpu
        nest = major_nest([compiled.nest for compiled in layer.nests])
        accesses = (*nest.reads, nest.write)
        orders = {access.tensor: space.naive.order_of(access.tensor, len(access.shape)) for access in accesses}
        bytes_of = [space.naive.element_bytes(read.tensor) for read in nest.reads]
        self.nest = MajorNest(nest, orders, max(bytes_of, default=4), space.machine.line_bytes)
        self.sums = nest.write.tensor + SUMS
        name = layer.sink.name
        if view is None or len(parts_of(layer)) != 1 or self.nest.space != layer.sink.shape:
            raise ReuseError(f"{name}: its major loop nest has other dimensions than its result")
        if layer.depth_loop not in self.nest.reduction_loops or self.sums not in space.naive.stages:
            raise ReuseError(f"{name}: has no reduction to tile")
        if not any(self._group(sketch.steps) for sketch in space.sketches):
            raise ReuseError(f"{name}: has no sketch that is tiled at several levels")
        self._depth = self.nest.reduction_loops.index(layer.depth_loop)
        tensors = layer.graph.tensors
        self._panels = frozenset(
            read.tensor for read in nest.reads if read.tensor in tensors and tensors[read.tensor].role == "weight"
        )
        self._facts = CoreFacts.of(view, space.machine.lanes)
        self._shapes: dict[int, LoopNestShapes] = {}

    @property
    def kinds(self) -> SketchSet:
        """Kinds of its sketches, one entry for each."""
        return tuple(sorted([_kind(sketch.derivation) for sketch in self.space.sketches]))

    def shapes_along(self, vector_dim: int) -> LoopNestShapes:
        """Return the shapes of programs whose vectors lie along a dimension."""
        if vector_dim not in self._shapes:
            self._shapes[vector_dim] = LoopNestShapes(self.nest, self._depth, self._facts, vector_dim, self._panels)
        return self._shapes[vector_dim]

    def features(self, program: Program) -> LoopFeatures:
        """Return the features of a program; raise ``StepError`` where the machine model cannot read its loops."""
        tiled = read_loops(self.space.naive.layer, program.loops)
        return self.shapes_along(tiled.vector_dim).features_of_loops(tiled)

    def carried(self, program: Program) -> CarriedLoops:
        """Return what a program hands on besides its features; raise ``StepError`` as `features` does."""
        loops, tiled = program.loops, read_loops(self.space.naive.layer, program.loops)
        if not any(stage.name == self.sums for stage in loops.stages):
            raise StepError(f"{self.sums} has no loops of its own")
        around, statement = next(
            (around, each) for around, each in statements_of(loops.body)
            if (each.stage, each.role) == (self.sums, "update")
        )  # fmt: skip
        buffer = loops.buffer(self.sums)
        places = [_place(loops.buffer(copy).inside, around, statement) for copy in loops.copies(self.sums).values()]
        finished: Place = _place(buffer.inside, around, statement)
        return CarriedLoops(
            buffer.scope == "register", finished, places[0] if places else "block", tiled.unrolled, tiled.vector_dim,
            buffer.partial_sums,
        )  # fmt: skip

    def expected_trials(self, other: "ReusableLoops", ratios: FeatureRatios, rng: random.Random) -> float:
        """Return how many programs a reuse of the other kernel's fastest program tries in the mean."""
        own, others = (each.shapes_along(each.nest.order[-1]) for each in (self, other))
        return expected_trials(own, others, ratios, rng, LATER)

    def search(
        self, reused: "ReusableLoops", program: Program, ratios: FeatureRatios,
        fastest: Callable[[Sequence[Program]], Program | None],
    ) -> Program | None:  # fmt: skip
        """Return the fastest program that Algorithm 1 finds, given another kernel's; None where none runs."""
        try:
            carried, features = reused.carried(program), reused.features(program)
        except StepError:
            return None
        if carried.partial_sums > 1:
            return fastest(self._in_partial_sums(carried))
        if carried.vector_dim >= len(self.nest.space):  # of a kernel with more dimensions
            return None
        rounds = LoopRounds(self.shapes_along(carried.vector_dim), features, ratios, is_held=carried.is_held)

        def program_of(shapes: LoopShapes) -> Program | None:
            return self.program(shapes, carried)

        return rounds.search(program_of, fastest, [self._written_out])

    def program(self, shapes: LoopShapes, carried: CarriedLoops) -> Program | None:
        """Return the program with these shapes, and all else as it is carried over (GetS); None if it is not legal."""
        steps = self._sketch(carried)
        if steps is None:
            return None
        group = self._group(steps)
        assert group is not None
        sizes = (shapes.block, shapes.tile, shapes.register)
        space = {
            dim: (-(-size // block), block // tile, tile // register, register)
            for dim, (size, block, tile, register) in enumerate(zip(self.nest.space, *sizes, strict=True))
        }
        longest = self.nest.reduction_loops[self._depth]
        steps = with_factors(_in_order(steps, group, shapes.order), group.space, space)
        steps = with_factors(steps, group.reductions, {
            loop: (-(-extent // shapes.step), shapes.step) if loop == longest else (1, extent)
            for loop, extent in reduction_extents(self.nest.nest).items()
        })  # fmt: skip
        for other in tile_groups(steps):
            if other.inner != self.sums and len(other.space) == 1:  # sums that are finished in loops of their own
                steps = with_factors(steps, other.space, {
                    dim: (-(-size // register), register)
                    for dim, (size, register) in enumerate(zip(self.nest.space, shapes.register, strict=True))
                })  # fmt: skip
        steps = self._with_copies(self.space.in_vectors(steps), group, carried.copies)
        for stage in self.space.roots(steps):
            most = self.space.most_parallel(steps, stage)
            own = len(shapes.order) - len(serial_dims(self.nest.space, shapes.portion, shapes.order))
            own = own if stage == group.consumer else most
            steps = with_step(steps, Parallel(stage, min(own, most)))
        for stage in dict.fromkeys((group.consumer, self.sums)):
            steps = with_step(steps, Unroll(stage, MOST_UNROLLED))
        return self.space.completed(self._unrolled(steps, group, carried.written_out))

    def _with_copies(self, steps: Steps, group: TileGroup, place: Place) -> Steps:
        inside = self._loops_of_places(steps, group)
        for step in steps:
            if isinstance(step, CacheRead):
                known = places(self.space.nodes, steps, step.stage)
                wanted = inside.get(place)
                steps = moved(steps, step.stage, wanted if wanted in known else None)
        return steps

    def _loops_of_places(self, steps: Steps, group: TileGroup) -> Mapping[Place, tuple[str, int]]:
        """Return the loops of a sketch that each place is inside of: a stage, and how many of its outermost loops."""
        rank, reductions = len(self.nest.order), len(self.nest.reduction)
        ends = []
        for levels in (group.space[:1], group.space[:2], (*group.space[:2], *group.reductions[:1])):
            stage = levels[-1][0]
            ends.append((stage, sum([
                rank if each in group.space else reductions for each in levels if each[0] == stage
            ])))  # fmt: skip
        return dict(zip(("block", "tile", "step"), ends, strict=True))

    def _unrolled(self, steps: Steps, group: TileGroup, wanted: int) -> Steps:
        known = self.space.reduction_factors(steps, group)
        factor = max([each for each in known if each <= wanted], default=1)
        return with_step(steps, UnrollReduction(self.sums, factor))

    def _written_out(self, program: Program) -> list[Program]:
        """Return a program with other lengths of the reduction written out, those nearest to its own."""
        group = self._group(program.steps)
        if group is None:
            return []
        step = step_of(program.steps, self.sums, UnrollReduction)
        own = 1 if step is None else step.factor
        others = [each for each in self.space.reduction_factors(program.steps, group) if each != own]
        near = sorted(others, key=lambda each: (abs(math.log(each / own)), each))[:LATER]
        found = [self.space.completed(with_step(program.steps, UnrollReduction(self.sums, factor))) for factor in near]
        return [each for each in found if each is not None]

    def _in_partial_sums(self, carried: CarriedLoops) -> list[Program]:
        """Return programs that cut the reduction into partial sums: as many as the reused one, or what is nearest."""
        found = []
        for sketch in self.space.sketches:
            step = step_of(sketch.steps, self.sums, PartialSums)
            if step is None:
                continue
            counts = self.space.sums_counts(sketch.steps, step)
            plain = self.space.plain(sketch.steps)
            if plain is not None:
                own = min(counts, key=lambda each: (abs(each - carried.partial_sums), each))
                found.append(self.space.completed(with_step(plain.steps, replace(step, count=own))))
        return [each for each in found if each is not None]

    def _sketch(self, carried: CarriedLoops) -> Steps | None:
        """Return the sketch that finishes sums where the reused program does, the first where there is none."""
        wanted = "tile" if carried.is_held else carried.finished
        tiled = {self._finished(sketch.steps): sketch.steps for sketch in self.space.sketches if
                 self._group(sketch.steps) is not None}  # fmt: skip
        return tiled.get(wanted, next(iter(tiled.values()), None))

    def _finished(self, steps: Steps) -> Place:
        """Return the loops inside of which a sketch finishes sums."""
        at = step_of(steps, self.sums, ComputeAt)
        if at is None:
            return "kernel"
        return "block" if at.loops == len(self.nest.order) else "tile"

    def _group(self, steps: Steps) -> TileGroup | None:
        """Return the levels of the product's tiles; None where it is not tiled at several levels."""
        found = [group for group in tile_groups(steps) if group.inner == self.sums and group.is_multi_level]
        return found[0] if len(found) == 1 else None


def _in_order(steps: Steps, group: TileGroup, order: tuple[int, ...]) -> Steps:
    """Return a sketch whose loops over portions are in another order."""
    stage, number = group.space[0]
    tile = step_of(steps, stage, Tile)
    assert tile is not None
    first = replace(tile.levels[number], order=order)
    return with_step(steps, replace(tile, levels=(*tile.levels[:number], first, *tile.levels[number + 1 :])))


def _place(inside: str, around: Sequence[Loop], statement: Statement) -> Place:
    """Return which loops around a statement a buffer is made anew in."""
    names = [loop.name for loop in around]
    if inside not in names:
        return "kernel"
    reduced = {loop for _, each in statement.reduced for loop, _ in each.terms}
    moving = {loop for each in statement.element for loop, _ in each.terms}
    end = names.index(inside) + 1
    is_reduced = [any(name in reduced for name in _fused(loop)) for loop in around]
    if any(is_reduced[:end]):
        return "step"
    first = next((place for place, each in enumerate(is_reduced) if each), len(around))
    left = [loop for loop in around[end:first] if loop.extent > 1 and any(name in moving for name in _fused(loop))]
    return "block" if left else "tile"


def _fused(loop: Loop) -> list[str]:
    return [loop.name, *[name for name, _ in loop.fused]]


def _kind(derivation: Sequence[str]) -> str:
    return next((kind for rule, kind in _KINDS.items() if rule in derivation), PLAIN)


_KINDS = {"factor_reduction": PARTIAL_SUMS, "tile_and_fuse": FUSED, "tile": APART}
"""Kinds of sketches by the rules that make them."""
