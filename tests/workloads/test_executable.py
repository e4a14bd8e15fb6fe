"""A graph is executable: every operator is a node of its file, and drawn weights keep activations finite."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from dsascape.workloads import WorkloadError, load_network
from dsascape.workloads.executable import drawn_inputs, executable
from dsascape.workloads.graph import Graph
from tests.graphs import Net


def small() -> Graph:
    net = Net()
    x = net.relu(net.batch_norm(net.conv(net.input(1, 3, 6, 6), 4)))
    return net.graph(net.gemm(net.flatten(net.global_pool(x)), 5), dtype="fp32")


@pytest.mark.parametrize(("name", "simplify"), [("squeezenet", False), ("bert-tiny-raw", True), ("mobilevit", True)])
def test_every_operator_is_one_node(name: str, simplify: bool) -> None:
    graph = load_network(name, simplify=simplify)
    found = executable(graph)

    assert [node.op_type for node in found.nodes] == [op.kind for op in graph.ops]
    assert all(set(op.outputs) <= set(node.output) for op, node in zip(graph.ops, found.nodes, strict=True))
    onnx.checker.check_model(found.model())


def test_values_in_the_file_are_kept() -> None:
    assert all((value == 0.5).all() for name, value in executable(small()).values.items() if name.startswith("w"))


def test_drawn_weights_depend_on_seed_and_name_alone() -> None:
    first, again, other = (executable(load_network("squeezenet"), seed).values for seed in (0, 0, 1))

    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert any(not np.array_equal(first[name], other[name]) for name in first)


def test_a_network_runs_at_another_batch() -> None:
    graph = small().with_batch(3)
    (output,) = ReferenceEvaluator(executable(graph).model()).run(None, drawn_inputs(graph))

    assert np.asarray(output).shape == (3, 5)
    assert np.isfinite(np.asarray(output)).all()


def test_any_intermediate_tensor_can_be_an_output() -> None:
    graph = small()
    names = [op.outputs[0] for op in graph.ops]

    assert {entry.name for entry in executable(graph).model(names).graph.output} == set(names)


def test_a_network_in_another_dtype_than_its_file_is_refused() -> None:
    with pytest.raises(WorkloadError, match="was not imported unchanged from an ONNX file"):
        executable(small().with_dtype("fp16"))
