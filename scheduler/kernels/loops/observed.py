"""What an interpreter says of a run: statements that are executed, and the elements that they load and store."""

from collections.abc import Callable
from dataclasses import dataclass

from dsascape.scheduler.kernels.loops.nodes import Statement
from dsascape.scheduler.kernels.loops.steps import Scope
from dsascape.workloads.operators.registry import Array


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """The elements of one array: a parameter, or a buffer while the loop iteration that it belongs to lasts."""

    name: str
    scope: Scope
    data: Array
    """Elements of each owner: lanes that have a copy of their own."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int
    """First byte of the first owner's."""
    depth: int = 0
    """Number of loops of lanes around it: those of the owners."""


@dataclass(frozen=True, slots=True)
class Execution:
    """A statement that is about to run."""

    statement: Statement
    lanes: int
    """Lanes of a vector, or threads, that run it together."""
    band: int
    """Equal for executions in one iteration of all loops that are neither unrolled nor lanes."""
    are_threads: bool


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """Elements that the statement which runs now loads or stores."""

    memory: Memory
    addresses: Array
    """First byte of each lane's element."""
    lanes: Array
    """Numbers of the lanes, in the same order."""
    is_store: bool


@dataclass(frozen=True, slots=True)
class NextBlock:
    """Another block of a grid begins: it has nothing in registers yet."""


Event = Execution | Access | NextBlock
Observer = Callable[[Event], None]
"""Callback that is given each event of a run, in the order of the loops."""
