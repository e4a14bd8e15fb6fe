"""Algorithm 4: a producer is bound to cores as its consumer needs it, unless two consumers disagree."""

import math

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from dsascape.hw_models import ClusteredDsa, load_hardware
from dsascape.scheduler import ScheduleError, make_policy, policy_label
from dsascape.scheduler.dsa.graphturbo.core_binding import Reading, bind_runs, infer_binding, unbound_dims
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.workloads import Graph, import_onnx
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.loopnest import full_box
from tests.graphs import networks
from tests.scheduler.runs import schedule_of
from tests.tiers import examples


def network(nodes: list[onnx.NodeProto], shape: list[int], weights: dict[str, list[int]], outputs: list[str]) -> Graph:
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [helper.make_tensor(n, TensorProto.FLOAT, s, [0.0] * math.prod(s)) for n, s in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    return import_onnx(model.SerializeToString(), name="network")


def readings(graph: Graph) -> list[Reading]:
    """One run per operator, over the whole of its output."""
    found, analysis = [], Analysis(graph)
    for position in range(len(graph.ops)):
        layer = layer_of(analysis, [position])
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


class TestAnnotatedDimensions:
    """Section 3.4: dimensions that cannot be bound to cores."""

    @staticmethod
    def transposed() -> Graph:
        nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Transpose", ["a"], ["b"], perm=[1, 0])]
        return network(nodes, [16, 8], {}, ["b"])

    def test_the_plain_binding_goes_on_to_the_next_dimension(self) -> None:
        graph = self.transposed()

        bound = bind_runs(readings(graph), 8, unbound_dims(graph, ["b:0"]))

        assert [b.factors for b in bound.bindings] == [(8, 1), (1, 8)]

    def test_a_binding_that_binds_one_of_the_producers_is_not_inherited(self) -> None:
        graph = self.transposed()

        bound = bind_runs(readings(graph), 8, unbound_dims(graph, ["a:1"]))

        assert [b.factors for b in bound.bindings] == [(8, 1), (8, 1)]  # without: (1, 8), as b wants it
        assert not bound.mismatched

    def test_a_tensor_of_which_nothing_may_be_bound_is_computed_on_one_core(self) -> None:
        graph = self.transposed()

        bound = bind_runs(readings(graph), 8, unbound_dims(graph, ["*:0", "*:1"]))

        assert [b.cores for b in bound.bindings] == [1, 1]

    @pytest.mark.parametrize("annotation", ["c:0", "a:2", "[a:0"])
    def test_an_annotation_that_no_tensor_matches_is_refused(self, annotation: str) -> None:
        with pytest.raises(ScheduleError, match=r"network: no tensor .* could be left unbound"):
            unbound_dims(self.transposed(), [annotation])

    def test_the_command_line_has_them_in_one_word(self) -> None:
        policy = make_policy("graphturbo", {"unbound": "*:2,*:3"})

        assert policy == make_policy("graphturbo", {"unbound": ["*:2", "*:3"]})
        assert policy_label(policy) == "graphturbo(unbound=*:2,*:3)"

    @pytest.mark.parametrize("annotation", ["a", ":1", "a:x", "a:-1", "a:1234"])
    def test_an_invalid_annotation_is_refused(self, annotation: str) -> None:
        with pytest.raises(ScheduleError, match="option unbound"):
            make_policy("graphturbo", {"unbound": [annotation]})

    @settings(max_examples=examples(30), deadline=None)
    @given(graph=networks(), dims=st.sets(st.integers(0, 1), min_size=1))
    def test_no_layer_of_any_network_is_bound_along_one(self, graph: Graph, dims: set[int]) -> None:
        policy = make_policy("graphturbo", {"unbound": [f"*:{dim}" for dim in dims]})

        schedule = schedule_of(policy, graph, load_hardware("stcp920", ClusteredDsa))

        assert all(run.binding.factors[dim] == 1 for run in schedule.runs for dim in dims if dim < len(run.box))
