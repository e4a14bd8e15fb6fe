"""Readings of loop nests: what kind of operator they are, and which of their loops are one loop of it.

What a paper calls a convolution, a depthwise one or a product of matrices follows from which loops index which operand;
names of operators are not looked at, except for what is none of these.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dsascape.tuner.search.reuse.operators import OperatorKind, Window
from dsascape.workloads.loopnest import Access, Index, LoopNest

Loops = tuple[tuple[int, ...], ...]
"""Loops of an operator: for each the numbers of the nest's loops that together are it, none for a single iteration."""
_OPERANDS = 2
_SMALLEST_IMAGE = 2
"""Dimensions of an image's tensor that are none of the image: batch and channels."""
_PLANE = 2
"""Dimensions of the images whose convolutions the paper gives short names."""


@dataclass(frozen=True, slots=True)
class NestReading:
    """Kind and loops of the operator that a nest is, in TVM's order for a GPU."""

    kind: OperatorKind
    space: Loops
    reduction: Loops
    windows: tuple[Window, ...] = ()
    groups: int = 1


def read_nest(nest: LoopNest) -> NestReading:
    """Return what operator a nest is.

    There is one space loop for each dimension that is written, but three for a product of batches of matrices.
    """
    return _product(nest) or _convolution(nest) or _other(nest)


def _operands(nest: LoopNest) -> list[Access]:
    """Return the reads that take part in the reduction (a bias does not); all of them where there is none."""
    reductions = _reductions(nest)
    reduced = [read for read in nest.reads if any(read.uses(loop) for loop in reductions)]
    return reduced or list(nest.reads)


def _written(nest: LoopNest) -> Loops:
    """Return the loops of each dimension that is written."""
    return tuple([tuple([loop for loop, _ in index.terms]) for index in nest.write.indices])


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


def _product(nest: LoopNest) -> NestReading | None:
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
    space = [tuple(parts.get(moved, ())) for moved in ((True, True), (True, False), (False, True))]
    return NestReading(OperatorKind("BMM"), tuple(space), (tuple(_reductions(nest)),))


def _is_plain(index: Index) -> bool:
    return not index.opaque and not index.table and index.divisor == index.window == 1


def _convolution(nest: LoopNest) -> NestReading | None:
    """Return a convolution, None for what is none.

    The loop over input channels of a depthwise one, which has a single iteration, is left out, as TVM has none.
    """
    operands = _operands(nest)
    if not nest.per_iteration.macs or len(operands) != _OPERANDS:
        return None
    data, weight = operands
    windows, space, reductions = _windows(nest, data), _written(nest), _reductions(nest)
    taps = {window.tap for window in windows}
    channels = [number for number in range(len(reductions)) if number not in taps]
    if not windows or _windows(nest, weight) or len(space) != _SMALLEST_IMAGE + len(windows) or len(channels) != 1:
        return None
    sliding = {loop for window in windows for loop in space[window.space]}
    groups = 1
    for number, loop in enumerate(nest.loops):
        if not loop.reduction and number not in sliding and data.uses(number) and weight.uses(number):
            groups *= loop.extent
    is_depthwise = groups > 1 and nest.loops[reductions[channels[0]]].extent == 1
    if is_depthwise:
        del reductions[channels[0]]
        windows = tuple([replace(window, tap=window.tap - (window.tap > channels[0])) for window in windows])
    kind = OperatorKind(_called(windows, groups, is_depthwise=is_depthwise))
    return NestReading(kind, space, tuple([(loop,) for loop in reductions]), windows, groups)


def _called(windows: Sequence[Window], groups: int, *, is_depthwise: bool) -> str:
    """Return the paper's name of a convolution, with the usual one behind it where the paper has none."""
    usual = f"{'T' if any(window.transposed for window in windows) else 'C'}{len(windows)}D"
    if groups == 1:
        return usual
    short = "DEP" if is_depthwise else "GRP"
    return short if usual == f"C{_PLANE}D" else f"{short} {usual}"


def _other(nest: LoopNest) -> NestReading:
    """Return any other operator: its kind is the nest's name and how its operands are read."""
    operands, space = _operands(nest), _written(nest)
    dims = {loop: f"s{dim}" for dim, loops in enumerate(space) for loop in loops}
    dims |= {loop: f"r{number}" for number, loop in enumerate(_reductions(nest))}
    reads = [" ".join([_pattern(index, dims) for index in read.indices]) for read in operands]
    kind = OperatorKind(f"{nest.name}({', '.join([f'[{read}]' for read in reads])})", bool(nest.per_iteration.macs))
    windows = tuple([window for read in operands for window in _windows(nest, read)])
    return NestReading(kind, space, tuple([(loop,) for loop in _reductions(nest)]), windows)


def _pattern(index: Index, dims: dict[int, str]) -> str:
    """Return which loops address a dimension: "s2+r0"; "?" in front where data chooses among elements."""
    loops = "+".join([dims.get(loop, "?") for loop, _ in index.terms]) or "-"
    return f"?{loops}" if index.opaque else loops
