"""State and result of a walk over a file's nodes: types and constant values of its tensors, collected node by node."""

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx
from onnx import TensorProto, helper

from dsascape.workloads.graph import Role, Tensor, WorkloadError
from dsascape.workloads.operators.registry import Array, NodeContext

DTYPES: Mapping[int, str] = {
    TensorProto.DOUBLE: "fp64", TensorProto.FLOAT: "fp32", TensorProto.FLOAT16: "fp16",
    TensorProto.BFLOAT16: "bf16", TensorProto.FLOAT8E4M3FN: "fp8_e4m3", TensorProto.FLOAT8E4M3FNUZ: "fp8_e4m3",
    TensorProto.FLOAT8E5M2: "fp8_e5m2", TensorProto.FLOAT8E5M2FNUZ: "fp8_e5m2", TensorProto.INT64: "int64",
    TensorProto.INT32: "int32", TensorProto.INT16: "int16", TensorProto.INT8: "int8",
    TensorProto.UINT64: "uint64", TensorProto.UINT32: "uint32", TensorProto.UINT16: "uint16",
    TensorProto.UINT8: "uint8", TensorProto.INT4: "int4", TensorProto.UINT4: "uint4",
    TensorProto.BOOL: "bool", TensorProto.COMPLEX64: "complex64", TensorProto.COMPLEX128: "complex128",
}  # fmt: skip
ELEMENTS: Mapping[str, int] = {dtype: element for element, dtype in reversed(list(DTYPES.items()))}
"""The ONNX element type of each dtype; the first listed where several share one."""


LARGEST_TENSOR = 2**44
"""Elements of a tensor at most; a larger shape is a mistake in the file."""
MALFORMED = (
    ValueError, TypeError, LookupError, AttributeError, RuntimeError, ArithmeticError,
    onnx.checker.ValidationError,
)  # fmt: skip
"""Exceptions that the ONNX library and numpy raise for malformed attributes and values."""
_LONGEST_MESSAGE = 500


@dataclass(frozen=True, slots=True)
class Typed:
    """ONNX element type and shape of a tensor. Raises ``ValueError`` for a shape that no tensor has."""

    element: int
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(size < 0 for size in self.shape):
            raise ValueError(f"has shape {list(self.shape)}; sizes cannot be negative")
        if math.prod(max(size, 1) for size in self.shape) > LARGEST_TENSOR:
            raise ValueError(f"has shape {list(self.shape)}, which no machine holds")

    @property
    def proto(self) -> onnx.TypeProto:
        """ONNX's message for this type."""
        return helper.make_tensor_type_proto(self.element, self.shape)


Infer = Callable[[onnx.NodeProto], dict[str, "Typed"]]
"""Returns the types of an operator's outputs; raises ``WorkloadError`` where it does not fit its inputs."""


@dataclass(slots=True)
class WalkState:
    """Types of all tensors so far, and values of small ones that do not depend on the network's inputs."""

    where: str
    """Name of the file in messages."""
    types: dict[str, Typed] = field(default_factory=dict)
    values: dict[str, Array] = field(default_factory=dict)
    weights: set[str] = field(default_factory=set)
    """Tensors that do not depend on the network's inputs."""
    reserved: frozenset[str] = frozenset()
    """Names that the file gives to its own tensors."""

    def set_constant(self, name: str, value: Array) -> None:
        """Record value and type of a tensor that does not depend on the network's inputs."""
        self.values[name] = value
        self.weights.add(name)
        self.types[name] = Typed(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)

    def free_name(self, name: str) -> str:
        """Return ``name``, with primes appended until no tensor of the file has it; deterministic."""
        while name in self.reserved:
            name += "'"
        return name

    def add_resized(self, name: str, shape: tuple[int, ...], value: Array | None) -> str:
        """Add constant ``name`` at another size, ``shape`` or that of ``value``; return the name of the new tensor.

        The name is the same for every operator that needs the constant at that size.
        """
        resized = self.free_name(f"{name}[{'x'.join(map(str, shape))}]")
        if value is not None:
            self.set_constant(resized, value)
        else:
            self.weights.add(resized)
            self.types[resized] = Typed(self.types[name].element, shape)
        return resized

    def context(self, node: onnx.NodeProto, kind: str, opset: int) -> NodeContext:
        """Return the context of ``node`` for a shape rule: everything but its outputs."""
        inputs = tuple(self._tensor(name) if name else None for name in node.input)
        constants = {name: self.values[name] for name in node.input if name in self.values}
        return NodeContext(node_name(node), kind, attributes_of(node), inputs, (), constants, opset)

    def _tensor(self, name: str) -> Tensor:
        typed = self.types[name]
        role: Role = "weight" if name in self.weights else "activation"
        return Tensor(name, typed.shape, dtype_of(name, typed.element), role)

    def error(self, node: onnx.NodeProto, text: str) -> WorkloadError:
        """Return the error about ``node`` with message ``text``."""
        return node_error(self.where, node, text)


@dataclass(frozen=True, slots=True)
class Walk:
    """Result of one pass over a file at given input shapes."""

    types: Mapping[str, Typed]
    values: Mapping[str, Array]
    weights: frozenset[str]
    nodes: tuple[onnx.NodeProto, ...]
    """Nodes that compute at run time, in order."""
    once: tuple[onnx.NodeProto, ...] = ()
    """Nodes of edits that compute weights from weights, in order."""
    unedited: tuple[onnx.NodeProto, ...] = ()
    """Run-time nodes of the file before it was edited; empty if it was not."""
    of_weights: tuple[onnx.NodeProto, ...] = ()
    """All nodes that compute weights of unknown value from weights."""


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """Return the attributes of ``node`` by name."""
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def dtype_of(name: str, element: int) -> str:
    """Return this project's name of an ONNX element type; raise ``WorkloadError`` naming the tensor if it has none."""
    try:
        return DTYPES[element]
    except KeyError:
        listed = element in TensorProto.DataType.values()
        kind = TensorProto.DataType.Name(element) if listed else element
        raise WorkloadError(f"tensor {name!r} is of type {kind}, which is not supported") from None


def node_name(node: onnx.NodeProto) -> str:
    """Return the name of ``node`` in messages and operators: its own, or its first output's."""
    return node.name or next((name for name in node.output if name), "?")


def node_error(where: str, node: onnx.NodeProto, text: str) -> WorkloadError:
    """Return the error, of one line, about ``node`` of the file ``where``.

    Names from the file are shortened, and their control characters escaped.
    """
    line = " ".join(text.split())
    said = f"node {_short(node_name(node))!r} ({_short(node.op_type)}){'' if line[:1] == ':' else ' '}{line}"
    printable = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in said)
    return WorkloadError(f"{where}: {_short(printable, _LONGEST_MESSAGE)}")


def _short(text: str, most: int = 80) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def typed(where: str, name: str, element: int, shape: Iterable[int]) -> Typed:
    """Return the type of a tensor that the file ``where`` lists; raise ``WorkloadError`` for an impossible shape."""
    try:
        return Typed(element, tuple(shape))
    except ValueError as error:
        raise WorkloadError(f"{where}: tensor {_short(name)!r} {error}") from None


def typed_values(entries: Iterable[onnx.ValueInfoProto]) -> dict[str, Typed]:
    """Return the types, by name, of the entries of a graph that are tensors of static shape."""
    types = {}
    for entry in entries:
        kind = entry.type.tensor_type
        static = kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim)
        if entry.type.HasField("tensor_type") and static:
            with contextlib.suppress(ValueError):
                types[entry.name] = Typed(kind.elem_type, tuple(d.dim_value for d in kind.shape.dim))
    return types
