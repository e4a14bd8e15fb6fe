"""The tree of loops: each stage's levels of tiles around its statements, with what is computed inside of them."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dsascape.scheduler.kernels.lanes import dividing, halvings
from dsascape.scheduler.kernels.loops.affine import Affine, Range, Ranges
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.naive import reduction_extents
from dsascape.scheduler.kernels.loops.nodes import (
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
)
from dsascape.scheduler.kernels.loops.plans import Plans, StagePlan
from dsascape.scheduler.kernels.loops.steps import (
    Outline,
    PartialSums,
    Scope,
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


class Tree:
    """A tree in the making: buffers and names of loops so far."""

    def __init__(self, plans: Plans) -> None:
        self.plans = plans
        self.buffers: dict[str, Buffer] = {}
        self.extents: dict[str, int] = {}
        self.around: list[str] = []
        """Names of the loops that are being filled, outermost first."""
        self._numbers: dict[str, int] = {}

    def nodes(self) -> list[Node]:
        """Return the nodes of all stages that are not computed inside of others, one after the other."""
        body: list[Node] = []
        for name, plan in self.plans.by_stage.items():
            if plan.at is None and not plan.is_inlined:
                box = self.plans.whole(plan)
                self._add_buffer(plan, box, "global" if name in self.plans.naive.results else "stack")
                body += _StageLoops(self, plan, box).nodes()
        return body

    def _add_buffer(self, plan: StagePlan, box: Ranges, scope: Scope) -> None:
        stage = plan.stage
        shape = [box[dim].extent for dim in stage.order]
        sums = plan.get(PartialSums)
        count = 1 if sums is None else sums.count
        self.buffers[stage.name] = Buffer(
            stage.name, scope, (*shape, *([count] if count > 1 else [])), self.plans.naive.element_bytes(stage.tensor),
            tuple([each.first for each in box]), self.around[-1] if self.around else "", count,
        )  # fmt: skip

    def placed(self, plan: StagePlan, box: Ranges) -> Nodes:
        """Return the nodes of a stage that is computed inside of another one's loops."""
        assert plan.at is not None
        own = plan.rounded(box)
        self._add_buffer(plan, own, plan.at.scope)
        nodes = tuple(_StageLoops(self, plan, own).nodes())
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


class _StageLoops:
    """The loops of one stage around its statements."""

    def __init__(self, tree: Tree, plan: StagePlan, box: Ranges) -> None:
        self.tree, self.plan, self.stage, self.box = tree, plan, plan.stage, box
        self.vector, self.unroll, self.sums = plan.get(Vectorise), plan.get(Unroll), plan.get(PartialSums)
        tile = plan.get(Tile)
        self.levels = () if tile is None else tile.levels
        self.reductions = reduction_extents(plan.stage.nests[0]) if plan.stage.kind == "sum" else {}
        self.run = 0
        if self.sums is not None:
            self.run = math.prod([self.reductions.pop(loop) for loop in self.sums.loops])
            if self.sums.count > self.run:
                sums = f"{count(self.sums.count, 'sum')} of {count(self.run, 'element')}"
                raise StepError(f"PartialSums: {self.stage.name}: {sums}")
        self.slots = self._slots()
        if any(not slot.is_space for slot in self.slots[: plan.parallel]) or plan.parallel > len(self.slots):
            raise StepError(f"Parallel: {self.stage.name}: a reduction is among its outermost loops, or it has fewer")
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
        slots += [_Slot(is_space=False, axis=axis, size=1) for axis in dict.fromkeys([*own, *unfinished])]
        written_out = self.plan.get(UnrollReduction)
        if written_out is not None:
            slots = self._with_unrolled(slots, written_out.factor)
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
        nodes = [] if role in ("first", "rest") else self._attached(depth, state)
        if role != "update" or depth != self.first_reduction:
            return nodes + self._inner(depth, state, role)
        if self.sums is not None and any(extent > 1 for extent in state.covered):
            raise StepError(f"PartialSums: {self.stage.name}: has loops of elements inside of its reduction")
        if self.sums is None:
            return [*nodes, *self._inner(depth, state, "first"), *self._inner(depth, state, "update")]
        count, own = self.sums.count, self._inner(depth, state, "update")
        nodes += [*self._over_places(count, state, "first"), *own]
        while count > 1:
            count //= 2
            nodes += self._over_places(count, state, "fold")
        return nodes + (self._inner(depth, state, "rest") if self.run % self.sums.count else [])

    def _inner(self, depth: int, state: _State, role: Role) -> list[Node]:
        """Return the loops from that at ``depth`` on."""
        if depth == len(self.slots):
            return self._along_run(state, role) if self.run else [self._statement(state, role)]
        if depth == 0 and self.plan.parallel:
            return self._parallel(state, role)
        slot = self.slots[depth]
        if role == "first" and not slot.is_space:
            return self._descend(depth + 1, state, role)
        if slot.is_inner and self._is_vector(depth, state):
            return self._vectors(depth, state, role)
        count, inside, variable = self._step(slot, state)
        is_unrolled = slot.is_unrolled or (slot.is_inner and self._is_unrolled(count))
        kind: LoopKind = "unrolled" if is_unrolled else "serial"
        return self._looped(variable, count, kind, depth + 1, inside, role)

    def _statement(self, state: _State, role: Role, **of_sums: Any) -> Statement:
        element = tuple([each.first + local for each, local in zip(self.box, state.local, strict=True)])
        reduced = () if role in ("first", "fold", "store") else tuple(state.reduced.items())
        return Statement(self.stage.name, role, element, reduced, **of_sums)

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
        box = tuple([
            Range(each.first + local, covered)
            for each, local, covered in zip(self.box, state.local, state.covered, strict=True)
        ])  # fmt: skip
        reduced = {
            loop: Range(state.reduced.get(loop, Affine()), extent)
            for loop, extent in state.left.items()
            if loop in state.reduced
        }
        demanded = self.tree.plans.demanded(self.stage.name, depth, box, reduced)
        return [
            node
            for plan in plans
            if plan.stage.name in demanded
            for node in self.tree.placed(plan, demanded[plan.stage.name])
        ]

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
        return [Loop(name, count, kind, tuple(body), fused)]

    def _guarded(self, depth: int, state: _State, role: Role) -> list[Node]:
        """Return what is inside of ``depth`` loops, under the conditions that tiles are inside of the box."""
        conditions = []
        if self._ends_level(depth):
            for dim, local in enumerate(state.local):
                limit = self.box[dim].extent
                if local.span(self.tree.extents)[1] > limit:
                    conditions.append(Condition(local, limit))
        body = self._descend(depth, state, role)
        return [Guard(tuple(conditions), tuple(body))] if conditions else body

    def _ends_level(self, depth: int) -> bool:
        """Whether the outermost ``depth`` loops end with the last of a level, or are all."""
        return depth == len(self.slots) or depth in self.level_ends

    def _parallel(self, state: _State, role: Role) -> list[Node]:
        """Return the outermost loops as one that is split over threads."""
        fused: list[tuple[str, int]] = []
        for slot in self.slots[: self.plan.parallel]:
            count, state, name = self._step(slot, state)
            if name:
                fused.append((name, count))
        whole = math.prod([count for _, count in fused])
        if len(fused) == 1:
            return self._looped(fused[0][0], whole, "parallel", self.plan.parallel, state, role)
        if not fused:
            return self._guarded(self.plan.parallel, state, role)
        return self._looped(self.tree.loop_name("p"), whole, "parallel", self.plan.parallel, state, role, tuple(fused))

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
