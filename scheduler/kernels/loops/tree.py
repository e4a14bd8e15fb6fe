"""The tree of loops: each stage's levels of tiles around its statements, with what is computed inside of them."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dsascape.scheduler.kernels.lanes import dividing, halvings
from dsascape.scheduler.kernels.loops.affine import Affine, Range, Ranges, joined_ranges
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.naive import reduction_extents
from dsascape.scheduler.kernels.loops.nodes import (
    SHARES,
    Ahead,
    Buffer,
    Condition,
    Guard,
    Loop,
    LoopKind,
    Node,
    Nodes,
    Outlined,
    Role,
    Statement,
    reads_of,
)
from dsascape.scheduler.kernels.loops.plans import Plans, StagePlan
from dsascape.scheduler.kernels.loops.steps import (
    Bind,
    Outline,
    PartialSums,
    Prefetch,
    Scope,
    ShareReduction,
    Tensorise,
    Tile,
    Unroll,
    UnrollReduction,
    Vectorise,
)
from dsascape.wording import count


@dataclass(frozen=True, slots=True)
class _Slot:
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


class Tree:
    """A tree in the making: buffers and names of loops so far."""

    def __init__(self, plans: Plans) -> None:
        self.plans = plans
        self.buffers: dict[str, Buffer] = {}
        self.extents: dict[str, int] = {}
        self.around: list[str] = []
        """Names of the loops that are being filled, outermost first."""
        self.spread: set[str] = set()
        """Loops of threads, those that a fused loop stands for among them."""
        self.shares: dict[str, Affine] = {}
        """For each stage of sums that threads or blocks share: which of them runs."""
        self.leader: tuple[Condition, ...] = ()
        """Conditions under which a thread has what several have put together."""
        self._numbers: dict[str, int] = {}

    def nodes(self) -> list[Node]:
        """Return the nodes of all stages that are not computed inside of others, one after the other."""
        body: list[Node] = []
        for name, plan in self.plans.by_stage.items():
            if plan.at is None and self.plans.has_loops(name) and not plan.is_handed_over:
                box = self.plans.whole(plan)
                self.add_buffer(plan, box, "global" if name in self.plans.naive.results else "stack")
                body += _StageLoops(self, plan, box, box).nodes()
        return body

    def add_buffer(self, plan: StagePlan, box: Ranges, scope: Scope, count: int = 1) -> None:
        """Add the buffer of a stage's ``box``, of so many partial sums; that of a result holds all of it."""
        stage = plan.stage
        sums, ahead = plan.get(PartialSums), plan.get(Prefetch)
        count = count if sums is None else sums.count
        inside = self.around[-1] if self.around else ""
        if scope == "global" and not plan.is_handed_over:
            box, inside = tuple(map(Range.whole, stage.shape)), ""
        shape = [box[dim].extent for dim in stage.order]
        self.buffers[stage.name] = Buffer(
            stage.name, scope, (*shape, *([count] if count > 1 else [])), self.plans.naive.element_bytes(stage.tensor),
            tuple([each.first for each in box]), inside, count, 1 if ahead is None else ahead.ahead + 1,
        )  # fmt: skip

    def placed(self, plan: StagePlan, box: Ranges, of_block: Ranges) -> Nodes:
        """Return the nodes of a stage that is computed inside of another one's loops.

        It computes ``box`` there; all threads of a block together need ``of_block`` of it.
        """
        assert plan.at is not None
        own = plan.rounded(of_block if plan.at.scope == "shared" else box)
        self.add_buffer(plan, own, plan.at.scope)
        nodes = tuple(_StageLoops(self, plan, own, of_block).nodes())
        ahead = plan.get(Prefetch)
        if ahead is not None and self.around:
            return (Ahead(self.around[-1], ahead.ahead, nodes),)
        return (Outlined(plan.stage.name, nodes),) if Outline in plan.steps else nodes

    def loop_name(self, label: str) -> str:
        """Return a name for a loop that no other has."""
        number = self._numbers.get(label, 0)
        self._numbers[label] = number + 1
        return f"{label}{number}"


@dataclass(frozen=True)
class _State:
    """How far the loops of a stage have come."""

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
    conditions: tuple[Condition, ...] = ()
    """Under which there is an iteration of the reduction."""
    place: Affine | None = None
    """Of those who share the reduction, the one whose sum is added; None: one at a distance."""
    distance: int = 0


class _StageLoops:
    """The loops of one stage around its statements."""

    def __init__(self, tree: Tree, plan: StagePlan, box: Ranges, of_block: Ranges) -> None:
        self.tree, self.plan, self.stage, self.box, self.of_block = tree, plan, plan.stage, box, of_block
        self.bind, self.share = plan.get(Bind) or Bind(plan.stage.name, 0, 0), plan.get(ShareReduction)
        self.groups: dict[int, tuple[int, LoopKind]] = {0: (plan.parallel, "parallel")}
        if self.bind.blocks or self.bind.threads:
            of_blocks: dict[int, tuple[int, LoopKind]] = {0: (self.bind.blocks, "block")} if self.bind.blocks else {}
            self.groups = {**of_blocks, self.bind.blocks + self.bind.serial: (self.bind.threads, "thread")}
        self.is_on_grid = bool(self.bind.blocks or self.bind.threads or tree.spread)
        self.vector, self.unroll, self.sums = plan.get(Vectorise), plan.get(Unroll), plan.get(PartialSums)
        tile = plan.get(Tile)
        self.levels = () if tile is None else tile.levels
        self.reductions = reduction_extents(plan.stage.nests[0]) if plan.stage.kind == "sum" else {}
        self.run = 0
        if self.share is not None and len(self.share.loops) > 1:
            self.run = math.prod([self.reductions.pop(loop) for loop in self.share.loops])
        if self.sums is not None:
            self.run = math.prod([self.reductions.pop(loop) for loop in self.sums.loops])
            if self.sums.count > self.run:
                sums = f"{count(self.sums.count, 'sum')} of {count(self.run, 'element')}"
                raise StepError(f"PartialSums: {self.stage.name}: {sums}")
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

    def _slots(self) -> list[_Slot]:
        """Return the loops of all levels; reductions that no level has are inside of all space loops but the last."""
        slots: list[_Slot] = []
        seen: set[int] = set()
        for level in self.levels:
            if level.sizes is None:
                raise StepError(f"Tile: {self.stage.name}: has a level without sizes")
            for axis, size in zip(level.order, level.sizes, strict=True):
                if level.axes == "reduction" and axis not in self.reductions:
                    raise StepError(f"Tile: {self.stage.name}: partial sums go along its loop {axis}")
                slots.append(_Slot(level.axes == "space", axis, size))
                seen |= set() if level.axes == "space" else {axis}
        own = [axis for axis in self.reductions if axis not in seen]
        last = {slot.axis: slot.size for slot in slots if not slot.is_space}
        unfinished = [axis for axis, size in last.items() if size > 1]
        shared = () if self.share is None else self.share.loops
        own, unfinished = [[axis for axis in axes if axis not in shared] for axes in (own, unfinished)]
        slots += [_Slot(is_space=False, axis=axis, size=1) for axis in dict.fromkeys([*own, *unfinished])]
        written_out = self.plan.get(UnrollReduction)
        if written_out is not None:
            slots = self._with_unrolled(slots, written_out.factor)
        if self.share is not None:
            slots.append(_Slot(is_space=False, axis=shared[0], size=1, is_shared=True))
        return slots + [_Slot(is_space=True, axis=dim, size=1, is_inner=True) for dim in self.stage.order]

    def _with_unrolled(self, slots: list[_Slot], factor: int) -> list[_Slot]:
        """Return the loops with the innermost reduction loop cut in two, the inner of which is written out."""
        place = max([number for number, slot in enumerate(slots) if not slot.is_space], default=-1)
        if place < 0 or self.reductions[slots[place].axis] % factor:
            raise StepError(f"UnrollReduction: {self.stage.name}: its innermost reduction is no multiple of {factor}")
        axis = slots[place].axis
        outer = _Slot(is_space=False, axis=axis, size=factor)
        return [*slots[:place], outer, replace(outer, size=1, is_unrolled=True), *slots[place + 1 :]]

    def nodes(self) -> list[Node]:
        """Return the nodes of the stage."""
        state = _State(
            tuple([Affine()] * len(self.box)), tuple([each.extent for each in self.box]), {}, dict(self.reductions)
        )
        return self._descend(0, state, "update" if self.stage.kind == "sum" else "store")

    def _descend(self, depth: int, state: _State, role: Role) -> list[Node]:
        """Return what is inside of the outermost ``depth`` loops: what is computed there, then further loops."""
        nodes = [] if role in ("first", "rest", "give", "fold") else self._attached(depth, state)
        if role != "update" or depth != self.first_reduction:
            return nodes + self._inner(depth, state, role)
        if self.sums is not None and any(extent > 1 for extent in state.covered):
            raise StepError(f"PartialSums: {self.stage.name}: has loops of elements inside of its reduction")
        if self.sums is None:
            nodes += [*self._inner(depth, state, "first"), *self._inner(depth, state, "update")]
            return nodes + self._put_together(depth, state)
        count, own = self.sums.count, self._inner(depth, state, "update")
        nodes += [*self._over_places(count, state, "first"), *own]
        while count > 1:
            count //= 2
            nodes += self._over_places(count, state, "fold")
        return nodes + (self._inner(depth, state, "rest") if self.run % self.sums.count else [])

    def _inner(self, depth: int, state: _State, role: Role) -> list[Node]:
        """Return the loops from that at ``depth`` on."""
        if depth == len(self.slots):
            return self._along_run(state, role) if self.sums is not None else [self._statement(state, role)]
        number, on = self.groups.get(depth, (0, "serial"))
        if number:
            inside = replace(state, of_block=self._covered(state)) if on == "thread" else state
            return self._fused(depth, number, on, inside, role)
        slot = self.slots[depth]
        if role in ("first", "give", "fold") and not slot.is_space:
            return self._descend(depth + 1, state, role)
        if slot.is_shared:
            return self._shared(depth, state, role)
        if slot.is_inner and self._is_vector(depth, state):
            return self._vectors(depth, state, role)
        count, inside, variable = self._step(slot, state)
        is_unrolled = slot.is_unrolled or (slot.is_inner and self._is_unrolled(count))
        kind: LoopKind = "unrolled" if is_unrolled else "serial"
        if role == "update" and Tensorise in self.plan.steps and depth >= self.first_tensor:
            kind = "tensor"
        return self._looped(variable, count, kind, depth + 1, inside, role)

    def _statement(self, state: _State, role: Role, **of_sums: Any) -> Statement:
        element = tuple([each.first + local for each, local in zip(self.box, state.local, strict=True)])
        reduced = () if role in ("first", "fold", "store") else tuple(state.reduced.items())
        if self.share is None:
            return Statement(self.stage.name, role, element, reduced, **of_sums)
        name, who = self.stage.name, self.tree.shares[self.stage.name]
        if role == "give":
            return Statement(name + SHARES, "store", element, place=who)
        if role == "fold":
            place = who if state.place is None else state.place
            return Statement(name, role, element, place=place, distance=state.distance, source=name + SHARES)
        return Statement(name, role, element, reduced, run=state.run if role == "update" else None)

    def _along_run(self, state: _State, role: Role) -> list[Node]:
        """Return the loops along the elements that partial sums are of: whole turns, or what these leave over."""
        assert self.sums is not None
        turns, rest = divmod(self.run, self.sums.count)
        whole = turns * self.sums.count
        if role == "rest":
            name = self.tree.loop_name("run") if rest > 1 else ""
            run = Affine(whole, ((name, 1),) if name else ())
            return _loop(name, rest, "serial", [self._statement(state, role, run=run, place=Affine())])
        name = self.tree.loop_name("run") if turns > 1 else ""
        run = Affine(0, ((name, self.sums.count),) if name else ())
        return _loop(name, turns, "serial", self._over_places(self.sums.count, state, role, run))

    def _over_places(self, count: int, state: _State, role: Role, run: Affine | None = None) -> list[Node]:
        """Return one part of the stage for each of ``count`` partial sums, in vectors."""
        lanes = 1 if self.vector is None else self.vector.lanes
        ((vectors, width),) = _pieces(count, lanes, "whole")
        outer = self.tree.loop_name("s") if vectors > 1 else ""
        inner = self.tree.loop_name("s") if width > 1 else ""
        place = Affine(0, tuple([(name, step) for name, step in ((outer, width), (inner, 1)) if name]))
        statement = self._statement(
            state, role, place=place, run=None if run is None else run + place, distance=count if role == "fold" else 0
        )  # fmt: skip
        return _loop(outer, vectors, "unrolled", _loop(inner, width, "vector", [statement]))

    def _attached(self, depth: int, state: _State) -> list[Node]:
        plans = self.tree.plans.attached(self.stage.name, depth)
        if not plans:
            return []
        box, of_block = self._covered(state), self._of_block(state)
        reduced = {
            loop: Range(state.reduced.get(loop, Affine()), extent)
            for loop, extent in state.left.items()
            if loop in state.reduced
        }
        demanded = self._demanded(depth, box, reduced)
        of_all = demanded if of_block == box else self._demanded(depth, of_block, reduced)
        nodes: list[Node] = []
        for plan in plans:
            name = plan.stage.name
            if name in self.tree.plans.naive.results:
                own, whole = [
                    self._beside(plan, each, needed.get(name)) for each, needed in ((box, demanded), (of_block, of_all))
                ]  # fmt: skip
                nodes += self.tree.placed(plan, own, whole)
            elif name in demanded:
                nodes += self.tree.placed(plan, demanded[name], of_all[name])
        return nodes

    def _beside(self, plan: StagePlan, box: Ranges, needed: Ranges | None) -> Ranges:
        """Return what is computed of a result: what belongs to ``box``, and what others read of it."""
        own = self.tree.plans.beside(plan.stage.name, self.stage.name, box)
        return own if needed is None or plan.is_inlined else joined_ranges(own, needed, plan.stage.shape)

    def _demanded(self, depth: int, box: Ranges, reduced: Mapping[int, Range]) -> Mapping[str, Ranges]:
        return self.tree.plans.demanded(self.stage.name, depth, box, reduced, self.tree.extents)

    def _covered(self, state: _State) -> Ranges:
        """Return the elements that one iteration of the loops so far covers."""
        return tuple([
            Range(each.first + local, covered)
            for each, local, covered in zip(self.box, state.local, state.covered, strict=True)
        ])  # fmt: skip

    def _of_block(self, state: _State) -> Ranges:
        """Return the elements that one iteration of the loops so far covers in all threads of a block together.

        Along dimensions in which loops inside of the threads' have begun, that is what these threads cover all in all.
        """
        if state.of_block is not None:
            return state.of_block
        if self.of_block == self.box:
            return self._covered(state)
        whole = zip(self.of_block, state.local, state.covered, self.box, strict=True)
        return tuple([
            Range(each.first + local, each.extent - own.extent + covered) for each, local, covered, own in whole
        ])  # fmt: skip

    def _shared(self, depth: int, state: _State, role: Role) -> list[Node]:
        """Return the turns in which threads go through what is left of a reduction that they share."""
        assert self.share is not None
        axis, by = self.share.loops[0], self.share.count
        total = self.run or state.left[axis]
        turns = -(-total // by)
        name = self.tree.loop_name("turn") if turns > 1 else ""
        value = Affine(0, ((name, by),) if name else ()) + self.tree.shares[self.stage.name]
        conditions = (*state.conditions, *([Condition(value, total)] if total % by else []))
        if self.run:
            inside = replace(state, run=value, conditions=conditions)
        else:
            reduced = {**state.reduced, axis: state.reduced.get(axis, Affine()) + value}
            inside = replace(state, reduced=reduced, left={**state.left, axis: 1}, conditions=conditions)
        return self._looped(name, turns, "serial", depth + 1, inside, role)

    def _put_together(self, depth: int, state: _State) -> list[Node]:
        """Return how those who share a reduction put their sums together: half of them add what the others have."""
        if self.share is None:
            return []
        plan = self.tree.plans.by_stage[self.stage.name + SHARES]
        scope: Scope = "shared" if self.share.by == "thread" else "global"
        who, width = self.tree.shares[self.stage.name], self.share.count
        self.tree.add_buffer(plan, self.of_block, scope, width)
        nodes: list[Node] = []
        if self.share.by == "block":
            name = self.tree.loop_name("share")
            self.tree.extents[name] = width
            last = replace(state, conditions=_last(who, width), place=Affine(0, ((name, 1),)))
            folds = self._inner(depth, last, "fold")
            return [*self._inner(depth, state, "give"), *_loop(name, width, "serial", folds)]
        while width > 1:
            half = -(-width // 2)
            given = (Condition(who, width),) if width < self.share.count else ()
            nodes += self._inner(depth, replace(state, conditions=given), "give")
            taken = replace(state, conditions=(Condition(who, width - half),), distance=half)
            nodes += self._inner(depth, taken, "fold")
            width = half
        return nodes

    def _step(self, slot: _Slot, state: _State) -> tuple[int, _State, str]:
        """Return the iterations of a loop, how far its iterations have come, and its name; none if it is no loop."""
        covered = state.covered[slot.axis] if slot.is_space else state.left[slot.axis]
        size, count = slot.size, -(-covered // slot.size)
        name = self.tree.loop_name(self._label(slot)) if count > 1 else ""
        move = Affine(0, ((name, size),)) if name else Affine()
        if not slot.is_space:
            reduced = {**state.reduced, slot.axis: state.reduced.get(slot.axis, Affine()) + move}
            return count, replace(state, reduced=reduced, left={**state.left, slot.axis: size}), name
        local, cover = list(state.local), list(state.covered)
        local[slot.axis] += move
        cover[slot.axis] = size
        return count, replace(state, local=tuple(local), covered=tuple(cover)), name

    def _looped(
        self, name: str, count: int, kind: LoopKind, depth: int, inside: _State, role: Role,
        fused: tuple[tuple[str, int], ...] = (),
    ) -> list[Node]:  # fmt: skip
        """Return a loop around what is inside of it, or that alone where it has one iteration."""
        if name:
            self.tree.around.append(name)
            for each, extent in ((name, count), *fused):
                self.tree.extents[each] = extent
        body = self._guarded(depth, inside, role)
        if not name:
            return body
        self.tree.around.pop()
        return [Loop(name, count, kind, tuple(body), fused, self.bind.width if kind == "thread" else 1)]

    def _guarded(self, depth: int, state: _State, role: Role) -> list[Node]:
        """Return what is inside of ``depth`` loops, under the conditions that tiles are inside of the box.

        On a GPU these stand around statements alone: all threads take part in what is copied for a block.
        """
        conditions: list[Condition] = []
        if self.is_on_grid:
            conditions += self._on_grid(state, role) if depth == len(self.slots) else []
        elif self._ends_level(depth):
            for dim, local in enumerate(state.local):
                limit = self.box[dim].extent
                if local.span(self.tree.extents)[1] > limit:
                    conditions.append(Condition(local, limit))
        body = self._descend(depth, state, role)
        return [Guard(tuple(dict.fromkeys(conditions)), tuple(body))] if conditions else body

    def _ends_level(self, depth: int) -> bool:
        """Whether the outermost ``depth`` loops end with the last of a level, or are all."""
        return depth == len(self.slots) or depth in self.level_ends

    def _on_grid(self, state: _State, role: Role) -> list[Condition]:
        """Return the conditions under which a thread has an element, or an iteration of a reduction."""
        if role == "first":
            return []
        conditions = [*state.conditions, *(self.tree.leader if role == "store" else ())]
        of_block = state.of_block if state.of_block is not None else self.of_block
        is_free = self.stage.kind == "copy" or (role != "store" and self._reads_copies())
        for dim, (each, local) in enumerate(zip(self.box, state.local, strict=True)):
            element, whole = each.first + local, of_block[dim]
            within = element + whole.first * -1
            limit = whole.extent
            if within.span(self.tree.extents)[1] > limit:
                conditions.append(Condition(within, limit))
            first, end = element.span(self.tree.extents)
            if not is_free and first < 0:
                conditions.append(Condition(element * -1, 1))
            if not is_free and end > self.stage.shape[dim]:
                conditions.append(Condition(element, self.stage.shape[dim]))
        for loop, value in state.reduced.items() if role == "update" else ():
            extent = self.reductions[loop]
            if value.span(self.tree.extents)[1] > extent:
                conditions.append(Condition(value, extent))
        return conditions

    def _reads_copies(self) -> bool:
        """Whether all that the stage reads is in buffers of the kernel, which go on beyond the ends of tensors."""
        own = {name for name, plan in self.tree.plans.by_stage.items() if not plan.is_inlined}
        reads = reads_of(self.stage, self.stage.nests)
        return all(read.tensor in self.plan.copies or read.tensor in own for read in reads)

    def _fused(self, depth: int, number: int, kind: LoopKind, state: _State, role: Role) -> list[Node]:
        """Return so many loops from that at ``depth`` on as one that is split over threads, or blocks."""
        fused: list[tuple[str, int]] = []
        for slot in self.slots[depth : depth + number]:
            count, state, name = self._step(slot, state)
            if name:
                fused.append((name, count))
        before, leader = self.tree.spread, self.tree.leader
        if kind in ("block", "thread"):
            shared = self._sharing(kind)
            self.tree.leader = tuple([
                condition for name, number in shared
                for condition in (_last(Affine(0, ((name, 1),)), number) if kind == "block" else
                                  (Condition(Affine(0, ((name, 1),)), 1),))
            ])  # fmt: skip
            fused += shared
        whole = math.prod([count for _, count in fused])
        label = {"parallel": "p", "block": "block", "thread": "thread"}[kind]
        if len(fused) == 1:
            name, fused = fused[0][0], []
        else:
            name = self.tree.loop_name(label) if fused or kind != "parallel" else ""
        if kind == "thread":
            self.tree.spread = {*before, name, *[each for each, _ in fused]}
        nodes = self._looped(name, whole, kind, depth + number, state, role, tuple(fused))
        self.tree.spread, self.tree.leader = before, leader
        return nodes

    def _sharing(self, kind: LoopKind) -> list[tuple[str, int]]:
        """Return the innermost of fused loops, that of those who share reductions which are computed inside of them."""
        found: list[tuple[str, int]] = []
        for each in self.tree.plans.by_stage.values():
            step = each.get(ShareReduction)
            if step is None or each.at is None or each.at.consumer != self.stage.name or step.by != kind:
                continue
            if not found:
                found = [(self.tree.loop_name("share"), step.count)]
            if step.count != found[0][1]:
                raise StepError(f"ShareReduction: {each.stage.name}: others in {self.stage.name} have another count")
            self.tree.shares[each.stage.name] = Affine(0, ((found[0][0], 1),))
        return found

    def _is_unrolled(self, count: int) -> bool:
        unroll = self.unroll
        return unroll is not None and count > 1 and (not unroll.most or count <= unroll.most)

    def _is_vector(self, depth: int, state: _State) -> bool:
        """Whether the loop at ``depth`` is the innermost one with several iterations, and computed in vectors."""
        if self.vector is None or self.run:
            return False
        inner = [number for number in range(depth, len(self.slots)) if state.covered[self.slots[number].axis] > 1]
        return inner == [depth]

    def _vectors(self, depth: int, state: _State, role: Role) -> list[Node]:
        """Return the innermost loop cut into vectors."""
        assert self.vector is not None
        dim, lanes = self.slots[depth].axis, self.vector.lanes
        extent = state.covered[dim]
        pieces = _pieces(extent, lanes, self.vector.ends)
        nodes: list[Node] = []
        begin = 0
        for number, width in pieces:
            nodes += self._piece(depth, state, role, (dim, begin, number, width))
            begin += number * width
        return nodes

    def _piece(self, depth: int, state: _State, role: Role, piece: tuple[int, int, int, int]) -> list[Node]:
        """Return some of the vectors along a dimension: dimension, first element, vectors, lanes."""
        dim, begin, count, width = piece
        label = self._label(self.slots[depth])
        outer = self.tree.loop_name(label) if count > 1 else ""
        inner = self.tree.loop_name(label) if width > 1 else ""
        terms = [(name, step) for name, step in ((outer, width), (inner, 1)) if name]
        local, covered = list(state.local), list(state.covered)
        local[dim] += Affine(begin, tuple(terms))
        covered[dim] = 1
        for name, extent in ((outer, count), (inner, width)):
            if name:
                self.tree.extents[name] = extent
        inside = replace(state, local=tuple(local), covered=tuple(covered))
        body = self._guarded(len(self.slots), inside, role)
        if inner:
            body = [Loop(inner, width, "vector", tuple(body))]
        if outer:
            body = [Loop(outer, count, "unrolled" if self._is_unrolled(count) else "serial", tuple(body))]
        return body

    def _label(self, slot: _Slot) -> str:
        """Return what a loop is called: as in the nest that writes the dimension, or that reduces."""
        nest = self.stage.nests[0] if self.stage.nests else None
        if not slot.is_space:
            assert nest is not None
            return nest.loops[slot.axis].name
        if nest is not None:
            terms = [loop for loop, _ in nest.write.indices[slot.axis].terms if nest.loops[loop].extent > 1]
            if len(terms) == 1:
                return nest.loops[terms[0]].name
        return f"d{slot.axis}"


def _last(who: Affine, count: int) -> tuple[Condition, ...]:
    """Return the condition that ``who`` is the last of ``count``."""
    return (Condition(who * -1, 2 - count),)


def _loop(name: str, count: int, kind: LoopKind, body: list[Node]) -> list[Node]:
    """Return a loop around ``body``; that alone where it has no name."""
    return [Loop(name, count, kind, tuple(body))] if name else body


def _pieces(extent: int, lanes: int, ends: str) -> list[tuple[int, int]]:
    """Return how a dimension is cut into vectors: so many of so many lanes, one piece after the other."""
    if ends == "halved":
        found = []
        for width in halvings(lanes):
            count, extent = divmod(extent, width)
            found += [(count, width)] if count else []
        return found
    if ends == "dividing":
        lanes = dividing(extent, lanes)
    return [(extent // lanes, lanes)] if extent % lanes == 0 else [(1, extent)]
