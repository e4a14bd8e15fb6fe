"""Drawn weights are scaled where a network overflows, and a reference that is not finite is called that."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.tuner.on_device.reference import unlike
from dsascape.tuner.on_device.settling import LARGEST, settled_reference
from dsascape.workloads.executable import Executable, drawn_inputs
from tests.tiers import examples
from tests.workloads.test_drawn_values import Shape, network

pytestmark = pytest.mark.tvm
WIDTH = 16


def of_steps(steps: list[str]) -> Executable:
    """Return a network of (1, WIDTH), a step after the other; each reads the result of the one before."""
    nodes: list[onnx.NodeProto] = []
    weights: dict[str, Shape] = {}
    name = "x"

    def add(kind: str, *inputs: str) -> str:
        nodes.append(helper.make_node(kind, inputs, [f"t{len(nodes)}"]))
        return f"t{len(nodes) - 1}"

    def weight(*shape: int) -> str:
        weights[f"w{len(weights)}"] = shape
        return f"w{len(weights) - 1}"

    for step in steps:
        if step == "product":
            name = add("MatMul", name, weight(WIDTH, WIDTH))
        elif step == "residual":
            name = add("Add", name, add("MatMul", name, weight(WIDTH, WIDTH)))
        elif step == "factor":
            name = add("Mul", name, weight(WIDTH))
        elif step == "square":
            name = add("Mul", name, add("MatMul", name, weight(WIDTH, WIDTH)))
        elif step == "normalised":
            root = add("Sqrt", add("Add", weight(WIDTH), weight(1)))
            name = add("Add", add("Mul", add("Sub", name, weight(WIDTH)), add("Div", weight(WIDTH), root)), weight(1))
        else:
            name = add(step, add("MatMul", name, weight(WIDTH, WIDTH)))
    nodes.append(helper.make_node("Relu", [name], ["y"]))
    return network(nodes, weights, (1, WIDTH))


def magnitude(found: Executable) -> float:
    network_, values = settled_reference(found, drawn_inputs(found.graph), found.graph.producer)
    assert network_.graph is found.graph
    return max(float(np.abs(value).max()) for value in values.values())


@pytest.mark.parametrize("steps", [["residual"] * 150, ["Exp", "product"] * 20, ["square"] * 3 + ["product"]])
def test_results_stay_finite_through_any_depth(steps: list[str]) -> None:
    assert magnitude(of_steps(steps)) < LARGEST


STEPS = st.sampled_from(["product", "residual", "factor", "normalised", "Exp", "Relu", "Tanh", "Softplus"])


@settings(max_examples=examples(80), deadline=None)
@given(pattern=st.lists(STEPS, min_size=1, max_size=5), depth=st.integers(1, 12))
def test_no_order_of_operators_overflows(pattern: list[str], depth: int) -> None:
    assert magnitude(of_steps(pattern * depth)) <= LARGEST


def test_weights_are_scaled_by_powers_of_two_and_only_where_it_is_needed() -> None:
    calm, wild = of_steps(["product"]), of_steps(["residual"] * 150)
    same, _ = settled_reference(calm, drawn_inputs(calm.graph), calm.graph.producer)
    scaled, _ = settled_reference(wild, drawn_inputs(wild.graph), wild.graph.producer)

    assert same is calm
    changed = [name for name in wild.values if not np.array_equal(wild.values[name], scaled.values[name])]
    assert changed
    for name in changed:
        (factor,) = set((scaled.values[name] / wild.values[name]).reshape(-1).tolist())
        assert np.log2(factor) == int(np.log2(factor))


def test_a_reference_that_is_not_finite_is_not_the_fault_of_code() -> None:
    text, is_wrong = unlike(np.inf, {"y": np.array([1, np.nan, np.inf], np.float32)})

    assert not is_wrong
    assert text == (
        "cannot be compared: in onnxruntime's own results 2 of 3 values of tensor 'y' are not finite"
    )
    assert unlike(0.5, {"y": np.ones(2, np.float32)}, ["add"]) == (
        "computes another result than onnxruntime: 0.5 of the largest value (add)", True,
    )  # fmt: skip
