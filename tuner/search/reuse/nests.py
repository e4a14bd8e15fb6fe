"""Operators of networks and kernels, read off their loop nests.

What a paper calls a convolution, a depthwise one or a product of matrices follows from which loops index which operand;
names of operators are not looked at, except for what is none of these.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.tuner.search.reuse.operators import IterationSpace, Operator, OperatorKind, ReuseError, Window
from dsascape.tuner.search.reuse.sketch_sets import SketchesOf, gpu_sketches
from dsascape.workloads.graph import Graph
from dsascape.workloads.loopnest import Access, Extents, Index, LoopNest

_OPERANDS = 2
_SMALLEST_IMAGE = 2
"""Dimensions of an image's tensor that are none of the image: batch and channels."""
_PLANE = 2
"""Dimensions of the images whose convolutions the paper gives short names."""


@dataclass(frozen=True, slots=True)
class Counted:
    """An operator, and how often it occurs."""

    operator: Operator
    count: int


def operators_of(graph: Graph, sketches_of: SketchesOf = gpu_sketches) -> tuple[Counted, ...]:
    """Return the distinct operators of a network that multiply and accumulate, in the order of their first."""
    nests = [(op.name, major_nest(op.nests)) for op in graph.ops if op.nests]
    return counted([
        Counted(operator_of_nest(nest, name, sketches_of), 1)
        for name, nest in nests
        if nest.per_iteration.macs
    ])  # fmt: skip


def counted(operators: Iterable[Counted]) -> tuple[Counted, ...]:
    """Return operators, perhaps of several networks, with equal ones as one, whose counts are added."""
    found: dict[Operator, Counted] = {}
    for each in operators:
        known = found.get(each.operator)
        found[each.operator] = each if known is None else Counted(known.operator, known.count + each.count)
    return tuple(found.values())


def operator_of(naive: NaiveProgram, sketches_of: SketchesOf = gpu_sketches) -> Operator:
    """Return the operator that a kernel is, by its major loop nest."""
    nest = major_nest([compiled.nest for compiled in naive.layer.nests])
    return operator_of_nest(nest, naive.layer.sink.name, sketches_of)


def major_nest(nests: Sequence[LoopNest]) -> LoopNest:
    """Return the nest that does most of the operations, the first where several do; raise ``ReuseError`` for none."""
    if not nests:
        raise ReuseError("a kernel without loop nests has nothing to tune")
    return max(nests, key=lambda nest: nest.operations().flops)


def operator_of_nest(nest: LoopNest, name: str = "", sketches_of: SketchesOf = gpu_sketches) -> Operator:
    """Return the operator whose major loop nest this is; raise ``ReuseError`` for loops without iterations."""
    if 0 in nest.extents:
        raise ReuseError(f"{name or nest.name}: has a loop without iterations: nothing to tune")
    found = _product(nest) or _convolution(nest) or _other(nest)
    return replace(found, sketches=tuple(sorted(sketches_of(found.kind, found.loops))), name=name)


def _operands(nest: LoopNest) -> list[Access]:
    """Return the reads that take part in the reduction (a bias does not); all of them where there is none."""
    reductions = [number for number, loop in enumerate(nest.loops) if loop.reduction]
    reduced = [read for read in nest.reads if any(read.uses(loop) for loop in reductions)]
    return reduced or list(nest.reads)


def _space(nest: LoopNest) -> Extents:
    """Return the iterations of one loop for each dimension that is written; several loops of one dimension are one."""
    return tuple([_size(nest, [loop for loop, _ in index.terms]) for index in nest.write.indices])


def _size(nest: LoopNest, loops: Iterable[int]) -> int:
    return math.prod([nest.loops[loop].extent for loop in loops])


def _reductions(nest: LoopNest) -> list[int]:
    return [number for number, loop in enumerate(nest.loops) if loop.reduction]


def _windows(nest: LoopNest, read: Access) -> tuple[Window, ...]:
    """Return the windows that slide along dimensions of an operand, in their order.

    A loop that another operand uses, too, slides nothing: channels of a group begin where those of another end.
    """
    others = [each for each in _operands(nest) if each != read]
    dims = {
        loop: dim
        for dim, index in enumerate(nest.write.indices)
        for loop, _ in index.terms
        if not any(other.uses(loop) for other in others)
    }
    taps = _reductions(nest)
    found = []
    for index, size in zip(read.indices, read.shape, strict=True):
        moving = [(loop, step) for loop, step in index.terms if loop in dims]
        reduced = [(loop, step) for loop, step in index.terms if loop in taps]
        if index.opaque or len(moving) != 1 or len(reduced) != 1:
            continue
        ((loop, stride),), ((tap, dilation),) = moving, reduced
        transposed = index.rounding == "exact"
        found.append(Window(
            dims[loop], taps.index(tap), size, index.divisor if transposed else stride, abs(dilation),
            index.offset if transposed else -index.offset, transposed,
        ))  # fmt: skip
    return tuple(found)


def _product(nest: LoopNest) -> Operator | None:
    """Return a product of batches of matrices, None for what is none.

    Loops that move both operands are the batch; those that move the left one only are rows, the right one only columns.
    """
    operands = _operands(nest)
    if not nest.per_iteration.macs or len(operands) != _OPERANDS:
        return None
    if not all(len(index.terms) <= 1 and _is_plain(index) for read in operands for index in read.indices):
        return None
    left, right = operands
    parts: dict[tuple[bool, bool], list[int]] = {}
    for number, loop in enumerate(nest.loops):
        if not loop.reduction and loop.extent > 1:
            parts.setdefault((left.uses(number), right.uses(number)), []).append(number)
    if (False, False) in parts:
        return None
    space = [_size(nest, parts.get(moved, ())) for moved in ((True, True), (True, False), (False, True))]
    return Operator(OperatorKind("BMM"), IterationSpace(tuple(space), (_size(nest, _reductions(nest)),)), ())


def _is_plain(index: Index) -> bool:
    return not index.opaque and not index.table and index.divisor == index.window == 1


def _convolution(nest: LoopNest) -> Operator | None:
    """Return a convolution, None for what is none.

    Loops over input channels of a depthwise one, which has a single iteration, are left out, as TVM has none.
    """
    operands = _operands(nest)
    if not nest.per_iteration.macs or len(operands) != _OPERANDS:
        return None
    data, weight = operands
    windows, space = _windows(nest, data), _space(nest)
    taps = {window.tap for window in windows}
    channels = [loop for number, loop in enumerate(_reductions(nest)) if number not in taps]
    if not windows or _windows(nest, weight) or len(space) != _SMALLEST_IMAGE + len(windows) or len(channels) != 1:
        return None
    sliding = {loop for window in windows for loop, _ in nest.write.indices[window.space].terms}
    groups = _size(nest, [
        number
        for number, loop in enumerate(nest.loops)
        if not loop.reduction and number not in sliding and data.uses(number) and weight.uses(number)
    ])  # fmt: skip
    reduction = tuple([nest.loops[loop].extent for loop in _reductions(nest)])
    is_depthwise = groups > 1 and _size(nest, channels) == 1
    if is_depthwise:
        dropped = _reductions(nest).index(channels[0])
        reduction = (*reduction[:dropped], *reduction[dropped + 1 :])
        windows = tuple([replace(window, tap=window.tap - (window.tap > dropped)) for window in windows])
    kind = OperatorKind(_called(windows, groups, is_depthwise=is_depthwise))
    return Operator(kind, IterationSpace(space, reduction), (), windows, groups)


def _called(windows: Sequence[Window], groups: int, *, is_depthwise: bool) -> str:
    """Return the paper's name of a convolution, with the usual one behind it where the paper has none."""
    usual = f"{'T' if any(window.transposed for window in windows) else 'C'}{len(windows)}D"
    if groups == 1:
        return usual
    short = "DEP" if is_depthwise else "GRP"
    return short if usual == f"C{_PLANE}D" else f"{short} {usual}"


def _other(nest: LoopNest) -> Operator:
    """Return any other operator: its kind is the nest's name and how its operands are read."""
    operands = _operands(nest)
    dims: dict[int, str] = {}
    for dim, index in enumerate(nest.write.indices):
        dims |= {loop: f"s{dim}" for loop, _ in index.terms}
    dims |= {loop: f"r{number}" for number, loop in enumerate(_reductions(nest))}
    reads = [" ".join([_pattern(index, dims) for index in read.indices]) for read in operands]
    name = f"{nest.name}({', '.join([f'[{read}]' for read in reads])})"
    reduction = tuple([nest.loops[loop].extent for loop in _reductions(nest)])
    windows = tuple([window for read in operands for window in _windows(nest, read)])
    kind = OperatorKind(name, bool(nest.per_iteration.macs))
    return Operator(kind, IterationSpace(_space(nest), reduction), (), windows)


def _pattern(index: Index, dims: dict[int, str]) -> str:
    """Return which loops address a dimension: "s2+r0"; "?" in front where data chooses among elements."""
    loops = "+".join([dims.get(loop, "?") for loop, _ in index.terms]) or "-"
    return f"?{loops}" if index.opaque else loops
