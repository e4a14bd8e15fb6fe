"""Totals of an ONNX graph: nodes, weights, multiply-accumulate operations."""

import math
from dataclasses import dataclass

import onnx
from onnx import GraphProto, ModelProto, NodeProto

from dsascape.workloads.export.stripping import weight_names

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Counts:
    """Figures to compare with the papers' tables."""

    nodes: int
    """Nodes, without Constant nodes."""

    constant_nodes: int
    parameters: int
    flops: int
    """Twice the multiply-accumulate operations of Conv, ConvTranspose, Gemm and MatMul."""

    def __str__(self) -> str:
        return (
            f"{self.nodes}+{self.constant_nodes}c nodes, {self.parameters / 1e6:.2f} M parameters, "
            f"{self.flops / 1e9:.4g} GFLOP"
        )


def count(model: ModelProto) -> Counts:
    """Return the figures of a stripped ``model``."""
    graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    shapes = _shapes(graph)
    weights = weight_names(model)
    small = sum(math.prod(t.dims) for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT)
    constants = sum(node.op_type == "Constant" for node in graph.node)
    return Counts(
        nodes=len(graph.node) - constants,
        constant_nodes=constants,
        parameters=sum(math.prod(shapes[name]) for name in weights) + small,
        flops=2 * sum(_multiply_accumulates(node, shapes) for node in graph.node),
    )


def _shapes(graph: GraphProto) -> dict[str, Shape]:
    values = [*graph.input, *graph.output, *graph.value_info]
    shapes = {v.name: tuple(dim.dim_value for dim in v.type.tensor_type.shape.dim) for v in values}
    return shapes | {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}


def _multiply_accumulates(node: NodeProto, shapes: dict[str, Shape]) -> int:
    if node.op_type == "Conv":
        # weight: (output channels, input channels of a group, kernel ...)
        return math.prod(shapes[node.output[0]]) * math.prod(shapes[node.input[1]][1:])
    if node.op_type == "ConvTranspose":
        # weight: (input channels, output channels of a group, kernel ...)
        return math.prod(shapes[node.input[0]]) * math.prod(shapes[node.input[1]][1:])
    if node.op_type == "MatMul":
        return math.prod(shapes[node.output[0]]) * shapes[node.input[0]][-1]
    if node.op_type == "Gemm":
        transposed = any(a.name == "transA" and a.i for a in node.attribute)
        return math.prod(shapes[node.output[0]]) * shapes[node.input[0]][0 if transposed else 1]
    return 0
