"""Values of weights that a file has none for, drawn by what they do in the network.

A weight's role is that of the first operator that computes with it, seen through operators that only move or cast it: a
kernel that is transposed first is still a kernel. What is summed over is divided by the root of how much that is, so
that sums keep their operands' magnitude; factors are near one, shifts small; and all that a root, a logarithm or a
division reaches through sums and products is positive, such as the variance of a normalisation that is written out.
"""

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from dsascape.workloads.operators.registry import Array
from dsascape.workloads.walk_state import Walk, attributes_of

_KERNEL_PLACES: Mapping[str, tuple[int, ...]] = {
    "Conv": (1,), "ConvTranspose": (1,), "DeformConv": (1,), "Gemm": (0, 1), "MatMul": (0, 1), "Einsum": (0, 1, 2),
    "LSTM": (1, 2), "GRU": (1, 2), "RNN": (1, 2),
}  # fmt: skip
"""Positions of operands that are multiplied and summed over, by operator."""
_SHIFT_PLACES: Mapping[str, tuple[int, ...]] = {
    "Conv": (2,), "ConvTranspose": (2,), "DeformConv": (3,), "Gemm": (2,), "LayerNormalization": (2,),
    "GroupNormalization": (2,), "InstanceNormalization": (2,), "BatchNormalization": (2, 3),
    "LSTM": (3, 5, 6), "GRU": (3, 5), "RNN": (3, 5), "Add": (0, 1), "Gather": (0,), "Sub": (0, 1),
}  # fmt: skip
"""Positions of operands that are added or subtracted, by operator."""
_POSITIVE_PLACES: Mapping[str, tuple[int, ...]] = {
    "Sqrt": (0,), "Log": (0,), "Reciprocal": (0,), "Div": (1,), "Pow": (0,), "BatchNormalization": (4,),
}  # fmt: skip
"""Positions of operands that have to be above zero, by operator."""
_MOVES = frozenset({
    "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Cast", "Identity", "Expand", "Slice", "Tile", "Split",
})  # fmt: skip
"""Operators that move the elements of their first operand."""
_KEEP_POSITIVE = frozenset({"Add", "Mul", "Max", "Min", "Sum", "Mean", "Div", "Sqrt", "Pow", "Concat", *_MOVES})
"""Operators whose result is above zero where all their operands are."""
_STEPS = 2**8
"""Steps to which the mantissa of a drawn weight is rounded: as fine as bfloat16."""


def weight_values(walk: Walk, nodes: Sequence[onnx.NodeProto], seed: int) -> tuple[dict[str, Array], frozenset[str]]:
    """Return values for all weights that are not computed from others, and the names of those that were drawn.

    Those are drawn that the file has no values for, or values that are no numbers. They do not depend on edits of the
    network.
    """
    every = (*walk.unedited, *walk.once, *nodes)
    computed = {name for node in walk.once for name in node.output}
    readers: dict[str, tuple[onnx.NodeProto, int]] = {}
    for node in every:
        for place, name in enumerate(node.input):
            readers.setdefault(name, (node, place))
    positive = _positive(every)
    values: dict[str, Array] = {}
    drawn: set[str] = set()
    for name in readers:
        if name not in walk.weights or name in computed:
            continue
        kind = walk.types[name]
        value = walk.values.get(name)
        if value is None or _has_none(value):
            dtype, draw = helper.tensor_dtype_to_np_dtype(kind.element), generator(name, seed)
            value = _drawn(walk, readers, name, dtype, draw, is_positive=name in positive)
            drawn.add(name)
        values[name] = np.ascontiguousarray(value).reshape(kind.shape)
    return values, frozenset(drawn)


def _has_none(value: Array) -> bool:
    """Whether some numbers of a file are none, as a root of a variance drawn below zero leaves them."""
    return np.issubdtype(value.dtype, np.floating) and bool(np.isnan(value).any())


def generator(name: str, seed: int) -> np.random.Generator:
    """Return the source of random numbers of one tensor."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def _positive(nodes: Iterable[onnx.NodeProto]) -> frozenset[str]:
    """Return the tensors that have to be above zero, so that a root, a logarithm or a division is finite."""
    wanted: set[str] = set()
    writers = {name: node for node in nodes for name in node.output if name}
    waiting = [
        node.input[place] for node in nodes for place in _POSITIVE_PLACES.get(node.op_type, ())
        if place < len(node.input)
    ]  # fmt: skip
    while waiting:
        name = waiting.pop()
        if not name or name in wanted:
            continue
        wanted.add(name)
        writer = writers.get(name)
        if writer is not None and writer.op_type in _KEEP_POSITIVE:
            waiting += writer.input[:1] if writer.op_type in _MOVES else writer.input
    return frozenset(wanted)


def _drawn(
    walk: Walk, readers: Mapping[str, tuple[onnx.NodeProto, int]], name: str, dtype: np.dtype[Any],
    draw: np.random.Generator, *, is_positive: bool,
) -> Array:  # fmt: skip
    """Return random values for a weight: products keep their input's magnitude, factors are near one."""
    shape = walk.types[name].shape
    if not np.issubdtype(dtype, np.floating):
        return draw.integers(0, 2, shape).astype(dtype)
    node, place = readers[name]
    while node.op_type in _MOVES and place == 0 and node.output[0] in readers and node.output[0] in walk.types:
        name = node.output[0]
        node, place = readers[name]
    if place in _KERNEL_PLACES.get(node.op_type, ()):
        summed = _summed_over(node, place, walk.types[name].shape)
        return _coarse(draw.standard_normal(shape) / math.sqrt(max(summed, 1))).astype(dtype)
    if not is_positive and place in _SHIFT_PLACES.get(node.op_type, ()):
        return _coarse(0.1 * draw.standard_normal(shape)).astype(dtype)
    return _coarse(draw.uniform(0.5, 1.5, shape)).astype(dtype)


def _coarse(values: Array) -> Array:
    """Return ``values`` with mantissas rounded to their leading bits, so that files with many of them compress."""
    fraction, exponent = np.frexp(values)
    return np.ldexp(np.round(fraction * _STEPS) / _STEPS, exponent)


def _summed_over(node: onnx.NodeProto, place: int, shape: tuple[int, ...]) -> int:
    """Return the number of products that are summed per output."""
    if node.op_type in ("Conv", "DeformConv"):
        return math.prod(shape[1:])
    if node.op_type == "ConvTranspose":
        return shape[0]
    if node.op_type in ("LSTM", "GRU", "RNN"):
        return shape[-1]
    if node.op_type == "Einsum":
        return _summed_by(node, place, shape)
    if node.op_type == "Gemm":
        is_turned = bool(attributes_of(node).get("transA" if place == 0 else "transB", 0))
        return shape[0] if is_turned == (place == 0) else shape[-1]
    return shape[-2] if place and len(shape) > 1 else shape[-1]


def _summed_by(node: onnx.NodeProto, place: int, shape: tuple[int, ...]) -> int:
    """Return the elements of an operand of an Einsum along the dimensions that its result lacks."""
    operands, _, result = attributes_of(node)["equation"].decode().replace(" ", "").partition("->")
    own = operands.split(",")[place]
    sizes = dict(zip(reversed(own.replace("...", "")), reversed(shape), strict=False))
    return math.prod([size for letter, size in sizes.items() if letter not in result]) if result else math.prod(shape)
