"""Networks of one operator, with what comes before and after it, from a description of shapes.

A description is an ONNX operator with the shapes of its inputs and weights and with its attributes, so that whatever
the importer knows can be described. Operators of one operand can come before each of its inputs, and after it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from dsascape.workloads.graph import Graph, WorkloadError
from dsascape.workloads.loading import import_onnx

OPSET = 18
_LARGEST = 2**20
Attribute = int | float | str | list[int] | list[float]


@dataclass(frozen=True)
class Beside:
    """An operator of one operand, and weights, before or after the one that a network is built of."""

    op: str
    """ONNX name, such as Relu."""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    weights: tuple[tuple[int, ...], ...] = ()
    """Shapes of its weights, which come behind its operand."""


@dataclass(frozen=True)
class SingleOperator:
    """One operator to build a network of."""

    name: str
    op: str
    """ONNX name, such as Conv."""
    inputs: tuple[tuple[int, ...], ...]
    """Shapes of its inputs."""
    weights: tuple[tuple[int, ...], ...] = ()
    """Shapes of its weights, which come behind its inputs."""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    constants: tuple[tuple[int, ...], ...] = ()
    """Whole numbers that come behind its weights, such as axes."""
    then: tuple[Beside, ...] = ()
    """Operators that follow it, such as BatchNormalization and Relu."""
    before: tuple[tuple[Beside, ...], ...] = ()
    """For each input, the first one first, operators that it passes through before, such as Transpose."""


def single_operator(described: SingleOperator) -> Graph:
    """Return the network of one operator; raise ``WorkloadError`` where it is none that ONNX has."""
    try:
        return import_onnx(_model(described).SerializeToString(), name=described.name)
    except WorkloadError:
        raise
    except (ValueError, TypeError, OverflowError, shape_inference.InferenceError) as error:
        why = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise WorkloadError(f"{described.name}: {described.op}: {why}") from error


def _model(described: SingleOperator) -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(f"x{number}", TensorProto.FLOAT, shape)
        for number, shape in enumerate(described.inputs)
    ]
    weights = [_weight(f"w{number}", shape) for number, shape in enumerate(described.weights)]
    constants = [
        numpy_helper.from_array(np.array(values, np.int64), f"c{number}")
        for number, values in enumerate(described.constants)
    ]
    before = [*described.before, *[() for _ in inputs[len(described.before) :]]]
    first = [_Chain(f"x{number}", f"{described.name}.x{number}", ops) for number, ops in enumerate(before)]
    operands = [*[each.results[-1] for each in first], *[each.name for each in [*weights, *constants]]]
    result = "y" if described.then else described.name
    attributes: dict[str, Any] = dict(described.attributes)
    node = helper.make_node(described.op, operands, [result], name=described.op.lower(), **attributes)
    last = _Chain(result, described.name, described.then)
    nodes = [*[each for chain in first for each in chain.nodes()], node, *last.nodes()]
    own = [*weights, *constants, *[each for chain in (*first, last) for each in chain.weights()]]
    output = helper.make_tensor_value_info(described.name, TensorProto.FLOAT, None)
    body = helper.make_graph(nodes, described.name, inputs, [output], own)
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", OPSET)])
    return shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)


@dataclass(frozen=True)
class _Chain:
    """Operators one after the other, from the tensor ``begin`` to the tensor ``end``."""

    begin: str
    end: str
    ops: tuple[Beside, ...]

    @property
    def results(self) -> list[str]:
        """The tensors of the chain, with the one that it begins with."""
        if not self.ops:
            return [self.begin]
        return [self.begin, *[f"{self.end}.{number}" for number, _ in enumerate(self.ops[1:])], self.end]

    def nodes(self) -> Iterator[onnx.NodeProto]:
        """Yield a node for each operator."""
        for each, (operand, result) in zip(self.ops, pairwise(self.results), strict=True):
            operands = [operand, *[f"{result}.w{number}" for number, _ in enumerate(each.weights)]]
            name, attributes = f"{each.op.lower()} of {self.end}", dict[str, Any](each.attributes)
            yield helper.make_node(each.op, operands, [result], name=name, **attributes)

    def weights(self) -> Iterator[onnx.TensorProto]:
        """Yield the weights of all operators."""
        for each, result in zip(self.ops, self.results[1:], strict=True):
            for number, shape in enumerate(each.weights):
                yield _weight(f"{result}.w{number}", shape)


def _weight(name: str, shape: Sequence[int]) -> onnx.TensorProto:
    return numpy_helper.from_array(np.full(shape, 0.5, np.float32), name)


def described(name: str, entry: Mapping[str, object]) -> SingleOperator:
    """Return the operator that an entry of a file describes; raise ``WorkloadError`` with the key that is wrong."""
    _known(name, entry, ("op", "inputs", "weights", "attributes", "constants", "then", "before"))
    inputs = _shapes(name, "inputs", entry.get("inputs", []), least=1)
    if not inputs:
        raise WorkloadError(f"{name}: inputs: needs the shape of at least one")
    before = entry.get("before", [])
    if not isinstance(before, list) or len(before) > len(inputs):
        raise WorkloadError(f"{name}: before: has {before!r}; needs a list of operators for each input")
    return SingleOperator(
        name, _op(name, entry), inputs, _shapes(name, "weights", entry.get("weights", []), least=1),
        _attributes(name, entry), _shapes(name, "constants", entry.get("constants", []), least=-_LARGEST),
        _several(f"{name}: then", entry.get("then", [])),
        tuple([_several(f"{name}: before.{number}", own) for number, own in enumerate(before)]),
    )  # fmt: skip


def _several(where: str, value: object) -> tuple[Beside, ...]:
    """Return a list of operators, each an ONNX name or a mapping; raise ``WorkloadError`` for anything else."""
    if not isinstance(value, list) or not all(isinstance(each, str | Mapping) for each in value):
        raise WorkloadError(f"{where}: has {value!r}; needs a list of ONNX names, such as [Relu]")
    return tuple([_beside(where, {"op": each} if isinstance(each, str) else each) for each in value])


def _beside(where: str, entry: Mapping[str, object]) -> Beside:
    _known(where, entry, ("op", "attributes", "weights"))
    weights = _shapes(where, "weights", entry.get("weights", []), least=1)
    return Beside(_op(where, entry), _attributes(where, entry), weights)


def _known(where: str, entry: Mapping[str, object], keys: Sequence[str]) -> None:
    unknown = [key for key in entry if key not in keys]
    if unknown:
        raise WorkloadError(f"{where}: {unknown[0]}: is unknown; known: {', '.join(sorted(keys))}")


def _op(where: str, entry: Mapping[str, object]) -> str:
    op = entry.get("op")
    if not isinstance(op, str) or not op.isidentifier():
        raise WorkloadError(f"{where}: op: has {op!r}; needs the ONNX name of an operator, such as Conv")
    return op


def _attributes(where: str, entry: Mapping[str, object]) -> dict[str, Attribute]:
    attributes = entry.get("attributes", {})
    if not isinstance(attributes, Mapping) or not all(isinstance(key, str) for key in attributes):
        raise WorkloadError(f"{where}: attributes: has {attributes!r}; needs names and values")
    return dict(attributes)


def _shapes(name: str, key: str, value: object, least: int) -> tuple[tuple[int, ...], ...]:
    """Return lists of whole numbers; raise ``WorkloadError`` for anything else."""
    is_right = isinstance(value, Sequence) and not isinstance(value, str) and all(
        isinstance(each, list) and all(type(size) is int and least <= size <= _LARGEST for size in each)
        for each in value
    )  # fmt: skip
    if not is_right:
        needs = f"needs lists of whole numbers from {least}, such as [[1, 64]]"
        raise WorkloadError(f"{name}: {key}: has {value!r}; {needs}")
    assert isinstance(value, Sequence)
    return tuple([tuple(each) for each in value])
