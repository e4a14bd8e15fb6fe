"""Nodes that no output needs are dropped; functions of another opset are converted, or rejected with both numbers."""

from collections.abc import Sequence

import onnx
import pytest
from onnx import TensorProto, helper

from dsascape.workloads.graph import WorkloadError
from dsascape.workloads.onnx_file import parse_onnx
from dsascape.workloads.onnx_import import graph_from_file
from dsascape.workloads.reimport import ImportOptions


def _data(nodes: Sequence[onnx.NodeProto], functions: Sequence[onnx.FunctionProto], rows: int = 1) -> bytes:
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 4])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 4])
    graph = helper.make_graph(nodes, "g", [given], [result])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    return helper.make_model(graph, functions=functions, opset_imports=imports).SerializeToString()


def test_a_node_of_a_custom_domain_that_no_output_needs_is_dropped() -> None:
    nodes = [
        helper.make_node("Odd", ["x"], ["a"], domain="elsewhere"),
        helper.make_node("Odd", ["a"], ["b"], domain="elsewhere"),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    graph = graph_from_file(parse_onnx(_data(nodes, []), "dead.onnx"), "dead", ImportOptions())
    assert [op.kind for op in graph.ops] == ["Relu"]


def test_a_function_of_another_opset_is_converted_to_that_of_the_network() -> None:
    body = [helper.make_node("Softmax", ["a"], ["b"], axis=0)]  # in opset 11 over all elements, in 17 over the first
    function = helper.make_function("d", "F", ["a"], ["b"], body, [helper.make_opsetid("", 11)])
    data = _data([helper.make_node("F", ["x"], ["y"], domain="d")], [function], rows=2)
    graph = graph_from_file(parse_onnx(data, "f.onnx"), "f", ImportOptions())
    assert "Flatten" in [op.kind for op in graph.ops]


def test_a_function_that_cannot_be_converted_is_refused_with_both_opsets() -> None:
    body = [helper.make_node("Squeeze", ["a"], ["b"], axes=[0])]
    function = helper.make_function("d", "S", ["a"], ["b"], body, [helper.make_opsetid("", 11)])
    nodes = [helper.make_node("S", ["x"], ["t"], domain="d"), helper.make_node("Relu", ["t"], ["y"])]
    with pytest.raises(WorkloadError, match="the function is written in opset 11, the network in 17"):
        parse_onnx(_data(nodes, [function]), "f.onnx")


def test_a_function_of_the_networks_own_opset_is_written_out() -> None:
    body = [helper.make_node("Relu", ["a"], ["b"])]
    function = helper.make_function("d", "F", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    data = _data([helper.make_node("F", ["x"], ["y"], domain="d")], [function])
    graph = graph_from_file(parse_onnx(data, "f.onnx"), "f", ImportOptions())
    assert [op.kind for op in graph.ops] == ["Relu"]
