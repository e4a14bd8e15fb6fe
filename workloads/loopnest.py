"""Loop nests with access maps: the single description of what an operator computes.

A nest runs over space loops (one iteration space point per output element) and reduction loops. For each
tensor it touches, an access map tells which element: per tensor dimension an `Index`, an affine expression of
the loops. Operation counts, footprints, the input region behind an output tile (halo included), matching
dimensions and the kind of mapping between input and output are all derived from this; none of it is
stated a second time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dsascape.wording import count
from dsascape.workloads.bounds import Band, Bound
from dsascape.workloads.index import (
    Box,
    Extents,
    Index,
    Interval,
    Loop,
    box_volume,
    by_stride,
    full_box,
    hit_share,
    hull,
    intersect,
    invert,
    is_count,
    skip_padding,
    widest,
)

__all__ = [
    "Access",
    "Band",
    "Bound",
    "Box",
    "Extents",
    "Index",
    "Interval",
    "Loop",
    "LoopNest",
    "Operations",
    "box_volume",
    "full_box",
    "hull",
    "intersect",
    "widest",
]


@dataclass(frozen=True, slots=True)
class Operations:
    """Arithmetic by class. ``simple``: add, multiply, compare; ``special``: divide, root, exponential."""

    macs: int = 0
    simple: int = 0
    special: int = 0

    def __post_init__(self) -> None:
        if not type(self.macs) is type(self.simple) is type(self.special) is int or (
            self.macs < 0 or self.simple < 0 or self.special < 0
        ):
            raise ValueError(f"operations {self.macs!r}, {self.simple!r}, {self.special!r}; needs whole numbers from 0")

    def __add__(self, other: "Operations") -> "Operations":
        return Operations(self.macs + other.macs, self.simple + other.simple, self.special + other.special)

    def __mul__(self, times: int) -> "Operations":
        return Operations(self.macs * times, self.simple * times, self.special * times)

    @property
    def flops(self) -> int:
        """Floating-point operations, a multiply-accumulate counting as two."""
        return 2 * self.macs + self.simple + self.special

    def __bool__(self) -> bool:
        return bool(self.macs or self.simple or self.special)


@dataclass(frozen=True, slots=True)
class Access:
    """A nest's map from its loops to the elements of one tensor of ``shape``."""

    tensor: str
    shape: tuple[int, ...]
    indices: tuple[Index, ...]

    def __post_init__(self) -> None:
        if type(self.tensor) is not str or not all(map(is_count, self.shape)):
            raise ValueError(f"access to {self.tensor!r} of shape {list(self.shape)}; needs a name and whole sizes")
        if len(self.indices) != len(self.shape):
            raise ValueError(
                f"{self.tensor!r} of shape {list(self.shape)} has {count(len(self.shape), 'dimension')};"
                f" needs {len(self.indices)}"
            )

    def region(self, ranges: Sequence[Interval]) -> Box | None:
        """Return the box of elements that the loops ``ranges`` touch, or None if they touch nothing."""
        box = []
        for index, size in zip(self.indices, self.shape, strict=True):
            lo, hi = index.touched(ranges, size)
            if lo >= hi:
                return None
            box.append((lo, hi))
        return tuple(box)

    def extents(self, loop_extents: Sequence[int]) -> tuple[int, ...]:
        """Return the elements per dimension that ``loop_extents`` iterations touch, away from borders."""
        touched = []
        for index, size in zip(self.indices, self.shape, strict=True):
            terms = index.terms
            if index.opaque:
                reach = math.prod([loop_extents[loop] for loop, _ in terms])
            elif len(terms) == 1 and terms[0][1] == 1 and index.divisor == 1 and index.window == 1:
                reach = loop_extents[terms[0][0]]
            else:
                reach = sum([abs(stride) * (loop_extents[loop] - 1) for loop, stride in terms])
                reach = (reach if index.rounding == "exact" else reach + index.divisor - 1) // index.divisor
                reach += index.window
            touched.append(reach if reach < size else size)
        return tuple(touched)

    def uses(self, loop: int) -> bool:
        """Whether moving ``loop`` changes the element touched."""
        return any(position == loop for index in self.indices for position, _ in index.terms)


@dataclass(frozen=True, slots=True)
class LoopNest:
    """One perfect loop nest: for every iteration read each of ``reads``, compute, update ``write``."""

    name: str
    loops: tuple[Loop, ...]
    reads: tuple[Access, ...]
    write: Access
    per_iteration: Operations = Operations()
    per_output: Operations = Operations()
    carried: Access | None = None
    """Loop-carried dependence: the access to results of earlier iterations (a recurrence, a running sum), or None.

    Each dimension is addressed as the nest writes it (the same element), at a constant distance (a loop that runs in
    order: `ordered`), or by another loop (`exchanged`). Elements beyond the border do not exist.
    """
    bound: Bound | None = None
    """Bound of one loop by another, None: all iterations are executed. Of the others no element is read or written."""
    running: bool = False
    """Whether readers may use results of a part of the reduction, and correct what they made of them as more arrives:
    the maximum and the sum of a softmax (Dao et al., FlashAttention, 2022, algorithm 1)."""
    late: tuple[int, ...] = ()
    """Reads, by place, that are combined with finished sums instead of in each iteration, besides `late_reads`."""

    def __post_init__(self) -> None:
        if type(self.name) is not str:
            raise ValueError(f"loop nest {self.name!r}; needs a name")
        own = () if self.carried is None else (self.carried,)
        if self.carried and (self.carried.tensor, self.carried.shape) != (self.write.tensor, self.write.shape):
            raise ValueError(f"{self.write.tensor!r} is written, but {self.carried.tensor!r} carried on")
        for access in (*self.reads, self.write, *own):
            for index in access.indices:
                for loop, _ in index.terms:
                    if loop >= len(self.loops):
                        raise ValueError(
                            f"{access.tensor!r} is indexed by loop {loop} of {len(self.loops)}"
                        )
        if self.bound is not None:
            self._check_bound(self.bound)
        ranges = [(0, loop.extent) for loop in self.loops]
        for index, size in zip(self.write.indices, self.write.shape, strict=True):
            self._check_written(index, size, ranges)

    def _check_bound(self, bound: Bound) -> None:
        """Raise ``ValueError`` for a bound of loops that there are not, by a reduction, or beside a dependence."""
        loops = len(self.loops)
        is_pair = 0 <= bound.outer < loops and 0 <= bound.inner < loops and bound.outer != bound.inner
        if not is_pair or self.loops[bound.outer].reduction or self.carried is not None:
            raise ValueError(
                f"loop {bound.inner} of {self.name!r} is bounded by loop {bound.outer} of {loops}; needs two loops, the"
                " second of them no reduction, and no carried dependence"
            )

    def _check_written(self, index: Index, size: int, ranges: Sequence[Interval]) -> None:
        """Raise ``ValueError`` for a written dimension that is no sum of space loops, or that leaves the tensor."""
        plain = not index.opaque and not index.table and index.divisor == index.window == 1
        if not plain or any(stride < 1 or self.loops[loop].reduction for loop, stride in index.terms):
            raise ValueError(f"{self.write.tensor!r} is not written element by element")
        lo, hi = index.span(ranges)
        if not 0 <= lo < hi <= size and all(ranges[loop][1] for loop, _ in index.terms):
            raise ValueError(
                f"{self.write.tensor!r} of shape {list(self.write.shape)} is written from {lo} to {hi} in a"
                f" dimension of {size}"
            )

    @property
    def extents(self) -> tuple[int, ...]:
        """Iterations per loop."""
        return tuple(loop.extent for loop in self.loops)

    @property
    def has_reduction(self) -> bool:
        """Whether a reduction loop has more than one iteration."""
        return any(loop.reduction and loop.extent > 1 for loop in self.loops)

    @property
    def late_reads(self) -> tuple[int, ...]:
        """Reads, by place, that are combined with finished sums: those of ``late``, and what is added to products."""
        if not self.per_iteration.macs:
            return self.late
        reducing = {number for number, loop in enumerate(self.loops) if loop.reduction}
        added = [
            place for place, read in enumerate(self.reads)
            if place >= _FACTORS and not any(loop in reducing for index in read.indices for loop, _ in index.terms)
        ]  # fmt: skip
        return tuple(sorted({*self.late, *added}))

    @property
    def ordered(self) -> tuple[tuple[int, int], ...]:
        """Loops that carry a dependence, so that their iterations run one after the other: (loop, direction).

        The direction is 1 from the first iteration to the last, -1 from the last to the first. A loop of a single
        iteration is included: a network of one step is laid out as one of two.
        """
        directions: dict[int, int] = {}
        for written, before in self._carried_dims():
            if written.terms == before.terms and written.offset != before.offset:
                direction = 1 if before.offset < written.offset else -1
                directions |= dict.fromkeys([loop for loop, _ in written.terms], direction)
        return tuple(sorted(directions.items()))

    @property
    def exchanged(self) -> tuple[int, ...]:
        """Loops of the written tensor of which each iteration needs all iterations of the previous `ordered` step.

        A core that computes some of these iterations computes all, or receives the others' results at each step.
        """
        ordered = dict(self.ordered)
        loops = {
            loop
            for written, before in self._carried_dims()
            if ordered and written.terms != before.terms
            for loop, _ in written.terms
            if self.loops[loop].extent > 1
        }
        return tuple(sorted(loops))

    def _carried_dims(self) -> tuple[tuple[Index, Index], ...]:
        """Return, per dimension, the index that is written and the index of the carried read."""
        if self.carried is None:
            return ()
        return tuple(zip(self.write.indices, self.carried.indices, strict=True))

    def moving(self, index: Index) -> Index:
        """Return ``index`` without loops of one iteration, so that indices that move the same way compare equal."""
        if all(self.loops[loop].extent > 1 for loop, _ in index.terms):
            return index
        return replace(index, terms=tuple(term for term in index.terms if self.loops[term[0]].extent > 1))

    def operations(self, extents: Sequence[int] | None = None) -> Operations:
        """Return the operations of the nest, or of a tile with ``extents`` iterations per loop.

        Of a bounded nest exactly the iterations that are executed count, if both loops are whole; a tile of others is
        executed whole (`Bound.cut`).
        """
        extents = self.extents if extents is None else extents
        bound = self.bound
        if bound is not None and all(extents[loop] == self.loops[loop].extent for loop in (bound.outer, bound.inner)):
            return self._executed(extents, bound.executed(self.extents))
        outputs = math.prod(n for n, loop in zip(extents, self.loops, strict=True) if not loop.reduction)
        counted = self.per_output * outputs
        if not self.per_iteration:
            return counted
        return counted + self.per_iteration * int(math.prod(extents) * self.executed_share)

    def _executed(self, extents: Sequence[int], pairs: int) -> Operations:
        """Return the operations of ``extents`` iterations, of which so many ``pairs`` of the bounded loops count."""
        assert self.bound is not None
        own = max(extents[self.bound.outer] * extents[self.bound.inner], 1)
        outputs = math.prod([n for n, loop in zip(extents, self.loops, strict=True) if not loop.reduction])
        outputs = outputs if self.loops[self.bound.inner].reduction else outputs * pairs // own
        iterations = math.prod(extents) * pairs // own
        return self.per_output * outputs + self.per_iteration * int(iterations * self.executed_share)

    def operations_in(self, tile: Box) -> Operations:
        """Return the operations that write the elements ``tile`` of the output; bounds are counted exactly."""
        ranges = self.ranges_for(tile)
        if ranges is None:
            return Operations()
        extents = [max(end - first, 0) for first, end in ranges]
        if self.bound is None:
            return self.operations(extents)
        return self._executed(
            extents, self.bound.band.pairs(ranges[self.bound.outer], ranges[self.bound.inner])
        )

    @property
    def executed_share(self) -> Fraction:
        """Share of the iterations that compute: a transposed convolution skips taps between its strides."""
        share = Fraction(1)
        for read in self.reads:
            for index, size in zip(read.indices, read.shape, strict=True):
                if index.rounding == "exact":
                    extents = tuple(self.loops[loop].extent for loop, _ in index.terms)
                    share *= hit_share(index, extents, size)
        return share

    def ranges_for(self, tile: Box) -> tuple[Interval, ...] | None:
        """Return the loop ranges that write the output ``tile``; None if none do.

        Reduction loops run in full, except for iterations that read only padding or are out of a bound; a range may
        come out empty. Carried dependences are included: `ordered` loops run from their beginning, `exchanged` loops in
        full.
        """
        ranges: list[Interval] = [(0, loop.extent) for loop in self.loops]
        for index, (lo, hi) in zip(self.write.indices, tile, strict=True):
            if not invert(index, lo, hi, self.loops, ranges):
                return None
        if self.carried is not None:
            for loop, way in self.ordered:
                ranges[loop] = (0, ranges[loop][1]) if way > 0 else (ranges[loop][0], self.loops[loop].extent)
            for loop in self.exchanged:
                ranges[loop] = (0, self.loops[loop].extent)
        if self.bound is not None:
            self.bound.narrow(ranges, self.extents)
        for read in self.reads:
            for index, size in zip(read.indices, read.shape, strict=True):
                if len(index.terms) > 1 and not index.opaque:
                    skip_padding(index, size, self.loops, ranges)
        return tuple(ranges)

    def loop_extents_for(self, tile: Sequence[int], *, most: bool = False) -> list[int]:
        """Return the iterations per loop that write a tile of ``tile`` elements per output dimension.

        Earlier tiles along `ordered` loops count as computed already; `exchanged` loops run in full. A bounded loop has
        the iterations that tiles have in the mean (`Bound.cut`), or, with ``most``, at most.
        """
        extents = [loop.extent for loop in self.loops]
        for index, wanted in zip(self.write.indices, tile, strict=True):
            left = wanted
            for loop, stride in sorted(index.terms, key=by_stride):
                extents[loop] = min(extents[loop], -(-left // stride))
                left = min(left, stride)
        for loop in self.exchanged if self.carried is not None else ():
            extents[loop] = self.loops[loop].extent
        if self.bound is not None:
            self.bound.cut(extents, self.extents, most=most)
        return extents

    def input_region(self, read: Access, tile: Box) -> Box | None:
        """Return the box of ``read``'s tensor that the output ``tile`` depends on."""
        ranges = self.ranges_for(tile)
        return None if ranges is None else read.region(ranges)

    def matched_dim(self, read: Access, output_dim: int) -> int | None:
        """Return the dimension of ``read``'s tensor that moves with ``output_dim`` (GraphTurbo's match_dim).

        Where several loops make up the dimension (reshapes), the outermost one decides. None for `ordered` and
        `exchanged` loops, along which a tensor cannot be split.
        """
        terms = self.write.indices[output_dim].terms
        if not terms:
            return None
        outermost = max(terms, key=lambda term: term[1])[0]
        if outermost in dict(self.ordered) or outermost in self.exchanged:
            return None
        for dim, index in enumerate(read.indices):
            if not index.opaque and any(loop == outermost and _carries(index, s) for loop, s in index.terms):
                return dim
        return None


def _carries(index: Index, stride: int) -> bool:
    """Whether a step of ``stride`` surely moves the element; in a merged dimension only outer loops do."""
    return len(index.terms) == 1 or index.rounding == "exact" or abs(stride) >= index.divisor


_FACTORS = 2
"""Operands of a product."""
