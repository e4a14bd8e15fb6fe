"""Folding of what is known before the network runs: shape arithmetic, index tables, constant masks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from workloads.onnx_file import LARGEST_KNOWN_VALUE, tensor_value
from workloads.operators.registry import Array

Fold = Callable[[Mapping[str, Any], Sequence[Array]], Array]


def _unsqueeze(attributes: Mapping[str, Any], values: Sequence[Array]) -> Array:
    axes = attributes["axes"] if len(values) == 1 else values[1].reshape(-1).tolist()
    rank = values[0].ndim + len(axes)
    return np.expand_dims(values[0], tuple(sorted(axis % rank for axis in axes)))


def _squeeze(attributes: Mapping[str, Any], values: Sequence[Array]) -> Array:
    axes = attributes.get("axes") if len(values) == 1 else values[1].reshape(-1).tolist()
    return np.squeeze(values[0], None if axes is None else tuple(axes))


def _divide(_: Mapping[str, Any], values: Sequence[Array]) -> Array:
    left, right = values
    if np.issubdtype(left.dtype, np.integer):
        return (
            np.asarray(np.trunc(left / right).astype(left.dtype))
            if np.any(left < 0)
            else np.asarray(left // right)
        )
    return np.asarray(left / right)


_FOLDS: dict[str, Fold] = {
    "Gather": lambda a, v: np.take(v[0], v[1], axis=int(a.get("axis", 0))),
    "Concat": lambda a, v: np.concatenate(v, axis=int(a["axis"])),
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Add": lambda _, v: np.asarray(v[0] + v[1]),
    "Sub": lambda _, v: np.asarray(v[0] - v[1]),
    "Mul": lambda _, v: np.asarray(v[0] * v[1]),
    "Div": _divide,
    "Identity": lambda _, v: v[0],
    "Floor": lambda _, v: np.floor(v[0]),
    "Range": lambda _, v: np.arange(*(bound.reshape(-1)[0] for bound in v), dtype=v[0].dtype),
    "Equal": lambda _, v: np.asarray(v[0] == v[1]),
    "Where": lambda _, v: np.where(v[0], v[1], v[2]),
}
"""The operators that shape arithmetic is made of; the rest goes through the ONNX reference evaluator."""

_RANDOM = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
)


def fold(
    node: onnx.NodeProto, attributes: Mapping[str, Any], values: Sequence[Array], opset: int
) -> list[Array] | None:
    """Return the outputs of ``node`` for known inputs, or None where they are large or cannot be had."""
    if node.op_type in _RANDOM:
        return None
    if node.op_type == "Constant":
        value = _constant(node)
        return None if value is None else [value]
    try:
        simple = _FOLDS.get(node.op_type)
        if _is_large(node, values):
            return None
        if simple is not None:
            results = [simple(attributes, values)]
        else:
            model = onnx.helper.make_node(node.op_type, node.input, node.output)
            model.attribute.extend(node.attribute)
            names = [name for name in node.input if name]
            evaluator = ReferenceEvaluator(_single(model, opset))
            results = [np.asarray(r) for r in evaluator.run(None, dict(zip(names, values, strict=True)))]
    except (ValueError, TypeError, IndexError, KeyError, RuntimeError, AttributeError, NotImplementedError):
        return None
    return results if all(result.size <= LARGEST_KNOWN_VALUE for result in results) else None


def _is_large(node: onnx.NodeProto, values: Sequence[Array]) -> bool:
    """Whether the result's size is in the values themselves and beyond what is kept."""
    if node.op_type in ("ConstantOfShape", "Expand", "Tile") and values:
        wanted = values[-1].astype(np.float64).reshape(-1)
        base = 1.0 if node.op_type != "Tile" else float(values[0].size)
        return bool(np.prod(np.maximum(wanted, 1)) * base > LARGEST_KNOWN_VALUE)
    if node.op_type == "Range":
        start, limit, delta = (float(v.reshape(-1)[0]) for v in values)
        return delta == 0 or (limit - start) / delta > LARGEST_KNOWN_VALUE
    return node.op_type == "Pad"


def _single(node: onnx.NodeProto, opset: int) -> onnx.ModelProto:
    untyped = [onnx.ValueInfoProto(name=name) for name in node.input if name]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], "fold", untyped, outputs)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])


def _constant(node: onnx.NodeProto) -> Array | None:
    for attribute in node.attribute:
        if attribute.name == "value":
            return tensor_value(attribute.t)
        if attribute.name in ("value_int", "value_ints"):
            return np.asarray(onnx.helper.get_attribute_value(attribute), dtype=np.int64)
        if attribute.name in ("value_float", "value_floats"):
            return np.asarray(onnx.helper.get_attribute_value(attribute), dtype=np.float32)
    return None
