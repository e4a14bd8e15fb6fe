"""Affine expressions of a loop program's loops, and the ranges of elements that a part of the program covers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from dsascape.scheduler.kernels.loops.columns import alike, alike_where, anywhere, chosen, everywhere, least, most
from dsascape.workloads.index import Index, by_stride
from dsascape.workloads.loopnest import Access, LoopNest

_UNKNOWN: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Affine:
    """The expression ``offset + sum(stride * loop)`` of loops, by name."""

    offset: int = 0
    terms: tuple[tuple[str, int], ...] = ()
    """Loop and stride, outermost loop first; no stride is zero, nor a column of zeros."""

    def __add__(self, other: "Affine") -> "Affine":
        if not other.terms:
            return Affine(self.offset + other.offset, self.terms)
        if not self.terms:
            return Affine(self.offset + other.offset, other.terms)
        strides = dict(self.terms)
        for loop, stride in other.terms:
            if loop not in strides:
                strides[loop] = stride
                continue
            total = strides[loop] + stride
            if anywhere(total != 0):
                strides[loop] = total
            else:
                del strides[loop]
        return Affine(self.offset + other.offset, tuple(strides.items()))

    def __mul__(self, factor: int) -> "Affine":
        if isinstance(factor, int) and not factor:
            return Affine()
        return Affine(self.offset * factor, tuple([(loop, stride * factor) for loop, stride in self.terms]))

    def shifted(self, distance: int) -> "Affine":
        """Return the expression plus ``distance``."""
        return Affine(self.offset + distance, self.terms)

    def divides(self, divisor: int, extents: Mapping[str, int] = _UNKNOWN) -> bool:
        """Whether its offset and all strides are multiples of ``divisor``, but those of loops of one iteration."""
        return alike(self.offset % divisor == 0) and all(
            alike((stride % divisor == 0) | (extents.get(loop, 0) == 1)) for loop, stride in self.terms
        )

    def divided(self, divisor: int) -> "Affine":
        """Return the expression divided by ``divisor``, which `divides` it up to the remainder of the offset."""
        return Affine(self.offset // divisor, tuple([(loop, stride // divisor) for loop, stride in self.terms]))

    def apart(self, divisor: int, extent: int, extents: Mapping[str, int]) -> "tuple[Affine, Affine] | None":
        """Return quotient and rest by ``divisor``, if all of ``extent`` values from this one on have that quotient.

        ``extents``: iterations of each loop. None where some values have another quotient.
        """
        whole: list[tuple[str, int]] = []
        left: list[tuple[str, int]] = []
        for loop, stride in self.terms:
            is_whole = alike_where(stride % divisor == 0, extents[loop] > 1)
            (whole if is_whole else left).append((loop, stride))
        rest = Affine(self.offset % divisor, tuple(left))
        low, high = rest.span(extents)
        if alike((low < 0) | (high - 1 + extent > divisor)):
            return None
        return Affine(self.offset, tuple(whole)).divided(divisor), rest

    def span(self, extents: Mapping[str, int]) -> tuple[int, int]:
        """Return its least value and its greatest value plus one, where each loop has so many iterations."""
        low = high = self.offset
        for loop, stride in self.terms:
            far = stride * (extents[loop] - 1)
            if isinstance(far, int):
                if far < 0:
                    low = low + far
                else:
                    high = high + far
            else:
                low, high = low + least(far, 0), high + most(far, 0)
        return low, high + 1

    def __str__(self) -> str:
        parts = [loop if stride == 1 else f"{stride}*{loop}" for loop, stride in self.terms]
        if self.offset or not parts:
            parts.append(str(self.offset))
        return "+".join(parts).replace("+-", "-")


@dataclass(frozen=True, slots=True)
class Range:
    """Consecutive elements of a dimension, or iterations of a loop: where they begin, and how many there are."""

    first: Affine
    extent: int

    @staticmethod
    def whole(extent: int) -> "Range":
        """Return the range of all ``extent`` elements."""
        return Range(Affine(), extent)

    def inside(self, size: int, extents: Mapping[str, int]) -> "Range":
        """Return what of the range lies inside of ``size`` elements; all of it where it moves with loops.

        ``extents``: iterations of the loops.
        """
        moves: Any = False
        for loop, _ in self.first.terms:
            moves = moves | (extents[loop] > 1)
        if isinstance(moves, bool) and moves:
            return self
        first = most(self.first.offset, 0)
        extent = least(self.first.offset + self.extent, size) - first
        begin = Affine(chosen(moves, self.first.offset, first), self.first.terms)
        return Range(begin, chosen(moves, self.extent, extent))

    def or_whole(self, size: int, is_whole: Any) -> "Range":
        """Return all of ``size`` elements where ``is_whole`` holds, else the range; in columns strides may be zero."""
        if not anywhere(is_whole):
            return self
        if everywhere(is_whole):
            return Range.whole(size)
        terms = tuple([(loop, chosen(is_whole, 0, stride)) for loop, stride in self.first.terms])
        return Range(Affine(chosen(is_whole, 0, self.first.offset), terms), chosen(is_whole, size, self.extent))

    def joined(self, other: "Range", size: int, extents: Mapping[str, int]) -> "Range":
        """Return the smallest range around both; all of ``size`` where their beginnings move apart.

        ``extents``: iterations of the loops that they move with.
        """
        if not _move_alike(self.first, other.first, extents):
            return Range.whole(size)
        first = least(self.first.offset, other.first.offset)
        end = most(self.first.offset + self.extent, other.first.offset + other.extent)
        return Range(Affine(first, self.first.terms), end - first)

    def rounded(self, part: int) -> "Range":
        """Return the range with its extent rounded up to whole parts of ``part`` elements."""
        return Range(self.first, -(-self.extent // part) * part)


def _move_alike(one: Affine, other: Affine, extents: Mapping[str, int]) -> bool:
    """Whether two expressions differ by no more than a number."""
    if one.terms is other.terms:
        return True
    own, others = dict(one.terms), dict(other.terms)
    if [loop for loop in own if loop in others] != [loop for loop in others if loop in own]:
        return False
    loops = dict.fromkeys([*own, *others])
    return all(alike((own.get(loop, 0) == others.get(loop, 0)) | (extents[loop] == 1)) for loop in loops)


Ranges = tuple[Range, ...]
"""One range per dimension of a tensor."""


def loop_ranges(nest: LoopNest, written: Ranges, extents: Mapping[str, int]) -> list[Range]:
    """Return the iterations of each loop of ``nest`` that write the elements ``written``; reductions run in full.

    Where several loops make up a dimension (a reshape), they are told apart as far as the range is aligned with them.
    ``extents``: iterations of the loops that ``written`` moves with.
    """
    ranges = [Range.whole(loop.extent) for loop in nest.loops]
    for index, wanted in zip(nest.write.indices, written, strict=True):
        left = Range(wanted.first.shifted(-index.offset), wanted.extent)
        for loop, stride in sorted(index.terms, key=by_stride):
            if nest.loops[loop].extent == 1:
                continue
            if stride == 1:
                ranges[loop] = left
                break
            if not left.first.divides(stride, extents):
                apart = left.first.apart(stride, left.extent, extents)
                if apart is None:
                    break
                ranges[loop], left = Range(apart[0], 1), Range(apart[1], left.extent)
                continue
            ranges[loop] = Range(left.first.divided(stride), -(-left.extent // stride))
            left = Range(Affine(), least(left.extent, stride))
    return ranges


def index_range(index: Index, loops: Sequence[Range], size: int, extents: Mapping[str, int]) -> Range:
    """Return the elements that ``index`` reaches while the loops run through ``loops``; it may begin before the first.

    Where the index is no affine function of the loops it is all that they reach at any time, or all of the dimension,
    of ``size`` elements. ``extents``: iterations of the loops that ranges move with.
    """
    if index.opaque or index.table or index.clamp:
        return Range.whole(size)
    first, extent = Affine(index.offset), 1
    for loop, stride in index.terms:
        each = loops[loop]
        begin = each.first if stride > 0 else each.first.shifted(each.extent - 1)
        first += begin * stride
        extent = extent + abs(stride) * (each.extent - 1)
    if index.divisor != 1:
        if any(alike((stride % index.divisor != 0) & (extents[loop] > 1)) for loop, stride in first.terms):
            low, high = first.span(extents)
            begin_at = low // index.divisor
            return Range(Affine(begin_at), (high + extent - 2) // index.divisor + index.window - begin_at)
        extent = (first.offset % index.divisor + extent - 1) // index.divisor + 1
        first = first.divided(index.divisor)
    return Range(first, extent + index.window - 1)


def read_ranges(read: Access, loops: Sequence[Range], extents: Mapping[str, int]) -> Ranges:
    """Return the elements of each dimension that ``read`` reaches while the loops run through ``loops``."""
    return tuple([
        index_range(index, loops, size, extents) for index, size in zip(read.indices, read.shape, strict=True)
    ])  # fmt: skip


def joined_ranges(one: Ranges, other: Ranges, shape: Iterable[int], extents: Mapping[str, int]) -> Ranges:
    """Return the smallest ranges around both, dimension by dimension; ``extents``: iterations of loops."""
    return tuple([a.joined(b, size, extents) for a, b, size in zip(one, other, shape, strict=True)])


def covers(nest: LoopNest, read: Access) -> bool:
    """Whether a nest reads every element of a tensor: its access leaves no gaps, and no loop moves two dimensions."""
    moving = [loop for index in read.indices for loop, _ in index.terms if nest.loops[loop].extent > 1]
    if len(moving) > len(set(moving)):
        return False
    for index, size in zip(read.indices, read.shape, strict=True):
        low, end = index.span([(0, loop.extent) for loop in nest.loops])
        if index.opaque or index.table or low > 0 or end < size:
            return False
        covered = index.window + index.divisor - 1
        for loop, stride in sorted(index.terms, key=lambda term: abs(term[1])):
            if abs(stride) > covered:
                return False
            covered += abs(stride) * (nest.loops[loop].extent - 1)
    return True
