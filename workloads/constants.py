"""Constant folding at import: shape arithmetic, index tables, constant masks.

Only the operators of ``FOLDED`` are computed, each only if a bound of its result's size is small: a file of a few
hundred bytes can ask for exabytes, or for a loop that does not end.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from dsascape.workloads.onnx_file import LARGEST_KNOWN_VALUE, tensor_value
from dsascape.workloads.operators.registry import Array

LARGEST_ELEMENT_BYTES = 16
"""Bytes of the largest element type, a complex number of double precision."""
LARGEST_FOLDED_BYTES = LARGEST_KNOWN_VALUE * LARGEST_ELEMENT_BYTES
"""Bytes of one folded result at most: 1 MiB. A larger result keeps its shape only."""
MOST_FOLDED_BYTES = 256 * 2**20
"""Bytes of all folded results of one network at most; later results keep their shape only."""

Attributes = Mapping[str, Any]
Values = Sequence[Array]
Elements = Callable[[Attributes, Values], float]
"""Returns an upper bound of a result's elements, from attributes and operands."""
Fold = Callable[[Attributes, Values], Array]

_ELEMENTWISE = (
    "Abs", "Add", "And", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Ceil", "Clip", "Cos",
    "Div", "Equal", "Exp", "Floor", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Log", "Max", "Min", "Mod",
    "Mul", "Neg", "Not", "Or", "Pow", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sqrt", "Sub", "Sum",
    "Tanh", "Where", "Xor",
)  # fmt: skip
_NO_LARGER = (
    "ArgMax", "ArgMin", "Cast", "CastLike", "Compress", "CumSum", "EyeLike", "Flatten", "Identity", "ReduceL1",
    "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "ScatterElements",
    "ScatterND", "Slice", "Squeeze", "Transpose", "Trilu", "Unsqueeze",
)  # fmt: skip
"""Operators that write at most as many elements as their first input has."""


def _broadcast(_: Attributes, values: Values) -> float:
    return math.prod(np.broadcast_shapes(*(value.shape for value in values)))


def _as_first(_: Attributes, values: Values) -> float:
    return values[0].size


def _listed_sizes(_: Attributes, values: Values) -> float:
    """Return the product of the sizes that the last input lists."""
    return float(np.prod(np.maximum(values[-1].astype(np.float64), 1)))


def _gathered(attributes: Attributes, values: Values) -> float:
    data, chosen = values
    return float(data.size / max(data.shape[int(attributes.get("axis", 0))], 1) * chosen.size)


def _gathered_slices(_: Attributes, values: Values) -> float:
    data, chosen = values
    depth = chosen.shape[-1]
    return float(chosen.size / max(depth, 1) * math.prod(data.shape[depth:]))


def _counted(_: Attributes, values: Values) -> float:
    start, limit, delta = (float(value.reshape(-1)[0]) for value in values)
    return (limit - start) / delta + 1 if delta else math.inf


def _window(_: Attributes, values: Values) -> float:
    return float(values[0].reshape(-1)[0])


def _mel_weights(_: Attributes, values: Values) -> float:
    bands, length = (max(float(value.reshape(-1)[0]), 1.0) for value in values[:2])
    return bands * (length / 2 + 1)


def _split(attributes: Attributes, values: Values) -> float:
    return max(values[0].size, int(attributes.get("num_outputs", 0)))


FOLDED: Mapping[str, Elements] = {
    **dict.fromkeys(_ELEMENTWISE, _broadcast),
    **dict.fromkeys(_NO_LARGER, _as_first),
    "Concat": lambda _, v: sum(value.size for value in v),
    "ConstantOfShape": _listed_sizes,
    "Expand": lambda _, v: v[0].size * _listed_sizes(_, v),
    "Tile": lambda _, v: v[0].size * _listed_sizes(_, v),
    "Gather": _gathered,
    "GatherElements": lambda _, v: v[1].size,
    "GatherND": _gathered_slices,
    "NonZero": lambda _, v: v[0].size * max(v[0].ndim, 1),
    "Range": _counted,
    "Split": _split,
    "BlackmanWindow": _window,
    "HammingWindow": _window,
    "HannWindow": _window,
    "MelWeightMatrix": _mel_weights,
}
"""Operators that are computed at import, each with an upper bound of the elements that it writes."""


def _unsqueeze(attributes: Attributes, values: Values) -> Array:
    axes = attributes["axes"] if len(values) == 1 else values[1].reshape(-1).tolist()
    rank = values[0].ndim + len(axes)
    return np.expand_dims(values[0], tuple(sorted(axis % rank for axis in axes)))


def _squeeze(attributes: Attributes, values: Values) -> Array:
    axes = attributes.get("axes") if len(values) == 1 else values[1].reshape(-1).tolist()
    return np.squeeze(values[0], None if axes is None else tuple(axes))


def _divide(_: Attributes, values: Values) -> Array:
    left, right = values
    if np.issubdtype(left.dtype, np.integer):
        return (
            np.asarray(np.trunc(left / right).astype(left.dtype))
            if np.any(left < 0)
            else np.asarray(left // right)
        )
    return np.asarray(left / right)


def _scatter_elements(attributes: Attributes, values: Values) -> Array:
    data, chosen, updates = values
    result = data.copy()
    _refuse_reduction(attributes)
    np.put_along_axis(result, chosen, updates, axis=int(attributes.get("axis", 0)))
    return result


def _scatter_slices(attributes: Attributes, values: Values) -> Array:
    data, chosen, updates = values
    result = data.copy()
    _refuse_reduction(attributes)
    result[tuple(np.moveaxis(chosen, -1, 0))] = updates
    return result


def _refuse_reduction(attributes: Attributes) -> None:
    if attributes.get("reduction", b"none") != b"none":
        raise NotImplementedError


def _gather_slices(attributes: Attributes, values: Values) -> Array:
    if attributes.get("batch_dims", 0):
        raise NotImplementedError
    return np.asarray(values[0][tuple(np.moveaxis(values[1], -1, 0))])


_DIRECTLY: Mapping[str, Fold] = {
    "Gather": lambda a, v: np.take(v[0], v[1], axis=int(a.get("axis", 0))),
    "GatherElements": lambda a, v: np.take_along_axis(v[0], v[1], axis=int(a.get("axis", 0))),
    "GatherND": _gather_slices,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_slices,
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
"""Folds in numpy for the usual shape arithmetic; the rest goes through the slower ONNX reference evaluator."""


def fold(
    node: onnx.NodeProto,
    attributes: Attributes,
    values: Values,
    opset: int,
    room_bytes: int = LARGEST_FOLDED_BYTES,
) -> list[Array] | None:
    """Return the outputs of ``node`` for known inputs.

    None where they are not folded: too large, larger than ``room_bytes``, or not computable.
    """
    if node.op_type == "Constant":
        value = _constant(node)
        return None if value is None else [value]
    bound = FOLDED.get(node.op_type)
    if bound is None:
        return None
    try:
        elements = bound(attributes, values)
        if not elements * LARGEST_ELEMENT_BYTES <= min(room_bytes, LARGEST_FOLDED_BYTES):
            return None
        with np.errstate(all="ignore"):
            return _computed(node, attributes, values, opset)
    except (ValueError, TypeError, LookupError, ArithmeticError, RuntimeError, AttributeError):
        return None


def _computed(node: onnx.NodeProto, attributes: Attributes, values: Values, opset: int) -> list[Array]:
    direct = _DIRECTLY.get(node.op_type)
    if direct is not None:
        return [direct(attributes, values)]
    single = onnx.helper.make_node(node.op_type, node.input, node.output)
    single.attribute.extend(node.attribute)
    names = [name for name in node.input if name]
    evaluator = ReferenceEvaluator(single_node_model(single, opset))
    return [np.asarray(r) for r in evaluator.run(None, dict(zip(names, values, strict=True)))]


def single_node_model(node: onnx.NodeProto, opset: int) -> onnx.ModelProto:
    """Return the model that is ``node`` alone, its tensors untyped."""
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
