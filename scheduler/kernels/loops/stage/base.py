"""How far the loops of a stage have come, and what is known of the stage when they begin."""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from dsascape.scheduler.kernels.loops.affine import Affine, Range, Ranges
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.columns import alike, anywhere, common, least, same
from dsascape.scheduler.kernels.loops.naive import reduction_extents
from dsascape.scheduler.kernels.loops.nodes import (
    BLOCKS,
    SHARES,
    Condition,
    Loop,
    LoopKind,
    Node,
    Reach,
    Role,
    Statement,
)
from dsascape.scheduler.kernels.loops.plans import StagePlan
from dsascape.scheduler.kernels.loops.steps import (
    Bind,
    PartialSums,
    ShareReduction,
    Tile,
    Unroll,
    UnrollReduction,
    Vectorise,
)
from dsascape.wording import count

if TYPE_CHECKING:
    from dsascape.scheduler.kernels.loops.stage.bands import Banded
    from dsascape.scheduler.kernels.loops.tree import Tree


@dataclass(frozen=True, slots=True)
class Slot:
    """One loop of a stage, or one that would have a single iteration."""

    is_space: bool
    axis: int
    size: int
    """Elements or iterations that one iteration covers."""
    is_inner: bool = False
    """Whether it belongs to the innermost level."""
    is_unrolled: bool = False
    is_shared: bool = False
    """Whether it goes through what is left of a reduction that threads share, in turns."""


class State(NamedTuple):
    """Progress through the loops of a stage: elements and iterations that one more iteration covers."""

    local: tuple[Affine, ...]
    """By dimension, within the box."""
    covered: tuple[int, ...]
    """Elements by dimension that one iteration covers."""
    reduced: Mapping[int, Affine]
    left: Mapping[int, int]
    """Iterations of each reduction loop that one iteration covers."""
    of_block: Ranges | None = None
    """Inside of the stage's own loops of threads: what all threads together cover."""
    run: Affine | None = None
    """Iteration of several reduction loops that threads share as one."""
    is_in_band: bool = False
    """Whether all columns of the loops so far belong to all rows, of a stage that a band bounds."""
    conditions: tuple[Condition, ...] = ()
    """Conditions under which there is an iteration of the reduction."""
    place: Affine | None = None
    """Thread or block whose sum is added, of those that share the reduction; None: the one at ``distance``."""
    distance: int = 0


class StageBase(ABC):
    """A stage, its loops, and what one iteration of them covers."""

    def __init__(self, tree: "Tree", plan: StagePlan, box: Ranges, of_block: Ranges) -> None:
        self.tree, self.plan, self.stage, self.box, self.of_block = tree, plan, plan.stage, box, of_block
        self.bind, self.share = plan.get(Bind) or Bind(plan.stage.name, 0, 0), plan.get(ShareReduction)
        self.groups: dict[int, tuple[int, LoopKind]] = {0: (plan.parallel, "parallel")}
        if self.bind.blocks or self.bind.threads:
            of_blocks: dict[int, tuple[int, LoopKind]] = {0: (self.bind.blocks, "block")} if self.bind.blocks else {}
            self.groups = {**of_blocks, self.bind.blocks + self.bind.serial: (self.bind.threads, "thread")}
        self.is_on_grid = bool(self.bind.blocks or self.bind.threads or tree.spread or plan.get(Bind))
        self.parallel = plan.parallel
        is_number = plan.get(Bind) is not None and not plan.stage.order and plan.at is None
        self.around_number: list[LoopKind] = ["block", "thread"] if is_number else []
        """Loops on a grid that are left to be put around a single number."""
        self.last_block: tuple[Condition, ...] = ()
        """Conditions under which a block has what several have put together."""
        self.is_of_blocks = False
        """Whether sums are being handed over that threads of a block have put together."""
        self._labels: dict[tuple[bool, int], str] = {}
        self.vector, self.unroll, self.sums = plan.get(Vectorise), plan.get(Unroll), plan.get(PartialSums)
        tile = plan.get(Tile)
        self.levels = () if tile is None else tile.levels
        self.reductions = reduction_extents(plan.stage.nests[0]) if plan.stage.kind == "sum" else {}
        self.run, self.run_first = 0, Affine()
        self.begun: dict[int, Affine] = {}
        """Where reductions begin that go through part of their iterations, with running statistics."""
        softmax = tree.plans.statistic(plan.stage.tensor) if plan.stage.kind == "sum" else None
        if softmax is not None and tree.columns is not None:
            self.reductions[softmax.loop] = tree.columns.extent
            self.begun = {softmax.loop: tree.columns.first}
        if self.share is not None and len(self.share.loops) > 1:
            self.run = math.prod([self.reductions.pop(loop) for loop in self.share.loops])
        if self.sums is not None:
            self.run = math.prod([self.reductions.pop(loop) for loop in self.sums.loops])
            self.run_first = self.begun.pop(self.sums.loops[-1], Affine())
            if alike(self.sums.count > self.run):
                sums = f"{count(self.sums.count, 'sum')} of {count(common(self.run), 'element')}"
                raise StepError(f"PartialSums: {self.stage.name}: {sums}")
        self.band = self.banded_of(plan)
        self.slots = self._slots()
        reducing = [number for number, slot in enumerate(self.slots) if not slot.is_space]
        self.first_tensor = reducing[-1] if reducing else 0
        fused = sum(plan.groups)
        if any(not slot.is_space for slot in self.slots[:fused]) or fused > len(self.slots):
            raise StepError(f"Parallel: {self.stage.name}: a reduction is among its outermost loops, or it has fewer")
        if self.share is not None and self.stage.name not in tree.shares:
            raise StepError(f"ShareReduction: {self.stage.name}: is not computed inside of loops of {self.share.by}s")
        ends = itertools.accumulate([len(level.order) for level in self.levels])
        self.level_ends = frozenset(ends)
        self.first_reduction = next(
            (number for number, slot in enumerate(self.slots) if not slot.is_space), len(self.slots)
        )

    @property
    def start(self) -> State:
        """Nothing has been gone through yet."""
        extents = tuple([each.extent for each in self.box])
        return State(tuple([Affine()] * len(extents)), extents, dict(self.begun), dict(self.reductions))

    def _slots(self) -> list[Slot]:
        """Return the loops of all levels; reductions that no level has are inside of all space loops but the last."""
        slots: list[Slot] = []
        seen: set[int] = set()
        for level in self.levels:
            if level.sizes is None:
                raise StepError(f"Tile: {self.stage.name}: has a level without sizes")
            for axis, size in zip(level.order, level.sizes, strict=True):
                if level.axes == "reduction" and axis not in self.reductions:
                    raise StepError(f"Tile: {self.stage.name}: partial sums go along its loop {axis}")
                slots.append(Slot(level.axes == "space", axis, size))
                seen |= set() if level.axes == "space" else {axis}
        own = [axis for axis in self.reductions if axis not in seen]
        last = {slot.axis: slot.size for slot in slots if not slot.is_space}
        unfinished = [axis for axis, size in last.items() if alike(size > 1)]
        shared = () if self.share is None else self.share.loops
        own, unfinished = [[axis for axis in axes if axis not in shared] for axes in (own, unfinished)]
        slots += [Slot(is_space=False, axis=axis, size=1) for axis in dict.fromkeys([*own, *unfinished])]
        written_out = self.plan.get(UnrollReduction)
        if written_out is not None:
            slots = self._with_unrolled(slots, written_out.factor)
        if self.share is not None:
            slots.append(Slot(is_space=False, axis=shared[0], size=1, is_shared=True))
        return slots + [Slot(is_space=True, axis=dim, size=1, is_inner=True) for dim in self.stage.order]

    def _with_unrolled(self, slots: list[Slot], factor: int) -> list[Slot]:
        """Return the loops with the innermost reduction loop cut in two, the inner of which is written out."""
        place = max([number for number, slot in enumerate(slots) if not slot.is_space], default=-1)
        if place < 0 or alike(self.reductions[slots[place].axis] % factor != 0):
            raise StepError(f"UnrollReduction: {self.stage.name}: its innermost reduction is no multiple of {factor}")
        axis = slots[place].axis
        outer = Slot(is_space=False, axis=axis, size=factor)
        return [*slots[:place], outer, replace(outer, size=1, is_unrolled=True), *slots[place + 1 :]]

    @abstractmethod
    def banded_of(self, plan: StagePlan) -> "Banded | None":
        """Return the band that bounds the stage's loops; None where they run in full."""

    @abstractmethod
    def inner(self, depth: int, state: State, role: Role) -> list[Node]:
        """Return the loops from that at ``depth`` on."""

    @abstractmethod
    def looped(
        self, name: str, count: int, kind: LoopKind, depth: int, inside: State, role: Role,
        fused: tuple[tuple[str, int], ...] = (),
    ) -> list[Node]:  # fmt: skip
        """Return a loop around what is inside of it, or that alone where it has no name."""

    @abstractmethod
    def guarded(self, depth: int, state: State, role: Role) -> list[Node]:
        """Return what is inside of ``depth`` loops, under the conditions that tiles are inside of the box."""

    def statement(self, state: State, role: Role, **of_sums: Any) -> Statement:
        element = tuple([each.first + local for each, local in zip(self.box, state.local, strict=True)])
        reduced = () if role in ("first", "fold", "correct", "store") else tuple(state.reduced.items())
        if self.share is None:
            return Statement(self.stage.name, role, element, reduced, **of_sums)
        name, who = self.stage.name, self.tree.shares[self.stage.name]
        handed = name + (BLOCKS if self.is_of_blocks else "") + SHARES
        if self.is_of_blocks:
            who = self.tree.blocks[self.stage.name]
        if role == "give":
            return Statement(handed, "store", element, place=who)
        if role == "fold":
            place = who if state.place is None else state.place
            return Statement(name, role, element, place=place, distance=state.distance, source=handed)
        return Statement(name, role, element, reduced, run=state.run if role == "update" else None)

    def all_covered(self, state: State) -> Ranges:
        """Return the elements that one iteration of the loops so far covers."""
        return tuple([
            Range(each.first + local, covered)
            for each, local, covered in zip(self.box, state.local, state.covered, strict=True)
        ])  # fmt: skip

    def all_of_block(self, state: State) -> Ranges:
        """Return the elements that one iteration of the loops so far covers in all threads of a block together.

        Along dimensions in which loops inside of the threads' have begun, that is what these threads cover all in all.
        """
        if state.of_block is not None:
            return state.of_block
        if same(self.of_block, self.box):
            return self.all_covered(state)
        whole = zip(self.of_block, state.local, state.covered, self.box, strict=True)
        return tuple([
            Range(each.first + local, each.extent - own.extent + covered) for each, local, covered, own in whole
        ])  # fmt: skip

    def step_of(self, slot: Slot, state: State) -> tuple[list[tuple[str, int]], State]:
        """Return names and iterations of the loops of a slot, and how far their iterations have come.

        There is none where it would have one iteration; there are several, outermost first, where tiles lie inside of
        parts of a dimension, such as the channels of a group: then what they need of other stages is told apart.

        On a grid, a level whose tiles are larger than what there is of them has what there is.
        """
        covered = state.covered[slot.axis] if slot.is_space else state.left[slot.axis]
        size = least(slot.size, covered) if self.is_on_grid else slot.size
        if isinstance(size, int) and isinstance(covered, int) and size == covered and (
            slot.is_space or slot.axis in state.reduced
        ):  # one iteration covers what there is
            return [], state
        parts = self._parts_around(slot, size, covered)
        sizes = [*parts, size]
        counts = [-(-whole // part) for whole, part in zip([covered, *sizes], sizes, strict=False)]
        label = self.label_of(slot)
        loops = [(self.tree.loop_name(label), number, part)
                 for number, part in zip(counts, sizes, strict=True)
                 if (alike(number > 1) if parts else anywhere(number > 1))]  # fmt: skip
        move, named = Affine(0, tuple([(name, part) for name, _, part in loops])), [loop[:2] for loop in loops]
        if not slot.is_space:
            reduced = {**state.reduced, slot.axis: state.reduced.get(slot.axis, Affine()) + move}
            return named, state._replace(reduced=reduced, left={**state.left, slot.axis: size})
        local, cover = list(state.local), list(state.covered)
        local[slot.axis] += move
        cover[slot.axis] = size
        return named, state._replace(local=tuple(local), covered=tuple(cover))

    def _parts_around(self, slot: Slot, size: int, covered: int) -> list[int]:
        """Return the parts of a dimension that ``covered`` elements consist of and tiles of ``size`` lie inside of."""
        if not slot.is_space or slot.is_inner:
            return []
        parts = self.tree.plans.parts(self.stage.shape, slot.axis)
        return [
            part for part in parts
            if alike((size < part) & (part < covered) & (part % size == 0) & (covered % part == 0))
        ]  # fmt: skip

    def label_of(self, slot: Slot) -> str:
        """Return what a loop is called: as in the nest that writes the dimension, or that reduces."""
        key = slot.is_space, slot.axis
        found = self._labels.get(key)
        if found is None:
            found = self._labels[key] = self._label_of(slot)
        return found

    def _label_of(self, slot: Slot) -> str:
        nest = self.stage.nests[0] if self.stage.nests else None
        if not slot.is_space:
            assert nest is not None
            return nest.loops[slot.axis].name
        if nest is not None:
            terms = [loop for loop, _ in nest.write.indices[slot.axis].terms if nest.loops[loop].extent > 1]
            if len(terms) == 1:
                return nest.loops[terms[0]].name
        return f"d{slot.axis}"


def within(reach: Reach | None, nodes: list[Node]) -> list[Node]:
    """Return ``nodes`` with the loop that they begin with running through ``reach`` alone; as they are for None."""
    loop, *rest = nodes
    return nodes if reach is None or not isinstance(loop, Loop) else [replace(loop, reach=reach), *rest]


def around(name: str, count: int, kind: LoopKind, body: list[Node]) -> list[Node]:
    """Return a loop around ``body``; that alone where it has no name."""
    return [Loop(name, count, kind, tuple(body))] if name else body


