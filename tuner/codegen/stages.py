"""From loop nests to tensor expressions: every nest of a kernel becomes a stage of the same loops and accesses.

Tensors are addressed as the network numbers their dimensions and stored in the order that the graph gives them. A
kernel's anchor is computed over its register tiles: dimensions that they do not divide are rounded up, and what is
computed beyond the border is dropped when the result is stored.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import te, tirx

from scheduler.cpu.tiles import LoopTiles
from scheduler.kernels.layer import Layer
from tuner.codegen.access import (
    Stored,
    affine,
    divided,
    guarded,
    inside_conditions,
    is_whole,
    logical,
    loops_of,
    reach,
    stored_extent,
)  # fmt: skip
from tuner.codegen.anchors import Anchor, anchor_of, moving
from tuner.codegen.arithmetic import Operator, Reduction, UnsupportedKernelError, pointwise_of, reduction_of
from tuner.codegen.functions import dtype_of
from tuner.codegen.packing import Packing, packing_of
from workloads.executable import Executable
from workloads.graph import Op, Tensor
from workloads.loopnest import Access, LoopNest

TVM_DTYPES: Mapping[str, str] = {
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "int64": "int64", "int32": "int32", "int16": "int16",
    "int8": "int8", "uint64": "uint64", "uint32": "uint32", "uint16": "uint16", "uint8": "uint8", "bool": "bool",
}  # fmt: skip
_COMBINE: Mapping[str, Callable[..., Any]] = {"sum": te.sum, "max": te.max, "min": te.min}
LANES = 16
"""Partial sums of a reduction along the innermost dimension, combined at its end."""


@dataclass(frozen=True)
class Stages:
    """A kernel as tensor expressions."""

    inputs: tuple[str, ...]
    """Tensors that it reads, in the order of its parameters."""
    packings: Mapping[str, Packing]
    """How the weights among them lie, where it is not as the network has them."""
    outputs: tuple[str, ...]
    placeholders: tuple[Any, ...]
    results: tuple[Any, ...]
    order: tuple[int, ...]
    """The dimensions of the last operator's output as they lie in memory."""
    anchor: Anchor | None
    anchor_stage: str
    """Name of the stage that accumulates, empty where there is no anchor."""
    reductions: tuple[str, ...]
    """Names of all stages with reduction loops."""


@dataclass
class _Builder:
    """Stages as they are added, operator by operator."""

    layer: Layer
    executable: Executable
    tiles: LoopTiles | None
    anchor: Anchor | None
    stored: dict[str, Stored] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)
    packings: dict[str, Packing] = field(default_factory=dict)
    anchor_stage: str = ""
    reductions: list[str] = field(default_factory=list)
    _count: int = 0

    def add(self, position: int) -> None:
        """Add the stages of one operator."""
        op = self.layer.graph.ops[position]
        described = self._operator(position, op)
        own = {tensor.name: tensor for tensor in op.internals}
        written: dict[str, list[LoopNest]] = {}
        for nest in op.nests:
            written.setdefault(nest.write.tensor, []).append(nest)
        for name, nests in written.items():
            tensor = own.get(name) or self.layer.graph.tensors[name]
            self._stage(described, nests, tensor)

    def _operator(self, position: int, op: Op) -> Operator:
        node = self.executable.nodes[position]
        values = self.executable.values
        constants = {place: values[name] for place, name in enumerate(node.input) if name in values}
        dtype = self.dtype(self.layer.graph.tensors[op.outputs[0]])
        if node.domain not in ("", "ai.onnx"):
            raise UnsupportedKernelError(f"operator {op.name!r} is of the custom domain {node.domain!r}")
        return Operator(op.kind, self.executable.attributes(position), tuple(node.input), constants, dtype)

    @staticmethod
    def dtype(tensor: Tensor) -> str:
        """Return the dtype as TVM writes it."""
        try:
            return TVM_DTYPES[tensor.dtype]
        except KeyError:
            raise UnsupportedKernelError(f"tensor {tensor.name!r} is of dtype {tensor.dtype}") from None

    def _name(self, text: str) -> str:
        self._count += 1
        clean = "".join(c if c.isalnum() else "_" for c in text)
        return f"{clean}_{self._count}"

    def _stage(self, op: Operator, nests: Sequence[LoopNest], tensor: Tensor) -> None:
        nest = nests[0]
        if self.anchor is not None and nest is self.anchor.nest:
            stage = self._anchored(op, nest, tensor)
        elif any(loop.reduction for loop in nest.loops):
            if len(nests) > 1:
                raise UnsupportedKernelError(f"{op.kind} reduces into parts of a tensor")
            stage = self._reduced(op, nest, tensor)
        elif len(nests) == 1 and op.kind != "Pad":
            compute = self._pointwise(op, nest)
            stage = self._compute(op.kind, tensor, lambda *element: compute(element))
        else:
            stage = self._joined(op, nests, tensor)
        self.stored[tensor.name] = Stored(stage, tensor.order)

    def _compute(self, label: str, tensor: Tensor, element: Callable[..., Any]) -> Any:
        """Return the stage of ``tensor`` in its memory order."""
        shape = [tensor.shape[dim] for dim in tensor.order]
        place = {dim: p for p, dim in enumerate(tensor.order)}

        def body(*stored: Any) -> Any:
            value = element(*[stored[place[dim]] for dim in range(len(stored))])
            return value if dtype_of(value) == self.dtype(tensor) else value.astype(self.dtype(tensor))

        return te.compute(shape, body, name=self._name(label))

    def _pointwise(self, op: Operator, nest: LoopNest) -> Callable[[Sequence[Any]], Any]:
        compute = pointwise_of(op, nest)

        def value(element: Sequence[Any]) -> Any:
            loops = loops_of(nest, element)
            if op.kind == "Gather" and any(index.opaque for index in nest.reads[0].indices):
                return self._gathered(op, nest, loops)
            reads = [read for read in nest.reads if not is_whole(read)]
            return compute([self._read(nest, read, loops) for read in reads])

        return value

    def _gathered(self, op: Operator, nest: LoopNest, loops: Mapping[int, Any]) -> Any:
        """Return the element that an index in memory chooses, one of the network's or one that a file lists."""
        data = nest.reads[0]
        dim = next(d for d, index in enumerate(data.indices) if index.opaque)
        listed = self._tensor(op.inputs[1])
        chosen = listed.at([loops[loop] for loop, _ in data.indices[dim].terms]).astype("int32")
        size = data.shape[dim]
        chosen = tirx.Select(chosen < 0, chosen + size, chosen)
        chosen = te.max(te.min(chosen, tirx.const(size - 1, "int32")), tirx.const(0, "int32"))
        element = [chosen if d == dim else affine(index, loops) for d, index in enumerate(data.indices)]
        return self._tensor(data.tensor).at(element)

    def _joined(self, op: Operator, nests: Sequence[LoopNest], tensor: Tensor) -> Any:
        """Return the stage that several nests write a part of each; what none writes is padding."""
        parts = [(nest, self._pointwise(op, nest)) for nest in nests]
        filler = tirx.const(op.attributes.get("value", op.scalar(2) or 0.0), self.dtype(tensor))

        def element(*place: Any) -> Any:
            value = filler
            for nest, compute in reversed(parts):
                inside = inside_conditions(nest, place, tensor.shape)
                own = compute(place)
                value = own if not inside and op.kind != "Pad" else guarded(inside, own, value)
            return value

        if op.kind == "Pad" and len(nests) == 1:
            return self._compute(op.kind, tensor, lambda *place: self._padded_read(op, nests[0], place, filler))
        return self._compute(op.kind, tensor, element)

    def _padded_read(self, op: Operator, nest: LoopNest, place: Sequence[Any], filler: Any) -> Any:
        if any(index.opaque for index in nest.reads[0].indices):
            raise UnsupportedKernelError(f"{op.kind} by amounts that are not known before the network runs")
        return self._read(nest, nest.reads[0], loops_of(nest, place), filler)

    def _read(
        self, nest: LoopNest, read: Access, loops: Mapping[int, Any], fill: Any = None, clamped: Collection[int] = ()
    ) -> Any:
        """Return the element of ``read`` at the values ``loops``; ``fill``, or zero, beyond the border.

        What the loops ``clamped`` reach beyond it is not used: any element will do.
        """
        source = self._tensor(read.tensor)
        element, conditions = [], []
        for dim, (index, size) in enumerate(zip(read.indices, read.shape, strict=True)):
            if index.table or index.window != 1 or index.opaque:
                raise UnsupportedKernelError(f"reads {read.tensor!r} at places that depend on data or mixes several")
            value, exact = divided(index, loops)
            conditions += exact
            lo, hi = reach(nest, index)
            first = source.starts[dim] if source.starts else 0
            end = first + stored_extent(source, dim) if source.starts else size
            if index.clamp:
                value = te.max(te.min(value, size - 1), 0)
            else:
                conditions += [value >= first] if lo < first else []
                conditions += [value < end] if hi > end else []
                if any(loop in clamped for loop, _ in index.terms) and not self._is_wide(source, dim, read.shape):
                    value = te.min(value, end - 1)
            element.append(value)
        found = source.at(element)
        if not conditions:
            return found
        return tirx.if_then_else(tirx.all(*conditions), found, tirx.const(0, dtype_of(found)) if fill is None else fill)

    def _is_wide(self, source: Stored, dim: int, shape: Sequence[int]) -> bool:
        """Whether a padded copy reaches as far as register tiles do."""
        return bool(source.starts) and stored_extent(source, dim) + source.starts[dim] > shape[dim]

    def _tensor(self, name: str) -> Stored:
        """Return a tensor, which becomes a parameter where it comes from outside."""
        found = self.stored.get(name)
        if found is not None:
            return found
        tensor = self.layer.graph.tensors[name]
        value = self.executable.values.get(name)
        if value is not None and value.size == 1 and tensor.role == "weight":
            constant = tirx.const(value.reshape(-1)[0].item(), self.dtype(tensor))
            found = Stored(lambda *_: constant, tensor.order)
        else:
            shape = [tensor.shape[dim] for dim in tensor.order]
            holder = te.placeholder(shape, self.dtype(tensor), self._name("in"))
            self.inputs[name] = holder
            found = Stored(holder, tensor.order)
        self.stored[name] = found
        return found

    def _reduced(self, op: Operator, nest: LoopNest, tensor: Tensor) -> Any:
        """Return a reduction that is not tiled; along the innermost dimension in partial sums of a vector."""
        rule = reduction_of(op, nest)
        depth = [p for p, loop in enumerate(nest.loops) if loop.reduction]
        lanes = self._lanes(nest, depth)
        data = nest.reads[0]
        shape = [tensor.shape[dim] for dim in tensor.order]
        axes = {p: te.reduce_axis((0, nest.loops[p].extent), f"k{p}") for p in depth}

        def term(element: Sequence[Any], values: Mapping[int, Any]) -> Any:
            loops = {**loops_of(nest, element), **values}
            fill = tirx.const(rule.fill, self.dtype(self._described(data.tensor)))
            late = set(rule.late)
            return rule.term([self._read(nest, r, loops, fill) for n, r in enumerate(nest.reads) if n not in late])

        if lanes > 1:
            last = depth[-1]
            axes[last] = te.reduce_axis((0, nest.loops[last].extent // lanes), f"k{last}")

            def partial(*indices: Any) -> Any:
                *stored, lane = indices
                values = {**axes, last: axes[last] * lanes + lane}
                return _COMBINE[rule.combine](term(logical(tensor, stored), values), axis=list(axes.values()))

            parts = te.compute([*shape, lanes], partial, name=self._reduction_name(f"{op.kind}_lanes"))
            axis = te.reduce_axis((0, lanes), "lane")
            total = te.compute(
                shape, lambda *i: _COMBINE[rule.combine](parts(*i, axis), axis=axis), name=self._reduction_name(op.kind)
            )
        else:
            total = te.compute(
                shape,
                lambda *i: _COMBINE[rule.combine](term(logical(tensor, i), axes), axis=list(axes.values())),
                name=self._reduction_name(op.kind),
            )
        return self._finished(op, nest, tensor, rule, total)

    def _reduction_name(self, label: str) -> str:
        name = self._name(label)
        self.reductions.append(name)
        return name

    def _described(self, name: str) -> Tensor:
        for op in (self.layer.graph.ops[p] for p in self.layer.ops):
            for tensor in op.internals:
                if tensor.name == name:
                    return tensor
        return self.layer.graph.tensors[name]

    def _lanes(self, nest: LoopNest, depth: Sequence[int]) -> int:
        """Return the partial sums: as many as a vector has where the reduction runs along what lies together."""
        data = nest.reads[0]
        order = self._tensor(data.tensor).order
        if not order or not depth:
            return 1
        index = data.indices[order[-1]]
        extent = nest.loops[depth[-1]].extent
        along = index.terms == ((depth[-1], 1),) and not index.offset
        return next((lanes for lanes in (LANES, 8, 4) if along and extent % lanes == 0 and extent > lanes), 1)

    def _finished(self, op: Operator, nest: LoopNest, tensor: Tensor, rule: Reduction, total: Any) -> Any:
        """Return what becomes of the sums of ``nest`` in ``total``, which may be larger than the tensor."""
        finish = rule.finish
        count = math.prod(loop.extent for loop in nest.loops if loop.reduction)
        exact = [total.shape[p] == tensor.shape[dim] for p, dim in enumerate(tensor.order)]
        if finish is None and self.anchor is None and all(exact):
            return total

        def element(*indices: Any) -> Any:
            value = total(*[indices[dim] for dim in tensor.order])
            if finish is None:
                return value
            loops = loops_of(nest, indices)
            late = [self._read(nest, nest.reads[n], loops) for n in rule.late]
            taps = self._taps(op, nest, loops, count)
            return finish(value, late, count) if taps is None else value / taps.astype(dtype_of(value))

        return self._compute(f"{op.kind}_out", tensor, element)

    def _taps(self, op: Operator, nest: LoopNest, loops: Mapping[int, Any], count: int) -> Any:
        """Return by how many elements an average is divided where padding does not count; None for all."""
        if op.kind != "AveragePool" or op.attributes.get("count_include_pad", 0):
            if op.kind == "AveragePool" and op.attributes.get("ceil_mode", 0):
                raise UnsupportedKernelError("AveragePool that counts padding, with sizes rounded up")
            return None
        taps, inside = tirx.const(1, "int32"), 1
        for index, size in zip(nest.reads[0].indices, nest.reads[0].shape, strict=True):
            lo, hi = reach(nest, index)
            moving = [(loop, stride) for loop, stride in index.terms if nest.loops[loop].reduction]
            if not moving:
                continue
            loop, stride = moving[0]
            extent = nest.loops[loop].extent
            if lo >= 0 and hi <= size:
                inside *= extent
                continue
            first = affine(index, {**loops, loop: 0})
            before = te.max(tirx.floordiv(-first + (stride - 1), stride), 0)
            after = te.min(tirx.floordiv(size - 1 - first, stride) + 1, extent)
            taps = taps * (after - before)
        return None if inside == count else taps * inside

    def _anchored(self, op: Operator, nest: LoopNest, tensor: Tensor) -> Any:
        """Return the anchor over its register tiles, and the stage that stores what lies inside the tensor."""
        assert self.anchor is not None
        assert self.tiles is not None
        rule = reduction_of(op, nest)
        axes = {p: te.reduce_axis((0, nest.loops[p].extent), f"k{p}") for p in self.anchor.reductions}
        shape = [self.anchor.padded[dim] for dim in tensor.order]
        clamped = frozenset(
            loop
            for index, size, wider in zip(nest.write.indices, tensor.shape, self.anchor.padded, strict=True)
            for loop, _ in index.terms
            if wider != size
        )
        terms = [(n, read) for n, read in enumerate(nest.reads) if n not in set(rule.late)]
        operands = [self._operand(nest, read, rule) for _, read in terms]

        def body(*stored: Any) -> Any:
            element = logical(tensor, stored)
            loops = {**loops_of(nest, element), **axes}
            values = [
                operand(element, loops) if operand is not None else self._read(nest, read, loops, clamped=clamped)
                for operand, (_, read) in zip(operands, terms, strict=True)
            ]
            return _COMBINE[rule.combine](rule.term(values), axis=list(axes.values()))

        self.anchor_stage = self._reduction_name(f"{op.kind}_sum")
        total = te.compute(shape, body, name=self.anchor_stage)
        return self._finished(op, nest, tensor, rule, total)

    def _operand(self, nest: LoopNest, read: Access, rule: Reduction) -> Callable[..., Any] | None:
        """Return how the anchor reads a packed weight or a padded image; None for what it reads as it is."""
        assert self.anchor is not None
        assert self.tiles is not None
        tensor = self._described(read.tensor)
        packing = None
        if tensor.role == "weight" and read.tensor not in self.stored:
            packing = packing_of(nest, read, self.anchor, self.tiles)
        if packing is not None:
            holder = te.placeholder(packing.shape(tensor.shape), self.dtype(tensor), self._name("weight"))
            self.inputs[read.tensor] = holder
            self.packings[read.tensor] = packing

            def packed(element: Sequence[Any], loops: Mapping[int, Any]) -> Any:
                block = packing.block
                along = element[self.anchor.vector_dim] if self.anchor is not None else 0
                rest = [affine(read.indices[dim], loops) for dim in packing.order]
                return holder(tirx.floordiv(along, block), *rest, tirx.floormod(along, block))

            return packed
        needed = self._needed(nest, read)
        plain = all(i.divisor == i.window == 1 and not i.opaque and not i.clamp for i in read.indices)
        if not plain or all(lo >= 0 and hi <= size for (lo, hi), size in zip(needed, read.shape, strict=True)):
            return None
        self._pad(read.tensor, needed, rule.fill)
        return None

    def _needed(self, nest: LoopNest, read: Access) -> list[tuple[int, int]]:
        """Return what the anchor reads of each dimension; vectors that stick out of the tensor are read whole."""
        assert self.anchor is not None
        along = moving(nest, nest.write.indices[self.anchor.vector_dim])
        end = self.anchor.padded[self.anchor.vector_dim]
        return [
            (0, max(end, size)) if moving(nest, index) == along else reach(nest, index)
            for index, size in zip(read.indices, read.shape, strict=True)
        ]

    def _pad(self, name: str, needed: Sequence[tuple[int, int]], fill: float) -> None:
        """Replace a tensor by its copy with padding."""
        source, tensor = self._tensor(name), self._described(name)
        starts = tuple(min(lo, 0) for lo, _ in needed)
        ends = tuple(max(hi, size) for (_, hi), size in zip(needed, tensor.shape, strict=True))

        def element(*stored: Any) -> Any:
            place: list[Any] = [0] * len(stored)
            for p, dim in enumerate(source.order):
                place[dim] = stored[p] + starts[dim]
            inside = [
                condition
                for p, size, lo, hi in zip(place, tensor.shape, starts, ends, strict=True)
                for condition, needed in ((p >= 0, lo < 0), (p < size, hi > size))
                if needed
            ]
            value = source.at(place)
            return tirx.if_then_else(tirx.all(*inside), value, tirx.const(fill, dtype_of(value)))

        shape = [ends[dim] - starts[dim] for dim in source.order]
        self.stored[name] = Stored(te.compute(shape, element, name=self._name("padded")), source.order, starts)


def stages_of(layer: Layer, executable: Executable, tiles: LoopTiles | None) -> Stages:
    """Return the tensor expressions of ``layer``; raise ``UnsupportedKernelError`` naming what has no code."""
    builder = _Builder(layer, executable, tiles, anchor_of(layer, tiles))
    for position in layer.ops:
        try:
            builder.add(position)
        except UnsupportedKernelError as error:
            op = layer.graph.ops[position]
            raise UnsupportedKernelError(f"{op.name} ({op.kind}): {error}") from None
    outputs = layer.outputs
    results = []
    for name in outputs:
        stage = builder.stored[name].stage
        results.append(stage)
    return Stages(
        tuple(builder.inputs), builder.packings, outputs, tuple(builder.inputs.values()), tuple(results),
        layer.sink.order,
        builder.anchor if builder.anchor_stage else None, builder.anchor_stage, tuple(builder.reductions),
    )  # fmt: skip
