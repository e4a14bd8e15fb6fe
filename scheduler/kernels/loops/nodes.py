"""The nodes of a loop program's tree, the stages that its statements belong to, and their buffers."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.steps import RowPadding, Scope
from dsascape.workloads.loopnest import Access, Extents, LoopNest

LoopKind = Literal["serial", "parallel", "vector", "unrolled", "block", "vthread", "thread", "tensor"]
"""How the iterations of a loop run: one after the other, on threads of a CPU, as lanes of a vector, written out one by
one, as blocks of a GPU's grid, as virtual threads or threads of a block, as one instruction of a tensor unit."""
StageKind = Literal["map", "sum", "copy"]
"""Kind of a stage: computes elements from others, accumulates over reduction loops, or copies with padding."""
Role = Literal["first", "update", "rest", "give", "fold", "correct", "store"]
"""Part of a stage: the first values of accumulators, one iteration of a reduction, one of its last iterations that
partial sums leave, handing a sum over to those who share a reduction (a store of another stage in the tree), adding one
half of the partial sums to the other, multiplying a sum by the factor of a maximum that has risen, computing and
storing an element. An update of a stage that is no sum puts together a running statistic and that of one more part."""


SUMS = ".sum"
"""Suffix of the name of a stage of sums, behind the tensor's name."""
FACTOR = ".factor"
"""Suffix of the name of the stage that keeps by what sums change where a running maximum rises, behind the latter's."""
BLOCKS = ".blocks"
"""Suffix between a stage's name and `SHARES` where blocks share a reduction whose parts threads share."""
SHARES = ".shares"
"""Suffix of the name of the stage in which those who share a reduction hand over their sums, behind the stage's."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One computation of a kernel into one buffer: a tensor, its sums before they are finished, or a copy."""

    name: str
    kind: StageKind
    tensor: str
    shape: Extents
    """Extents of the tensor, as the network numbers its dimensions."""
    order: tuple[int, ...]
    """Dimensions as they lie in memory, outermost first."""
    nests: tuple[LoopNest, ...]
    """Loop nests that write it, or that accumulate; those of a copy belong to its reader."""
    source: str = ""
    """Source of a copy: a tensor or another stage; empty for other stages."""
    run: tuple[int, ...] = ()
    """Reduction loops that partial sums go along as one, outermost first."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of a stage's results."""

    name: str
    """The stage's."""
    scope: Scope
    shape: Extents
    """Elements of each dimension as they lie in memory, outermost first; partial sums are the last dimension."""
    element_bytes: int
    first: tuple[Affine, ...]
    """Element of each dimension, as the network numbers them, that is stored first; below zero in padding."""
    inside: str = ""
    """Loop in each iteration of which the buffer is there anew; empty: the whole kernel."""
    partial_sums: int = 1
    slots: int = 1
    """Instances at a time, for as many iterations of the loop that it is inside of."""
    rows: RowPadding | None = None
    """Padding of its rows; None: they follow each other."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one index of each dimension to the next, padding counted."""
        return strides_of(self.shape, self.rows)

    @property
    def elements(self) -> int:
        """Elements of one slot, padding counted."""
        return stored_elements(self.shape, self.rows)

    @property
    def size_bytes(self) -> int:
        """Size of it with all its slots, padding counted."""
        return self.element_bytes * self.slots * self.elements


def strides_of(shape: Sequence[int], rows: RowPadding | None) -> tuple[int, ...]:
    """Return how many elements are between neighbours along each dimension of a box in row-major order.

    ``rows``: padding of its rows; None: they follow each other.
    """
    found, inside = [], 1
    for number, extent in enumerate(reversed(shape), 1):
        found.append(inside)
        inside = inside * extent  # no change in place: columns
        if rows is not None and number == rows.dims:
            inside = inside + rows.elements
    return tuple(reversed(found))


def stored_elements(shape: Sequence[int], rows: RowPadding | None) -> int:
    """Return the elements that a box of ``shape`` takes, the padding of its rows among them."""
    padding = 0 if rows is None else rows.elements * math.prod(shape[: max(len(shape) - rows.dims, 0)])
    return math.prod(shape) + padding


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition that an affine expression is below a limit."""

    value: Affine
    limit: int

    def __str__(self) -> str:
        return f"{self.value} < {self.limit}"


@dataclass(frozen=True, slots=True)
class Statement:
    """One part of a stage, run once in each iteration of the loops around it."""

    stage: str
    role: Role
    element: tuple[Affine, ...]
    """By dimension of the stage's tensor."""
    reduced: tuple[tuple[int, Affine], ...] = ()
    """Reduction loops of the stage's nest, by number, and the iteration of each that is added."""
    run: Affine | None = None
    """Iteration of several reduction loops together, where partial sums or shared reductions fuse them."""
    place: Affine | None = None
    """Among partial sums; of a fold, the one that another is added to. Of sums that threads share, the thread's."""
    distance: int = 0
    """Distance of the partial sum that a fold adds, from the one that it adds to."""
    source: str = ""
    """Stage with the partial sum that a fold adds, where they are not its own buffer's."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Nodes that run only where conditions hold: tiles that stick out of a tensor."""

    conditions: tuple[Condition, ...]
    body: "Nodes"


@dataclass(frozen=True, slots=True)
class Outlined:
    """Nodes that are a function of their own in generated code."""

    name: str
    body: "Nodes"


@dataclass(frozen=True, slots=True)
class Ahead:
    """Nodes that run for an iteration of a loop around them, so many iterations before it.

    For the first iterations they run before the loop begins; towards its end they do not run.
    """

    loop: str
    iterations: int
    body: "Nodes"


@dataclass(frozen=True, slots=True)
class Reach:
    """Part of a loop's iterations: those that lie in ``first`` <= element < ``end``, of ``step`` elements each.

    Elements are counted from the first iteration's on; no loop runs before its first or behind its last iteration.
    """

    first: Affine | None
    """None: from the first iteration on."""
    end: Affine | None
    """None: up to the last iteration."""
    step: int = 1
    part: Literal["touched", "whole", "before", "behind"] = "touched"
    """Iterations that lie in it at least in part, or as a whole; or single elements, which the loop then goes through:
    those before the first iteration that does as a whole, or behind the last."""
    stop: Affine | None = None
    """Another element that all iterations lie before, where two limits end a loop; None where one or none does."""

    def __str__(self) -> str:
        end = "" if self.end is None else str(self.end) if self.stop is None else f"min({self.end}, {self.stop})"
        ends = "" if self.first is None else str(self.first), end
        parts = {"touched": "", "whole": "whole ", "before": "before whole ", "behind": "behind whole "}
        steps = "" if self.step == 1 else f", {parts[self.part]}steps of {self.step}"
        return f"from {ends[0] or 'its first'} to {ends[1] or 'its last'}{steps}"


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop from zero, or of the iterations in its ``reach``.

    A thread loop inside of another one is shared out among all threads of the block, whichever iteration of the outer
    one they run.
    """

    name: str
    extent: int
    kind: LoopKind
    body: "Nodes"
    fused: tuple[tuple[str, int], ...] = ()
    """Names and iterations of the loops that it fuses, outermost first; empty for a plain loop."""
    width: int = 1
    """Threads that run one of its iterations together."""
    cluster: tuple[tuple[str, int], ...] = ()
    """Neighbouring blocks of a cluster along each loop of blocks, by the loop's name; loops with one are left out."""
    dealt: str = ""
    """Loop, itself or among ``fused``, of which the first and the last iteration that are left run in turn."""
    reach: Reach | None = None
    """Iterations that run, where loops around it bound them (`dsascape.workloads.bounds`); None: all."""

    @property
    def limits(self) -> frozenset[Condition]:
        """Conditions that its `reach` sets where its iterations are single elements."""
        if self.reach is None or self.reach.step > 1:
            return frozenset()
        ends = [each for each in (self.reach.end, self.reach.stop) if each is not None]
        own = Affine(0, ((self.name, 1),))
        return frozenset([Condition(Affine(0, (each * -1).terms) + own, each.offset) for each in ends])


Node = Loop | Guard | Outlined | Ahead | Statement
Nodes = tuple[Node, ...]

def statements_of(nodes: Nodes, around: tuple[Loop, ...] = ()) -> Iterator[tuple[tuple[Loop, ...], Statement]]:
    """Yield each statement in ``nodes`` with the loops around it, outermost first, in the order in which they stand."""
    for node in nodes:
        if isinstance(node, Statement):
            yield around, node
        else:
            yield from statements_of(node.body, (*around, node) if isinstance(node, Loop) else around)


def loops_of(body: Nodes) -> Iterator[Loop]:
    """Yield all loops in ``body``, outer ones before those inside of them."""
    for node in body:
        if isinstance(node, Loop):
            yield node
        if not isinstance(node, Statement):
            yield from loops_of(node.body)


def reads_of(stage: Stage, nests: Sequence[LoopNest]) -> Iterator[Access]:
    """Yield what a stage reads; of its own sums, the element that it becomes."""
    for nest in nests:
        if stage.kind not in ("map", "sum") or not reduction_loops(nest):
            yield from nest.reads
        elif stage.kind == "map":
            yield replace(nest.write, tensor=nest.write.tensor + SUMS)
            yield from [nest.reads[place] for place in nest.late_reads]
        else:
            late = nest.late_reads
            yield from [read for place, read in enumerate(nest.reads) if place not in late]


def reduction_loops(nest: LoopNest) -> tuple[int, ...]:
    """Return the reduction loops of a nest, by number."""
    return tuple([number for number, loop in enumerate(nest.loops) if loop.reduction])
