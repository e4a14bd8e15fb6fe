"""Algorithm 4: a producer is bound as its reader needs it, unless two readers disagree."""

import onnx
from onnx import TensorProto, helper

from scheduler.graphturbo.core_binding import Reading, bind_runs, infer_binding
from scheduler.layers import layer_of
from workloads import Graph, import_onnx
from workloads.loopnest import full_box


def network(nodes: list[onnx.NodeProto], shape: list[int], weights: dict[str, list[int]], outputs: list[str]) -> Graph:
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [helper.make_tensor(n, TensorProto.FLOAT, s, [0.0] * _size(s)) for n, s in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    return import_onnx(model.SerializeToString(), name="network")


def _size(shape: list[int]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def readings(graph: Graph) -> list[Reading]:
    """One run per operator, over the whole of its output."""
    found = []
    for position in range(len(graph.ops)):
        layer = layer_of(graph, [position])
        assert layer is not None
        producers = tuple((graph.producer[n], n) for n in layer.inputs if n in graph.producer)
        found.append(Reading(layer, full_box(layer.sink.shape), producers))
    return found


def test_a_chain_keeps_one_binding_from_end_to_beginning() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Sigmoid", ["a"], ["b"])]
    graph = network(nodes, [4, 6, 10], {}, ["b"])

    bound = bind_runs(readings(graph), cores=8)

    assert [b.factors for b in bound.bindings] == [(4, 2, 1), (4, 2, 1)]
    assert not bound.mismatched


def test_the_producer_inherits_its_readers_binding_through_a_transpose() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Transpose", ["a"], ["b"], perm=[1, 0])]
    graph = network(nodes, [6, 16], {}, ["b"])

    bound = bind_runs(readings(graph), cores=8)

    assert bound.bindings[1].factors == (8, 1)  # [16, 6]: eight cores along what was dimension 1
    assert bound.bindings[0].factors == (1, 8)  # where a plain binding would have taken (2, 4)
    assert not bound.mismatched


def test_a_producer_that_two_readers_want_differently_goes_to_the_global_buffer() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"], perm=[1, 0]),
        helper.make_node("Sigmoid", ["a"], ["c"]),
    ]
    graph = network(nodes, [8, 16], {}, ["b", "c"])

    bound = bind_runs(readings(graph), cores=8)

    assert bound.mismatched == {0}


def test_a_matrix_product_bound_along_its_columns_infers_nothing_for_its_rows() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("MatMul", ["a", "w"], ["b"])]
    graph = network(nodes, [1, 32], {"w": [32, 64]}, ["b"])
    relu, product = readings(graph)

    bound = bind_runs([relu, product], cores=8)

    assert bound.bindings[1].factors == (1, 8)
    assert infer_binding(product, bound.bindings[1], "a", relu, 8) is None
    assert bound.bindings[0].factors == (1, 8)  # its own plain binding
