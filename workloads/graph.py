"""A network as the rest of the project sees it: operators in topological order over static tensors."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal, Protocol, get_args

from dsascape.workloads.index import is_count
from dsascape.workloads.loopnest import Band, LoopNest, Operations
from dsascape.workloads.mapping import is_view

BYTE_BITS = 8
DTYPE_BITS: Mapping[str, int] = MappingProxyType(
    {
        "fp64": 64, "fp32": 32, "fp16": 16, "bf16": 16, "fp8_e4m3": 8, "fp8_e5m2": 8,
        "int64": 64, "int32": 32, "int16": 16, "int8": 8, "uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8,
        "int4": 4, "uint4": 4, "bool": 8, "complex64": 64, "complex128": 128,
    }
)  # fmt: skip
"""Bits of one element in memory, by dtype."""
OPEN = frozenset({"fp64", "fp32", "fp16", "bf16"})
"""Dtypes that `Graph.with_dtype` replaces: floating-point numbers of 16 bits or more. All others are the file's."""
FLOATS = OPEN | {"fp8_e4m3", "fp8_e5m2"}

Role = Literal["input", "weight", "activation"]


class WorkloadError(ValueError):
    """A network that cannot be imported or used as requested; the message names file, node and remedy."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named array of static shape; ``order`` lists its dimensions as they lie in memory, outermost first."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role
    order: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.dtype not in DTYPE_BITS:
            raise WorkloadError(
                f"tensor {self.name!r} has dtype {self.dtype!r}; known: {', '.join(DTYPE_BITS)}"
            )
        if not all(map(is_count, self.shape)):
            raise WorkloadError(
                f"tensor {self.name!r} has shape {list(self.shape)}; sizes cannot be negative, and are whole numbers"
            )
        if type(self.name) is not str or self.role not in get_args(Role):
            raise WorkloadError(f"tensor {self.name!r} has role {self.role!r}; needs one of: {get_args(Role)}")
        if not self.order:
            object.__setattr__(self, "order", tuple(range(len(self.shape))))
        elif sorted(self.order) != list(range(len(self.shape))):
            raise WorkloadError(
                f"tensor {self.name!r} of shape {list(self.shape)} has order {list(self.order)};"
                " needs every dimension once"
            )

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def element_bits(self) -> int:
        """Bits of one element."""
        return DTYPE_BITS[self.dtype]

    @property
    def element_bytes(self) -> float:
        """Bytes of one element in the mean: a half, of elements of four bits."""
        bits = DTYPE_BITS[self.dtype]
        return bits / BYTE_BITS if bits % BYTE_BITS else bits // BYTE_BITS

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        return self.bytes_of(self.elements)

    def bytes_of(self, elements: int) -> int:
        """Return the bytes of ``elements`` neighbours: elements of four bits are packed, and the last byte is whole."""
        return packed_bytes(elements, DTYPE_BITS[self.dtype])


def packed_bytes(elements: int, element_bits: int) -> int:
    """Return the bytes of ``elements`` packed elements of so many bits, rounded up."""
    return -(-elements * element_bits // BYTE_BITS)


@dataclass(frozen=True, slots=True)
class Op:
    """One operator as loop nests, in execution order; ``internals`` are the tensors that its nests pass to each other.

    Raises ``WorkloadError`` if it has no output, or if its nests do not write exactly its outputs and internal tensors.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nests: tuple[LoopNest, ...]
    internals: tuple[Tensor, ...] = ()
    band: Band | None = None
    """Band of scores that the operator keeps, rows being queries and columns keys: a softmax makes zeros of what it
    writes outside (`workloads.mask_bands`). None: no such band is known."""
    masks: tuple[str, ...] = ()
    """Inputs that say nothing but ``band``."""

    def __post_init__(self) -> None:
        if not all(type(text) is str for text in (self.name, self.kind, *self.inputs, *self.outputs)):
            raise WorkloadError(f"operator {self.name!r} of kind {self.kind!r}: names have to be text")
        written = {nest.write.tensor for nest in self.nests}
        declared = {*self.outputs, *(tensor.name for tensor in self.internals)}
        if written != declared or not self.outputs or len(declared) != len(self.outputs) + len(self.internals):
            raise WorkloadError(
                f"operator {self.name!r}: its loop nests write {sorted(written)}; needs"
                f" each of {sorted(declared)}, once"
            )

    @property
    def operations(self) -> Operations:
        """Arithmetic of all loop nests."""
        return sum((nest.operations() for nest in self.nests), Operations())

    @property
    def is_view(self) -> bool:
        """Whether the output is the input's bytes under another shape."""
        return len(self.nests) == 1 and is_view(self.nests[0])


@dataclass(frozen=True, slots=True)
class Batch:
    """Batch size of a network, and the inputs that have the batch, each with its dimension."""

    size: int
    dims: tuple[tuple[str, int], ...]
    missing: str = ""
    """Reason why the network takes no other batch (``size`` is the images of one run then); empty if it does."""


class Rebuild(Protocol):
    """Builds the same network at another batch size."""

    def __call__(self, batch: int) -> "Graph":
        """Return the graph at ``batch``."""


@dataclass(frozen=True)
class Graph:
    """A network: operators in topological order over named tensors.

    Raises ``WorkloadError`` when operators are out of order, a tensor is missing, written twice or addressed by a loop
    nest as if it had another shape.
    """

    name: str
    ops: tuple[Op, ...]
    tensors: Mapping[str, Tensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    batch: int
    rebuild: Rebuild | None = field(default=None, repr=False, compare=False)
    batch_dims: tuple[tuple[str, int], ...] = ()
    """Inputs that have the batch, each with its dimension; empty where that is unknown."""
    no_batch: str = ""
    """Reason why the network takes no other batch (``batch`` is the images of one run then); empty if it does."""
    batch_sized: tuple[str, ...] = ()
    """Tensors that have the batch although they depend on no input that has it: constants repeated for each image."""

    def __post_init__(self) -> None:
        if type(self.name) is not str or not is_count(self.batch) or not self.batch:
            raise WorkloadError(f"{self.name}: batch has {self.batch!r}; needs at least 1")
        if any(name != tensor.name for name, tensor in self.tensors.items()):
            raise WorkloadError(f"{self.name}: a tensor is listed under another name than its own")
        if len({op.name for op in self.ops}) != len(self.ops):
            raise WorkloadError(f"{self.name}: two operators have one name")
        ready = {name for name, tensor in self.tensors.items() if tensor.role != "activation"}
        for name in self.inputs:
            if name not in ready or self.tensors[name].role != "input":
                raise WorkloadError(f"{self.name}: input {name!r} is not a tensor of role input")
        for op in self.ops:
            for name in op.inputs:
                if name not in ready:
                    raise WorkloadError(
                        f"{self.name}: operator {op.name!r} reads {name!r} before it is written"
                    )
            for name in op.outputs:
                if name in ready or name not in self.tensors:
                    reason = "which exists already" if name in ready else "which is no tensor of the network"
                    raise WorkloadError(f"{self.name}: operator {op.name!r} writes {name!r}, {reason}")
            self._check_nests(op)
            ready.update(op.outputs)
        for name in self.outputs:
            if name not in ready:
                raise WorkloadError(f"{self.name}: output {name!r} is written by no operator")

    def _check_nests(self, op: Op) -> None:
        """Raise ``WorkloadError`` if a loop nest reads a tensor that is no input, or assumes another shape for one."""
        own = {tensor.name: tensor for tensor in op.internals}
        at_hand = {*op.inputs}
        for nest in op.nests:
            for access in nest.reads:
                if access.tensor not in at_hand:
                    raise WorkloadError(
                        f"{self.name}: operator {op.name!r} reads {access.tensor!r}, which is not among its inputs"
                    )
            at_hand.add(nest.write.tensor)
            for access in (*nest.reads, nest.write):
                tensor = own.get(access.tensor) or self.tensors[access.tensor]
                if access.shape != tensor.shape:
                    raise WorkloadError(
                        f"{self.name}: operator {op.name!r} takes {access.tensor!r} to be of shape"
                        f" {list(access.shape)}; it is {list(tensor.shape)}"
                    )

    @cached_property
    def producer(self) -> Mapping[str, int]:
        """Position of the operator that writes each activation."""
        return {name: position for position, op in enumerate(self.ops) for name in op.outputs}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[int, ...]]:
        """Positions of the operators that read each tensor, ascending."""
        readers: dict[str, list[int]] = {name: [] for name in self.tensors}
        for position, op in enumerate(self.ops):
            for name in dict.fromkeys(op.inputs):
                readers[name].append(position)
        return {name: tuple(positions) for name, positions in readers.items()}

    @cached_property
    def storage(self) -> Mapping[str, str]:
        """Stored tensor behind each tensor: itself, or the tensor that it is a view of."""
        roots = {name: name for name in self.tensors}
        for op in self.ops:
            if op.is_view:
                roots[op.outputs[0]] = roots[op.inputs[0]]
        return roots

    @cached_property
    def results(self) -> frozenset[str]:
        """The network's outputs as a set, for look-ups."""
        return frozenset(self.outputs)

    @cached_property
    def stored_outputs(self) -> frozenset[str]:
        """Stored tensors that hold the network's outputs."""
        return frozenset(self.storage[name] for name in self.outputs)

    @cached_property
    def stored_readers(self) -> Mapping[str, tuple[int, ...]]:
        """Positions of the operators, views excepted, that read each stored tensor directly or through views."""
        readers: dict[str, list[int]] = {name: [] for name in self.storage.values()}
        for position, op in enumerate(self.ops):
            if not op.is_view:
                for root in dict.fromkeys(self.storage[name] for name in op.inputs):
                    readers[root].append(position)
        return {name: tuple(positions) for name, positions in readers.items()}

    @cached_property
    def tensors_of_batch(self) -> frozenset[str]:
        """Tensors that grow with the batch, those inside of operators included.

        Derived from the loop nests, so that it holds for rewritten networks, too. Where it is unknown which inputs have
        the batch, all inputs and activations.
        """
        if not self.batch_dims:
            return frozenset((*self.inputs, *(nest.write.tensor for op in self.ops for nest in op.nests)))
        reached = {name for name, _ in self.batch_dims} | set(self.batch_sized)
        for op in self.ops:
            for nest in op.nests:
                if any(read.tensor in reached for read in nest.reads):
                    reached.add(nest.write.tensor)
        return frozenset(reached)

    @cached_property
    def unlisted(self) -> frozenset[str]:
        """Weights that no operator lists among its inputs.

        Loop nests hold what is known of them, such as the indices of a Gather, but generated code reads them: they stay
        where a network is written in another way.
        """
        listed = {name for op in self.ops for name in op.inputs}
        return frozenset([name for name, each in self.tensors.items() if each.role == "weight" and name not in listed])

    @cached_property
    def operations(self) -> Operations:
        """Arithmetic of all operators."""
        return sum((op.operations for op in self.ops), Operations())

    @property
    def parameters(self) -> int:
        """Elements of all floating-point weights."""
        return sum(t.elements for t in self.tensors.values() if t.role == "weight" and t.dtype in FLOATS)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights."""
        return sum(t.size_bytes for t in self.tensors.values() if t.role == "weight")

    @property
    def activation_bytes(self) -> int:
        """Bytes of all operator outputs, as DNNFusion counts the size of intermediate results."""
        return sum(self.tensors[name].size_bytes for op in self.ops for name in op.outputs)

    def activations_into(self, op: Op) -> Iterator[Tensor]:
        """Yield the inputs of ``op`` that are not weights, each once."""
        for name in dict.fromkeys(op.inputs):
            tensor = self.tensors[name]
            if tensor.role != "weight":
                yield tensor

    def with_batch(self, batch: int) -> "Graph":
        """Return the same network at another batch size; raise ``WorkloadError`` if it cannot change."""
        if batch == self.batch:
            return self
        if self.no_batch:
            raise WorkloadError(f"{self.name}: has no batch that can become {batch}: {self.no_batch}")
        if self.rebuild is None:
            raise WorkloadError(f"{self.name}: the batch size is {self.batch} and cannot change to {batch}")
        return self.rebuild(batch)

    def with_dtype(self, dtype: str) -> "Graph":
        """Return the same network with every tensor of an `OPEN` dtype stored and computed as ``dtype``.

        Integers, and floating-point numbers of eight bits, stay as the file has them.
        """
        if dtype not in DTYPE_BITS:
            raise WorkloadError(f"dtype has {dtype!r}; needs one of: {', '.join(DTYPE_BITS)}")
        inside = (tensor for op in self.ops for tensor in op.internals)
        if all(t.dtype == dtype for t in (*self.tensors.values(), *inside) if t.dtype in OPEN):
            return self

        def cast(tensor: Tensor) -> Tensor:
            return replace(tensor, dtype=dtype) if tensor.dtype in OPEN else tensor

        ops = tuple(
            replace(op, internals=tuple(cast(t) for t in op.internals)) if op.internals else op
            for op in self.ops
        )
        tensors = {name: cast(tensor) for name, tensor in self.tensors.items()}
        rebuild = self.rebuild
        again: Rebuild | None = None if rebuild is None else CastRebuild(rebuild, dtype)
        return replace(self, ops=ops, tensors=tensors, rebuild=again)

    def __str__(self) -> str:
        lines = [f"graph {self.name} batch={self.batch}"]
        for op in self.ops:
            outs = ", ".join(_typed(self.tensors[name]) for name in op.outputs)
            lines.append(f"  {outs} = {op.kind}({', '.join(op.inputs)})")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class CastRebuild:
    """Builds the same network at another batch size, with floating-point tensors of type ``dtype``."""

    rebuild: Rebuild
    dtype: str

    def __call__(self, batch: int) -> Graph:
        return self.rebuild(batch).with_dtype(self.dtype)


def _typed(tensor: Tensor) -> str:
    return f"{tensor.name}: {tensor.dtype}[{','.join(map(str, tensor.shape))}]"
