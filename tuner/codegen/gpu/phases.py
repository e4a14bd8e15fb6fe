"""A thread block as phases: what each thread does between two barriers.

The same phases are rendered in two ways: as a grid of thread blocks, where a phase ends at a barrier, and as loops,
where a phase is a loop over all threads and each thread's registers lie in memory side by side. What the loops compute
on a CPU is what the threads compute, index by index, as long as no thread reads in a phase what another writes in it:
if one does, loops that begin with the first thread, with one in the middle and with the last one may differ.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import tvm
from tvm import tirx

from dsascape.tuner.codegen.local_values import with_thread_values
from dsascape.workloads.arithmetic.elementwise import UnsupportedKernelError

Language = Literal["cuda", "opencl"]
"""What the code of a grid is written in."""
_STATIC_BYTES = 48 * 1024
"""Of shared memory that a CUDA kernel has without asking for it when it is launched; OpenCL knows no such limit."""


@dataclass(frozen=True)
class Memory:
    """Elements in shared memory, or of each thread in its registers."""

    at: Callable[[Any, Any], tuple[Any, Any]]
    """From a thread and a place to a buffer and an index in it."""

    def load(self, thread: Any, place: Any) -> Any:
        """Return what is at ``place`` for ``thread``, which does not matter for shared memory."""
        buffer, found = self.at(thread, place)
        return tirx.BufferLoad(buffer, [found])

    def store(self, thread: Any, place: Any, value: Any) -> Any:
        """Return the statement that stores ``value`` at ``place`` for ``thread``."""
        buffer, found = self.at(thread, place)
        return tirx.BufferStore(buffer, value, [found])


Loops = Literal["first", "middle", "last"]
"""Which thread of a phase loops begin with: the first, one in the middle (those before it come last), or the last, with
the others backwards."""
Phase = Callable[[Any], Any]
"""From the number of a thread to its statement."""


@dataclass(frozen=True)
class Steps:
    """A loop that all threads run in step, with a barrier after each of its phases, which may be such loops, too."""

    variable: Any
    extent: int
    phases: "Sequence[Phase | Steps]"


@dataclass
class Block:
    """A kernel in the making: its memories and its phases."""

    threads: int
    as_loops: Loops | None = None
    language: Language = "cuda"
    parts: list[Phase | Steps] = field(default_factory=list)
    variable: Any = field(default_factory=lambda: index("block"))
    _dtypes: set[str] = field(default_factory=set)
    _shared_elements: int = 0
    _private: list[Any] = field(default_factory=list)

    @property
    def shared_bytes(self) -> int:
        """Return what a block takes of shared memory."""
        return sum(int(tvm.DataType(dtype).itemsize) for dtype in self._dtypes) * self._shared_elements

    @property
    def asked_bytes(self) -> int:
        """Return what of its shared memory a block has to ask for when it is launched: all of it, or none."""
        return self.shared_bytes if self.language == "cuda" and self.shared_bytes > _STATIC_BYTES else 0

    @property
    def copies_behind(self) -> bool:
        """Whether copies into shared memory may run while threads go on."""
        return self.language == "cuda" and not self.as_loops

    @cached_property
    def _arena(self) -> Any:
        """All of a block's shared memory, once it is known how much that is."""
        scope = "global" if self.as_loops else "shared.dyn" if self.asked_bytes else "shared"
        return tirx.decl_buffer((self._shared_elements,), *self._dtypes, "shared", scope=scope)

    def shared(self, first: int, end: int, dtype: str) -> Memory:
        """Return shared memory, which all threads of a block see, from element ``first`` on; there are ``end`` in all.

        Raises ``UnsupportedKernelError`` for a second dtype.
        """
        self._dtypes.add(dtype)
        if len(self._dtypes) > 1:
            raise UnsupportedKernelError(f"shared memory would hold {' and '.join(sorted(self._dtypes))}")
        self._shared_elements = max(self._shared_elements, end)
        return Memory(lambda _, place: (self._arena, first + place))

    def private(self, elements: int, dtype: str) -> Memory:
        """Return registers of each thread."""
        held, scope = (elements * self.threads, "global") if self.as_loops else (elements, "local")
        buffer = tirx.decl_buffer((held,), dtype, f"held{len(self._private)}", scope=scope)
        self._private.append(buffer)
        if self.as_loops:
            return Memory(lambda thread, place: (buffer, thread * elements + place))
        return Memory(lambda _, place: (buffer, place))

    @property
    def _barriers(self) -> bool:
        return self._shared_elements > 0

    def function(self, name: str, blocks: int, parameters: Callable[[], Sequence[Any]]) -> Any:
        """Return the PrimFunc that runs all ``blocks``; its ``parameters`` are known when all phases are written."""
        shared = [self._arena] if self._barriers else []
        allocated = [tirx.AllocBuffer(buffer) for buffer in (*shared, *self._private)]
        if self.as_loops:
            phases = sequence([self._of_all(part) for part in self.parts])
            body = sequence([*allocated, loop(self.variable, blocks, phases)])
        else:
            thread = index("thread")
            phases = sequence([*allocated, *self._of_one(self.parts, thread)])
            body = bound("blockIdx.x", self.variable, blocks, bound("threadIdx.x", thread, self.threads, phases))
        return tirx.PrimFunc(list(parameters()), with_thread_values(body)).with_attr("global_symbol", name)

    def _of_all(self, part: Phase | Steps) -> Any:
        """Return a phase as a loop over the threads."""
        if isinstance(part, Steps):
            return loop(part.variable, part.extent, sequence([self._of_all(phase) for phase in part.phases]))
        thread = index("thread")
        if self.as_loops == "first":
            return loop(thread, self.threads, part(thread))
        number = index("number")
        turned = number + self.threads // 2 if self.as_loops == "middle" else (number + 1) * (self.threads - 1)
        turned = tirx.floormod(turned, self.threads)  # what grows with the number is simplified rightly
        return loop(number, self.threads, sequence([tirx.Bind(thread, turned), part(thread)]))

    def _of_one(self, parts: Sequence[Phase | Steps], thread: Any) -> Iterator[Any]:
        """Yield the statements of one thread, with a barrier after each phase but the kernel's last."""
        for part in parts:
            if isinstance(part, Steps):
                yield loop(part.variable, part.extent, sequence([*self._of_one(part.phases, thread)]))
                continue
            yield part(thread)
            if self._barriers and part is not self.parts[-1]:
                yield tirx.Evaluate(tirx.call_intrin("int32", "tirx.tvm_storage_sync", "shared"))


def bound(tag: str, variable: Any, extent: int, body: Any) -> Any:
    """Return ``body``, run by as many blocks or threads as ``extent``."""
    binding = tirx.IterVar(tvm.ir.Range(0, extent), variable, tirx.IterVar.ThreadIndex, tag)
    return tirx.AttrStmt(binding, "thread_extent", tirx.const(extent), body)


def index(name: str) -> Any:
    """Return a new integer variable."""
    return tirx.Var(name, "int32")


def loop(variable: Any, extent: int, body: Any) -> Any:
    """Return ``body`` for each value of ``variable``."""
    return tirx.For(variable, tirx.const(0), tirx.const(extent), tirx.ForKind.SERIAL, body)


def sequence(statements: Sequence[Any]) -> Any:
    """Return the statements one after the other."""
    if not statements:
        return tirx.Evaluate(tirx.const(0))
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(list(statements))


def when(conditions: Sequence[Any], body: Any) -> Any:
    """Return ``body`` where all ``conditions`` hold."""
    return tirx.IfThenElse(tirx.all(*conditions), body, None) if conditions else body


def ravelled(indices: Sequence[Any], strides: Sequence[int]) -> Any:
    """Return the place of an element of a box whose neighbours along each dimension are so many elements apart."""
    place: Any = tirx.const(0)
    for each, stride in zip(indices, strides, strict=True):
        place = place + each * stride
    return place
