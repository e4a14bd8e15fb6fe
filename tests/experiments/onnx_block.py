"""A small ONNX file with nodes of known names, for tests of what is written into such files."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def block(place: Path, ir_version: int = 10, *, external: bool = False) -> Path:
    """A convolution, an activation, and an addition that skips both."""
    weights = numpy_helper.from_array(np.zeros((16, 16, 3, 3), np.float32), "w")
    if external:
        weights.ClearField("raw_data")
        weights.data_location = TensorProto.EXTERNAL
        weights.external_data.add(key="location", value="weights.bin")
    image, result = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 16, 32, 32]) for n in ("image", "sum"))
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "relu", doc_string="an activation"),
        helper.make_node("Add", ["r", "image"], ["sum"], "add"),
    ]
    graph = helper.make_graph(nodes, "block", [image], [result], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir_version)
    path = place / "block.onnx"
    onnx.save(model, str(path))
    return path
