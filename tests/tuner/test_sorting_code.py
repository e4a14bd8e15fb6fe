"""Code of TopK finds what onnxruntime does: the best elements of each line with their places, equal ones in order."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.fusion import unfused_plan
from dsascape.workloads import Graph, import_onnx
from tests.tuner.runs import outcomes

pytestmark = pytest.mark.tvm


def best(shape: tuple[int, ...], kept: int, **attributes: Any) -> Graph:
    """Return TopK of numbers rounded to halves, so that many of them are equal."""
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["double"]), helper.make_node("Round", ["double"], ["whole"]),
        helper.make_node("TopK", ["whole", "k"], ["y", "i"], **attributes),
    ]  # fmt: skip
    entries = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
               helper.make_tensor_value_info("i", TensorProto.INT64, None)]  # fmt: skip
    known = {"two": np.array(2, np.float32), "k": np.array([kept])}
    constants = [numpy_helper.from_array(value, name) for name, value in known.items()]
    body = helper.make_graph(nodes, "best", entries, results, constants)
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return import_onnx(model.SerializeToString(), name="best")


@pytest.mark.parametrize(
    ("shape", "kept", "attributes"),
    [
        ((3, 37), 5, {}), ((3, 37), 37, {"largest": 0}), ((16, 4), 3, {"axis": 0}), ((2, 5, 3), 2, {"axis": 1}),
        ((64,), 64, {}), ((4, 1), 1, {}),
    ],
)  # fmt: skip
def test_values_and_places_are_onnxruntimes(shape: tuple[int, ...], kept: int, attributes: dict[str, int]) -> None:
    found, refused = outcomes(unfused_plan(best(shape, kept, **attributes)))

    assert refused == {}
    assert found["kernel2_topk"] == 0
