"""Tasks of a search: what a kernel computes, on a machine, and how often a network does so."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, NamedTuple, Protocol, TypeVar

from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.tuner.search.analysis import SearchMachine
from dsascape.tuner.search.space import Program

_FLOPS_BASE = 1.618
"""Tasks of one kind are similar within such a factor of operations (TVM's default)."""


@dataclass(frozen=True, eq=False)
class Task:
    """One kernel on a machine; equal kernels are one task."""

    key: str
    naive: NaiveProgram
    machine: SearchMachine
    weight: int
    """Number of times that the kernel occurs."""
    builtin: Steps
    """Steps of the built-in choice."""
    threads: int
    """Threads of the built-in choice."""

    @property
    def name(self) -> str:
        """Name of the kernel: that of its last result."""
        return self.naive.layer.sink.name

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of its operators, without views."""
        ops = [self.naive.layer.graph.ops[position] for position in self.naive.layer.ops]
        return tuple([op.name for op in ops if not op.is_view])

    @cached_property
    def flops(self) -> int:
        """Floating-point operations."""
        return sum([compiled.nest.operations().flops for compiled in self.naive.layer.nests])

    @cached_property
    def similarity(self) -> tuple[str, int]:
        """Equal for similar tasks: kinds of their reductions, and about as many operations."""
        kinds = [stage.nests[0].name for stage in self.naive.stages.values() if stage.kind == "sum"]
        return " ".join(kinds), int(math.log(max(self.flops, 1), _FLOPS_BASE))

    def program(self) -> Program:
        """Return the program of the built-in choice."""
        return Program(self.builtin, loop_program(self.naive, self.builtin))


class _Kernel(Protocol):
    """Kernel of a schedule."""

    @property
    def layer(self) -> Layer:
        """What it computes."""


KernelT = TypeVar("KernelT", bound=_Kernel)


class Equal(NamedTuple, Generic[KernelT]):
    """Kernels of a schedule that are one task."""

    key: str
    """Key of the task."""
    naive: NaiveProgram
    """Naive program of the first of them."""
    kernels: list[KernelT]


def equal_kernels(kernels: Iterable[KernelT], dtype: str, kind: str) -> tuple[Equal[KernelT], ...]:
    """Return kernels by task, in the order in which tasks first occur, for a machine kind called ``kind``."""
    found: dict[str, Equal[KernelT]] = {}
    for kernel in kernels:
        naive = NaiveProgram(kernel.layer)
        key = naive.key(dtype, kind)
        found.setdefault(key, Equal(key, naive, [])).kernels.append(kernel)
    return tuple(found.values())


def runs_in_order(layer: Layer) -> bool:
    """Whether elements of a layer are computed one after the other: the loops of a recurrence, or of a running sum."""
    return any(compiled.nest.ordered for compiled in layer.nests)


def joined(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """Return tasks of several networks with equal ones as one, whose weight is the sum."""
    found: dict[str, Task] = {}
    for task in tasks:
        known = found.get(task.key)
        weight = task.weight + (0 if known is None else known.weight)
        first = task if known is None else known
        found[task.key] = Task(
            first.key, first.naive, first.machine, weight, first.builtin, first.threads
        )  # fmt: skip
    return tuple(found.values())
