"""The programs of a kernel: sketches filled with sizes and annotations, each drawn uniformly from its valid values.

Every program that leaves here has been built and is legal on the machine (Ansor, section 4.2).
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.naive import NaiveProgram, reduction_extents
from dsascape.scheduler.kernels.loops.nodes import SUMS
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import (
    CacheRead,
    ComputeAt,
    Inline,
    Parallel,
    PartialSums,
    Steps,
    Tile,
    Unroll,
    UnrollReduction,
    Vectorise,
)
from dsascape.scheduler.parts import divisors
from dsascape.tuner.search.analysis import KernelNodes, SearchMachine
from dsascape.tuner.search.genes import (
    Factors,
    TileGroup,
    drawn_factors,
    slots,
    step_of,
    tile_groups,
    with_factors,
    with_step,
    without,
)
from dsascape.tuner.search.hints import MOST_INNERMOST, KernelHints
from dsascape.tuner.search.joint import complex_stages, is_joint
from dsascape.tuner.search.locations import flexible, moved, places
from dsascape.tuner.search.options import SpaceOptions
from dsascape.tuner.search.rules import CPU_RULES
from dsascape.tuner.search.settled import MOST_UNROLLED, UNROLLED, settled, statements
from dsascape.tuner.search.sketches import Context, Rule, Sketch, sketches
from dsascape.workloads.loopnest import Extents

INNERMOST = MOST_INNERMOST
"""Most elements of a dimension in the innermost level (TVM's default)."""
_TRIES = 50
"""Draws of a valid program before a kernel counts as one without any."""
_WASTE = 0.2
"""Most of a dimension, as a fraction of it, that tiles may stick out."""
_MOST_SUMS = 8
"""Partial sums, in vectors or one by one, that a reduction is cut into at most."""


@dataclass(frozen=True)
class Program:
    """A legal program of a kernel: its steps, and the loops that they make."""

    steps: Steps
    loops: LoopProgram


class NoProgramError(ValueError):
    """A kernel for which no legal program is found."""


class Space:
    """All programs of one kernel on a machine: a CPU, unless a subclass says otherwise."""

    rules: ClassVar[Sequence[Rule]] = CPU_RULES
    """Derivation rules of sketches, in the order in which they are tried."""

    def __init__(
        self, naive: NaiveProgram, machine: SearchMachine, options: SpaceOptions | None = None,
        rules: Sequence[Rule] | None = None,
    ) -> None:  # fmt: skip
        self.naive, self.machine = naive, machine
        self.options = SpaceOptions() if options is None else options
        self.nodes = KernelNodes(naive)
        found = sketches(Context(self.nodes, machine), self.rules if rules is None else rules)
        self.hints = KernelHints(naive, self.options.hints)
        found = tuple([sketch for sketch in found if self.hints.admits(sketch.steps)])
        most_fused = sorted(found, key=lambda sketch: -sketch.derivation.count("tile_and_fuse"))
        self.sketches: tuple[Sketch, ...] = tuple(most_fused[: self.options.sketches or None])

    def draw(self, rng: random.Random) -> Program:
        """Return a program drawn at random; raise ``NoProgramError`` where none is found."""
        for _ in range(_TRIES if self.sketches else 0):
            found = self.annotated(rng.choice(self.sketches).steps, rng)
            if found is not None:
                return found
        needs = "is legal and obeys the hints" if self.options.hints else "is legal"
        raise NoProgramError(f"{self.naive.layer.sink.name}: none of {_TRIES} programs drawn {needs}")

    def annotated(self, steps: Steps, rng: random.Random) -> Program | None:
        """Return a sketch with sizes and annotations drawn for it; None where they do not make a legal program."""
        for group in tile_groups(steps):
            steps = self.sized(steps, group, self._shape(group), rng)
        steps = self.in_vectors(steps)
        for step in steps:
            if isinstance(step, PartialSums):
                steps = with_step(steps, replace(step, count=rng.choice(self.sums_counts(steps, step))))
        if self.options.locations:
            for stage in flexible(self.nodes, steps):
                steps = self.moved(steps, stage, rng)
        else:
            steps = self._next_to_readers(steps)
        for stage in self.roots(steps):
            most = self.most_parallel(steps, stage)
            steps = with_step(steps, Parallel(stage, rng.randint(min(1, most), most)))
        for group in tile_groups(steps):
            steps = self.unrolled(steps, group, rng)
        return self.completed(steps)

    def plain(self, steps: Steps) -> Program | None:
        """Return a sketch with the plainest decisions: one tile, one parallel loop, nothing written out."""
        for group in tile_groups(steps):
            sizes = {dim: self._one_tile(group, dim, size) for dim, size in enumerate(self._shape(group))}
            steps = with_factors(steps, group.space, sizes)
            if group.reductions:
                rest = len(group.reductions) - 1
                steps = with_factors(
                    steps, group.reductions,
                    {loop: (*(1,) * rest, extent) for loop, extent in self.reductions(group).items()},
                )  # fmt: skip
        steps = self._next_to_readers(self.in_vectors(steps))
        for step in steps:
            if isinstance(step, PartialSums):
                steps = with_step(steps, replace(step, count=self.sums_counts(steps, step)[0]))
        for stage in self.roots(steps):
            steps = with_step(steps, Parallel(stage, min(1, self.most_parallel(steps, stage))))
        return self.completed(steps)

    def settled(self, steps: Steps) -> Steps:
        """Return ``steps`` with all that follows from sizes and places."""
        return settled(self.naive, steps, has_layouts=self.options.layouts)

    def groups(self, steps: Steps) -> tuple[TileGroup, ...]:
        """Return the tiles that are chosen."""
        return tile_groups(steps)

    def completed(self, steps: Steps) -> Program | None:
        """Return the program of ``steps``, brought in line with each other; None where it is not legal.

        None, too, where it does not obey the user's hints.
        """
        program = self._in_line(steps)
        return program if program is None or self.hints.obeyed(program.steps) else None

    def _in_line(self, steps: Steps) -> Program | None:
        """Return the program of ``steps``, brought in line with each other; None where it is not legal.

        Sizes of what is computed inside of other loops follow from what is computed at once there, which the program
        tells; as those may be what others depend on, it is built until nothing changes.
        """
        steps = self.settled(steps)
        for _ in range(_FITS):
            program = self.built(steps)
            if program is None:
                return None
            fitted = self._fitted(program)
            if fitted == steps:
                return program
            steps = self.settled(fitted)
        return self.built(steps)

    def built(self, steps: Steps) -> Program | None:
        """Return the program of ``steps`` as they are; None where it is not legal."""
        try:
            program = loop_program(self.naive, steps)
        except StepError:
            return None
        if not self.options.intensive and is_joint(program, self._complex):
            return None
        return None if illegal(program, self.machine.limits) else Program(steps, program)

    def is_joint(self, program: Program) -> bool:
        """Whether a program computes one complex operator inside of the tiles of another."""
        return is_joint(program.loops, self._complex)

    @cached_property
    def _complex(self) -> Mapping[str, int]:
        """Stages of complex operators."""
        return complex_stages(self.naive)

    def sized(self, steps: Steps, group: TileGroup, shape: Extents, rng: random.Random) -> Steps:
        """Return ``steps`` with factors of all dimensions and reductions of a group drawn."""
        space = {dim: self.drawn_factors(steps, group, dim, size, rng) for dim, size in enumerate(shape)}
        steps = with_factors(steps, group.space, space)
        count = len(group.reductions)
        chosen = {
            loop: self.hints.reduction_factors(group, extent, rng) or drawn_factors(rng, extent, count, extent)
            for loop, extent in self.reductions(group).items() if count
        }  # fmt: skip
        return with_factors(steps, group.reductions, chosen) if count else steps

    def drawn_factors(
        self, steps: Steps, group: TileGroup, dim: int, size: int, rng: random.Random
    ) -> Factors:
        """Return factors of one dimension for all levels of a group, the innermost last."""
        count = len(group.space) + 1
        if step_of(steps, group.inner, PartialSums) is not None:
            return (size, *[1] * (count - 1))
        hinted = self.hints.factors(group, dim, self.rounded(size), rng)
        return hinted or drawn_factors(rng, rng.choice(self.rounded(size)), count, INNERMOST)

    def _one_tile(self, group: TileGroup, dim: int, size: int) -> Factors:
        """Return factors of one dimension of which the outermost level has all but what hints need of the innermost."""
        if not group.space:
            return (size,)
        least = self.hints.least(group, dim)
        return (-(-size // least), *(1,) * (len(group.space) - 1), least)

    def rounded(self, size: int) -> list[int]:
        """Return sizes of which tiles cover a dimension: its own, and larger ones that more numbers divide."""
        found = [size]
        if self.options.sticking_out:
            found += [
                whole
                for part in (2, 4, self.machine.lanes)
                if size < (whole := -(-size // part) * part) <= size * (1 + _WASTE)
            ]
        return list(dict.fromkeys(found))

    def reductions(self, group: TileGroup) -> Mapping[int, int]:
        """Return the iterations of the reduction loops that have levels in a group."""
        stage = self.naive.stages[group.inner]
        if not group.reductions or stage.kind != "sum":
            return {}
        return reduction_extents(stage.nests[0])

    def _shape(self, group: TileGroup) -> Extents:
        return self.naive.stages[group.inner].shape

    def extents(self, steps: Steps, group: TileGroup) -> Extents:
        """Return the elements of each dimension that the outermost level of a group goes through."""
        if step_of(steps, group.consumer, ComputeAt) is None:
            return self._shape(group)
        return self.box(loop_program(self.naive, self.settled(steps)), group)

    def in_vectors(self, steps: Steps) -> Steps:
        """Return ``steps`` with vectors in the innermost level of all stages that have one."""
        lanes = self.machine.lanes
        for group in tile_groups(steps):
            for stage in dict.fromkeys((group.consumer, group.inner)):
                is_summed = step_of(steps, stage, PartialSums) is not None
                if not is_summed and step_of(steps, stage, Vectorise) is None:
                    steps = with_step(steps, Vectorise(stage, lanes, "dividing"))
        for step in steps:
            if isinstance(step, CacheRead):
                steps = with_step(steps, Vectorise(step.stage, lanes, "dividing"))
        return steps

    def sums_counts(self, steps: Steps, step: PartialSums) -> list[int]:
        """Return numbers of partial sums that a reduction may be cut into."""
        nest = self.naive.stages[step.stage].nests[0]
        run = math.prod([reduction_extents(nest)[loop] for loop in step.loops])
        lanes = 1 if step_of(steps, step.stage, Vectorise) is None else self.machine.lanes
        counts = [lanes * times for times in (1, 2, 4, _MOST_SUMS) if lanes * times > 1]
        return [each for each in counts if each <= run] or [1 << (run.bit_length() - 1)]

    def moved(self, steps: Steps, stage: str, rng: random.Random) -> Steps:
        """Return ``steps`` with a flexible stage in a place that is drawn, and sizes for what it computes there."""
        place = rng.choice([None, *places(self.nodes, steps, stage)])
        changed = moved(steps, stage, place)
        own = next((group for group in tile_groups(changed) if group.consumer == stage), None)
        if own is None:
            return changed
        program = self._in_line(changed)
        if program is None:
            return steps
        shape = self._shape(own) if place is None else self.box(program.loops, own)
        return self.sized(changed, own, shape, rng)

    def _next_to_readers(self, steps: Steps) -> Steps:
        """Return ``steps`` with copies made for one tile of the outermost level of what reads them."""
        for step in steps:
            if isinstance(step, CacheRead):
                within = places(self.nodes, steps, step.stage)
                outermost = [place for place in within if place[0] == within[-1][0]] if within else []
                steps = moved(steps, step.stage, outermost[-1] if outermost else None)
        return steps

    def box(self, program: LoopProgram, group: TileGroup) -> Extents:
        """Return the elements of each dimension that are computed at once where a group is inside of other loops."""
        stage, buffer = self.naive.stages[group.consumer], program.buffer(group.consumer)
        extents = dict(zip(stage.order, buffer.shape, strict=False))
        return tuple([extents[dim] for dim in range(len(stage.shape))])

    def _fitted(self, program: Program) -> Steps:
        """Return steps with no level that covers more than is computed at once inside of other loops."""
        steps = program.steps
        for group in tile_groups(steps):
            if step_of(steps, group.consumer, ComputeAt) is not None:
                steps = _within(steps, group, self.box(program.loops, group))
        return steps

    def roots(self, steps: Steps) -> tuple[str, ...]:
        """Return the stages that are not computed inside of others, and have loops that threads can share."""
        inside = {step.stage for step in steps if isinstance(step, ComputeAt)}
        inlined = {step.stage for step in steps if isinstance(step, Inline)}
        copies = [step.stage for step in steps if isinstance(step, CacheRead)]
        return tuple([name for name in (*self.naive.stages, *copies) if name not in inside | inlined])

    def most_parallel(self, steps: Steps, stage: str) -> int:
        """Return how many of a stage's loops, the outermost, can be shared by threads: those before reductions."""
        tile = step_of(steps, stage, Tile)
        if tile is None:
            own = self.naive.stages.get(stage)
            rank = len(self.nodes.shape_of_copy(steps, stage) if own is None else own.shape)
            return max(rank - 1, 0)
        leading = next((number for number, level in enumerate(tile.levels) if level.axes == "reduction"), None)
        return slots(replace(tile, levels=tile.levels[:leading])) if tile.levels else 0

    def unrolled(self, steps: Steps, group: TileGroup, rng: random.Random) -> Steps:
        """Return ``steps`` with the unrolling of a group's stages drawn."""
        most = rng.choice(UNROLLED) if self.options.unrolling else UNROLLED[2]
        hinted = self.hints.unrolling(group)
        most = most if hinted is None else hinted
        for stage in dict.fromkeys((group.consumer, group.inner)):
            steps = with_step(steps, Unroll(stage, most)) if most else without(steps, stage, Unroll)
        if not group.inner.endswith(SUMS):
            return steps
        factors = self.reduction_factors(steps, group) if most else [1]
        factor = rng.choice(factors) if self.options.unrolling else 1
        return with_step(steps, UnrollReduction(group.inner, factor))

    def reduction_factors(self, steps: Steps, group: TileGroup) -> list[int]:
        """Return the iterations of the innermost reduction that can be written out."""
        own = self.naive.stages[group.inner]
        if not group.reductions or step_of(steps, group.inner, PartialSums) is not None:
            return [1]
        name, number = group.reductions[-1]
        tile = step_of(steps, name, Tile)
        assert tile is not None
        order = tile.levels[number].order
        if not order:
            return [1]
        inside = _iterations(steps, group, order[-1], self.reductions(group)[order[-1]])
        most = min(MOST_UNROLLED // max(statements(steps, group, own), 1), _MOST_WRITTEN_OUT)
        return [each for each in divisors(inside) if each <= most] or [1]


_FITS = 3
"""Times that sizes are brought in line with what is computed at once."""
_MOST_WRITTEN_OUT = 16
"""Iterations of a reduction that are written out at most."""


def _iterations(steps: Steps, group: TileGroup, loop: int, extent: int) -> int:
    """Return the iterations of a reduction loop in the last level that has it."""
    inside = extent
    for name, number in group.reductions[:-1]:
        tile = step_of(steps, name, Tile)
        assert tile is not None
        level = tile.levels[number]
        if level.sizes is not None and loop in level.order:
            inside = level.sizes[level.order.index(loop)]
    return inside


def _within(steps: Steps, group: TileGroup, box: Extents) -> Steps:
    """Return ``steps`` with no level of a group that covers more than ``box``."""
    inside: list[int] = [1] * len(box)
    for name, number in reversed(group.space):
        tile = step_of(steps, name, Tile)
        assert tile is not None
        level = tile.levels[number]
        sizes = []
        for dim, size in zip(level.order, level.sizes or (), strict=True):
            most = -(-box[dim] // inside[dim]) * inside[dim]
            inside[dim] = max(min(size, most) // inside[dim], 1) * inside[dim]
            sizes.append(inside[dim])
        changed = replace(level, sizes=tuple(sizes))
        steps = with_step(steps, replace(tile, levels=(*tile.levels[:number], changed, *tile.levels[number + 1 :])))
    return steps
