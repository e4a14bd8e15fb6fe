"""Networks of one operator, and what follows it element by element, from a description of shapes.

A description is an ONNX operator with the shapes of its inputs and weights and with its attributes, so that whatever
the importer knows can be described.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    then: tuple[str, ...] = ()
    """ONNX names of operators of one operand that follow it, such as Relu."""


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
    weights = [
        numpy_helper.from_array(np.full(shape, 0.5, np.float32), f"w{number}")
        for number, shape in enumerate(described.weights)
    ]
    weights += [
        numpy_helper.from_array(np.array(values, np.int64), f"c{number}")
        for number, values in enumerate(described.constants)
    ]
    operands = [*[each.name for each in inputs], *[each.name for each in weights]]
    attributes: dict[str, Any] = dict(described.attributes)
    results = [*[f"y{number}" for number in range(len(described.then))], described.name]
    nodes = [helper.make_node(described.op, operands, results[:1], name=described.op.lower(), **attributes)]
    for op, operand, result in zip(described.then, results, results[1:], strict=False):
        nodes.append(helper.make_node(op, [operand], [result], name=f"{op.lower()} of {described.name}"))
    output = helper.make_tensor_value_info(described.name, TensorProto.FLOAT, None)
    body = helper.make_graph(nodes, described.name, inputs, [output], weights)
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", OPSET)])
    return shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)


def described(name: str, entry: Mapping[str, object]) -> SingleOperator:
    """Return the operator that an entry of a file describes; raise ``WorkloadError`` with the key that is wrong."""
    known = {"op", "inputs", "weights", "attributes", "constants", "then"}
    unknown = [key for key in entry if key not in known]
    if unknown:
        raise WorkloadError(f"{name}: {unknown[0]}: is unknown; known: {', '.join(sorted(known))}")
    op = entry.get("op")
    if not isinstance(op, str) or not op.isidentifier():
        raise WorkloadError(f"{name}: op: has {op!r}; needs the ONNX name of an operator, such as Conv")
    attributes = entry.get("attributes", {})
    if not isinstance(attributes, Mapping) or not all(isinstance(key, str) for key in attributes):
        raise WorkloadError(f"{name}: attributes: has {attributes!r}; needs names and values")
    then = entry.get("then", [])
    if not isinstance(then, list) or not all(isinstance(each, str) and each.isidentifier() for each in then):
        raise WorkloadError(f"{name}: then: has {then!r}; needs a list of ONNX names, such as [Relu]")
    inputs = _shapes(name, "inputs", entry.get("inputs", []), least=1)
    if not inputs:
        raise WorkloadError(f"{name}: inputs: needs the shape of at least one")
    return SingleOperator(
        name, op, inputs, _shapes(name, "weights", entry.get("weights", []), least=1), dict(attributes),
        _shapes(name, "constants", entry.get("constants", []), least=-_LARGEST), tuple(then),
    )  # fmt: skip


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
