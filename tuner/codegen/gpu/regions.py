"""Which part of a tensor a thread block touches: boxes of places that are sums of loops."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from dsascape.tuner.codegen.gpu.values import Place


@dataclass(frozen=True)
class Range:
    """A variable, its first value, and how many there are."""

    variable: Any
    start: Any
    extent: int


@dataclass(frozen=True)
class Box:
    """The first element of each dimension, and how many."""

    starts: tuple[Any, ...]
    extents: tuple[int, ...]

    def relative(self, place: Place) -> Place:
        """Return an element's place in the box."""
        return tuple(each - start for each, start in zip(place, self.starts, strict=True))

    def at(self, variable: Any, value: Any) -> "Box":
        """Return the box for one value of a variable that its first element depends on."""
        replaced = (tirx.Var, lambda each: value if each.same_as(variable) else each)
        simplify = tvm.sym.Analyzer().simplify
        return Box(tuple(simplify(tvm_ffi.structural_map(start, replaced)) for start in self.starts), self.extents)


def box_of(places: Sequence[Place], ranges: Sequence[Range], shape: Sequence[int]) -> Box:
    """Return a box that holds all ``places`` for all values of ``ranges``; dimensions that it covers begin at zero."""
    boxes = []
    for place in places:
        spans = [_span(value, ranges, size) for value, size in zip(place, shape, strict=True)]
        boxes.append(Box(tuple(start for start, _ in spans), tuple(extent for _, extent in spans)))
    return joined(boxes, shape)


def joined(boxes: Sequence[Box], shape: Sequence[int]) -> Box:
    """Return a box that holds all ``boxes``: along dimensions where they begin at different elements, all of it."""
    starts, extents = [], []
    for dim, size in enumerate(shape):
        start, extent = boxes[0].starts[dim], max(box.extents[dim] for box in boxes)
        alike = all(tvm_ffi.structural_equal(start, box.starts[dim]) for box in boxes)
        whole = not alike or extent >= size
        starts.append(tirx.const(0) if whole else start)
        extents.append(size if whole else extent)
    return Box(tuple(starts), tuple(extents))


def divided_box(box: Box, divisors: Sequence[int], shape: Sequence[int]) -> Box:
    """Return the box of places that are those of ``box`` by ``divisors``, as far as these leave no rest.

    The first of them is rounded up by rounding its opposite down: TVM 0.27 divides by zero where it simplifies
    ``x // 9 - (x + 6) // 9`` under a condition.
    """
    starts, extents = [], []
    for start, extent, divisor, size in zip(box.starts, box.extents, divisors, shape, strict=True):
        count = (extent - 1) // divisor + 1
        first = start if divisor == 1 else 0 - tirx.floordiv(0 - start, divisor)
        starts.append(tirx.const(0) if count >= size else first)
        extents.append(min(count, size))
    return Box(tuple(starts), tuple(extents))


def _span(value: Any, ranges: Sequence[Range], size: int) -> tuple[Any, int]:
    """Return the least value of a sum of loops, and how many it may have; for anything else, all of a dimension."""
    value = tirx.const(value) if isinstance(value, int) else value
    linear = tvm.sym.detect_linear_equation(value, [each.variable for each in ranges])
    if not linear or not all(isinstance(factor, tirx.IntImm) for factor in linear[:-1]):
        return tirx.const(0), size
    start, extent = linear[-1], 1
    for each, factor in zip(ranges, [int(factor) for factor in linear[:-1]], strict=True):
        first = each.start if factor >= 0 else each.start + (each.extent - 1)
        start = start + first * factor if factor else start
        extent += abs(factor) * (each.extent - 1)
    return tvm.sym.Analyzer().simplify(start), extent
