"""Operations and parameters from the loop nests agree with independent counts, network by network."""

import math

import onnx
import pytest
from onnx import ModelProto, NodeProto

from dsascape.workloads import exported_names, load_network
from dsascape.workloads.zoo import zoo_entry

NAMES = [name for name in exported_names() if zoo_entry(name).sequence is None]
UNUSED = {"bert-tiny": 384 * 128, "bert-tiny-raw": 384 * 128}
"""Rows of the position table behind the sequence of 128, which nothing reads."""
Shapes = dict[str, tuple[int, ...]]


def shapes_of(model: ModelProto) -> Shapes:
    graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    values = [*graph.input, *graph.output, *graph.value_info]
    shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in values}
    return shapes | {t.name: tuple(t.dims) for t in graph.initializer}


def macs_of(node: NodeProto, shapes: Shapes) -> int:
    """Return the multiply-accumulates of a node by the formulas that everybody uses."""
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type == "Conv":
        return math.prod(shapes[node.output[0]]) * math.prod(shapes[node.input[1]][1:])
    if node.op_type == "ConvTranspose":
        return scattered(node, shapes)
    if node.op_type == "MatMul":
        return math.prod(shapes[node.output[0]]) * shapes[node.input[0]][-1]
    if node.op_type == "Gemm":
        depth = shapes[node.input[0]][0 if attributes.get("transA") else 1]
        return math.prod(shapes[node.output[0]]) * depth
    assert node.op_type != "Einsum"
    return 0


def scattered(node: NodeProto, shapes: Shapes) -> int:
    """Return the products of a transposed convolution that land inside its output, counted one by one."""
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    data, weight, output = shapes[node.input[0]], shapes[node.input[1]], shapes[node.output[0]]
    rank = len(data) - 2
    strides, pads = attributes.get("strides", [1] * rank), attributes.get("pads", [0] * 2 * rank)
    dilations = attributes.get("dilations", [1] * rank)
    landed = [
        sum(
            0 <= i * strides[d] + k * dilations[d] - pads[d] < output[2 + d]
            for i in range(data[2 + d])
            for k in range(weight[2 + d])
        )
        for d in range(rank)
    ]
    return int(data[0] * weight[0] * weight[1] * math.prod(landed))


@pytest.mark.parametrize("name", NAMES)
def test_multiply_accumulates_agree_with_the_usual_formulas(name: str) -> None:
    model = onnx.load_from_string(zoo_entry(name).read_bytes())
    shapes = shapes_of(model)
    expected = sum(macs_of(node, shapes) for node in model.graph.node)

    assert load_network(name).operations.macs == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_agree_with_the_weights_in_the_file(name: str) -> None:
    model = onnx.load_from_string(zoo_entry(name).read_bytes())
    listed = next(entry.value for entry in model.metadata_props if entry.key == "weights").split(",")
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.input}
    small = [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT]
    expected = sum(math.prod(shapes[name]) for name in listed) + sum(math.prod(t.dims) for t in small)

    assert load_network(name).parameters == pytest.approx(expected - UNUSED.get(name, 0), rel=0.01)
