"""What a loop program touches in memory: a tree of the bodies of its loops, with the lines of each array.

Buffers in registers are no memory. Loops that are written out, or lanes, come at once: what they touch is touched by
one access. Where a mask bounds a loop it counts with its iterations in the mean.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dsascape.hw_models.caches.lines import Array, Lines
from dsascape.hw_models.caches.trees import Body
from dsascape.scheduler.kernels.cost.boxes import Limit, Term, Touch, lines_of, touch_of
from dsascape.scheduler.kernels.cost.placed import bounds_of, is_at_once
from dsascape.scheduler.kernels.cost.places import Use
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.cost.trips import Limit as Bound
from dsascape.scheduler.kernels.cost.trips import iterations
from dsascape.scheduler.kernels.loops.nodes import Buffer, Loop, Node, Nodes, Statement, strides_of
from dsascape.scheduler.kernels.loops.program import LoopProgram

Running = dict[str, int]
"""Iterations of the loops that run, by name."""


@dataclass(frozen=True)
class Arrays:
    """The arrays of a program, by number: tensors from outside and results first, then buffers of its own."""

    number: Mapping[str, int]
    buffers: tuple[Buffer, ...]
    """The program's own buffers that lie in memory, registers left out, in the order of their numbers."""

    @staticmethod
    def of(program: LoopProgram, outside: Sequence[str]) -> "Arrays":
        """Return the arrays of a program with the tensors ``outside``, in this order."""
        own = [each for each in program.buffers if each.name not in outside and each.scope != "register"]
        names = dict.fromkeys([*outside, *[each.name for each in own]])
        return Arrays({name: number for number, name in enumerate(names)}, tuple(own))


class _Touched(NamedTuple):
    """A load or store while loops run; equal ones have the same number."""

    number: int
    touch: Touch
    running: Running
    """Loops that move it."""

    def while_running(self, name: str, count: int) -> "_Touched":
        """Return it while another loop runs, too."""
        if name not in self.touch.moving:
            return self
        return _Touched(self.number, self.touch, {**self.running, name: count})


@dataclass
class _Part:
    """A part of the tree, and what it touches while all of its loops run."""

    body: Body
    touched: dict[int, list[_Touched]]
    """By array."""


@dataclass(frozen=True)
class Memory:
    """What a program touches in memory."""

    body: Body
    moving: Mapping[int, frozenset[str]]
    """Loops that move what it touches of each array."""


def memory_of(
    reads: Reads, arrays: Arrays, line_bytes: int, part_of: Mapping[str, int], counts: Mapping[str, int]
) -> Memory:
    """Return what a program touches in memory, in lines of ``line_bytes``.

    ``part_of``: number of the part of the kernel that each stage belongs to; ``counts``: iterations, by loop, of
    parallel loops of which one thread runs fewer than all.
    """
    return _Tree(reads, arrays, line_bytes, part_of, counts).memory()


class _Tree:
    """The tree of one program's loop bodies, while it is built."""

    def __init__(
        self, reads: Reads, arrays: Arrays, line_bytes: int, part_of: Mapping[str, int], counts: Mapping[str, int]
    ) -> None:
        program = reads.program
        self._naive, self._program, self._arrays, self._line_bytes = reads.naive, program, arrays, line_bytes
        self._part_of, self._parts, self._counts = part_of, max(part_of.values()) + 1, counts
        self._reads = reads
        self._buffers = {each.name: each for each in program.buffers}
        self._layouts = {each.tensor: each for each in program.layouts}
        self._lines_by_touches: dict[object, Lines] = {}
        self._numbers: dict[Touch, int] = {}

    def memory(self) -> Memory:
        """Return what the whole program touches."""
        whole = self._sequence(self._of(self._program.body, (), ()))
        moving = {
            array: frozenset[str]().union(*[each.touch.moving for each in every])
            for array, every in whole.touched.items()
        }
        return Memory(whole.body, moving)

    def _touches(self, statement: Statement) -> Iterator[tuple[int, Touch, bool]]:
        """Yield what a statement loads and stores in memory: numbers of arrays, how, and whether it is a store."""
        loads, stored, _ = self._reads.of(statement)
        for use, is_store in (*[(each, False) for each in loads], (stored, True)):
            number = self._arrays.number.get(use.array)
            if number is not None and use.scope != "register":
                touch = self._touch(use)
                if all(happens for happens, _, _ in touch.limits):
                    yield number, touch, is_store

    def _of(self, nodes: Nodes, around: tuple[tuple[str, int], ...], limits: tuple[Bound, ...]) -> list[_Part]:
        found: list[_Part] = []
        for node in nodes:
            if isinstance(node, Loop) and not is_at_once(node):
                found += self._of_loop(node, around, limits)
            elif isinstance(node, Loop | Statement):
                found.append(self._at_once(node))
            else:
                found += self._of(node.body, around, limits)
        return found

    def _of_loop(
        self, node: Loop, around: tuple[tuple[str, int], ...], limits: tuple[Bound, ...]
    ) -> list[_Part]:  # fmt: skip
        loops = [(name, self._counts.get(name, extent)) for name, extent in node.fused or ((node.name, node.extent),)]
        own = (*around, *loops)
        further = (*limits, *bounds_of(node))
        inside = self._of(node.body, own, further)
        if not inside:
            return []
        if node.reach is not None:
            ((name, _),) = loops
            every = self._iterations(around, limits)
            return [self._repeated(self._sequence(inside), name, self._iterations(own, further) / max(every, 1))]
        part = self._sequence(inside)
        for name, extent in reversed(loops):
            part = self._repeated(part, name, extent)
        return [part]

    def _iterations(self, around: Sequence[tuple[str, int]], limits: Sequence[Bound]) -> float:
        return float(iterations(dict(around), limits, self._program.extents))

    def _at_once(self, node: Node) -> _Part:
        """Return the accesses of statements in loops that are written out, or lanes."""
        touched: dict[int, list[_Touched]] = {}
        stored: set[int] = set()
        executions, part = 0.0, 0
        for running, statement, times in _statements(node, {}, 1):
            executions += times
            part = self._part_of[statement.stage]
            for array, touch, is_store in self._touches(statement):
                moving = {name: count for name, count in running.items() if name in touch.moving}
                own = _Touched(self._numbers.setdefault(touch, len(self._numbers)), touch, moving)
                every = touched.setdefault(array, [])
                every += [] if _is_there(own, every) else [own]
                if is_store:
                    stored.add(array)
        lines = {array: self._lines(every) for array, every in touched.items()}
        by_part = tuple([executions if each == part else 0.0 for each in range(self._parts)])
        return _Part(Body(1, (), lines, lines, frozenset(stored), part, by_part), touched)

    def _sequence(self, parts: Sequence[_Part]) -> _Part:
        """Return parts one after the other."""
        if len(parts) == 1:
            return parts[0]
        touched: dict[int, list[_Touched]] = {}
        for part in parts:
            for array, own in part.touched.items():
                every = touched.setdefault(array, [])
                every += [each for each in own if not _is_there(each, every)]
        lines = {array: self._lines(own) for array, own in touched.items()}
        bodies = tuple([part.body for part in parts])
        executions = tuple([sum(each) for each in zip(*[body.executions for body in bodies], strict=True)])
        stored = frozenset().union(*[body.stored for body in bodies])
        return _Part(Body(1, bodies, lines, lines, stored, 0, executions), touched)

    def _repeated(self, part: _Part, name: str, trips: float) -> _Part:
        """Return what a part touches in several iterations of a loop."""
        if trips == 1:
            return part
        count = math.ceil(trips)
        if trips < 1:
            lines = {array: _share(each, trips) for array, each in part.body.whole.items()}
            executions = tuple([each * trips for each in part.body.executions])
            body = Body(trips, (part.body,), part.body.whole, lines, part.body.stored, 0, executions)
            return _Part(body, part.touched)
        touched: dict[int, list[_Touched]] = {}
        trips_of: dict[int, float] = {}
        moved: set[int] = set()
        body, inside = part.body, part.body
        lines = dict(inside.whole)
        for array, every in part.touched.items():
            own = touched[array] = [each.while_running(name, count) for each in every]
            moving = [(each, behind) for each, behind in zip(every, own, strict=True) if behind is not each]
            if not moving:
                if all(each.touch.is_window for each in every):
                    trips_of[array] = 1.0  # whoever has its elements makes all results of them
                continue
            moved.add(array)
            lines[array] = self._lines(own)
            if len(moving) == len(every) and all(each.touch.is_apart(name, each.running) for each, _ in moving):
                first, behind = moving[0]
                whole = first.touch.elements(behind.running) / first.touch.elements(first.running)
                if whole < trips:
                    trips_of[array] = max(whole, 1.0)
        if body.trips == 1 and body.children:  # several parts, or one, in this loop alone
            repeated = replace(body, trips=trips)
        else:
            repeated = Body(trips, (body,), inside.whole, lines, inside.stored, 0, inside.executions)
        return _Part(
            replace(
                repeated, whole=lines, is_moved=frozenset(moved), trips_of=trips_of,
                executions=tuple([each * trips for each in inside.executions]),
            ), touched,
        )  # fmt: skip

    def _lines(self, touched: Sequence[_Touched]) -> Lines:
        key = tuple([(each.number, *each.running.items()) for each in touched])
        lines = self._lines_by_touches.get(key)
        if lines is None:
            pairs = [(each.touch, each.running) for each in touched]
            lines = self._lines_by_touches[key] = lines_of(pairs, self._line_bytes)
        return lines

    def _touch(self, use: Use) -> Touch:
        buffer, limits = self._buffers.get(use.array), tuple(self._limits(use))
        if buffer is not None:
            array = Array(buffer.shape, buffer.element_bytes)
            return touch_of(use, buffer.shape, buffer.strides, array, limits=limits)
        layer = self._naive.layer
        shape, layout = layer.graph.tensors[use.array].shape, self._layouts.get(use.array)
        sizes = [shape[dim] for dim in self._naive.order_of(use.array, len(shape))]
        if layout is not None:
            sizes = [-(-shape[layout.dim] // layout.panel), *[shape[dim] for dim in layout.order], layout.panel]
        array = Array(tuple(sizes), layer.described(use.array).element_bytes)
        return touch_of(use, sizes, strides_of(sizes, None), array, limits=limits)

    def _limits(self, use: Use) -> Iterator[Limit]:
        """Yield what decides whether iterations touch an array, and how many of them do."""
        if use.share < 1:
            yield use.share, (), math.inf
        extents = {**self._program.extents, **dict(() if use.run is None else use.run.loops)}
        groups: dict[frozenset[str], list[Bound]] = {}
        for condition in use.conditions:
            groups.setdefault(frozenset([loop for loop, _ in condition.value.terms]), []).append(condition)
        for loops, conditions in groups.items():
            own = {loop: extents[loop] for loop in loops}
            happens = float(iterations(own, conditions, extents)) / math.prod(own.values())
            terms = tuple([Term(stride, loop) for loop, stride in conditions[0].value.terms])
            values = 1 + sum([abs(each.stride) * (extents[each.loop] - 1) for each in terms])
            if happens < 1:
                yield happens, terms, values


def _share(lines: Lines, share: float) -> Lines:
    return Lines(lines.count * share, lines.runs, lines.pitch_lines, lines.jumps * share)


def _is_there(touched: _Touched, every: Sequence[_Touched]) -> bool:
    return any(touched.number == other.number and touched.running == other.running for other in every)


def _statements(node: Node, running: Running, times: int) -> Iterator[tuple[Running, Statement, int]]:
    """Yield the statements in loops that come at once, with these loops, and how often each runs."""
    if isinstance(node, Statement):
        yield running, node, times
        return
    inside = running
    if isinstance(node, Loop):
        loops = node.fused or ((node.name, node.extent),)
        inside = {**running, **dict(loops)}
        times = times if node.kind == "vector" else times * node.extent
    for each in node.body:
        yield from _statements(each, inside, times)
