"""The stage of a kernel's anchor: over whole register tiles, from packed weights and padded copies."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import te, tirx

from scheduler.cpu.anchors import is_padded
from tuner.codegen.access import Stored, affine, logical, loops_of, reach
from tuner.codegen.arithmetic import Operator, Reduction, reduction_of
from tuner.codegen.builder import COMBINE, Builder
from tuner.codegen.functions import dtype_of
from tuner.codegen.packing import packing_of
from workloads.graph import Tensor
from workloads.loopnest import Access, LoopNest


def anchored_stage(builder: Builder, op: Operator, nest: LoopNest, tensor: Tensor) -> Any:
    """Return the anchor over its register tiles, and the stage that stores what lies inside the tensor."""
    assert builder.anchor is not None
    rule = reduction_of(op, nest)
    axes = {p: te.reduce_axis((0, nest.loops[p].extent), f"k{p}") for p in builder.anchor.reductions}
    shape = [builder.anchor.padded[dim] for dim in tensor.order]
    clamped = frozenset(
        loop
        for index, size, wider in zip(nest.write.indices, tensor.shape, builder.anchor.padded, strict=True)
        for loop, _ in index.terms
        if wider != size
    )
    terms = [(n, read) for n, read in enumerate(nest.reads) if n not in set(rule.late)]
    operands = [_operand(builder, nest, read, rule) for _, read in terms]

    def body(*stored: Any) -> Any:
        element = logical(tensor, stored)
        loops = {**loops_of(nest, element), **axes}
        values = [
            operand(element, loops) if operand is not None else builder.read(nest, read, loops, clamped=clamped)
            for operand, (_, read) in zip(operands, terms, strict=True)
        ]
        return COMBINE[rule.combine](rule.term(values), axis=list(axes.values()))

    builder.anchor_stage = builder.reduction_name(f"{op.kind}_sum")
    total = te.compute(shape, body, name=builder.anchor_stage)
    return builder.finished(op, nest, tensor, rule, total)


def _operand(builder: Builder, nest: LoopNest, read: Access, rule: Reduction) -> Callable[..., Any] | None:
    """Return how the anchor reads a packed weight or a padded image; None for what it reads as it is."""
    assert builder.anchor is not None
    tensor = builder.described(read.tensor)
    packing = None
    if tensor.role == "weight" and read.tensor not in builder.stored:
        packing = packing_of(nest, read, builder.anchor, builder.tiles)
    if packing is not None:
        holder = te.placeholder(packing.shape(tensor.shape), builder.dtype(tensor), builder.name("weight"))
        builder.inputs[read.tensor] = holder
        builder.packings[read.tensor] = packing

        def packed(element: Sequence[Any], loops: Mapping[int, Any]) -> Any:
            block = packing.block
            along = element[builder.anchor.vector_dim] if builder.anchor is not None else 0
            rest = [affine(read.indices[dim], loops) for dim in packing.order]
            return holder(tirx.floordiv(along, block), *rest, tirx.floormod(along, block))

        return packed
    if is_padded(nest, read):
        _pad(builder, nest, read, rule.fill)
    return None


def _pad(builder: Builder, nest: LoopNest, read: Access, fill: float) -> None:
    """Replace a tensor by its copy with padding.

    Vectors that stick out of the tensor are copied whole, with whatever lies behind a row: it is not used.
    """
    source, tensor = builder.tensor(read.tensor), builder.described(read.tensor)
    needed = [reach(nest, index) for index in read.indices]
    starts = tuple(min(low, 0) for low, _ in needed)
    ends = [max(high, size) for (_, high), size in zip(needed, tensor.shape, strict=True)]
    loose = {dim for dim in range(len(ends)) if builder.is_loose(nest, read, dim)}
    for dim in range(len(ends)):
        if dim in loose or builder.is_vector_dim(nest, read, dim):
            ends[dim] = max(ends[dim], builder.vector_end)

    def element(*stored: Any) -> Any:
        place: list[Any] = [0] * len(stored)
        for p, dim in enumerate(source.order):
            place[dim] = stored[p] + starts[dim]
        inside = [
            condition
            for dim, (p, size) in enumerate(zip(place, tensor.shape, strict=True))
            for condition, needed in ((p >= 0, starts[dim] < 0), (p < size, ends[dim] > size and dim not in loose))
            if needed
        ]
        value = source.at(place)
        return tirx.if_then_else(tirx.all(*inside), value, tirx.const(fill, dtype_of(value))) if inside else value

    shape = [ends[dim] - starts[dim] for dim in source.order]
    copy = te.compute(shape, element, name=builder.name("padded"))
    builder.stored[read.tensor] = Stored(copy, source.order, starts)
