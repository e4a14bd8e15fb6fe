"""From a naive program and steps to the tree of loops.

Stages that are not computed inside of others run one after the other, over all of their tensor. Inside of a stage's
loops, what is computed there covers what the rest of that iteration needs: the elements follow from the access maps of
all that reads it (`scheduler.kernels.loops.affine`), halos included.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dsascape.scheduler.kernels.loops.affine import (
    Affine,
    Range,
    Ranges,
    joined_ranges,
    loop_ranges,
    read_ranges,
)
from dsascape.scheduler.kernels.loops.naive import NaiveProgram, reduction_extents
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
    Stage,
    Statement,
    reads_of,
)
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import (
    CacheRead,
    CacheWrite,
    ComputeAt,
    Inline,
    Layout,
    Level,
    Parallel,
    PartialSums,
    Scope,
    Step,
    Steps,
    Tile,
    Unroll,
    Vectorise,
)


def halvings(lanes: int) -> Iterator[int]:
    """Yield ``lanes`` and its halves, down to one: what shorter vectors of the same instructions have."""
    while lanes > 1:
        yield lanes
        lanes //= 2
    yield 1


class StepError(ValueError):
    """A list of steps that does not fit the kernel; the message says which step and why."""


@dataclass
class _Plan:
    """What the steps say about one stage."""

    stage: Stage
    levels: tuple[Level, ...] = ()
    at: ComputeAt | None = None
    inline: bool = False
    parallel: int = 0
    vector: Vectorise | None = None
    unroll: Unroll | None = None
    sums: PartialSums | None = None
    outlined: bool = False
    copies: dict[str, str] = field(default_factory=dict)
    """Copies that it reads in place of tensors."""


@dataclass(frozen=True, slots=True)
class _Slot:
    """One loop of a stage, or one that would have a single iteration."""

    is_space: bool
    axis: int
    size: int
    """Elements or iterations that one iteration covers."""
    is_inner: bool = False
    """Whether it belongs to the innermost level."""


def loop_program(naive: NaiveProgram, steps: Steps) -> LoopProgram:
    """Return the program that ``steps`` make of ``naive``; raise ``StepError`` where a step does not fit."""
    return _Building(naive, steps).program()


class _Building:
    """A program in the making."""

    def __init__(self, naive: NaiveProgram, steps: Steps) -> None:
        self.naive, self.steps = naive, steps
        self.plans = {name: _Plan(stage) for name, stage in naive.stages.items()}
        self.layouts: list[Layout] = []
        for step in steps:
            self._take(step)
        self.buffers: dict[str, Buffer] = {}
        self.numbers: dict[str, int] = {}
        self.extents: dict[str, int] = {}
        self.around: list[str] = []
        """Names of the loops that are being filled, outermost first."""

    def program(self) -> LoopProgram:
        """Return the finished program."""
        body: list[Node] = []
        for name, plan in self.plans.items():
            if plan.at is None and not plan.inline:
                shape = plan.stage.shape
                is_result = name in self.naive.results
                self._add_buffer(plan, tuple(map(Range.whole, shape)), "global" if is_result else "stack")
                body += _StageLoops(self, plan, tuple(map(Range.whole, shape))).nodes()
        stages = tuple([plan.stage for name, plan in self.plans.items() if name in self.buffers])
        buffers = tuple([self.buffers[stage.name] for stage in stages])
        return LoopProgram(stages, buffers, tuple(self.layouts), tuple(body), self.steps)

    def plan(self, step: Step) -> _Plan:
        """Return what is known of the stage of a step so far."""
        try:
            return self.plans[step.stage]
        except KeyError:
            raise StepError(f"{type(step).__name__}: the kernel has no stage {step.stage!r}") from None

    def _take(self, step: Step) -> None:
        if isinstance(step, CacheRead):
            self._take_copy(step)
        elif isinstance(step, CacheWrite):
            self._take_write(step)
        elif isinstance(step, Inline):
            self.plan(step).inline = True
        elif isinstance(step, Tile):
            self.plan(step).levels = step.levels
        elif isinstance(step, ComputeAt):
            if step.consumer not in self.plans:
                raise StepError(f"ComputeAt: the kernel has no stage {step.consumer!r}")
            self.plan(step).at = step
        elif isinstance(step, PartialSums):
            plan = self.plan(step)
            plan.sums, plan.stage = step, replace(plan.stage, run=step.loops)
        elif isinstance(step, Parallel):
            self.plan(step).parallel = step.loops
        elif isinstance(step, Vectorise):
            self.plan(step).vector = step
        elif isinstance(step, Unroll):
            self.plan(step).unroll = step
        elif isinstance(step, Layout):
            self.plan(step)
            self.layouts.append(step)
        else:
            self.plan(step).outlined = True

    def _take_copy(self, step: CacheRead) -> None:
        if step.reader not in self.plans:
            raise StepError(f"CacheRead: the kernel has no stage {step.reader!r}")
        reader = self.plans[step.reader]
        reads = [read for read in reads_of(reader.stage, reader.stage.nests) if read.tensor == step.tensor]
        if not reads:
            raise StepError(f"CacheRead: {step.reader!r} does not read {step.tensor!r}")
        shape = reads[0].shape
        order = self.naive.order_of(step.tensor, len(shape))
        copy = Stage(step.stage, "copy", step.tensor, shape, order, (), source=step.tensor)
        reader.copies[step.tensor] = step.stage
        self._insert(_Plan(copy), before=step.reader)

    def _take_write(self, step: CacheWrite) -> None:
        if step.result not in self.plans:
            raise StepError(f"CacheWrite: the kernel has no stage {step.result!r}")
        result = self.plans[step.result]
        computing = replace(result.stage, name=step.stage)
        result.stage = replace(result.stage, kind="copy", nests=(), source=step.stage)
        self._insert(_Plan(computing, copies=result.copies), before=step.result)

    def _insert(self, plan: _Plan, before: str) -> None:
        """Put a stage in front of another one."""
        rest: dict[str, _Plan] = {}
        for name, each in self.plans.items():
            if name == before:
                rest[plan.stage.name] = plan
            rest[name] = each
        self.plans = rest

    def needs_of(
        self, plan: _Plan, box: Ranges, reduced: Mapping[int, Range] | None = None
    ) -> Iterator[tuple[str, Ranges, Sequence[int]]]:
        """Yield what a stage reads to write ``box``: tensor or stage, ranges, shape."""
        stage = plan.stage
        if stage.kind == "copy":
            is_result = stage.name == stage.tensor
            yield stage.source, box if is_result else tuple(map(Range.inside, box, stage.shape)), stage.shape
            return
        for nest in stage.nests:
            loops = loop_ranges(nest, box)
            for loop, each in (reduced or {}).items():
                loops[loop] = each
            for read in reads_of(stage, (nest,)):
                yield plan.copies.get(read.tensor, read.tensor), read_ranges(read, loops), read.shape

    def demanded(
        self, consumer: str, depth: int, box: Ranges, reduced: Mapping[int, Range]
    ) -> Mapping[str, Ranges]:
        """Return what one iteration of the outermost ``depth`` loops of ``consumer`` needs of each stage inside."""
        found: dict[str, Ranges] = {}

        def add(plan: _Plan, own: Ranges, loops: Mapping[int, Range] | None = None) -> None:
            for name, ranges, shape in self.needs_of(plan, own, loops):
                known = found.get(name)
                found[name] = ranges if known is None else joined_ranges(known, ranges, shape)

        names = list(self.plans)
        add(self.plans[consumer], box, reduced)
        for name in reversed(names[: names.index(consumer)]):
            plan = self.plans[name]
            if name in found and (plan.inline or self.is_inside(name, consumer, depth)):
                found[name] = _rounded(found[name], plan)
                add(plan, found[name])
        return found

    def is_inside(self, name: str, consumer: str, depth: int) -> bool:
        """Whether a stage is computed inside of the outermost ``depth`` loops of ``consumer``, or of what is there."""
        at = self.plans[name].at
        if at is None:
            return False
        if at.consumer == consumer:
            return self.depth_of(at) >= depth
        return self.is_inside(at.consumer, consumer, depth)

    def depth_of(self, at: ComputeAt) -> int:
        """Return how many loops of its consumer a stage is computed inside of; fused loops are one."""
        consumer = self.plans[at.consumer]
        return max(at.loops, consumer.parallel) if at.loops else 0

    def attached(self, consumer: str, depth: int) -> list[_Plan]:
        """Return the stages that are computed right inside of the outermost ``depth`` loops of ``consumer``."""
        return [
            plan
            for plan in self.plans.values()
            if plan.at is not None and plan.at.consumer == consumer and self.depth_of(plan.at) == depth
        ]

    def _add_buffer(self, plan: _Plan, box: Ranges, scope: Scope) -> None:
        stage = plan.stage
        shape = [box[dim].extent for dim in stage.order]
        count = 1 if plan.sums is None else plan.sums.count
        self.buffers[stage.name] = Buffer(
            stage.name, scope, (*shape, *([count] if count > 1 else [])), self.naive.element_bytes(stage.tensor),
            tuple([each.first for each in box]), self.around[-1] if self.around else "", count,
        )  # fmt: skip

    def placed(self, plan: _Plan, box: Ranges) -> Nodes:
        """Return the nodes of a stage that is computed inside of another one's loops."""
        assert plan.at is not None
        own = _rounded(box, plan)
        self._add_buffer(plan, own, plan.at.scope)
        nodes = tuple(_StageLoops(self, plan, own).nodes())
        return (Outlined(plan.stage.name, nodes),) if plan.outlined else nodes

    def loop_name(self, label: str) -> str:
        """Return a name for a loop that no other has."""
        number = self.numbers.get(label, 0)
        self.numbers[label] = number + 1
        return f"{label}{number}"


def _rounded(box: Ranges, plan: _Plan) -> Ranges:
    if plan.at is None or plan.at.rounded is None:
        return box
    return tuple([each.rounded(part) for each, part in zip(box, plan.at.rounded, strict=True)])


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

    def __init__(self, building: _Building, plan: _Plan, box: Ranges) -> None:
        self.b, self.plan, self.stage, self.box = building, plan, plan.stage, box
        self.reductions = reduction_extents(plan.stage.nests[0]) if plan.stage.kind == "sum" else {}
        self.run = 0
        if plan.sums is not None:
            self.run = math.prod([self.reductions.pop(loop) for loop in plan.sums.loops])
        self.slots = self._slots()
        ends = itertools.accumulate([len(level.order) for level in plan.levels])
        self.level_ends = frozenset(ends)
        self.first_reduction = next(
            (number for number, slot in enumerate(self.slots) if not slot.is_space), len(self.slots)
        )

    def _slots(self) -> list[_Slot]:
        """Return the loops of all levels; reductions that no level has are inside of all space loops but the last."""
        slots: list[_Slot] = []
        seen: set[int] = set()
        for level in self.plan.levels:
            if level.sizes is None:
                raise StepError(f"Tile: {self.stage.name}: has a level without sizes")
            for axis, size in zip(level.order, level.sizes, strict=True):
                slots.append(_Slot(level.axes == "space", axis, size))
                seen |= set() if level.axes == "space" else {axis}
        own = [axis for axis in self.reductions if axis not in seen]
        unfinished = [slot.axis for slot in slots if not slot.is_space and slot.size > 1]
        slots += [_Slot(is_space=False, axis=axis, size=1) for axis in dict.fromkeys([*own, *unfinished])]
        return slots + [_Slot(is_space=True, axis=dim, size=1, is_inner=True) for dim in self.stage.order]

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
        if self.plan.sums is None:
            return [*nodes, *self._inner(depth, state, "first"), *self._inner(depth, state, "update")]
        count, own = self.plan.sums.count, self._inner(depth, state, "update")
        nodes += [*self._over_places(count, state, "first"), *own]
        while count > 1:
            count //= 2
            nodes += self._over_places(count, state, "fold")
        return nodes + (self._inner(depth, state, "rest") if self.run % self.plan.sums.count else [])

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
        kind: LoopKind = "unrolled" if slot.is_inner and self._is_unrolled(count) else "serial"
        return self._looped(variable, count, kind, depth + 1, inside, role)

    def _statement(self, state: _State, role: Role, **of_sums: Any) -> Statement:
        element = tuple([each.first + local for each, local in zip(self.box, state.local, strict=True)])
        reduced = () if role in ("first", "fold", "store") else tuple(state.reduced.items())
        return Statement(self.stage.name, role, element, reduced, **of_sums)

    def _along_run(self, state: _State, role: Role) -> list[Node]:
        """Return the loops along the elements that partial sums are of: whole turns, or what these leave over."""
        assert self.plan.sums is not None
        turns, rest = divmod(self.run, self.plan.sums.count)
        whole = turns * self.plan.sums.count
        if role == "rest":
            name = self.b.loop_name("run") if rest > 1 else ""
            run = Affine(whole, ((name, 1),) if name else ())
            return _loop(name, rest, "serial", [self._statement(state, role, run=run, place=Affine())])
        name = self.b.loop_name("run") if turns > 1 else ""
        run = Affine(0, ((name, self.plan.sums.count),) if name else ())
        return _loop(name, turns, "serial", self._over_places(self.plan.sums.count, state, role, run))

    def _over_places(self, count: int, state: _State, role: Role, run: Affine | None = None) -> list[Node]:
        """Return one part of the stage for each of ``count`` partial sums, in vectors."""
        lanes = 1 if self.plan.vector is None else self.plan.vector.lanes
        ((vectors, width),) = _pieces(count, lanes, "whole")
        outer = self.b.loop_name("s") if vectors > 1 else ""
        inner = self.b.loop_name("s") if width > 1 else ""
        place = Affine(0, tuple([(name, step) for name, step in ((outer, width), (inner, 1)) if name]))
        statement = self._statement(
            state, role, place=place, run=None if run is None else run + place, distance=count if role == "fold" else 0
        )  # fmt: skip
        return _loop(outer, vectors, "unrolled", _loop(inner, width, "vector", [statement]))

    def _attached(self, depth: int, state: _State) -> list[Node]:
        plans = self.b.attached(self.stage.name, depth)
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
        demanded = self.b.demanded(self.stage.name, depth, box, reduced)
        return [
            node
            for plan in plans
            if plan.stage.name in demanded
            for node in self.b.placed(plan, demanded[plan.stage.name])
        ]

    def _step(self, slot: _Slot, state: _State) -> tuple[int, _State, str]:
        """Return the iterations of a loop, how far its iterations have come, and its name; none if it is no loop."""
        covered = state.covered[slot.axis] if slot.is_space else state.left[slot.axis]
        size, count = slot.size, -(-covered // slot.size)
        name = self.b.loop_name(self._label(slot)) if count > 1 else ""
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
            self.b.around.append(name)
            for each, extent in ((name, count), *fused):
                self.b.extents[each] = extent
        body = self._guarded(depth, inside, role)
        if not name:
            return body
        self.b.around.pop()
        return [Loop(name, count, kind, tuple(body), fused)]

    def _guarded(self, depth: int, state: _State, role: Role) -> list[Node]:
        """Return what is inside of ``depth`` loops, under the conditions that tiles are inside of the box."""
        conditions = []
        if self._ends_level(depth):
            for dim, local in enumerate(state.local):
                limit = self.box[dim].extent
                if local.span(self.b.extents)[1] > limit:
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
        return self._looped(self.b.loop_name("p"), whole, "parallel", self.plan.parallel, state, role, tuple(fused))

    def _is_unrolled(self, count: int) -> bool:
        unroll = self.plan.unroll
        return unroll is not None and count > 1 and (not unroll.most or count <= unroll.most)

    def _is_vector(self, depth: int, state: _State) -> bool:
        """Whether the loop at ``depth`` is the innermost one with several iterations, and computed in vectors."""
        if self.plan.vector is None or self.run:
            return False
        inner = [number for number in range(depth, len(self.slots)) if state.covered[self.slots[number].axis] > 1]
        return inner == [depth]

    def _vectors(self, depth: int, state: _State, role: Role) -> list[Node]:
        """Return the innermost loop cut into vectors."""
        assert self.plan.vector is not None
        dim, lanes = self.slots[depth].axis, self.plan.vector.lanes
        extent = state.covered[dim]
        pieces = _pieces(extent, lanes, self.plan.vector.ends)
        nodes: list[Node] = []
        begin = 0
        for count, width in pieces:
            nodes += self._piece(depth, state, role, (dim, begin, count, width))
            begin += count * width
        return nodes

    def _piece(self, depth: int, state: _State, role: Role, piece: tuple[int, int, int, int]) -> list[Node]:
        """Return some of the vectors along a dimension: dimension, first element, vectors, lanes."""
        dim, begin, count, width = piece
        label = self._label(self.slots[depth])
        outer = self.b.loop_name(label) if count > 1 else ""
        inner = self.b.loop_name(label) if width > 1 else ""
        terms = [(name, step) for name, step in ((outer, width), (inner, 1)) if name]
        local, covered = list(state.local), list(state.covered)
        local[dim] += Affine(begin, tuple(terms))
        covered[dim] = 1
        for name, extent in ((outer, count), (inner, width)):
            if name:
                self.b.extents[name] = extent
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
        lanes = next(each for each in halvings(lanes) if extent % each == 0)
    return [(extent // lanes, lanes)] if extent % lanes == 0 else [(1, extent)]
