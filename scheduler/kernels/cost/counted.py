"""Counts of a loop program: what its statements run, load and store."""

from dataclasses import dataclass, field

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


@dataclass
class Moved:
    """Traffic between one statement and one array."""

    elements: Size = 0
    """Lanes that load or store."""
    registers: Size = 0
    """Registers loaded, hoisted ones aside, or stored: instructions of one thread or of one vector."""
    gathered: Size = 0
    """Registers among ``registers`` that gathers and scatters move: one for each lane."""
    requests: int | None = 0
    """Accesses of whole warps; None where threads do none, or no closed form says how many."""
    transactions: int | None = 0
    """Sectors of global memory, or wavefronts of shared memory, that they ask for."""
    moves: list[Move] = field(default_factory=list)
    """What they consist of."""


@dataclass
class PartCost:
    """Counts of one part of a program."""

    executions: Size = 0
    """Statements run: one for all lanes of a vector, one for each thread."""
    elements: Size = 0
    """Lanes that run them."""
    needed: Size = 0
    """Lanes whose element lies in the tensor: others compute what sticks out of it, and is dropped."""
    in_vectors: list[tuple[Size, Size]] = field(default_factory=list)
    """Executions of each statement, behind the lanes of the vectors that it runs in."""
    bands: Size = 0
    spills: Size = 0
    """Registers stored and loaded again, as a band has too many."""
    loads: dict[str, Moved] = field(default_factory=dict)
    """By array; of buffers in registers only ``elements``."""
    stores: dict[str, Moved] = field(default_factory=dict)
    operations: Operations = field(default_factory=Operations)
    """Of one execution, in each lane."""
    in_bands: list["BandCost"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class BandCost:
    """The bands of some statements that stand together."""

    bands: Size
    accumulators: Size
    """Registers that a band stores to: results that do not wait for each other."""
    around: tuple[Size, ...]
    """Iterations of the loops around it, innermost first, in which nothing else is computed."""
