"""Quantised twins of the zoo's networks, as runtimes of phones run them: INT8 convolutions between other operators.

Every convolution, and every product with weights, reads its data through a `QuantizeLinear` and a `DequantizeLinear`,
and weights of eight bits with a scale for each output channel. Policies that fuse fold the latter into the product
(`workloads.folded_dequantisation`), whose sums are scaled; the former is an element-wise operator behind whatever made
the data. Data that several operators read is quantised once, and stored in the network's dtype as well where others
than products read it. ncnn computes networks so (its ``*_int8`` models), and ONNX files of quantised networks say so.
"""

from collections.abc import Iterator

import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper

from dsascape.workloads.onnx_file import WEIGHTS_KEY

SUFFIX = "-int8"
"""What the name of a quantised twin ends with."""
_OUTPUT_CHANNELS = {"Conv": 0, "Gemm": 0, "MatMul": 1}
"""Dimension of weights along which scales differ, by operator."""


def quantised(content: bytes) -> bytes:
    """Return the stripped ONNX model in ``content`` with its products quantised; values are those of no network."""
    model = onnx.load_from_string(content)
    graph = model.graph
    listed = next(entry for entry in model.metadata_props if entry.key == WEIGHTS_KEY)
    weights = set(listed.value.split(","))
    types = {value.name: value.type.tensor_type for value in graph.input}
    nodes: list[NodeProto] = []
    scales: list[str] = []
    known: set[str] = set()
    for node in graph.node:
        if node.op_type in _OUTPUT_CHANNELS and node.input[1] in weights:
            for name, added in zip(node.input[:2], (_data(node.input[0]), _weight(node)), strict=True):
                if name not in known:
                    known.add(name)
                    nodes += added
            axis = _axis(node)
            if not _is_scaled(graph, node.input[1]):
                types[node.input[1]].elem_type = TensorProto.INT8
                channels = types[node.input[1]].shape.dim[axis].dim_value
                scales.append(f"{node.input[1]}.scale")
                graph.input.append(helper.make_tensor_value_info(scales[-1], TensorProto.FLOAT, [channels]))
            node.input[0], node.input[1] = f"{node.input[0]}.wide", f"{node.input[1]}.wide"
        nodes.append(node)
    graph.initializer.append(helper.make_tensor("data.scale", TensorProto.FLOAT, [], [0.05]))
    graph.initializer.append(helper.make_tensor("data.zero", TensorProto.INT8, [], [0]))
    kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)
    listed.value = ",".join((listed.value, *scales))
    return bytes(model.SerializeToString())


def _is_scaled(graph: GraphProto, weight: str) -> bool:
    return any(value.name == f"{weight}.scale" for value in graph.input)


def _axis(node: NodeProto) -> int:
    """Return the dimension of a product's weights that its scales go along."""
    is_turned = any(each.name == "transB" and each.i == 0 for each in node.attribute)
    return 1 if node.op_type == "Gemm" and is_turned else _OUTPUT_CHANNELS[node.op_type]


def _data(name: str) -> Iterator[NodeProto]:
    """Yield the operators that quantise data, and widen it again."""
    parameters = ["data.scale", "data.zero"]
    yield helper.make_node("QuantizeLinear", [name, *parameters], [f"{name}.narrow"], name=f"{name}.narrow")
    yield helper.make_node("DequantizeLinear", [f"{name}.narrow", *parameters], [f"{name}.wide"], name=f"{name}.wide")


def _weight(node: NodeProto) -> Iterator[NodeProto]:
    """Yield the operator that widens a product's weights."""
    name = node.input[1]
    yield helper.make_node(
        "DequantizeLinear", [name, f"{name}.scale"], [f"{name}.wide"], name=f"{name}.wide", axis=_axis(node)
    )
