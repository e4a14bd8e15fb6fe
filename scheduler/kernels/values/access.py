"""Access maps as index expressions: which element of a stored tensor a loop nest reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dsascape.workloads.arithmetic.numbers import Numbers
from dsascape.workloads.graph import Tensor
from dsascape.workloads.index import Index, by_stride
from dsascape.workloads.loopnest import Access, LoopNest


@dataclass(frozen=True)
class Stored:
    """A tensor of the kernel in the making."""

    stage: Any
    order: tuple[int, ...]
    """The dimensions as they lie in memory, outermost first."""
    starts: tuple[int, ...] = ()
    """The element of each dimension that is stored first: below zero where there is padding."""

    def at(self, element: Sequence[Any]) -> Any:
        """Return the element at the indices of the unstored tensor's dimensions."""
        moved = element if not self.starts else [e - s for e, s in zip(element, self.starts, strict=True)]
        return self.stage(*[moved[dim] for dim in self.order]) if self.order else self.stage()


def logical(tensor: Tensor, stored: Sequence[Any]) -> list[Any]:
    """Return the indices of the tensor's dimensions from those of its memory order."""
    place = {dim: p for p, dim in enumerate(tensor.order)}
    return [stored[place[dim]] for dim in range(len(tensor.order))]


def loops_of(n: Numbers, nest: LoopNest, element: Sequence[Any]) -> dict[int, Any]:
    """Return the values of the loops that write ``element``."""
    loops: dict[int, Any] = {p: 0 for p, loop in enumerate(nest.loops) if loop.extent == 1}
    for index, coordinate in zip(nest.write.indices, element, strict=True):
        rest = coordinate - index.offset if index.offset else coordinate
        moving = [t for t in sorted(index.terms, key=by_stride) if nest.loops[t[0]].extent > 1]
        for number, (loop, stride) in enumerate(moving):
            value = rest if stride == 1 else n.floor_divide(rest, stride)
            loops[loop] = n.floor_modulo(value, nest.loops[loop].extent) if number else value
    return loops


def inside_conditions(nest: LoopNest, place: Sequence[Any], shape: Sequence[int]) -> list[Any]:
    """Return the conditions under which ``nest`` writes the element at ``place``."""
    conditions = []
    ranges = [(0, loop.extent) for loop in nest.loops]
    for index, coordinate, size in zip(nest.write.indices, place, shape, strict=True):
        lo, hi = index.span(ranges)
        conditions += [coordinate >= lo] if lo > 0 else []
        conditions += [coordinate < hi] if hi < size else []
    return conditions


def is_whole(read: Access) -> bool:
    """Whether a read takes a parameter in full in every iteration: its value is in the arithmetic."""
    fixed = all(not index.terms and index.window == size for index, size in zip(read.indices, read.shape, strict=True))
    return fixed and any(index.window > 1 for index in read.indices)


def affine(n: Numbers, index: Index, loops: Mapping[int, Any]) -> Any:
    """Return the index before it is divided."""
    value: Any = n.const(index.offset, "int32")
    for loop, stride in index.terms:
        value = value + loops[loop] * stride
    return value


def divided(
    n: Numbers, index: Index, loops: Mapping[int, Any], *, surely: bool = False
) -> tuple[Any, list[Any]]:
    """Return the element and, where it has to divide, that it does, unless it ``surely`` does."""
    value = affine(n, index, loops)
    if index.divisor == 1:
        return value, []
    exact = [n.equal(n.floor_modulo(value, index.divisor), 0)] if index.rounding == "exact" and not surely else []
    return n.floor_divide(value, index.divisor), exact


def reach(nest: LoopNest, index: Index) -> tuple[int, int]:
    """Return the first element that the whole nest addresses, borders aside, and the one behind the last."""
    return index.span([(0, loop.extent) for loop in nest.loops])
