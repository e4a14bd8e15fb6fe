"""Elements that data chooses, that depend on where they lie, or that lie between others: gathers, masks, interpolation.

What these operators read follows from their loop nests only as far as cost goes; which elements they are is said here.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from dsascape.scheduler.kernels.values.access import affine
from dsascape.scheduler.kernels.values.low_bit import widened
from dsascape.scheduler.kernels.values.sources import Sources
from dsascape.workloads.arithmetic.elementwise import FEW_BITS, Operator, UnsupportedKernelError
from dsascape.workloads.arithmetic.numbers import Numbers
from dsascape.workloads.loopnest import LoopNest

Loops = Mapping[int, Any]
"""The value of each loop in one iteration."""
Chooser = Callable[[Sources, Operator, LoopNest, Loops], Any]


def chooser_of(op: Operator, nest: LoopNest) -> Chooser | None:
    """Return what gives the element that ``nest`` writes; None where its access maps say which elements it reads."""
    indices = nest.reads[0].indices if nest.reads else ()
    opaque = any(index.opaque for index in indices)
    if op.kind == "Gather":
        return _gathered if opaque else None
    if op.kind in ("Resize", "Upsample"):
        _check_resized(op, nest)
        mixed = any(index.window > 1 for index in indices)
        return _interpolated if mixed and not opaque else None
    return _CHOOSERS.get(op.kind)


def _check_resized(op: Operator, nest: LoopNest) -> None:
    """Raise ``UnsupportedKernelError`` where access maps say another place than the operator, or readings differ."""
    transform = op.attributes.get("coordinate_transformation_mode", b"")
    if transform == b"tf_crop_and_resize":
        raise UnsupportedKernelError("what lies outside of a crop has no code")
    scales = op.constants.get(2)
    if transform != b"align_corners" or scales is None or not scales.size:
        return
    shape = nest.reads[0].shape
    axes = op.attributes.get("axes", range(len(shape)))
    if any(shape[axis] * float(scale) % 1 for axis, scale in zip(axes, scales.reshape(-1), strict=True)):
        raise UnsupportedKernelError("aligns corners where a size times its scale is no whole number")


def _place(n: Numbers, chosen: Any, size: int) -> Any:
    """Return the element that an index in memory means: negative ones count from the end; never outside."""
    chosen = n.cast(chosen, "int32")
    chosen = n.select(chosen < 0, chosen + size, chosen)
    return n.maximum(n.minimum(chosen, n.const(size - 1, "int32")), n.const(0, "int32"))


def _gathered(sources: Sources, op: Operator, nest: LoopNest, loops: Loops) -> Any:
    """Return the element that an index in memory chooses, one of the network's or one that a file lists."""
    data = nest.reads[0]
    dim = next(d for d, index in enumerate(data.indices) if index.opaque)
    listed, named = sources.tensor(op.inputs[1]), [loops[loop] for loop, _ in data.indices[dim].terms]
    chosen = _place(sources.numbers, sources.numbers.unnamed(lambda: listed.at(named)), data.shape[dim])
    element = [chosen if d == dim else affine(sources.numbers, index, loops) for d, index in enumerate(data.indices)]
    return sources.tensor(data.tensor).at(element)


def _gathered_elements(sources: Sources, _: Operator, nest: LoopNest, loops: Loops) -> Any:
    """Return the element at the same place but for one dimension, along which an index chooses."""
    data, listed = nest.reads
    chosen = sources.numbers.unnamed(lambda: sources.read(nest, listed, loops))
    element = [
        _place(sources.numbers, chosen, size) if index.opaque else affine(sources.numbers, index, loops)
        for index, size in zip(data.indices, data.shape, strict=True)
    ]
    return sources.tensor(data.tensor).at(element)


def _gathered_slices(sources: Sources, _: Operator, nest: LoopNest, loops: Loops) -> Any:
    """Return the element whose leading dimensions the last dimension of the indices lists."""
    data, listed = nest.reads
    lead = [affine(sources.numbers, index, loops) for index in listed.indices[:-1]]
    names = sources.tensor(listed.tensor)
    element, count = [], 0
    for index, size in zip(data.indices, data.shape, strict=True):
        if index.opaque:
            element.append(_place(sources.numbers, sources.numbers.unnamed(partial(names.at, [*lead, count])), size))
            count += 1
        else:
            element.append(affine(sources.numbers, index, loops))
    return sources.tensor(data.tensor).at(element)


def _triangle(sources: Sources, op: Operator, nest: LoopNest, loops: Loops) -> Any:
    """Return the element if it lies on the side of the diagonal that is kept, else zero."""
    if len(op.inputs) > 1 and op.inputs[1] and op.scalar(1) is None:
        raise UnsupportedKernelError("its diagonal is not known before the network runs")
    row, column = (affine(sources.numbers, index, loops) for index in nest.write.indices[-2:])
    beyond = column - row - int(op.scalar(1) or 0)
    value = sources.read(nest, nest.reads[0], loops)
    kept = beyond >= 0 if op.attributes.get("upper", 1) else beyond <= 0
    return op.numbers.select(kept, value, op.numbers.like(value, 0))


def _one_hot(sources: Sources, op: Operator, nest: LoopNest, loops: Loops) -> Any:
    """Return the second of two values where the place is the one that is listed, else the first."""
    values = op.constants.get(2)
    if values is None:
        raise UnsupportedKernelError("its two values are not known before the network runs")
    n, axis, shape = op.numbers, int(op.attributes.get("axis", -1)), nest.write.shape
    size, place = shape[axis], affine(n, nest.write.indices[axis], loops)
    chosen = n.cast(sources.read(nest, nest.reads[0], loops), "int32")
    off, on = (n.const(value.item(), op.dtype) for value in values)
    return n.select(n.equal(n.select(chosen < 0, chosen + size, chosen), place), on, off)


_CHOOSERS: Mapping[str, Chooser] = {
    FEW_BITS: widened, "GatherElements": _gathered_elements, "GatherND": _gathered_slices, "Trilu": _triangle,
    "OneHot": _one_hot,
}  # fmt: skip


def _interpolated(sources: Sources, op: Operator, nest: LoopNest, loops: Loops) -> Any:
    """Return the weighted sum of the elements around a place of the input; those at its border go on beyond it."""
    mode = op.attributes.get("mode", b"nearest").decode()
    weigh = {"linear": _linear, "bilinear": _linear, "cubic": _cubic}.get(mode)
    if weigh is None:
        raise UnsupportedKernelError("rounding decides between two elements")
    for present, what in (
        (op.attributes.get("antialias", 0), "antialiasing"),
        (op.attributes.get("exclude_outside", 0), "leaving out what lies outside"),
    ):
        if present:
            raise UnsupportedKernelError(f"interpolates with {what}")
    n, read = op.numbers, nest.reads[0]
    source, sloped = sources.tensor(read.tensor), float(op.attributes.get("cubic_coeff_a", -0.75))

    def mixed(dim: int, element: Sequence[Any]) -> Any:
        """Return the sum over the dimensions from ``dim`` on, the place along those before it given."""
        if dim == len(read.indices):
            return source.at(element)
        index, size = read.indices[dim], read.shape[dim]
        place = affine(sources.numbers, index, loops)
        if index.window == 1 and not index.clamp:
            return mixed(dim + 1, [*element, place])
        first = n.floor_divide(place, index.divisor)
        fraction = n.cast(n.floor_modulo(place, index.divisor), "float32") * n.const(1 / index.divisor, "float32")
        total: Any = None
        for number, weight in enumerate(weigh(n, fraction, sloped)):
            near = n.maximum(n.minimum(first + number, n.const(size - 1, "int32")), n.const(0, "int32"))
            part = mixed(dim + 1, [*element, near])
            part = part * (weight if n.dtype_of(part) == "float32" else n.cast(weight, n.dtype_of(part)))
            total = part if total is None else total + part
        return total

    return mixed(0, [])


def _linear(n: Numbers, fraction: Any, _: float) -> Sequence[Any]:
    return n.like(fraction, 1) - fraction, fraction


def _cubic(n: Numbers, fraction: Any, sloped: float) -> Sequence[Any]:
    """Return Keys' weights of the two elements in front of a place and of the two behind it."""

    def weight(distance: Any, factors: Sequence[float]) -> Any:
        total = n.like(fraction, factors[0])
        for factor in factors[1:]:
            total = total * distance + n.like(fraction, factor)
        return total

    near, far = (sloped + 2, -sloped - 3, 0, 1), (sloped, -5 * sloped, 8 * sloped, -4 * sloped)
    one = n.like(fraction, 1)
    return (
        weight(fraction + one, far), weight(fraction, near), weight(one - fraction, near),
        weight(one + one - fraction, far),
    )  # fmt: skip
