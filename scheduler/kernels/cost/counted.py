"""Counts of a loop program: what its statements run, load and store."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dsascape.scheduler.kernels.cost.placed import Around
from dsascape.scheduler.kernels.cost.places import Use
from dsascape.scheduler.kernels.cost.trips import Limit
from dsascape.scheduler.kernels.cost.warps import WARPS, Requests, requests
from dsascape.scheduler.kernels.loops.columns import Size
from dsascape.scheduler.kernels.loops.nodes import Role
from dsascape.workloads.loopnest import Operations

Part = tuple[str, Role]
"""A stage, and the role of a statement in it."""


@dataclass(frozen=True, slots=True)
class Move:
    """One load or store of a band, of all that a part has."""

    registers: Size
    """Registers loaded or stored in all, hoisted ones aside."""
    lanes: Size
    """Elements of one: 1 where all lanes of a vector have the same, and of gathers."""
    is_gathered: bool
    run: Size
    """Elements of a band that follow each other in memory."""
    around: tuple[Size, ...]
    """Iterations of the loops around the band, innermost first, in which nothing else is computed."""
    goes_on: tuple[Size, ...]
    """Iterations of each of these with which the run goes on; 1 where it does not, nor with those further out."""
    element_bytes: int
    moves_with_depth: bool
    """Whether iterations of a reduction move it."""
    use: Use
    loops: tuple[Around, ...]
    """Loops in each iteration of which it happens, outermost first."""
    conditions: tuple[Limit, ...]
    """Conditions around the statement that it belongs to."""
    kept: Size
    """Registers of it that one iteration of a reduction needs."""

    @property
    def threads(self) -> Size:
        """Threads of a block that do it at a time, or in turns; 1 where no loop has any."""
        return threads_of(self.loops)


@dataclass
class Moved:
    """Traffic between one statement and one array."""

    elements: Size = 0
    """Lanes that load or store."""
    registers: Size = 0
    """Registers loaded, hoisted ones aside, or stored: instructions of one thread or of one vector."""
    gathered: Size = 0
    """Registers among ``registers`` that gathers and scatters move: one for each lane."""
    moves: list[Move] = field(default_factory=list)
    """What they consist of."""

    def requests(self) -> Requests | None:
        """Return what the warps of a grid ask for; None where threads do none, or no closed form says how much."""
        found = Requests(0, 0)
        for move in self.moves:
            has_threads = any(loop.kind == "thread" for loop in move.loops)
            own = requests(move.use, move.loops, move.conditions, WARPS) if has_threads else None
            if own is None:
                return None
            found = Requests(found.requests + own.requests, found.transactions + own.transactions)
        return found


@dataclass
class PartCost:
    """Counts of one part of a program."""

    executions: Size = 0
    """Statements run: one for all lanes of a vector, one for each thread."""
    elements: Size = 0
    """Lanes that run them."""
    needed: Size = 0
    """Lanes whose element lies in the tensor: others compute what sticks out of it, and is dropped."""
    statements: list["Executed"] = field(default_factory=list)
    bands: Size = 0
    spills: Size = 0
    """Registers stored and loaded again, as a band has too many."""
    loads: dict[str, Moved] = field(default_factory=dict)
    """By array; of buffers in registers only ``elements``."""
    stores: dict[str, Moved] = field(default_factory=dict)
    operations: Operations = field(default_factory=Operations)
    """Operations of one execution of the statements, in each lane."""
    in_bands: list["BandCost"] = field(default_factory=list)


class Executed(NamedTuple):
    """Executions of one statement: one for all lanes of a vector, one for each thread."""

    lanes: Size
    """Lanes of the vectors that the statement runs in."""
    threads: Size
    """Threads of a block that run it at a time, or in turns."""
    executions: Size


def threads_of(around: Sequence[Around]) -> Size:
    """Return the threads of a block that loops are shared out among, or that take their iterations in turns."""
    found: Size = max([loop.width for loop in around], default=1)
    for loop in around:
        if loop.kind == "thread":
            found = found * loop.extent
    return found


@dataclass(frozen=True, slots=True)
class BandCost:
    """The bands of some statements that stand together."""

    threads: Size
    """Threads of a block that run them at a time, or in turns."""
    bands: Size
    accumulators: Size
    """Registers that a band stores to: results that do not wait for each other."""
    around: tuple[Size, ...]
    """Iterations of the loops around it, innermost first, in which nothing else is computed."""
