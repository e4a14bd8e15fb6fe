"""Weights without values get some by what they do: sums keep their operands' magnitude, roots stay real."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from dsascape.workloads import import_onnx
from dsascape.workloads.executable import Executable, drawn_inputs, executable

Shape = tuple[int, ...]


def network(nodes: list[onnx.NodeProto], weights: dict[str, Shape], x: Shape, **known: np.ndarray) -> Executable:
    """Return a network from x to y whose ``weights`` have no values."""
    given = {"x": x, **weights}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in given.items()]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    values = [numpy_helper.from_array(value, name) for name, value in known.items()]
    body = helper.make_graph(nodes, "drawn", inputs, results, values)
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {"weights": ",".join(weights), "input_ranges": "{}"})
    return executable(import_onnx(model.SerializeToString()))


def result(found: Executable) -> np.ndarray:
    (value,) = ReferenceEvaluator(found.model()).run(None, drawn_inputs(found.graph))
    return np.asarray(value)


def test_a_variance_that_is_written_out_is_above_zero() -> None:
    nodes = [
        helper.make_node("Sub", ["x", "mean"], ["a"]), helper.make_node("Reshape", ["variance", "shape"], ["v"]),
        helper.make_node("Add", ["v", "epsilon"], ["b"]), helper.make_node("Sqrt", ["b"], ["c"]),
        helper.make_node("Div", ["a", "c"], ["y"]),
    ]  # fmt: skip
    known = {"shape": np.array([64, 1, 1]), "epsilon": np.array(1e-3, np.float32)}
    found = network(nodes, {"mean": (64, 1, 1), "variance": (64,)}, (1, 64, 4, 4), **known)

    assert np.isfinite(result(found)).all()
    assert 0.01 < np.abs(result(found)).max() < 10


def test_a_logarithm_reaches_through_products_to_its_weights() -> None:
    nodes = [helper.make_node("Mul", ["one", "other"], ["a"]), helper.make_node("Log", ["a"], ["b"]),
             helper.make_node("Add", ["x", "b"], ["y"])]  # fmt: skip

    assert np.isfinite(result(network(nodes, {"one": (9,), "other": (9,)}, (2, 9)))).all()


@pytest.mark.parametrize("between", [(), ("Identity",), ("Transpose",)])
def test_kernels_keep_magnitudes_through_any_depth_and_any_movement(between: tuple[str, ...]) -> None:
    """Sixty products over 40 channels, whose kernels are transposed first or not."""
    nodes, weights, name = [], dict[str, Shape](), "x"
    for number in range(60):
        kernel = f"w{number}"
        weights[kernel] = (40, 40)
        for kind in between:
            nodes.append(helper.make_node(kind, [kernel], [f"{kernel}{kind}"]))
            kernel = f"{kernel}{kind}"
        nodes.append(helper.make_node("MatMul", [name, kernel], [f"p{number}"]))
        name = f"p{number}"
    nodes.append(helper.make_node("Identity", [name], ["y"]))
    nodes.append(helper.make_node("Relu", [name], ["z"]))

    assert 1e-4 < np.abs(result(network(nodes, weights, (1, 40)))).max() < 1e4


def test_numbers_of_a_file_that_are_none_are_drawn() -> None:
    nodes = [helper.make_node("Mul", ["x", "factor"], ["a"]), helper.make_node("Add", ["a", "known"], ["y"])]
    known = {"factor": np.array([1, np.nan, 2], np.float32), "known": np.array([1, 2, 3], np.float32)}
    found = network(nodes, {}, (2, 3), **known)

    assert found.drawn == {"factor"}
    assert np.isfinite(result(found)).all()
    assert found.values["known"].tolist() == [1, 2, 3]
