"""Small quantised networks as files have them: weights of few bits with scales, and products between QDQ operators."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from dsascape.workloads import Graph, import_onnx
from dsascape.workloads.operators.registry import Array

_OPSET, _IR = 21, 10
BITS: dict[int, int] = {TensorProto.INT4: 4, TensorProto.UINT4: 4, TensorProto.INT8: 8, TensorProto.UINT8: 8,
        TensorProto.FLOAT8E4M3FN: 8, TensorProto.FLOAT8E5M2: 8}  # fmt: skip
"""Bits of a number, by ONNX's element type."""
_FINITE_BYTES = 112
"""Bytes below this one are finite numbers in either format of eight bits."""


def model(
    nodes: Sequence[onnx.NodeProto], constants: Sequence[onnx.TensorProto], inputs: dict[str, Any], output: str = "y"
) -> onnx.ModelProto:
    entries = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    result = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
    body = helper.make_graph(nodes, "quantised", entries, [result], constants)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)


def read(built: onnx.ModelProto, dtype: str = "fp16") -> Graph:
    return import_onnx(built.SerializeToString(), name="quantised").with_dtype(dtype)


def packed(name: str, element: int, *shape: int) -> onnx.TensorProto:
    """Return a tensor of numbers of few bits, the same in each run."""
    size_bytes = math.prod(shape) * BITS[element] // 8
    raw = np.random.default_rng(0).integers(0, _FINITE_BYTES, size_bytes).astype(np.uint8).tobytes()
    return helper.make_tensor(name, element, shape, raw, raw=True)


def floats(name: str, *shape: int, scale: float = 0.01) -> onnx.TensorProto:
    values = scale * (1 + np.arange(math.prod(shape), dtype=np.float32) % 7)
    return numpy_helper.from_array(values.reshape(shape), name)


def weights_of_few_bits(element: int, rows: int, depth: int, columns: int, block: int) -> onnx.ModelProto:
    """Return a product with weights of which each ``block`` of a column has a scale."""
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["wide"], name="wide", axis=0, block_size=block),
        helper.make_node("MatMul", ["x", "wide"], ["y"], name="product"),
    ]
    constants = [packed("w", element, depth, columns), floats("s", depth // block, columns)]
    return model(nodes, constants, {"x": [rows, depth]})


def product_of_quantised(element: int, rows: int, depth: int, columns: int) -> onnx.ModelProto:
    """Return the product of two quantised matrices, the weights with a scale for each column."""
    steps = [floats("sx"), helper.make_tensor("zx", element, [], [0])]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["xq"], name="xq"),
        helper.make_node("DequantizeLinear", ["xq", "sx", "zx"], ["xd"], name="xd"),
        helper.make_node("DequantizeLinear", ["w", "sw"], ["wd"], name="wd", axis=1),
        helper.make_node("MatMul", ["xd", "wd"], ["y"], name="product"),
    ]
    return model(nodes, [*steps, packed("w", element, depth, columns), floats("sw", columns)], {"x": [rows, depth]})


def residual_block(element: int, channels: int, size: int) -> onnx.ModelProto:
    """Return two convolutions around which everything is quantised, and an addition of what they read."""
    constants = [floats("s", scale=0.02), helper.make_tensor("z", element, [], [0])]
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q0"], name="q0")]
    for number in range(2):
        weight, scale, wide, before = f"w{number}", f"sw{number}", f"wd{number}", f"q{number}"
        constants += [packed(weight, element, channels, channels, 3, 3), floats(scale, channels, scale=0.001)]
        nodes += [
            helper.make_node("DequantizeLinear", [before, "s", "z"], [f"d{number}"], name=f"d{number}"),
            helper.make_node("DequantizeLinear", [weight, scale], [wide], name=wide, axis=0),
            helper.make_node("Conv", [f"d{number}", wide], [f"c{number}"], name=f"c{number}", pads=[1] * 4),
        ]
        last = f"c{number}"
        if number:
            nodes.append(helper.make_node("DequantizeLinear", ["q0", "s", "z"], ["skip"], name="skip"))
            nodes.append(helper.make_node("Add", [last, "skip"], ["sum"], name="sum"))
            last = "sum"
        nodes += [
            helper.make_node("Relu", [last], [f"r{number}"], name=f"r{number}"),
            helper.make_node("QuantizeLinear", [f"r{number}", "s", "z"], [f"q{number + 1}"], name=f"q{number + 1}"),
        ]
    nodes.append(helper.make_node("DequantizeLinear", ["q2", "s", "z"], ["y"], name="y"))
    return model(nodes, constants, {"x": [1, channels, size, size]})


def product_of_few_bits(
    rows: int, depth: int, columns: int, *, bits: int = 4, has_zeros: bool = True, has_bias: bool = False
) -> Graph:
    """Return com.microsoft::MatMulNBits with weights that a file would have."""
    draw, block, each = np.random.default_rng(0), 32, 8 // bits
    blocks = -(-depth // block)
    known: dict[str, Array] = {
        "b": draw.integers(0, 256, (columns, blocks, block // each)).astype(np.uint8),
        "s": draw.uniform(0.01, 0.1, (columns, blocks)).astype(np.float32),
        "z": draw.integers(0, 256, (columns, -(-blocks // each))).astype(np.uint8),
        "bias": draw.uniform(-1, 1, columns).astype(np.float32),
    }
    names = ["a", "b", "s", "z" if has_zeros else "", "", "bias" if has_bias else ""]
    node = helper.make_node(
        "MatMulNBits", names, ["y"], domain="com.microsoft", K=depth, N=columns, bits=bits, block_size=block
    )  # fmt: skip
    entries = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("a", [rows, depth]), ("y", [rows, columns]))
    ]
    constants = [numpy_helper.from_array(value, name) for name, value in known.items() if name in names]
    body = helper.make_graph([node], "few_bits", entries[:1], entries[1:], constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return import_onnx(helper.make_model(body, opset_imports=opsets, ir_version=10).SerializeToString(), name="few")
