"""Edits replace operators; the network is rebuilt as if its file had contained the new ones."""

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from dsascape.workloads import Graph, WorkloadError
from dsascape.workloads.edits import Constant, Edit, Node
from dsascape.workloads.executable import drawn_inputs, executable
from dsascape.workloads.source import Source, source_of
from tests.graphs import Net


def product() -> Graph:
    """Return relu(x) * w."""
    net = Net()
    x = net.relu(net.input(2, 4))
    return net.graph(net.binary("Mul", x, net.weight(4)), dtype="fp32")


def source(graph: Graph) -> Source:
    found = source_of(graph)
    assert found is not None
    return found


SUM = Edit(
    "mul1",
    (Node("Add", ("w1", "mul1:2"), ("mul1:w",)), Node("Mul", ("relu1", "mul1:w"), ("mul1",))),
    (Constant("mul1:2", 2.0, "w1"),),
)
"""relu(x) * (w + 2)."""


def test_what_is_made_of_weights_alone_is_computed_once() -> None:
    edited = source(product()).edited([SUM])

    assert [op.kind for op in edited.ops] == ["Relu", "Mul"]
    assert edited.tensors["mul1:w"].role == "weight"
    assert edited.operations == product().operations
    assert (executable(edited).values["mul1:w"] == 2.5).all()


def test_an_edited_network_computes_what_the_edit_says() -> None:
    graph = product()
    inputs = drawn_inputs(graph)
    (result,) = ReferenceEvaluator(executable(source(graph).edited([SUM])).model()).run(None, inputs)

    np.testing.assert_allclose(np.asarray(result), 2.5 * np.maximum(inputs["in1"], 0))


def test_operators_that_nobody_reads_any_more_are_left_out() -> None:
    edited = source(product()).edited([Edit("mul1", (Node("Mul", ("in1", "w1"), ("mul1",)),))])

    assert [op.kind for op in edited.ops] == ["Mul"]


def test_edits_hold_at_another_batch_and_dtype_and_after_each_other() -> None:
    once = source(product().with_dtype("fp16")).edited([SUM])
    twice = source(once).edited([Edit("relu1", (Node("Tanh", ("in1",), ("relu1",)),))]).with_batch(6)

    assert [op.kind for op in twice.ops] == ["Tanh", "Mul"]
    assert twice.tensors["mul1"].shape == (6, 4)
    assert {tensor.dtype for tensor in twice.tensors.values()} == {"fp16"}


def test_an_edit_of_what_is_not_there_is_refused() -> None:
    with pytest.raises(WorkloadError, match="no operator writes 'nothing', which an edit replaces"):
        source(product()).edited([Edit("nothing", (Node("Relu", ("in1",), ("nothing",)),))])


def test_operators_are_drafted_with_their_shape_and_operations() -> None:
    draft = source(product()).draft()
    found = draft.add(Node("Exp", ("relu1",), ("y",)))

    assert (found.shape, found.is_float, found.computed_once, found.operations.special) == ((2, 4), True, False, 8)
    assert draft.add(Node("Neg", ("w1",), ("z",))).computed_once


def test_a_network_that_was_not_imported_has_no_source() -> None:
    graph = product()

    assert source_of(Graph(graph.name, graph.ops, graph.tensors, graph.inputs, graph.outputs, graph.batch)) is None
