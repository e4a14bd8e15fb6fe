"""From a loop program to the code of a grid: blocks and threads as the tree binds them, a barrier between phases.

The outermost loop of blocks is the grid. What is inside of it is cut into phases (`tuner.codegen.gpu.phases`): copies
for all threads, the threads' own statements, sums that are handed over. A loop that has phases inside, such as the
steps of a product's depth, is run by all threads in step.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from tvm import tirx
from tvm.sym import Analyzer

from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.nodes import (
    SHARES,
    Ahead,
    Buffer,
    Condition,
    Guard,
    Loop,
    Node,
    Nodes,
    Statement,
    reads_of,
    statements_of,
)
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.shared_memory import has_phases, shared_memory
from dsascape.scheduler.kernels.values.access import Stored
from dsascape.tuner.codegen.emit import Emitting
from dsascape.tuner.codegen.gpu.groups import groups_of, is_copy
from dsascape.tuner.codegen.gpu.guards import adds_zeros, dim_of
from dsascape.tuner.codegen.gpu.moves import close_group, copied_behind, stored_together, wait_for_groups
from dsascape.tuner.codegen.gpu.neighbours import copied_lanes, lanes_of, place_in_memory
from dsascape.tuner.codegen.gpu.phases import (
    Block,
    Memory,
    Phase,
    Steps,
    index,
    loop,
    ravelled,
    sequence,
    when,
)
from dsascape.tuner.codegen.tvm_values import GridValues
from dsascape.workloads.arithmetic.elementwise import UnsupportedKernelError
from dsascape.workloads.executable import Executable

Parts = list[Phase | Steps]


class GridEmitting(Emitting):
    """The code of a grid in the making."""

    values_of = GridValues

    def __init__(self, layer: Layer, executable: Executable, program: LoopProgram, block: Block) -> None:
        super().__init__(layer, executable, program)
        self.block = block
        self.memories: dict[str, tuple[Memory, str]] = {}
        self.places = shared_memory(program)
        self.grid = max([node.extent for node in program.body if isinstance(node, Loop)], default=1)
        """Blocks that run all loops over blocks: those of the longest."""
        self.ends: dict[int, Condition] = {}
        """Conditions that end dimensions of the statement which is being written down."""
        self.thread: Any = None
        """The thread whose statement is being written down."""
        self._copies_behind = False
        """Whether copies that are being written down may run while threads go on."""
        self._lanes = 1
        """Neighbours that each of them takes."""
        self._has_copies_behind = False
        """Whether one of those does that have been written down since the last group was closed."""

    def function_of_grid(self, name: str) -> Any:
        """Return the PrimFunc of all blocks."""
        self.declare()
        for node in self.program.body:
            assert isinstance(node, Loop)
            self.block.parts += self._of_blocks(node, self.grid)
        results = [self.buffers[each] for each in self.layer.outputs]
        return self.block.function(name, self.grid, lambda: [*self.values.inputs.values(), *results])

    def _declare(self, buffer: Buffer) -> None:
        if buffer.scope == "global":
            super()._declare(buffer)
            return
        stage, elements = self.stages[buffer.name], buffer.elements * buffer.slots
        source = stage.source if buffer.name.endswith(SHARES) else ""
        dtype = self.memories[source][1] if source else self.dtype_of(stage)
        if buffer.scope == "register":
            memory = self.block.private(elements, dtype)
        else:
            first = self.places.places[buffer.name] // buffer.element_bytes
            end = self.places.size_bytes // buffer.element_bytes
            memory = self.block.shared(first, end, dtype)
        self.memories[buffer.name] = memory, dtype
        analyzer = Analyzer()

        def element(*place: Any) -> Any:
            begins = [self.value(buffer.first[dim]) for dim in stage.order]
            moved = [analyzer.simplify(each - begin) for each, begin in zip(place, begins, strict=True)]
            return self.load(buffer.name, [*moved, *([0] if buffer.partial_sums > 1 else [])])

        self.take_in(stage, Stored(element, stage.order))

    def _slot(self, name: str, indices: Sequence[Any]) -> Any:
        """Return where in its memory an element of a buffer lies: in the slot of the loop's iteration."""
        buffer = self.program.buffer(name)
        place = ravelled(indices, buffer.strides)
        if buffer.slots == 1:
            return place
        slot = tirx.floormod(self.variables[buffer.inside], buffer.slots)
        return slot * buffer.elements + place

    def load(self, name: str, indices: Sequence[Any]) -> Any:
        if name not in self.memories:
            return super().load(name, indices)
        return self.memories[name][0].load(self.thread, self._slot(name, indices))

    def store(self, name: str, value: Any, indices: Sequence[Any]) -> Any:
        if name not in self.memories:
            return super().store(name, value, indices)
        memory, place = self.memories[name][0], self._slot(name, indices)
        if self._copies_behind:
            buffer, found = memory.at(self.thread, place)
            started = copied_behind(buffer, found, value, self._lanes)
            if started is not None:
                self._has_copies_behind = True
                return started
        return memory.store(self.thread, place, value)

    def buffer_dtype(self, name: str) -> str:
        return self.memories[name][1] if name in self.memories else super().buffer_dtype(name)

    def node(self, node: Node) -> Any:
        """Return the statement of a node; sums of copies that stick out of a tile are added up at its last element.

        Nobody reads these sums, and a multiply-accumulate without a condition around it costs less. Nor does it need
        one where it would multiply the zeros of two copies behind the end of a reduction.
        """
        if isinstance(node, Guard):
            inside = self._update_in(node)
            if inside is not None:
                conditions = [each for each in node.conditions if not adds_zeros(each, inside, self.program)]
                dims = {each: dim_of(each, inside) for each in conditions}
                self.ends = {dim: each for each, dim in dims.items() if dim is not None}
                statement = super().node(inside)
                self.ends = {}
                left = [each for each, dim in dims.items() if dim is None]
                return when([self.value(each.value) < each.limit for each in left], statement)
        if isinstance(node, Loop) and node.kind == "unrolled":
            return self._unrolled(node)
        return super().node(node)

    def _unrolled(self, node: Loop) -> Any:
        """Return an unrolled loop, with what holds for all of its iterations or for none asked once, in front of it."""
        conditions, inside = self._asked_once(node, frozenset())
        assert isinstance(inside, Loop)
        together = self._together(inside) if self.block.copies_behind else None
        own = super().node(inside) if together is None else together
        return when([self.value(each.value) < each.limit for each in conditions], own)

    def _asked_once(self, node: Node, loops: frozenset[str]) -> tuple[tuple[Condition, ...], Node]:
        """Return the conditions in unrolled ``loops`` that do not depend on them, and ``node`` without these."""
        if isinstance(node, Guard):
            sums = self._update_in(node)
            asked = tuple([
                each for each in node.conditions
                if loops.isdisjoint(loop for loop, _ in each.value.terms)
                and (sums is None or (dim_of(each, sums) is None and not adds_zeros(each, sums, self.program)))
            ])  # fmt: skip
            left = tuple([each for each in node.conditions if each not in asked])
            return asked, replace(node, conditions=left) if left or len(node.body) > 1 else node.body[0]
        if isinstance(node, Loop) and node.kind == "unrolled" and len(node.body) == 1:
            own = {node.name, *[name for name, _ in node.fused]}
            asked, inside = self._asked_once(node.body[0], loops | own)
            return asked, replace(node, body=(inside,))
        return (), node

    def _update_in(self, node: Guard) -> Statement | None:
        """Return the sum that a guard is around, where it reads nothing but buffers of the block; else None."""
        inside = node.body[0] if len(node.body) == 1 else None
        is_sum = isinstance(inside, Statement) and inside.role == "update" and self._reads_buffers(inside)
        return inside if isinstance(inside, Statement) and is_sum else None

    def _together(self, node: Loop) -> Any | None:
        """Return a loop over neighbours in the GPU's memory as stores of several at a time; None for any other."""
        guard = node.body[0] if len(node.body) == 1 and isinstance(node.body[0], Guard) else None
        (inside, *others) = node.body if guard is None else guard.body
        if node.kind != "unrolled" or others or not isinstance(inside, Statement) or inside.stage in self.memories:
            return None
        conditions = () if guard is None else guard.conditions
        place = place_in_memory(inside, self.program, self.stages[inside.stage].order)
        lanes = lanes_of(node, place, conditions)
        buffer = self.buffers.get(inside.stage)
        if lanes == 1 or buffer is None or str(buffer.dtype) != "float32":
            return None
        held = tirx.decl_buffer((lanes,), "float32", "together", scope="local")
        variable, statements = self.variables[node.name], list[Any]()
        for first in range(0, node.extent, lanes):
            stores = []
            for lane in range(lanes):
                self.variables[node.name] = tirx.const(first + lane)
                stores.append(self.statement(inside))
            kept = [tirx.BufferStore(held, each.value, [tirx.const(lane)]) for lane, each in enumerate(stores)]
            there = [self.value(each.value) < each.limit for each in conditions]
            stored = stored_together(buffer, stores[0].indices, held, lanes)
            statements.append(when(there, sequence([*kept, stored])))
        self.variables[node.name] = variable
        return sequence([tirx.AllocBuffer(held), *statements])

    def element(self, statement: Statement) -> list[Any]:
        found = super().element(statement)
        for dim, end in self.ends.items():
            rest = self.value(statement.element[dim] + end.value * -1)
            found[dim] = rest + tirx.min(self.value(end.value), end.limit - 1)
        return found

    def _reads_buffers(self, statement: Statement) -> bool:
        """Whether a statement reads nothing but buffers of the block."""
        stage = self.stages[statement.stage]
        copies = self.program.copies(stage.name)
        return all(copies.get(read.tensor, read.tensor) in self.memories for read in reads_of(stage, stage.nests))

    def _of_blocks(self, node: Loop, grid: int) -> Parts:
        """Return what each block does of a loop over blocks; of one that is shorter than the grid, some do nothing."""
        there = [self.block.variable < node.extent] if node.extent < grid else []
        return self._of_block(node.body, partial(self._in_block, node, there))

    def _of_block(self, nodes: Nodes, around: "Around") -> Parts:
        """Return the phases of nodes that all threads of a block run together."""
        parts: Parts = []
        for node in nodes:
            if not isinstance(node, Loop):
                raise UnsupportedKernelError("a block computes something outside of the loops of its threads")
            if node.kind == "thread":
                parts += self._of_threads(node, around)
            else:
                parts.append(Steps(self.variables[node.name], node.extent, self._of_block(node.body, around)))
        return parts

    def _in_block(self, node: Loop, there: Sequence[Any], body: Callable[[], Any]) -> Any:
        self.variables[node.name] = self.block.variable
        self.split(node)
        return when(there, body())

    def _of_threads(self, node: Loop, around: "Around") -> Parts:
        """Return the phases inside of a loop of threads; of a longer one than a block has, in turns."""
        threads, turns = self.block.threads, -(-node.extent // self.block.threads)
        turn = index("turn")
        first = turn * threads if turns > 1 else tirx.const(0)

        def in_thread(thread: Any, body: Callable[[], Any]) -> Any:
            def own() -> Any:
                number = thread if turns == 1 else first + thread
                conditions = [number < node.extent] if node.extent % threads else []
                self.thread, self.variables[node.name] = thread, number
                self.split(node)
                return when(conditions, body())

            return around(own)

        def of_all(thread: Any, body: Callable[[], Any]) -> Any:
            def own() -> Any:
                self.thread = thread
                return body()

            return around(own)

        parts = list(self._phases(node.body, Insides(in_thread, of_all, around)))
        return parts if turns == 1 else [Steps(turn, turns, parts)]

    def _phases(self, nodes: Nodes, insides: "Insides") -> Iterator[Phase | Steps]:
        """Yield the phases of nodes inside of a loop of threads."""
        for group in groups_of(nodes, self.program):
            first = group[0]
            if not isinstance(first, Loop) or not has_phases(first):
                yield partial(self._phase, group, insides.in_thread, insides.of_all)
            elif first.kind == "thread":  # shared out anew among all threads
                yield from self._of_threads(first, insides.around)
            else:
                yield from self._in_step(first, insides)

    def _phase(self, group: Sequence[Node], in_thread: "Inside", of_all: "Inside", thread: Any) -> Any:
        copies = [each for each in group if is_copy(each)]
        own = tuple([each for each in group if not is_copy(each)])
        statements, closed = self._closed([of_all(thread, partial(self._copy, each, thread)) for each in copies])
        statements += [in_thread(thread, partial(self.nodes, own))] if own else []
        ahead = [each.iterations for each in copies if isinstance(each, Ahead)]
        left = min(ahead) - 1 if ahead and len(ahead) == len(copies) else 0
        return sequence([*statements, *([wait_for_groups(left)] if closed else [])])

    def _closed(self, copies: Sequence[Any]) -> tuple[list[Any], bool]:
        """Return ``copies`` as one group, and whether any of them runs while threads go on."""
        closed, self._has_copies_behind = self._has_copies_behind, False
        return [*copies, *([close_group()] if closed else [])], closed

    def _in_step(self, node: Loop, insides: "Insides") -> Iterator[Phase | Steps]:
        """Yield a loop that all threads run in step, behind what runs ahead of it for its first iterations."""
        ahead = [each for each in node.body if isinstance(each, Ahead)]

        first = min(max([each.iterations for each in ahead], default=0), node.extent)

        def begun(number: int, thread: Any) -> Any:
            own = [each for each in ahead if number < each.iterations]
            copies = [insides.of_all(thread, partial(self._made, each, thread, tirx.const(number))) for each in own]
            statements, closed = self._closed(copies)
            return sequence([*statements, *([wait_for_groups(number)] if closed and number == first - 1 else [])])

        for number in range(first):
            yield partial(begun, number)
        yield Steps(self.variables[node.name], node.extent, list(self._phases(node.body, insides)))

    def _copy(self, node: Node, thread: Any) -> Any:
        """Return what one thread does of a node that all threads share out."""
        if not isinstance(node, Ahead):
            assert isinstance(node, Loop)
            return self._in_turns(node, thread)
        iteration = self.variables[node.loop] + node.iterations
        return when([iteration < self.spans[node.loop]], self._made(node, thread, iteration))

    def _made(self, node: Ahead, thread: Any, iteration: Any) -> Any:
        """Return what one thread does ahead of a loop, for one of its iterations."""
        now, self.variables[node.loop] = self.variables[node.loop], iteration
        found = sequence([self._in_turns(each, thread) for each in node.body if isinstance(each, Loop)])
        self.variables[node.loop] = now
        return found

    def _in_turns(self, node: Loop, thread: Any) -> Any:
        lanes, along = 1, 1
        if self.block.copies_behind:
            lanes, along = copied_lanes(node, self.program, self.values.from_outside)
        if lanes > 1 and self._begins_whole(node, lanes):
            before, self._has_copies_behind = self._has_copies_behind, False
            copies = self._turns(node, thread, lanes, along)
            if self._has_copies_behind:
                return copies
            self._has_copies_behind = before
        return self._turns(node, thread)

    def _begins_whole(self, node: Loop, lanes: int) -> bool:
        """Whether all instances of the copy in shared memory begin at multiples of ``lanes``."""
        stages = {each.stage for _, each in statements_of(node.body)} & self.memories.keys()
        copied = [self.program.buffer(each) for each in stages]
        return not any(
            self.places.places[each.name] // each.element_bytes % lanes or each.elements % lanes for each in copied
        )

    def _turns(self, node: Loop, thread: Any, lanes: int = 1, along: int = 1) -> Any:
        """Return what one thread does of a loop in turns, ``lanes`` iterations along the innermost fused loops each."""
        turn, threads, extent = index("turn"), self.block.threads, node.extent // lanes
        number = turn * threads + thread
        if lanes == 1:
            self.variables[node.name] = number
            self.split(node)
        else:
            loops = node.fused or ((node.name, node.extent),)
            inner, outer = loops[-along:], loops[:-along]
            groups = math.prod([size for _, size in inner]) // lanes
            self._split_into(inner, tirx.floormod(number, groups) * lanes if outer else number * lanes)
            self._split_into(outer, tirx.floordiv(number, groups))
        conditions = [number < extent] if extent % threads else []
        self._copies_behind, self._lanes = self.block.copies_behind, lanes
        copies = loop(turn, -(-extent // threads), when(conditions, self.nodes(node.body)))
        self._copies_behind, self._lanes = False, 1
        return copies

    def _split_into(self, loops: Sequence[tuple[str, int]], number: Any) -> None:
        """Express ``loops`` by the number of an iteration of all of them."""
        for place, (name, extent) in enumerate(reversed(loops)):
            self.variables[name] = number if place == len(loops) - 1 else tirx.floormod(number, extent)
            number = tirx.floordiv(number, extent)


Around = Callable[[Callable[[], Any]], Any]
"""From what makes a statement to the statement, with the variables of a block set."""
Inside = Callable[[Any, Callable[[], Any]], Any]
"""From a thread and what makes its statement to the statement, with the variables of the loops around it set."""


class Insides(NamedTuple):
    """Functions that wrap a statement inside of a loop of threads with what stands around it."""

    in_thread: Inside
    """Sets the variables of the loop of threads and of those around it."""
    of_all: Inside
    """Sets those of the loops around it alone: for what all threads share out."""
    around: Around
    """Wraps what one block does, for loops of threads inside of this one."""
