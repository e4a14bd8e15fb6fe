"""An interpreter of loop programs: it runs a tree on arrays, and tells what it does.

It is the judge of everything else that walks a tree. What each statement stores is the code generator's own description
(`scheduler.kernels.values`), computed with numpy in place of written down; the loops run one iteration after the other,
lanes of a vector and threads of a block at once. An observer is told of each execution and each access
(`scheduler.kernels.loops.counting`). Meant for small shapes.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.at_once import Log, Nest, perfect_nest
from dsascape.scheduler.kernels.loops.memories import Memories, SameElementError
from dsascape.scheduler.kernels.loops.nodes import (
    SHARES,
    Ahead,
    Buffer,
    Guard,
    Loop,
    Nodes,
    Outlined,
    Role,
    Stage,
    Statement,
)
from dsascape.scheduler.kernels.loops.observed import Event, Execution, NextBlock, Observer
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.values.access import Stored
from dsascape.scheduler.kernels.values.lanes import LaneNumbers
from dsascape.scheduler.kernels.values.sources import Place
from dsascape.scheduler.kernels.values.stage_values import StageValues
from dsascape.scheduler.kernels.values.statements import Statements
from dsascape.workloads.executable import Executable
from dsascape.workloads.operators.registry import Array


def interpret(
    program: LoopProgram, layer: Layer, executable: Executable, inputs: Mapping[str, Array],
    observer: Observer | None = None,
) -> dict[str, Array]:  # fmt: skip
    """Return the results of ``program``, the loops of ``layer``, by tensor, as the network numbers their dimensions.

    ``inputs``: what the layer reads and the network does not know, by tensor. Elements that nothing stored are NaN, or
    the least integer. Raises ``UnsupportedKernelError`` naming an operator without arithmetic, ``InterpreterError``.
    """
    return Interpreter(program, layer, executable, inputs, observer).results()


@dataclass
class _ArrayValues(StageValues):
    """The values of a kernel's stages as numbers; parameters are arrays in the interpreter's memory."""

    read_parameter: Callable[[str, tuple[int, ...], str, Sequence[Any]], Any] | None = None

    def parameter(self, name: str, shape: tuple[int, ...], dtype: str) -> tuple[Any, Callable[..., Any]]:
        assert self.read_parameter is not None
        read = self.read_parameter
        return name, lambda *place: read(name, shape, dtype, place)


_ACCUMULATING = frozenset({"update", "rest", "fold", "correct"})
"""Roles of statements that store what they have loaded from the same place."""


class Interpreter(Statements):
    """One run of a program."""

    def __init__(
        self, program: LoopProgram, layer: Layer, executable: Executable, inputs: Mapping[str, Array],
        observer: Observer | None,
    ) -> None:  # fmt: skip
        self.lanes = LaneNumbers()
        values = _ArrayValues(layer, executable, self.lanes, read_parameter=self.read_parameter)
        super().__init__(layer, program, values)
        self._inputs, self._observer = {**executable.values, **inputs}, observer
        self._memories = Memories(self.lanes, None if observer is None else self._say)
        self._inside: dict[str, list[Buffer]] = {}
        self._dtypes: dict[str, str] = {}
        self._places: dict[Statement, Place] = {}
        self._nests: dict[str, Nest | None] = {}
        self._log: Log | None = None
        self._band = 0
        self._are_threads = False
        self._role: Role = "store"

    def results(self) -> dict[str, Array]:
        """Return the results, after running the whole program."""
        self.describe()
        self.variables = dict.fromkeys(self.spans, 0)
        with self.lanes.among(np.zeros(1, bool)):
            for buffer in self.program.buffers:
                self._declare(buffer)
        self._allocate("")
        self._nodes(self.program.body)
        found = {}
        for name in self.layer.outputs:
            stage, memory = self.stages[name], self._memories[name]
            stored = memory.data.reshape(memory.shape)
            found[name] = stored.transpose([stage.order.index(dim) for dim in range(len(stage.order))])
        return found

    # Memory

    def _declare(self, buffer: Buffer) -> None:
        """Have the stages that read a buffer find it, and note when it is there anew."""
        stage = self.stages[buffer.name]
        source = self.stages[stage.source] if stage.name.endswith(SHARES) else stage
        self._dtypes[buffer.name] = self.dtype_of(source)
        self._inside.setdefault("" if buffer.scope == "global" else buffer.inside, []).append(buffer)

        def element(*place: Any) -> Any:
            moved = [each - self.value(buffer.first[dim]) for each, dim in zip(place, stage.order, strict=True)]
            return self.load(buffer.name, [*moved, *([0] if buffer.partial_sums > 1 else [])])

        self.take_in(stage, Stored(element, stage.order))

    def _allocate(self, loop: str, *, slots: bool = False) -> None:
        """Make the buffers that are there anew in each iteration of a loop, or those with several ``slots`` for all."""
        for buffer in self._inside.get(loop, ()):
            if slots is (buffer.slots > 1):
                self._memories.allocate(buffer, self._dtypes[buffer.name])

    def read_parameter(self, name: str, shape: tuple[int, ...], dtype: str, place: Sequence[Any]) -> Any:
        """Return elements of a tensor from outside, at the indices of ``shape``, as it lies in memory."""
        if name not in self._memories:
            packing, own = self.values.packings.get(name), self._inputs[name]
            stored = own.transpose(self.layer.graph.tensors[name].order) if packing is None else packing(own)
            self._memories.take(name, stored.astype(dtype), shape)
        return self._memories.load(name, place)

    def load(self, name: str, indices: Sequence[Any]) -> Any:
        if name not in self._memories:  # nothing has run yet: only the dtype is looked at
            return np.zeros(self.lanes.lanes, self._dtypes[name])
        return self._memories.load(name, indices, self._slot(name))

    def _slot(self, name: str) -> Any:
        buffer = self.program.buffer(name)
        return 0 if buffer.slots == 1 else self.variables[buffer.inside] % buffer.slots * buffer.elements

    def store(self, name: str, value: Any, indices: Sequence[Any]) -> Any:
        accumulates = self._role in _ACCUMULATING
        self._memories.store(name, indices, self._slot(name), value, accumulates=accumulates)

    def _say(self, event: Event) -> None:
        if self._log is not None:
            self._log(event, self.lanes.active)
        elif self._observer is not None:
            self._observer(event)

    def buffer_dtype(self, name: str) -> str:
        return self._dtypes[name]

    # Nodes

    def _nodes(self, nodes: Nodes) -> None:
        for node in nodes:
            if isinstance(node, Statement):
                self._execute(node)
            elif isinstance(node, Loop):
                self._loop(node)
            elif isinstance(node, Guard):
                holds = [self.value(each.value) < each.limit for each in node.conditions]
                with self.lanes.among(self.lanes.spread(self.lanes.both(*holds))):
                    if self.lanes.active.any():
                        self._nodes(node.body)
            elif isinstance(node, Outlined):
                self._nodes(node.body)
            else:
                self._run_ahead(node, self.variables[node.loop] + node.iterations)

    def _run_ahead(self, node: Ahead, iteration: int) -> None:
        """Run what is done ahead of a loop for one of its iterations, if it has that."""
        if iteration < self.spans[node.loop]:
            self._band += 1
            now, self.variables[node.loop] = self.variables.get(node.loop), iteration
            self._nodes(node.body)
            self.variables[node.loop] = now

    def _loop(self, node: Loop) -> None:
        nest = self._nest_of(node)
        if nest is not None and self._runs_at_once(nest):
            return
        if node.kind in ("vector", "thread"):
            self._lanes(node)
            return
        first, end = self._range(node)
        self._allocate(node.name, slots=True)
        for each in node.body:
            for number in range(each.iterations if isinstance(each, Ahead) and each.loop == node.name else 0):
                assert isinstance(each, Ahead)
                self._run_ahead(each, number)
        for number in range(int(np.min(first)), int(np.max(end))):
            with self.lanes.among(self.lanes.spread((first <= number) & (number < end))):
                self._band += node.kind not in ("unrolled", "tensor")
                self._set(node, number)
                if node.kind == "block":
                    self._say(NextBlock())
                self._allocate(node.name)
                self._nodes(node.body)
        self._band += node.kind not in ("unrolled", "tensor")

    def _nest_of(self, node: Loop) -> Nest | None:
        """Return the nest that begins with a loop, if it is around one statement and nothing else."""
        if node.name not in self._nests:
            self._nests[node.name] = perfect_nest(node, self._inside)
        return self._nests[node.name]

    def _runs_at_once(self, nest: Nest) -> bool:
        """Run iterations that store different elements at once; say whether that is possible."""
        before, lanes, extent = self.variables, self.lanes.lanes, math.prod([loop.extent for loop, _ in nest.spread])
        self.variables = {name: _repeated(value, extent) for name, value in before.items()}
        number, executions = np.tile(np.arange(extent), lanes), np.zeros(lanes * extent, np.int64)
        for loop, apart in reversed(nest.spread):
            self._set(loop, number % loop.extent)
            executions += number % loop.extent * apart
            number = number // loop.extent
        self._log = None if self._observer is None else Log(nest, executions, extent, self._band)
        try:
            with self.lanes.spread_over(extent, is_loop=False):
                self._in_nest(nest)
        except SameElementError:
            return False
        finally:
            log, self._log, self.variables = self._log, None, before
        if log is not None and self._observer is not None:
            log.tell(self._observer)
        self._band += 0 if nest.inner is None else 1 + nest.executions // nest.inner
        return True

    def _in_nest(self, nest: Nest) -> None:
        """Run the loops of a nest whose iterations store the same elements; all others are lanes."""
        for steps in itertools.product(*[range(loop.extent) for loop, _ in nest.serial]):
            for (loop, _), step in zip(nest.serial, steps, strict=True):
                self._set(loop, step)
            if self._log is not None:
                self._log.before = sum([step * apart for (_, apart), step in zip(nest.serial, steps, strict=True)])
            holds = [self.value(each.value) < each.limit for each in nest.conditions]
            with self.lanes.among(self.lanes.spread(self.lanes.both(*holds))):
                if self.lanes.active.any():
                    self._execute(nest.statement)

    def _lanes(self, node: Loop) -> None:
        """Run all iterations of a loop of lanes at once; threads inside of threads are all those of the block."""
        before, are_threads = self.variables, self._are_threads
        is_shared_out = node.kind == "thread" and len(self.lanes.owners) > 1
        around = 1 if is_shared_out else self.lanes.lanes
        with self.lanes.spread_over(node.extent, is_loop=True, anew=is_shared_out):
            self._are_threads = node.kind == "thread"
            again = 1 if is_shared_out else node.extent
            self.variables = {name: _repeated(value, again) for name, value in before.items()}
            self._set(node, np.tile(np.arange(node.extent), around))
            self._allocate(node.name)
            self._nodes(node.body)
        self.variables, self._are_threads = before, are_threads

    def _set(self, node: Loop, value: Any) -> None:
        """Set a loop, and those that it stands for, to an iteration."""
        self.variables[node.name] = rest = value
        for place, (name, extent) in enumerate(reversed(node.fused)):
            is_outermost = place == len(node.fused) - 1
            self.variables[name] = rest if is_outermost else rest % extent
            rest = rest // extent
        if node.dealt:
            own, count = self.variables[node.dealt], dict(node.fused).get(node.dealt, node.extent)
            self.variables[node.dealt] = own // 2 if own % 2 == 0 else count - 1 - own // 2

    def _range(self, node: Loop) -> tuple[Any, Any]:
        """Return the first iteration of a loop that runs, and the one behind the last."""
        reach = node.reach
        if reach is None:
            return 0, node.extent
        step = reach.step
        size = node.extent * (step if reach.part in ("touched", "whole") else 1)
        first = np.maximum(0 if reach.first is None else self.value(reach.first), 0)
        end: Any = size
        for limit in (reach.end, reach.stop):
            end = end if limit is None else np.minimum(end, self.value(limit))
        end = np.maximum(end, 0)
        begin, stop = {
            "touched": (first // step, -(-end // step)), "whole": (-(-first // step), end // step),
            "before": (first, np.minimum(-(-first // step) * step, end)),
            "behind": (np.maximum(-(-first // step), end // step) * step, end),
        }[reach.part]
        return begin, np.maximum(stop, begin)

    def _execute(self, statement: Statement) -> None:
        self.lanes.forget()
        self._role = statement.role
        self._say(Execution(statement, int(self.lanes.active.sum()), self._band, self._are_threads))
        self.statement(statement)

    def value(self, expression: Affine) -> Any:
        """Return an expression of loops at their present iterations."""
        total: Any = expression.offset
        for loop, stride in expression.terms:
            total = total + self.variables[loop] * stride
        return total

    def _place(self, stage: Stage, statement: Statement) -> Place:
        if statement not in self._places:
            self._places[statement] = super()._place(stage, statement)
        return self._places[statement]


def _repeated(value: Any, times: int) -> Any:
    """Return the value of a loop for each of so many new lanes in each lane."""
    return value if value is None or np.ndim(value) == 0 else np.repeat(value, times)
