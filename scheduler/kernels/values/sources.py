"""Operands of a kernel's statements: parameters, buffers, and tensors computed where they are read."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.values.access import Stored, affine, divided, logical, loops_of, reach
from dsascape.scheduler.kernels.values.packing import Packing
from dsascape.workloads.arithmetic.elementwise import Operator, UnsupportedKernelError
from dsascape.workloads.arithmetic.numbers import Numbers
from dsascape.workloads.arithmetic.reductions import Reduction
from dsascape.workloads.executable import Executable
from dsascape.workloads.graph import Tensor
from dsascape.workloads.index import Index
from dsascape.workloads.loopnest import Access, LoopNest

STORED_DTYPES: Mapping[str, str] = {
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "int64": "int64", "int32": "int32", "int16": "int16",
    "int8": "int8", "uint64": "uint64", "uint32": "uint32", "uint16": "uint16", "uint8": "uint8", "bool": "bool",
    "int4": "int8", "uint4": "uint8",
}  # fmt: skip
"""Dtype in memory as numpy and compilers write it, by dtype. Numbers of four bits have a byte each there."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a statement stands, as far as its reads depend on it."""

    stage: str = ""
    shape: tuple[int, ...] = ()
    """Shape of the stage's tensor."""
    beyond: frozenset[int] = frozenset()
    """Dimensions in which register tiles stick out of the tensor."""
    before: frozenset[int] = frozenset()
    """Dimensions in which they begin in front of its first element."""
    vector_dim: int = -1
    """Dimension along which vectors lie."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Copies that are read in place of tensors."""


@dataclass
class Sources(ABC):
    """The tensors of a kernel, and how their elements are read."""

    layer: Layer
    executable: Executable
    numbers: Numbers
    stored: dict[str, Stored] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)
    """Buffers of the parameters that are read, in their order."""
    packings: dict[str, Packing] = field(default_factory=dict)
    own: dict[str, Stored] = field(default_factory=dict)
    """Buffers of the kernel's stages by the stage's name."""
    place: Place = field(default_factory=Place)
    """Place of the statement whose value is being written down."""
    _count: int = 0

    @abstractmethod
    def parameter(self, name: str, shape: tuple[int, ...], dtype: str) -> tuple[Any, Callable[..., Any]]:
        """Return the memory of a tensor from outside, and what loads an element at its indices there."""

    @staticmethod
    def dtype(tensor: Tensor) -> str:
        """Return the dtype as numpy writes it."""
        try:
            return STORED_DTYPES[tensor.dtype]
        except KeyError:
            raise UnsupportedKernelError(f"tensor {tensor.name!r} is of dtype {tensor.dtype}") from None

    def name(self, text: str) -> str:
        """Return a name that nothing else in the kernel has."""
        self._count += 1
        clean = "".join(c if c.isalnum() else "_" for c in text)
        return f"{clean}_{self._count}"

    def cast(self, tensor: Tensor, value: Any) -> Any:
        """Return ``value`` in the dtype of ``tensor``."""
        dtype = self.dtype(tensor)
        return value if self.numbers.dtype_of(value) == dtype else self.numbers.cast(value, dtype)

    def shared_element(self, tensor: Tensor, element: Callable[..., Any], stored: Sequence[Any]) -> Any:
        """Return an element that is computed where it is read, once for each expression."""
        return self.numbers.once(
            tensor.name, stored, lambda: self.cast(tensor, element(*logical(tensor, stored)))
        )  # fmt: skip

    def described(self, name: str) -> Tensor:
        """Return a tensor of the network or one that an operator keeps to itself."""
        for op in (self.layer.graph.ops[p] for p in self.layer.ops):
            for tensor in op.internals:
                if tensor.name == name:
                    return tensor
        return self.layer.graph.tensors[name]

    def from_outside(self, name: str) -> Tensor | None:
        """Return a tensor that lies in memory as the network describes it.

        None for one that is read through a view, lies in panels, or is made here.
        """
        made = {each for op in self.layer.ops for each in self.layer.graph.ops[op].outputs}
        tensor = self.layer.graph.tensors.get(name)
        return None if name in made or name in self.packings else tensor

    def tensor(self, name: str) -> Stored:
        """Return a tensor, which becomes a parameter where it comes from outside."""
        copy = self.place.copies.get(name)
        if copy is not None:
            return self.own[copy]
        found = self.stored.get(name)
        if found is not None:
            return found
        tensor = self.layer.graph.tensors[name]
        value = self.executable.values.get(name)
        if value is not None and value.size == 1 and tensor.role == "weight":
            constant = self.numbers.const(value.reshape(-1)[0].item(), self.dtype(tensor))
            found = Stored(lambda *_: constant, tensor.order)
        elif name in self.packings:
            found = self._packed(tensor, self.packings[name])
        else:
            shape = tuple([tensor.shape[dim] for dim in tensor.order])
            self.inputs[name], load = self.parameter(name, shape, self.dtype(tensor))
            found = Stored(load, tuple(tensor.order))
        self.stored[name] = found
        return found

    def _packed(self, tensor: Tensor, packing: Packing) -> Stored:
        """Return a weight that lies in panels."""
        n, shape = self.numbers, packing.shape(tensor.shape)
        self.inputs[tensor.name], load = self.parameter(tensor.name, shape, self.dtype(tensor))

        def element(*place: Any) -> Any:
            along, block = place[packing.dim], packing.block
            rest = [place[dim] for dim in packing.order]
            return load(n.floor_divide(along, block), *rest, n.floor_modulo(along, block))

        return Stored(element, tuple(range(len(tensor.shape))))

    def read(
        self, nest: LoopNest, read: Access, loops: Mapping[int, Any], fill: Any = None,
        dividing: Collection[Index] = (),
    ) -> Any:  # fmt: skip
        """Return the element of ``read`` at the values ``loops``; ``fill``, or zero, beyond the border.

        Copies have what lies beyond the border. Where register tiles stick out of what they compute, parameters are
        read at the nearest element: it is not used. The indices ``dividing`` are known to divide at ``loops``.
        """
        n, source = self.numbers, self.tensor(read.tensor)
        is_copy = read.tensor in self.place.copies
        is_parameter = self._root(read.tensor) in self.inputs and not is_copy
        element, conditions = [], []
        for dim, (index, size) in enumerate(zip(read.indices, read.shape, strict=True)):
            if index.table or index.window != 1 or index.opaque:
                raise UnsupportedKernelError(f"reads {read.tensor!r} at places that depend on data or mixes several")
            value, exact = divided(n, index, loops, surely=index in dividing)
            conditions += exact
            lo, hi = reach(nest, index)
            if index.clamp:
                value = n.maximum(n.minimum(value, size - 1), 0)
            elif not is_copy:
                conditions += [value >= 0] if lo < 0 else []
                conditions += [value < size] if hi > size else []
                value = self._inside(nest, read, dim, value) if is_parameter else value
            element.append(value)
        return n.once(
            f"read of {read.tensor}", [*element, *conditions, *([] if fill is None else [fill])],
            lambda: n.where(conditions, lambda: source.at(element), fill),
        )  # fmt: skip

    def _inside(self, nest: LoopNest, read: Access, dim: int, value: Any) -> Any:
        """Return the index of a parameter's dimension, moved inside where register tiles stick out."""
        place = self.place
        if nest.write.shape != place.shape or not (place.beyond or place.before):
            return value
        moving = {loop for loop, _ in read.indices[dim].terms if nest.loops[loop].extent > 1}
        own = {
            each: {loop for loop, _ in nest.write.indices[each].terms} & moving for each in place.beyond | place.before
        }
        if any(own[each] for each in place.beyond) and not self.is_loose(nest, read, dim):
            packing = self.packings.get(read.tensor)
            if packing is None or packing.dim != dim:
                value = self.numbers.minimum(value, read.shape[dim] - 1)
        return self.numbers.maximum(value, 0) if any(own[each] for each in place.before) else value

    def is_loose(self, nest: LoopNest, read: Access, dim: int) -> bool:
        """Whether vectors may be loaded beyond the end of a dimension: what lies behind in memory is theirs to read.

        So it is behind every row of a parameter, or of a view of one: its memory goes on for a while behind its end
        (`tuner.measure.arrays`).
        """
        root = self._root(read.tensor)
        order = self.tensor(read.tensor).order
        innermost = next((each for each in reversed(order) if read.shape[each] > 1), -1)
        return root in self.inputs and innermost == dim and self._is_vector_dim(nest, read, dim)

    def _is_vector_dim(self, nest: LoopNest, read: Access, dim: int) -> bool:
        """Whether the statement's vectors lie along a dimension of what it, or what it goes on with, reads."""
        if self.place.vector_dim < 0 or nest.write.shape != self.place.shape:
            return False
        return nest.moving(read.indices[dim]) == nest.moving(nest.write.indices[self.place.vector_dim])

    def _root(self, name: str) -> str:
        return self.layer.graph.storage.get(name, name)

    def finish(self, op: Operator, nest: LoopNest, rule: Reduction, element: Sequence[Any], value: Any) -> Any:
        """Return what becomes of ``value``, the sum of one element."""
        if rule.finish is None:
            return value
        count = math.prod(loop.extent for loop in nest.loops if loop.reduction)
        loops = loops_of(self.numbers, nest, element)
        late = [self.read(nest, nest.reads[n], loops) for n in rule.late]
        taps = _taps(op, nest, loops, count)
        if taps is None:
            return rule.finish(self.numbers, value, late, count)
        return value / self.numbers.cast(taps, self.numbers.dtype_of(value))


def _taps(op: Operator, nest: LoopNest, loops: Mapping[int, Any], count: int) -> Any:
    """Return by how many elements an average is divided where padding does not count; None for all."""
    if op.kind != "AveragePool" or op.attributes.get("count_include_pad", 0):
        if op.kind == "AveragePool" and op.attributes.get("ceil_mode", 0):
            raise UnsupportedKernelError("AveragePool that counts padding, with sizes rounded up")
        return None
    n = op.numbers
    taps, inside = n.const(1, "int32"), 1
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
        first = affine(n, index, {**loops, loop: 0})
        before = n.maximum(n.floor_divide(n.const(stride - 1, "int32") - first, stride), 0)
        after = n.minimum(n.floor_divide(n.const(size - 1, "int32") - first, stride) + 1, extent)
        taps = taps * (after - before)
    return None if inside == count else taps * inside
