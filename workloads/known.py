"""What the importer knows about a file's tensors on its way through the nodes."""

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
    TensorProto.BFLOAT16: "bf16", TensorProto.FLOAT8E4M3FN: "fp8", TensorProto.FLOAT8E4M3FNUZ: "fp8",
    TensorProto.FLOAT8E5M2: "fp8", TensorProto.FLOAT8E5M2FNUZ: "fp8", TensorProto.INT64: "int64",
    TensorProto.INT32: "int32", TensorProto.INT16: "int16", TensorProto.INT8: "int8",
    TensorProto.UINT64: "uint64", TensorProto.UINT32: "uint32", TensorProto.UINT16: "uint16",
    TensorProto.UINT8: "uint8", TensorProto.INT4: "int4", TensorProto.UINT4: "uint4",
    TensorProto.BOOL: "bool", TensorProto.COMPLEX64: "complex64", TensorProto.COMPLEX128: "complex128",
}  # fmt: skip
ELEMENTS: Mapping[str, int] = {dtype: element for element, dtype in reversed(list(DTYPES.items()))}
"""The ONNX element type of each dtype; the first listed where several share one."""


LARGEST_TENSOR = 2**44
"""Elements; beyond it a shape is a mistake in the file."""
MALFORMED = (
    ValueError, TypeError, LookupError, AttributeError, RuntimeError, ArithmeticError,
    onnx.checker.ValidationError,
)  # fmt: skip
"""What the ONNX library and numpy raise for attributes and values that make no sense."""
_LONGEST_MESSAGE = 500


@dataclass(frozen=True, slots=True)
class Typed:
    """Element type of the ONNX standard, and shape. Raises ``ValueError`` for a shape that no tensor has."""

    element: int
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(size < 0 for size in self.shape):
            raise ValueError(f"has shape {list(self.shape)}; sizes cannot be negative")
        if math.prod(max(size, 1) for size in self.shape) > LARGEST_TENSOR:
            raise ValueError(f"has shape {list(self.shape)}, which no machine holds")

    @property
    def proto(self) -> onnx.TypeProto:
        return helper.make_tensor_type_proto(self.element, self.shape)


Infer = Callable[[onnx.NodeProto], dict[str, "Typed"]]
"""Returns the types of an operator's outputs; raises ``WorkloadError`` where it does not fit its inputs."""


@dataclass(slots=True)
class Known:
    """Types of all tensors so far, values of the small ones that do not depend on the inputs."""

    where: str
    """What messages call the file."""
    types: dict[str, Typed] = field(default_factory=dict)
    values: dict[str, Array] = field(default_factory=dict)
    weights: set[str] = field(default_factory=set)
    """Tensors that do not depend on the network's inputs."""
    reserved: frozenset[str] = frozenset()
    """Names that the file gives to its own tensors."""

    def learn(self, name: str, value: Array) -> None:
        """Note the value of a tensor that does not depend on the network's inputs."""
        self.values[name] = value
        self.weights.add(name)
        self.types[name] = Typed(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)

    def free_name(self, name: str) -> str:
        """Return ``name``, or one like it that no tensor of the file has; always the same."""
        while name in self.reserved:
            name += "'"
        return name

    def learn_at(self, name: str, shape: tuple[int, ...], value: Array | None) -> str:
        """Return the name of constant ``name`` at another size: ``shape``, or ``value``'s own if that is known.

        It is the same for every operator that needs the constant at that size.
        """
        beside = self.free_name(f"{name}[{'x'.join(map(str, shape))}]")
        if value is not None:
            self.learn(beside, value)
        else:
            self.weights.add(beside)
            self.types[beside] = Typed(self.types[name].element, shape)
        return beside

    def context(self, node: onnx.NodeProto, kind: str, opset: int) -> NodeContext:
        """Return what a rule for shapes gets to see of ``node``: everything but its outputs."""
        inputs = tuple(self._tensor(name) if name else None for name in node.input)
        constants = {name: self.values[name] for name in node.input if name in self.values}
        return NodeContext(node_name(node), kind, attributes_of(node), inputs, (), constants, opset)

    def _tensor(self, name: str) -> Tensor:
        typed = self.types[name]
        role: Role = "weight" if name in self.weights else "activation"
        return Tensor(name, typed.shape, dtype_of(name, typed.element), role)

    def error(self, node: onnx.NodeProto, text: str) -> WorkloadError:
        """Return the error that says what is wrong with ``node``."""
        return node_error(self.where, node, text)


@dataclass(frozen=True, slots=True)
class Walk:
    """One pass over a file at given input shapes."""

    types: Mapping[str, Typed]
    values: Mapping[str, Array]
    weights: frozenset[str]
    nodes: tuple[onnx.NodeProto, ...]
    """Those that compute at run time."""
    once: tuple[onnx.NodeProto, ...] = ()
    """Those of edits that compute weights out of weights, in order."""
    unedited: tuple[onnx.NodeProto, ...] = ()
    """Those of the file that computed at run time before it was edited; none if it was not."""


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """Return the attributes of ``node`` by name."""
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def dtype_of(name: str, element: int) -> str:
    """Return our name of an ONNX element type; raise ``WorkloadError`` naming the tensor for one not taken."""
    try:
        return DTYPES[element]
    except KeyError:
        listed = element in TensorProto.DataType.values()
        kind = TensorProto.DataType.Name(element) if listed else element
        raise WorkloadError(f"tensor {name!r} is of type {kind}, which is not taken") from None


def node_name(node: onnx.NodeProto) -> str:
    """Return what messages and operators call ``node``: its name, or its first output's."""
    return node.name or next((name for name in node.output if name), "?")


def node_error(where: str, node: onnx.NodeProto, text: str) -> WorkloadError:
    """Return the error that says in one line what is wrong with ``node`` of the file ``where``.

    Names out of a file can be long and can hold what a terminal obeys.
    """
    line = " ".join(text.split())
    said = f"node {_short(node_name(node))!r} ({_short(node.op_type)}){'' if line[:1] == ':' else ' '}{line}"
    printable = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in said)
    return WorkloadError(f"{where}: {_short(printable, _LONGEST_MESSAGE)}")


def _short(text: str, most: int = 80) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def typed(where: str, name: str, element: int, shape: Iterable[int]) -> Typed:
    """Return the type of a tensor that the file ``where`` lists; raise ``WorkloadError`` for a shape none has."""
    try:
        return Typed(element, tuple(shape))
    except ValueError as error:
        raise WorkloadError(f"{where}: tensor {_short(name)!r} {error}") from None


def typed_values(entries: Iterable[onnx.ValueInfoProto]) -> dict[str, Typed]:
    """Return those entries of a graph's inputs or value_info that are tensors of static shape."""
    found = {}
    for entry in entries:
        kind = entry.type.tensor_type
        static = kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim)
        if entry.type.HasField("tensor_type") and static:
            with contextlib.suppress(ValueError):
                found[entry.name] = Typed(kind.elem_type, tuple(d.dim_value for d in kind.shape.dim))
    return found
