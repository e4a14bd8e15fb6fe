"""Tensor names and metadata of a file are arbitrary, and never collide with names of the importer."""

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper

from dsascape.workloads import Graph
from tests.workloads.onnx_models import model, read

OWN = ("max", "sum", "mean", "exp", "sums", "product0", "statistic", "centred", "scores")
"""Suffixes of operators' internal tensors, after their result's name and a colon."""


def softmax(x: str, hidden: str) -> ModelProto:
    """An operator with tensors of its own, behind one that writes ``hidden``."""
    nodes = [helper.make_node("Relu", [x], [hidden]), helper.make_node("Softmax", [hidden], ["y"])]
    return model(*nodes, inputs={x: [2, 4]})


def facts(graph: Graph) -> list[Any]:
    return [(op.kind, op.operations, len(op.internals)) for op in graph.ops]


@pytest.mark.parametrize("called", [*(f"y:{name}" for name in OWN), "y:max'", "x[7x4]", "y/node", "y#2"])
def test_a_tensor_may_be_called_like_one_of_the_importer(called: str) -> None:
    plain = read(softmax("x", "h"))

    assert facts(read(softmax("x", called))) == facts(plain)
    assert facts(read(softmax(called, "h"))) == facts(plain)
    assert facts(read(softmax(called, "h"), batch=7)) == facts(plain.with_batch(7))


@pytest.mark.parametrize("called", ["c[3x5x8]", "y:s", "q[3x4]"])
def test_so_may_one_whose_name_a_constant_at_another_size_would_get(called: str) -> None:
    def built(name: str) -> ModelProto:
        nodes = [
            helper.make_node("Add", ["x", "c"], [name]),
            helper.make_node("Reshape", [name, "s"], ["y"]),
        ]
        constants: dict[str, Any] = {"c": np.ones((4, 5, 8), np.float32), "s": np.array([4, 40])}
        return model(*nodes, inputs={"x": [4, 5, 8]}, **constants)

    assert facts(read(built(called), batch=3)) == facts(read(built("h"), batch=3))


@pytest.mark.parametrize("value", ["x", "", "[\"x\"]", "x,y", "[", "\x00"])
def test_metadata_of_the_file_says_nothing_of_its_weights(value: str) -> None:
    built = softmax("x", "h")
    entry = built.metadata_props.add()
    entry.key, entry.value = "weights", value
    graph = read(built)

    assert graph.inputs == ("x",)
    assert graph.with_batch(5).inputs == ("x",)


def test_names_of_weights_may_have_commas() -> None:
    """Weights too large to be kept by value are listed by name where a network is kept to be read again."""
    weight: dict[str, Any] = {"a,b": np.ones((512, 512), np.float32)}
    built = model(helper.make_node("MatMul", ["x", "a,b"], ["y"]), inputs={"x": [2, 512]}, **weight)

    assert read(built).with_batch(3).operations.macs == 3 * 512 * 512
