"""A thread block as phases: what each thread does between two barriers.

The same phases are rendered in two ways: as a grid of thread blocks, where a phase ends at a barrier, and as loops,
where a phase is a loop over all threads and each thread's registers lie in memory side by side. What the loops compute
on a CPU is what the threads compute: index by index, as long as no thread reads in a phase what another writes in it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import tirx
from tvm.s_tir import SBlock, SBlockRealize


@dataclass(frozen=True)
class Memory:
    """Elements in shared memory, or of one thread in its registers."""

    buffer: Any
    each: int | None = None
    """Elements of one thread; None: all threads share them."""

    def load(self, thread: Any, place: Any) -> Any:
        return tirx.BufferLoad(self.buffer, [self._at(thread, place)])

    def store(self, thread: Any, place: Any, value: Any) -> Any:
        return tirx.BufferStore(self.buffer, value, [self._at(thread, place)])

    def _at(self, thread: Any, place: Any) -> Any:
        size = int(self.buffer.shape[0])
        return thread * self.each + place if self.each is not None and size != self.each else place


Phase = Callable[[Any], Any]
"""From the number of a thread to its statement."""


@dataclass(frozen=True)
class Steps:
    """A loop that all threads run in step, with a barrier after each of its phases."""

    variable: Any
    extent: int
    phases: Sequence[Phase]


@dataclass
class Block:
    """A kernel in the making: its memories and its phases."""

    threads: int
    as_loops: bool = False
    parts: list[Phase | Steps] = field(default_factory=list)
    variable: Any = field(default_factory=lambda: index("block"))
    _scratch: dict[str, Memory] = field(default_factory=dict)
    _shared: list[Any] = field(default_factory=list)
    _private: list[Any] = field(default_factory=list)

    @property
    def shared_bytes(self) -> int:
        """Return what a block takes of shared memory."""
        return sum(int(buffer.shape[0]) * tvm.DataType(str(buffer.dtype)).itemsize for buffer in self._shared)

    def shared(self, elements: int, dtype: str) -> Memory:
        """Return memory that all threads of a block see."""
        scope = "global" if self.as_loops else "shared"
        self._shared.append(tirx.decl_buffer((elements,), dtype, f"shared{len(self._shared)}", scope=scope))
        return Memory(self._shared[-1])

    def scratch(self, dtype: str) -> Memory:
        """Return shared memory with an element for each thread, for what does not last."""
        if dtype not in self._scratch:
            self._scratch[dtype] = self.shared(self.threads, dtype)
        return self._scratch[dtype]

    def private(self, elements: int, dtype: str) -> Memory:
        """Return registers of each thread."""
        held, scope = (elements * self.threads, "global") if self.as_loops else (elements, "local")
        self._private.append(tirx.decl_buffer((held,), dtype, f"held{len(self._private)}", scope=scope))
        return Memory(self._private[-1], elements)

    def function(self, name: str, blocks: int, parameters: Sequence[Any]) -> Any:
        """Return the PrimFunc that runs all ``blocks``."""
        if self.as_loops:
            body = sequence([self._rendered(part) for part in self.parts])
            run = tirx.For(self.variable, tirx.const(0), tirx.const(blocks), tirx.ForKind.SERIAL, body)
            allocated = [*self._shared, *self._private]
        else:
            thread = index("thread")
            barriers = len(self._shared) > 0
            body = [statement for part in self.parts for statement in self._for_one(part, thread, barriers)]
            own = [tirx.AllocBuffer(buffer) for buffer in self._private]
            inside = sequence([*own, *body])
            run = bound("blockIdx.x", self.variable, blocks, bound("threadIdx.x", thread, self.threads, inside))
            allocated = self._shared
        block = SBlock([], [], [], "root", run, alloc_buffers=allocated)
        function = tirx.PrimFunc(list(parameters), SBlockRealize([], True, block))
        return function.with_attr("s_tir", True).with_attr("global_symbol", name)

    def _rendered(self, part: Phase | Steps) -> Any:
        """Return a phase as a loop over the threads."""
        if isinstance(part, Steps):
            return loop(part.variable, part.extent, sequence([self._rendered(phase) for phase in part.phases]))
        thread = index("thread")
        return loop(thread, self.threads, part(thread))

    def _for_one(self, part: Phase | Steps, thread: Any, barriers: bool) -> list[Any]:
        """Return the statements of one thread."""
        if isinstance(part, Steps):
            inside = [statement for phase in part.phases for statement in self._for_one(phase, thread, barriers)]
            return [loop(part.variable, part.extent, sequence(inside))]
        return [part(thread), *([_barrier()] if barriers else [])]


def _barrier() -> Any:
    return tirx.Evaluate(tirx.call_intrin("int32", "tirx.tvm_storage_sync", "shared"))


def bound(tag: str, variable: Any, extent: int, body: Any) -> Any:
    """Return a loop whose iterations are blocks or threads."""
    binding = tirx.IterVar(tvm.ir.Range(0, extent), index(tag.replace(".", "_")), tirx.IterVar.ThreadIndex, tag)
    return tirx.For(
        variable, tirx.const(0), tirx.const(extent), tirx.ForKind.THREAD_BINDING, body, thread_binding=binding
    )  # fmt: skip


def index(name: str) -> Any:
    """Return a new integer variable."""
    return tirx.Var(name, "int32")


def loop(variable: Any, extent: int, body: Any, *, unrolled: bool = False) -> Any:
    """Return ``body`` for each value of ``variable``."""
    kind = tirx.ForKind.UNROLLED if unrolled else tirx.ForKind.SERIAL
    return tirx.For(variable, tirx.const(0), tirx.const(extent), kind, body)


def loops(variables: Sequence[Any], extents: Sequence[int], body: Any, *, unrolled: bool = False) -> Any:
    """Return ``body`` in a nest of loops, the last one innermost."""
    for variable, extent in reversed(list(zip(variables, extents, strict=True))):
        body = loop(variable, extent, body, unrolled=unrolled)
    return body


def sequence(statements: Sequence[Any]) -> Any:
    """Return the statements one after the other."""
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(list(statements))


def when(conditions: Sequence[Any], body: Any) -> Any:
    """Return ``body`` where all ``conditions`` hold."""
    return tirx.IfThenElse(tirx.all(*conditions), body, None) if conditions else body


def unravelled(place: Any, extents: Sequence[int]) -> list[Any]:
    """Return the indices of the element at ``place`` of a box in row-major order."""
    found: list[Any] = []
    for number, extent in enumerate(extents):
        inner = math.prod(extents[number + 1 :])
        value = tirx.floordiv(place, inner) if inner > 1 else place
        found.append(tirx.const(0) if extent == 1 else tirx.floormod(value, extent) if number else value)
    return found


def ravelled(indices: Sequence[Any], extents: Sequence[int]) -> Any:
    """Return the place in row-major order of an element of a box."""
    place: Any = tirx.const(0)
    for each, extent in zip(indices, extents, strict=True):
        place = place * extent + each
    return place
