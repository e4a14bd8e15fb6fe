"""Operators, their iteration spaces, and which of them can reuse each other's programs (ETO, section 3).

An operator is what its major loop nest says: a kind, loops, and parameters that the loops do not show. Two operators
of one kind with the same sketches are a reuse pair where the loops of one dominate those of the other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from dsascape.wording import count
from dsascape.workloads.loopnest import Extents

SketchSet = tuple[str, ...]
"""Kinds of the sketches of an operator, sorted, one entry for each sketch; equal sets have the same count and kinds."""


class ReuseError(ValueError):
    """Operators, costs or a plan that make no sense; the message says which and why."""


@dataclass(frozen=True, slots=True, order=True)
class OperatorKind:
    """Type of an operator: what each iteration of its loops does."""

    name: str
    """C1D, C2D, C3D: convolutions; T2D: a transposed one; GRP, DEP: in groups, depthwise; BMM: products of batches of
    matrices. Anything else: the name of its nest and how its operands are read."""
    is_contraction: bool = True
    """Whether it multiplies and accumulates."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, order=True)
class IterationSpace:
    """Iterations of the loops of a major loop nest, in the order in which TVM writes them for a GPU.

    There is one space loop for each dimension of the result, and three for a product of batches of matrices: batch,
    rows, columns. Of the reduction loops, input channels come first, then the taps of a window.
    """

    space: Extents
    reduction: Extents

    def __post_init__(self) -> None:
        if not all(type(extent) is int and extent > 0 for extent in self.extents):
            raise ReuseError(f"loops {list(self.space)} and {list(self.reduction)}; needs whole numbers from 1")

    @property
    def extents(self) -> Extents:
        """Iterations of all loops, those of the reduction last."""
        return (*self.space, *self.reduction)

    @property
    def space_size(self) -> int:
        """Iterations of all space loops together: elements of the result."""
        return math.prod(self.space)

    @property
    def reduction_size(self) -> int:
        """Iterations of all reduction loops together."""
        return math.prod(self.reduction)

    @property
    def size(self) -> int:
        """Iterations of the whole nest."""
        return self.space_size * self.reduction_size

    def is_within(self, other: "IterationSpace") -> bool:
        """Whether each loop has at most the iterations of the same loop of ``other``."""
        pairs = zip(self.extents, other.extents, strict=True)
        return self.has_loops_of(other) and all(own <= wider for own, wider in pairs)

    def has_loops_of(self, other: "IterationSpace") -> bool:
        """Whether both have as many loops of each sort."""
        return (len(self.space), len(self.reduction)) == (len(other.space), len(other.reduction))

    def least(self, other: "IterationSpace") -> "IterationSpace":
        """Return the loops with the fewer iterations of both, loop by loop; raise ``ValueError`` for other loops."""
        return IterationSpace(
            tuple([min(pair) for pair in zip(self.space, other.space, strict=True)]),
            tuple([min(pair) for pair in zip(self.reduction, other.reduction, strict=True)]),
        )

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.space))} over {'x'.join(map(str, self.reduction)) or 1}"


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """A window that slides along one dimension of an operand."""

    space: int
    """Number of the space loop that moves it."""
    tap: int
    """Number of the reduction loop over its taps."""
    size: int
    """Elements of the operand's dimension."""
    stride: int = 1
    dilation: int = 1
    padding: int = 0
    """Elements in front of the first."""
    transposed: bool = False
    """Whether the stride divides positions instead of multiplying them."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator to tune; equal ones compute the same, whatever they are called."""

    kind: OperatorKind
    loops: IterationSpace
    sketches: SketchSet = ()
    windows: tuple[Window, ...] = ()
    groups: int = 1
    """Groups of channels that are convolved apart from each other."""
    name: str = field(default="", compare=False)
    """Name of the first operator of a network that is it; empty for a bridge."""

    @property
    def family(self) -> tuple[OperatorKind, SketchSet]:
        """Kind and sketches, which a reuse pair has in common."""
        return self.kind, self.sketches

    def __str__(self) -> str:
        parts = [f"{self.kind} {self.loops}"]
        strides = [window.stride for window in self.windows]
        if any(stride > 1 for stride in strides):
            parts.append(f"stride {'x'.join(map(str, strides))}")
        if self.groups > 1:
            parts.append(count(self.groups, "group"))
        return ", ".join(parts)


def is_reuse_pair(operator: Operator, reused: Operator) -> bool:
    """Whether an operator can reuse another's program: both reuse conditions of definition 2.

    Kind and sketches are the same, and all loops of one have at most, or at least, the iterations of the other's.
    The conditions are symmetric.
    """
    own, other = operator.loops, reused.loops
    if operator == reused or operator.family != reused.family:
        return False
    return own.is_within(other) or other.is_within(own)


def reuse_pairs(operators: Sequence[Operator]) -> tuple[tuple[int, int], ...]:
    """Return all ordered reuse pairs, as positions (operator, what it reuses), in the order of the positions."""
    families: dict[object, list[int]] = {}
    for number, operator in enumerate(operators):
        shape = len(operator.loops.space), len(operator.loops.reduction)
        families.setdefault((operator.family, shape), []).append(number)
    found: list[tuple[int, int]] = []
    for members in families.values():
        extents = np.array([operators[number].loops.extents for number in members])
        for number, own in zip(members, extents, strict=True):
            is_near = (own <= extents).all(axis=1) | (own >= extents).all(axis=1)
            others = [members[place] for place in np.flatnonzero(is_near)]
            found += [(number, other) for other in others if is_reuse_pair(operators[number], operators[other])]
    return tuple(sorted(found))


Interval = tuple[Fraction, Fraction]
"""A closed interval of ratios, the lower end first."""


@dataclass(frozen=True, slots=True)
class FeatureRatios:
    """Ratios within which a fast program's features lie to those of the reused one (ETO, equations 1 to 3)."""

    r1: Fraction
    """Reduction iterations of the reused operator by those of the operator."""
    r2: Fraction
    """Iterations of the operator by those of the reused one."""

    @staticmethod
    def of(operator: Operator, reused: Operator) -> "FeatureRatios":
        """Return the ratios of a reuse pair."""
        own, other = operator.loops, reused.loops
        return FeatureRatios(
            Fraction(other.reduction_size, own.reduction_size), Fraction(own.size, other.size)
        )  # fmt: skip

    @property
    def blocks(self) -> Interval:
        """Interval of the ratio of thread blocks.

        From r1 to r2, whichever is less: the paper prints r1 first, and takes [1/2, 2] for an r1 of 2 (example 3).
        """
        return min(self.r1, self.r2), max(self.r1, self.r2)

    @property
    def threads(self) -> Interval:
        """Interval of the ratio of threads of all blocks, and of their shared memory: from 1 to r2, or r2 to 1."""
        return min(Fraction(1), self.r2), max(Fraction(1), self.r2)
