"""The stage of a kernel's anchor: over whole register tiles, from packed weights and padded copies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

from dsascape.scheduler.cpu.structure.anchors import Anchor, is_padded
from dsascape.scheduler.cpu.structure.chains import Made, Spans, is_computed_before, loops_apart, read_spans
from dsascape.tuner.codegen.access import Stored, affine, logical, loops_of, reach
from dsascape.tuner.codegen.arithmetic import Operator
from dsascape.tuner.codegen.builder import COMBINE, Builder
from dsascape.tuner.codegen.packing import Packing, packing_of
from dsascape.tuner.codegen.reductions import Reduction, reduction_of
from dsascape.tuner.codegen.spacing import Spacing
from dsascape.tuner.codegen.tile_buffers import Place, TileBuffer, TileCopy
from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Access, LoopNest


@dataclass(frozen=True)
class _Iteration:
    """One iteration of an anchor."""

    element: Sequence[Any]
    """That it adds to, by dimension; perhaps one beyond the tensor."""
    loops: Mapping[int, Any]
    place: Place | None
    """Of the element in its tile, in a kernel with several anchors."""
    local_loops: Mapping[int, Any]
    """The loops that write it, counted as those of the first tile."""


_Operand = Callable[[_Iteration], Any]


def anchored_stage(builder: Builder, op: Operator, nest: LoopNest, tensor: Tensor) -> Any:
    """Return the anchor over its register tiles, and the stage that stores what lies inside the tensor.

    Copies with padding are the anchor's own: whoever else reads such a tensor, as a sum with the anchor's result does,
    reads it as it was.
    """
    assert builder.anchor is not None
    rule = reduction_of(op, nest)
    shape = [builder.anchor.padded[dim] for dim in tensor.order]
    clamped = frozenset(
        loop
        for index, size, wider in zip(nest.write.indices, tensor.shape, builder.anchor.padded, strict=True)
        for loop, _ in index.terms
        if wider != size
    )
    term = _term(builder, nest, rule, None, clamped)

    def body(*stored: Any) -> Any:
        element = logical(tensor, stored)
        place = None if builder.chain is None else builder.chain.place(element)
        return term(element, element, place)

    builder.anchor_stage = builder.reduction_name(f"{op.kind}_sum")
    total = te.compute(shape, body, name=builder.anchor_stage)
    stage = builder.finished(op, nest, tensor, rule, total)
    builder.stored.update(builder.unpadded)
    builder.unpadded.clear()
    return stage


def upstream_sums(builder: Builder, op: Operator, nest: LoopNest, tensor: Tensor, made: Made) -> TileBuffer:
    """Return the sums of an anchor in front of the last, over the register tiles of each tile's box."""
    assert builder.chain is not None
    chain = builder.chain
    term = _term(builder, nest, reduction_of(op, nest), made, frozenset())

    def value(place: Place, _: tuple[Any, ...]) -> Any:
        element = chain.element(place, made.spans)
        return term(element, chain.nearest(element, made.spans, tensor.shape), place)

    return chain.buffer(builder.reduction_name(f"{op.kind}_sum"), tensor.order, made.spans, value)


def _term(
    builder: Builder, nest: LoopNest, rule: Reduction, made: Made | None, clamped: frozenset[int]
) -> Callable[[Sequence[Any], Sequence[Any], Place | None], Any]:
    """Return the reduction of one element: what is told that element, one inside the tensor, and its place."""
    assert builder.anchor is not None
    spacing = Spacing(nest, rule)
    axes = {p: te.reduce_axis((0, spacing.extent(p)), f"k{p}") for p in builder.anchor.reductions}
    terms = [(n, read) for n, read in enumerate(nest.reads) if n not in set(rule.late)]
    operands = [_operand(builder, nest, read, rule, made) for _, read in terms]

    def term(element: Sequence[Any], inside: Sequence[Any], place: Place | None) -> Any:
        loops, conditions = spacing.iterations(loops_of(nest, inside), axes)
        reduced = {p: loops[p] for p in axes}
        local = {**loops_of(nest, place.local), **reduced} if place is not None else loops
        iteration = _Iteration(element, loops, place, local)

        def added() -> Any:
            dividing = spacing.dividing
            return rule.term([
                builder.read(nest, read, loops, None, clamped, dividing) if operand is None else operand(iteration)
                for operand, (_, read) in zip(operands, terms, strict=True)
            ])  # fmt: skip

        value = builder.sharing.within(lambda: builder.where(conditions, added))
        return COMBINE[rule.combine](value, axis=list(axes.values()))

    return term


def _operand(builder: Builder, nest: LoopNest, read: Access, rule: Reduction, made: Made | None) -> _Operand | None:
    """Return how the anchor reads a packed weight or a copy for its tile; None for what it reads as it is."""
    assert builder.anchor is not None
    tensor = builder.described(read.tensor)
    packing = None
    if tensor.role == "weight" and read.tensor not in builder.stored:
        packing = packing_of(nest, read, builder.anchor, builder.tiles)
    if packing is not None and (made is None or _begins_panels(made, builder.anchor, packing)):
        return _packed(builder, read, tensor, packing)
    is_linked = builder.chain is not None and read.tensor in builder.chain.buffers
    layer = builder.layer if builder.chain is None else builder.chain.parts[-1] if made is None else made.layer
    is_copied = is_padded(nest, read) or is_computed_before(layer, nest, read)
    if is_linked or (made is not None and is_copied):
        return _from_buffer(builder, nest, read, rule.fill, made)
    if is_copied:
        _pad(builder, nest, read, rule.fill)
    return None


def _begins_panels(made: Made, anchor: Anchor, packing: Packing) -> bool:
    """Whether every tile's box begins with a panel."""
    span = made.spans[anchor.vector_dim]
    return all(each % packing.block == 0 for each in (span.first, *(step for _, step in span.steps)))


def _packed(builder: Builder, read: Access, tensor: Tensor, packing: Packing) -> _Operand:
    holder = te.placeholder(packing.shape(tensor.shape), builder.dtype(tensor), builder.name("weight"))
    builder.inputs[read.tensor] = holder
    builder.packings[read.tensor] = packing
    assert builder.anchor is not None
    vector_dim = builder.anchor.vector_dim

    def operand(iteration: _Iteration) -> Any:
        along, block = iteration.element[vector_dim], packing.block
        rest = [affine(read.indices[dim], iteration.loops) for dim in packing.order]
        return holder(tirx.floordiv(along, block), *rest, tirx.floormod(along, block))

    return operand


def _from_buffer(builder: Builder, nest: LoopNest, read: Access, fill: float, made: Made | None) -> _Operand:
    """Return how the anchor reads what belongs to its tile: from what made it, or from a copy with padding.

    Vectors that stick out of what is copied are copied whole, as in `_pad`.
    """
    chain, tensor = builder.chain, builder.described(read.tensor)
    assert chain is not None
    linked = chain.buffers.get(read.tensor)
    if linked is not None and not is_padded(nest, read):
        buffer = linked
    else:
        spans = read_spans(nest, read, chain.sink_spans if made is None else made.spans)
        loose = {dim for dim in range(len(spans)) if _is_loose(builder, nest, read, dim, spans, linked)}

        def found(element: Sequence[Any], place: Place) -> Any:
            return builder.tensor(read.tensor).at(element) if linked is None else linked.at(place)

        def value(place: Place, _: tuple[Any, ...]) -> Any:
            element = chain.element(place, spans)
            inside = []
            for dim, (each, span, size) in enumerate(zip(element, spans, tensor.shape, strict=True)):
                lo, hi = chain.reach(span)
                inside += [each >= 0] if lo < 0 else []
                inside += [each < size] if hi > size and dim not in loose else []
            fills = tirx.const(fill, builder.dtype(tensor))
            return builder.sharing.within(lambda: builder.where(inside, lambda: found(element, place), fills))

        buffer = chain.buffer(builder.name("tile_copy"), tensor.order, spans, value)
        own = chain.tiles if made is None else made.tiles
        apart = loops_apart(nest, read, own.order) if own.depth_step is None else 0
        if made is None:
            depends = [own.order.index(dim) + 1 for dim in buffer.dims]
            apart = len(own.order) + apart if apart else max([own.parallel, *depends])
        chain.copies.append(TileCopy(buffer.stage.op.name, apart))

    def operand(iteration: _Iteration) -> Any:
        assert iteration.place is not None
        local = [affine(index, iteration.local_loops) for index in read.indices]
        return buffer.at(Place(iteration.place.numbers, local))

    return operand


def _is_loose(
    builder: Builder, nest: LoopNest, read: Access, dim: int, spans: Spans, linked: TileBuffer | None
) -> bool:
    """Whether vectors may be copied beyond the end of a dimension: of a parameter, or of a buffer as wide as they."""
    if linked is None:
        return builder.is_loose(nest, read, dim)
    own, made = spans[dim], linked.spans[dim]
    reaches = made.first <= own.first and own.first + own.extent <= made.first + made.extent
    return reaches and builder.is_vector_dim(nest, read, dim)


def _pad(builder: Builder, nest: LoopNest, read: Access, fill: float) -> None:
    """Replace a tensor by its copy for the tile, with padding; one that the kernel computes is computed there.

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
        fills = tirx.const(fill, builder.dtype(tensor))
        return builder.sharing.within(lambda: builder.where(inside, lambda: source.at(place), fills))

    shape = [ends[dim] - starts[dim] for dim in source.order]
    copy = te.compute(shape, element, name=builder.name("padded"))
    builder.unpadded.setdefault(read.tensor, source)
    builder.stored[read.tensor] = Stored(copy, source.order, starts)
