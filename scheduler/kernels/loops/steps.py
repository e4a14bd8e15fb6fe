"""Rewriting steps: the decisions that turn the naive program of a kernel into a tiled one.

A naive program (`scheduler.kernels.loops.naive`) has one stage for each tensor that the kernel's nests write. Each step
says one thing about one stage; the steps of a stage are kept together, so that a search can take those of one stage
from one program and those of another from a second. ``None`` in place of sizes leaves them open: such a list of steps
is a sketch (Ansor, section 4.1).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dsascape.workloads.loopnest import Extents

Scope = Literal["register", "stack", "shared", "global"]
"""Memory that a buffer lies in: registers of a thread, memory of a thread, memory of a block, memory of all."""
Axes = Literal["space", "reduction"]


@dataclass(frozen=True, slots=True)
class Level:
    """One level of tiles: its loops go through what the level outside covers, in steps of its own sizes."""

    axes: Axes
    order: tuple[int, ...]
    """Dimensions of the stage's tensor, or reduction loops of its nest, by number: the outermost loop first."""
    sizes: Extents | None
    """Elements, or iterations, that one iteration of each loop covers, in the same order; None in a sketch."""


@dataclass(frozen=True, slots=True)
class Inline:
    """Compute the stage's elements where they are read; it has no loops and no buffer.

    A result of the kernel has both nevertheless: they store it, and nobody in the kernel reads it from there.
    """

    stage: str


@dataclass(frozen=True, slots=True)
class RowPadding:
    """Unused elements behind each row of a buffer, so that threads ask different banks for what they need at a time."""

    elements: int
    """Elements between the end of a row and the next row."""
    dims: int = 1
    """Innermost dimensions, as they lie in memory, that make up a row."""


@dataclass(frozen=True, slots=True)
class CacheRead:
    """Give the reader a copy of what it reads of a tensor, padding included; the copy is a stage before it."""

    stage: str
    """Name of the copy."""
    tensor: str
    reader: str
    scope: Scope = "stack"
    rows: RowPadding | None = None
    """Padding of the rows of a copy in shared memory; it changes no result. None: they follow each other."""


@dataclass(frozen=True, slots=True)
class CacheWrite:
    """Compute the stage's elements in a buffer of their own; the stage copies them to where they belong."""

    stage: str
    """Name of the new stage, which computes."""
    result: str
    """The stage that copies."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Cut the stage's loops into levels, outermost first; what these leave is the innermost level, of single elements.

    Ansor's "SSRSRS" has six levels, the last of which is not listed.
    """

    stage: str
    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True)
class ComputeAt:
    """Compute what one iteration of the consumer's loops needs of the stage inside of these loops."""

    stage: str
    consumer: str
    loops: int
    """Number of the consumer's loops around it, outermost first; loops of one iteration count."""
    scope: Scope = "stack"
    rounded: Extents | None = None
    """Sizes of which whole multiples are computed along each dimension, whatever is needed; None: what is needed."""


@dataclass(frozen=True, slots=True)
class PartialSums:
    """Add up a reduction in several partial sums along what lies together, and fold these (Ansor's rfactor)."""

    stage: str
    count: int
    loops: tuple[int, ...]
    """Reduction loops that together go along these elements, by number, outermost first."""


@dataclass(frozen=True, slots=True)
class Parallel:
    """Fuse the stage's outermost loops into one that is split over threads."""

    stage: str
    loops: int
    dealt: int = -1
    """Dimension of which the first and the last part that are left are taken in turn, so that neighbouring iterations
    together do as much as others where a mask leaves later rows more columns; -1: none."""


@dataclass(frozen=True, slots=True)
class Vectorise:
    """Compute the stage's innermost dimension in vectors."""

    stage: str
    lanes: int
    ends: Literal["whole", "dividing", "halved"] = "whole"
    """Treatment of a dimension that lanes do not divide: it is one vector; vectors are as short as divides it; the
    rest is computed in vectors of half the length, a quarter and so on."""


@dataclass(frozen=True, slots=True)
class Unroll:
    """Unroll the loops of the stage's innermost level that have at most so many iterations."""

    stage: str
    most: int = 0
    """0: however many they have."""


@dataclass(frozen=True, slots=True)
class UnrollReduction:
    """Write out so many iterations of the stage's innermost reduction loop one by one; they divide its iterations."""

    stage: str
    factor: int


@dataclass(frozen=True, slots=True)
class Bind:
    """Run the stage's outermost loops on blocks of a GPU's grid, those inside of them on threads of a block.

    Each group of loops is fused into one. A stage that is computed inside of another one's threads has all threads of
    the block take its iterations in turns.
    """

    stage: str
    blocks: int
    threads: int
    serial: int = 0
    """Loops between the two groups, whose iterations all threads of a block go through together."""
    width: int = 1
    """Threads that run one iteration together: those of a warp, for tensor units."""
    least_threads: int = 0
    """Threads that a block has at least, more than the sink's loops have iterations: others may have use for them."""
    cluster: tuple[int, ...] = ()
    """Neighbouring blocks along each of the block loops that form a cluster: what several of them copy to shared memory
    alike comes from the L2 once. Empty: no block shares its loads."""


@dataclass(frozen=True, slots=True)
class ShareReduction:
    """Share out the iterations of reduction loops among threads of a block, or among blocks.

    Neighbours take neighbouring iterations. Their sums are put together in halves, in shared memory; those of blocks by
    the last of them, in global memory.
    """

    stage: str
    count: int
    loops: tuple[int, ...]
    """Reduction loops that are shared as one, by number, outermost first; a single one may be cut by levels before."""
    by: Literal["thread", "block"] = "thread"
    threads: int = 1
    """Threads of each of the blocks that share the block's part; 1: each thread has its own."""


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Make a copy so many iterations of the loop around it before it is read; it has one slot more than that."""

    stage: str
    ahead: int


@dataclass(frozen=True, slots=True)
class Tensorise:
    """Do the multiply-accumulates inside of the stage's levels of reductions with instructions of tensor units.

    The loops around it are of warps (`Bind.width`).
    """

    stage: str
    rows: int
    columns: int
    depth: int


@dataclass(frozen=True, slots=True)
class Running:
    """Go on with sums over parts of a softmax's rows, whose maximum and sum run along (FlashAttention, algorithm 1).

    The exponentials are computed inside of the stage's reduction, for what one iteration of its loops needs. Where they
    make a maximum rise, all that was summed up with the old one is multiplied by a factor; the sum divides at the end.
    """

    stage: str
    """A stage of sums of products with the softmax's results."""
    tensor: str
    """The result of the softmax."""
    exponentials: str
    maximum: str
    total: str
    """Sum of the exponentials."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Store a weight in panels of neighbours along one dimension, the others in the order of its reader's loops."""

    stage: str
    tensor: str
    dim: int
    panel: int
    order: tuple[int, ...]
    """The other dimensions, outermost first."""


@dataclass(frozen=True, slots=True)
class Outline:
    """Make the stage, and what is computed inside of its loops, a function of its own.

    A compiler shares out registers function by function.
    """

    stage: str


Step = (
    Inline
    | CacheRead
    | CacheWrite
    | Tile
    | ComputeAt
    | PartialSums
    | Parallel
    | Vectorise
    | Unroll
    | UnrollReduction
    | Bind
    | ShareReduction
    | Prefetch
    | Tensorise
    | Running
    | Layout
    | Outline
)
"""One decision about one stage."""
Steps = tuple[Step, ...]


def without_sizes(steps: Steps) -> Steps:
    """Return the sketch of ``steps``: their levels without sizes."""
    return tuple([
        replace(step, levels=tuple([replace(level, sizes=None) for level in step.levels]))
        if isinstance(step, Tile) else step
        for step in steps
    ])  # fmt: skip


def of_stage(steps: Sequence[Step], stage: str) -> Iterator[Step]:
    """Yield the steps of one stage, in their order."""
    return (step for step in steps if step.stage == stage)
