"""Pools in ceil mode have the shapes that onnxruntime computes, in every opset."""

import itertools
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from dsascape.workloads.onnx_file import parse_onnx
from dsascape.workloads.onnx_import import graph_from_file
from dsascape.workloads.reimport import ImportOptions


def _model(kind: str, opset: int, rank: int, attributes: dict[str, Any]) -> onnx.ModelProto:
    node = helper.make_node(kind, ["x"], ["y"], **attributes)
    shape = [1, 1, *(6, 7, 5)[:rank]]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * (rank + 2))
    graph = helper.make_graph([node], "g", [given], [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.sampled(18)
@pytest.mark.parametrize("opset", [10, 13, 18, 19, 21])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool"])
def test_pools_have_the_shape_that_onnxruntime_computes(kind: str, rank: int, opset: int) -> None:
    dilated = (kind == "MaxPool") or (kind == "AveragePool" and opset >= 19) or (kind == "LpPool" and opset >= 18)
    ceiled = kind != "LpPool" or opset >= 18
    cases = itertools.product((0, 1), (0, 1), (1, 2, 3), (1, 2) if dilated else (1,), (0, 1) if ceiled else (0,))
    for front, back, stride, dilation, ceil in cases:
        attributes: dict[str, object] = {
            "kernel_shape": [2] * rank, "strides": [stride] * rank, "pads": [front] * rank + [back] * rank,
        }
        if dilated:
            attributes["dilations"] = [dilation] * rank
        if ceiled:
            attributes["ceil_mode"] = ceil
        data = _model(kind, opset, rank, attributes).SerializeToString()
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        (result,) = session.run(None, {"x": np.ones([1, 1, *(6, 7, 5)[:rank]], np.float32)})
        graph = graph_from_file(parse_onnx(data, "pool.onnx"), "pool", ImportOptions())
        assert graph.tensors["y"].shape == result.shape, attributes
