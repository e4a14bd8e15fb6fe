"""What the stages of a kernel are made with: its tensors, reads of their elements, what becomes of sums."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import te, tirx

from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.structure.anchors import Anchor
from dsascape.scheduler.cpu.structure.chains import Made
from dsascape.scheduler.cpu.structure.passes import kept_tensors
from dsascape.scheduler.kernels.layer import Layer
from dsascape.tuner.codegen.access import Stored, affine, divided, logical, loops_of, reach, stored_extent
from dsascape.tuner.codegen.arithmetic import Operator, UnsupportedKernelError
from dsascape.tuner.codegen.functions import dtype_of
from dsascape.tuner.codegen.packing import Packing
from dsascape.tuner.codegen.reductions import Reduction
from dsascape.tuner.codegen.sharing import Sharing, Value
from dsascape.tuner.codegen.tile_buffers import Chain
from dsascape.workloads.executable import Executable
from dsascape.workloads.graph import Tensor
from dsascape.workloads.index import Index
from dsascape.workloads.loopnest import Access, LoopNest

TVM_DTYPES: Mapping[str, str] = {
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "int64": "int64", "int32": "int32", "int16": "int16",
    "int8": "int8", "uint64": "uint64", "uint32": "uint32", "uint16": "uint16", "uint8": "uint8", "bool": "bool",
}  # fmt: skip
COMBINE: Mapping[str, Callable[..., Any]] = {"sum": te.sum, "max": te.max, "min": te.min}
"""Reductions by the name that the arithmetic gives them."""


@dataclass
class Builder:
    """The stages of a kernel so far, and what all kinds of them are made with."""

    layer: Layer
    executable: Executable
    tiles: LoopTiles
    anchor: Anchor | None
    lanes: int
    """Of the machine's vectors."""
    chain: Chain | None = None
    """Of a kernel with several anchors: ``anchor`` and ``tiles`` are those of the part whose stages are being made."""
    stored: dict[str, Stored] = field(default_factory=dict)
    unpadded: dict[str, Stored] = field(default_factory=dict)
    """Tensors that, while the anchor's stage is made, its copies with padding stand in for."""
    inputs: dict[str, Any] = field(default_factory=dict)
    packings: dict[str, Packing] = field(default_factory=dict)
    anchor_stage: str = ""
    whole_stage: str = ""
    """Name of the stage that the kernel's result is copied from, where its vectors stick out of it."""
    made: Made | None = None
    """What the part makes whose stages are being made, if it is one in front of the last."""
    reductions: list[str] = field(default_factory=list)
    apart: list[str] = field(default_factory=list)
    """Names of stages with reduction loops whose neighbouring results are made of what lies apart."""
    sharing: Sharing = field(default_factory=Sharing)
    _count: int = 0

    @staticmethod
    def dtype(tensor: Tensor) -> str:
        """Return the dtype as TVM writes it."""
        try:
            return TVM_DTYPES[tensor.dtype]
        except KeyError:
            raise UnsupportedKernelError(f"tensor {tensor.name!r} is of dtype {tensor.dtype}") from None

    def name(self, text: str) -> str:
        """Return a name that no other stage has."""
        self._count += 1
        clean = "".join(c if c.isalnum() else "_" for c in text)
        return f"{clean}_{self._count}"

    def compute(self, label: str, tensor: Tensor, element: Callable[..., Any]) -> Any:
        """Return ``tensor`` in its memory order: a stage if it is kept, else its elements for whoever reads them.

        A result that vectors stick out of is made in whole vectors first, and what lies inside is copied.
        """
        shape = [tensor.shape[dim] for dim in tensor.order]
        if not self.is_kept(tensor):
            return Value(tuple(shape), lambda *stored: self.shared_element(tensor, element, stored))
        if self.made is None and tensor.name == self.layer.sink.name and self.is_wide:
            assert self.anchor is not None
            vector_dim = self.anchor.vector_dim
            wider = [self.vector_end if dim == vector_dim else tensor.shape[dim] for dim in tensor.order]
            whole = self._computed(f"{label}_whole", tensor, wider, element)
            self.whole_stage = whole.op.name

            def inside(*stored: Any) -> Any:
                return whole(*stored)

            return te.compute(shape, inside, name=self.name(label))
        return self._computed(label, tensor, shape, element)

    def _computed(self, label: str, tensor: Tensor, shape: Sequence[int], element: Callable[..., Any]) -> Any:
        def body(*stored: Any) -> Any:
            return self.sharing.within(lambda: self.cast(tensor, element(*logical(tensor, stored))))

        return te.compute(shape, body, name=self.name(label))

    def shared_element(self, tensor: Tensor, element: Callable[..., Any], stored: Sequence[Any]) -> Any:
        """Return an element that is computed where it is read, once for each expression."""
        return self.sharing.once(
            tensor.name, stored, lambda: self.cast(tensor, element(*logical(tensor, stored)))
        )  # fmt: skip

    def is_kept(self, tensor: Tensor) -> bool:
        """Whether a tensor that the kernel computes is a stage of its own: a result, or what passes keep."""
        return tensor.name in self.layer.outputs or tensor.name in kept_tensors(self.layer)

    def cast(self, tensor: Tensor, value: Any) -> Any:
        """Return ``value`` in the dtype of ``tensor``."""
        return value if dtype_of(value) == self.dtype(tensor) else value.astype(self.dtype(tensor))

    def read(
        self, nest: LoopNest, read: Access, loops: Mapping[int, Any], fill: Any = None, clamped: Collection[int] = (),
        dividing: Collection[Index] = (),
    ) -> Any:  # fmt: skip
        """Return the element of ``read`` at the values ``loops``; ``fill``, or zero, beyond the border.

        What the loops ``clamped`` reach beyond it is not used: any element will do, also what lies behind a row. The
        indices ``dividing`` are known to divide at ``loops``.
        """
        source = self.tensor(read.tensor)
        clamped = clamped or self._beyond(nest, read)
        element, conditions = [], []
        for dim, (index, size) in enumerate(zip(read.indices, read.shape, strict=True)):
            if index.table or index.window != 1 or index.opaque:
                raise UnsupportedKernelError(f"reads {read.tensor!r} at places that depend on data or mixes several")
            value, exact = divided(index, loops, surely=index in dividing)
            conditions += exact
            lo, hi = reach(nest, index)
            first = source.starts[dim] if source.starts else 0
            end = first + stored_extent(source, dim) if source.starts else size
            if index.clamp:
                value = te.max(te.min(value, size - 1), 0)
            else:
                conditions += [value >= first] if lo < first else []
                conditions += [value < end] if hi > end else []
                sticks_out = any(loop in clamped for loop, _ in index.terms) and not self.is_loose(nest, read, dim)
                if sticks_out and not self._is_wide(source, dim, read.shape):
                    value = te.min(value, end - 1)
            element.append(value)
        return self.sharing.once(
            f"read of {read.tensor}", [*element, *conditions, *([] if fill is None else [fill])],
            lambda: self.where(conditions, lambda: source.at(element), fill),
        )  # fmt: skip

    def where(self, conditions: Sequence[Any], compute: Callable[[], Any], other: Any = None) -> Any:
        """Return what ``compute`` makes where all ``conditions`` hold; elsewhere ``other``, or zero."""
        if not conditions:
            return compute()
        found = self.sharing.within(compute)
        return tirx.if_then_else(
            tirx.all(*conditions), found, tirx.const(0, dtype_of(found)) if other is None else other
        )  # fmt: skip

    @property
    def is_wide(self) -> bool:
        """Whether what vectors hold beyond the end of a row is computed like the rest, and dropped at last."""
        if self.anchor is None or self.tiles.depth_step is not None:
            return False
        dim = self.anchor.vector_dim
        if self.made is None or self.chain is None:
            return self.anchor.padded[dim] != self.anchor.nest.write.shape[dim]
        first, end = self.chain.reach(self.made.spans[dim])
        return first >= 0 and end > self.made.layer.sink.shape[dim]

    def _beyond(self, nest: LoopNest, read: Access) -> Collection[int]:
        """Return the loops of ``nest`` that vectors take beyond the end of a row that it reads.

        What the kernel itself computes is computed there, too.
        """
        if self.anchor is None or not self.is_wide or not self._is_followed(nest.write):
            return ()
        if self._is_followed(read) and self.layer.graph.producer.get(read.tensor) in self.layer.ops:
            return ()
        return [loop for loop, _ in nest.write.indices[self.anchor.vector_dim].terms]

    def _is_followed(self, access: Access) -> bool:
        """Whether what is accessed may be what the part's anchor makes, or what becomes of that."""
        sink = self.layer.sink if self.made is None else self.made.layer.sink
        return access.shape == sink.shape

    def is_vector_dim(self, nest: LoopNest, read: Access, dim: int) -> bool:
        """Whether the anchor's vectors lie along a dimension of what it, or what follows it, reads."""
        if self.anchor is None:
            return False
        if nest is not self.anchor.nest and not (self.is_wide and self._is_followed(nest.write)):
            return False
        return nest.moving(read.indices[dim]) == nest.moving(nest.write.indices[self.anchor.vector_dim])

    def is_loose(self, nest: LoopNest, read: Access, dim: int) -> bool:
        """Whether vectors may be loaded beyond the end of a dimension: what lies behind in memory is theirs to read.

        So it is behind every row of a parameter, or of a view of one: its memory goes on for a while behind its end
        (`tuner.measure.arrays`).
        """
        source, root = self.tensor(read.tensor), self.layer.graph.storage.get(read.tensor, read.tensor)
        is_stored = root in self.inputs and self.inputs[root] is self.stored[root].stage
        innermost = next((each for each in reversed(source.order) if read.shape[each] > 1), -1)
        return is_stored and innermost == dim and self.is_vector_dim(nest, read, dim)

    @property
    def vector_end(self) -> int:
        """How far register tiles reach along the anchor's vectors."""
        return 0 if self.anchor is None else self.anchor.padded[self.anchor.vector_dim]

    def _is_wide(self, source: Stored, dim: int, shape: Sequence[int]) -> bool:
        """Whether a padded copy reaches as far as register tiles do."""
        return bool(source.starts) and stored_extent(source, dim) + source.starts[dim] > shape[dim]

    def tensor(self, name: str) -> Stored:
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
            holder = te.placeholder(shape, self.dtype(tensor), self.name("in"))
            self.inputs[name] = holder
            found = Stored(holder, tensor.order)
        self.stored[name] = found
        return found

    def reduction_name(self, label: str) -> str:
        """Return a name for a stage with reduction loops."""
        name = self.name(label)
        self.reductions.append(name)
        return name

    def described(self, name: str) -> Tensor:
        """Return a tensor of the network or one that an operator keeps to itself."""
        for op in (self.layer.graph.ops[p] for p in self.layer.ops):
            for tensor in op.internals:
                if tensor.name == name:
                    return tensor
        return self.layer.graph.tensors[name]

    def finished(self, op: Operator, nest: LoopNest, tensor: Tensor, rule: Reduction, total: Any) -> Any:
        """Return what becomes of the sums of ``nest`` in ``total``, which may be larger than the tensor."""
        exact = [total.shape[p] == tensor.shape[dim] for p, dim in enumerate(tensor.order)]
        if rule.finish is None and self.anchor is None and all(exact):
            return total

        def element(*indices: Any) -> Any:
            return self.finish(op, nest, rule, indices, total(*[indices[dim] for dim in tensor.order]))

        return self.compute(f"{op.kind}_out", tensor, element)

    def finish(self, op: Operator, nest: LoopNest, rule: Reduction, element: Sequence[Any], value: Any) -> Any:
        """Return what becomes of ``value``, the sum of one element."""
        if rule.finish is None:
            return value
        count = math.prod(loop.extent for loop in nest.loops if loop.reduction)
        loops = loops_of(nest, element)
        late = [self.read(nest, nest.reads[n], loops) for n in rule.late]
        taps = self._taps(op, nest, loops, count)
        return rule.finish(value, late, count) if taps is None else value / taps.astype(dtype_of(value))

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
