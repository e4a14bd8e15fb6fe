"""An input of length zero is accepted, and adds nothing where it is concatenated."""

import pytest
from onnx import TensorProto, helper

from dsascape.workloads.graph import Graph, WorkloadError
from dsascape.workloads.onnx_file import parse_onnx
from dsascape.workloads.onnx_import import graph_from_file
from dsascape.workloads.reimport import ImportOptions


def _graph(past: int) -> Graph:
    nodes = [helper.make_node("Concat", ["past", "x"], ["all"], axis=1), helper.make_node("Relu", ["all"], ["y"])]
    given = [
        helper.make_tensor_value_info("past", TensorProto.FLOAT, [1, "past", 4]),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, None, 4])]
    graph = helper.make_graph(nodes, "g", given, outputs)
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    return graph_from_file(parse_onnx(data, "kv.onnx"), "kv", ImportOptions(dims=(("past", past),)))


def test_an_input_of_length_zero_is_dropped() -> None:
    graph = _graph(0)
    assert graph.inputs == ("x",)
    assert graph.tensors["y"].shape == (1, 3, 4)


def test_a_negative_length_is_refused() -> None:
    with pytest.raises(WorkloadError, match="needs a whole number from 0"):
        _graph(-1)
