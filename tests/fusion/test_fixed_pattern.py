"""The fixed pattern: a kernel is one complex operator with its elementwise consumers; kinds come from loop nests."""

import numpy as np
import pytest
from hypothesis import given, settings

from dsascape.fusion.fixed_pattern import Kind, fixed_pattern_layers, fixed_pattern_plan, kind_of
from dsascape.fusion.plan import FusionPlan
from dsascape.workloads import Graph, load_network
from tests.graphs import Net, networks
from tests.tiers import examples
from tests.workloads.test_loopnest import one_op


def names(plan: FusionPlan) -> list[list[str]]:
    return [[plan.graph.ops[op].name for op in group.ops] for group in plan.groups]


class TestKinds:
    """As Relay's table has them, but derived; operators of several nests with a reduction are opaque."""

    IMAGE = (2, 4, 8, 8)

    def kind(self, net: Net, result: str) -> Kind:
        graph = net.graph(result)
        return kind_of(graph.ops[graph.producer[result]])

    def test_a_convolution_is_complex(self) -> None:
        net = Net()
        assert self.kind(net, net.conv(net.input(*self.IMAGE), 8)) is Kind.COMPLEX

    def test_a_pointwise_convolution_is_complex(self) -> None:
        net = Net()
        assert self.kind(net, net.conv(net.input(*self.IMAGE), 8, 1)) is Kind.COMPLEX

    def test_a_depthwise_convolution_is_complex(self) -> None:
        net = Net()
        assert self.kind(net, net.depthwise(net.input(*self.IMAGE))) is Kind.COMPLEX

    @pytest.mark.parametrize("width", [1, 8])
    def test_a_matrix_product_is_complex(self, width: int) -> None:
        net = Net()
        assert self.kind(net, net.dense(net.input(2, 3, 4), width)) is Kind.COMPLEX

    @pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
    def test_pooling_is_complex(self, kind: str) -> None:
        net = Net()
        assert self.kind(net, net.pool(net.input(*self.IMAGE), 3, 2, kind)) is Kind.COMPLEX

    @pytest.mark.parametrize("kind", ["Relu", "Sigmoid", "Tanh", "Erf"])
    def test_an_activation_is_elementwise(self, kind: str) -> None:
        net = Net()
        assert self.kind(net, net.unary(kind, net.input(*self.IMAGE))) is Kind.ELEMENTWISE

    def test_a_residual_addition_is_elementwise(self) -> None:
        net = Net()
        assert self.kind(net, net.add(net.input(*self.IMAGE), net.input(*self.IMAGE))) is Kind.ELEMENTWISE

    def test_a_bias_is_a_broadcast(self) -> None:
        net = Net()
        assert self.kind(net, net.bias(net.input(*self.IMAGE))) is Kind.BROADCAST

    def test_a_batch_normalisation_is_a_broadcast(self) -> None:
        net = Net()
        assert self.kind(net, net.batch_norm(net.input(*self.IMAGE))) is Kind.BROADCAST

    def test_a_transpose_is_injective(self) -> None:
        net = Net()
        assert self.kind(net, net.transpose(net.input(*self.IMAGE), 0, 2, 3, 1)) is Kind.INJECTIVE

    def test_a_reshape_is_injective(self) -> None:
        net = Net()
        assert self.kind(net, net.reshape(net.input(*self.IMAGE), 8, 64)) is Kind.INJECTIVE

    def test_a_concatenation_is_injective(self) -> None:
        net = Net()
        assert self.kind(net, net.concat(net.input(*self.IMAGE), net.input(*self.IMAGE))) is Kind.INJECTIVE

    def test_a_global_pool_is_a_reduction(self) -> None:
        net = Net()
        assert self.kind(net, net.global_pool(net.input(*self.IMAGE))) is Kind.REDUCTION

    def test_a_mean_is_a_reduction(self) -> None:
        net = Net()
        assert self.kind(net, net.reduce_mean(net.input(2, 3, 4), -1)) is Kind.REDUCTION

    def test_a_softmax_is_opaque(self) -> None:
        net = Net()
        assert self.kind(net, net.softmax(net.input(2, 3, 4))) is Kind.OPAQUE

    def test_a_layer_normalisation_is_opaque(self) -> None:
        net = Net()
        assert self.kind(net, net.layer_norm(net.input(2, 3, 4))) is Kind.OPAQUE

    @pytest.mark.parametrize("axis", [0, 1])
    def test_a_running_sum_is_opaque(self, axis: int) -> None:
        running = one_op("CumSum", (4, 6), constants={1: np.array(axis)})

        assert kind_of(running.ops[0]) is Kind.OPAQUE


class TestByHand:
    def test_convolution_normalisation_and_activation_are_one_kernel(self) -> None:
        net = Net()
        plan = fixed_pattern_plan(net.graph(net.relu(net.batch_norm(net.conv(net.input(1, 4, 8, 8), 8)))))

        assert names(plan) == [["conv1", "batchnormalization1", "relu1"]]

    def test_a_residual_addition_goes_with_exactly_one_of_two_convolutions(self) -> None:
        net = Net()
        x = net.input(1, 4, 8, 8)
        plan = fixed_pattern_plan(net.graph(net.relu(net.add(net.conv(x, 4), net.conv(x, 4, 1)))))

        assert names(plan) == [["conv2"], ["conv1", "add1", "relu1"]]

    def test_a_residual_addition_goes_with_the_convolution_beside_the_identity(self) -> None:
        net = Net()
        x = net.relu(net.conv(net.input(1, 4, 8, 8), 4))
        plan = fixed_pattern_plan(net.graph(net.relu(net.add(net.conv(net.relu(net.conv(x, 4)), 4), x))))

        assert names(plan) == [["conv1", "relu1"], ["conv2", "relu2"], ["conv3", "add1", "relu3"]]

    def test_a_product_takes_its_bias_and_a_gelu_written_out(self) -> None:
        net = Net()
        x = net.bias(net.dense(net.input(2, 8, 16), 32))
        bell = net.unary("Erf", net.binary("Div", x, net.weight(1)))
        plan = fixed_pattern_plan(
            net.graph(net.binary("Mul", net.binary("Mul", x, net.add(bell, net.weight(1))), net.weight(1)))
        )

        assert names(plan) == [["matmul1", "add1", "div1", "erf1", "add2", "mul1", "mul2"]]

    def test_an_activation_does_not_go_into_the_next_convolution(self) -> None:
        net = Net()
        plan = fixed_pattern_plan(net.graph(net.conv(net.relu(net.input(1, 4, 8, 8)), 4)))

        assert names(plan) == [["relu1"], ["conv1"]]
        assert plan.groups[0].boundary_reason == "elementwise operators do not go into a complex one"

    def test_two_convolutions_are_not_fused(self) -> None:
        net = Net()
        plan = fixed_pattern_plan(net.graph(net.conv(net.conv(net.input(1, 4, 8, 8), 4), 4)))

        assert names(plan) == [["conv1"], ["conv2"]]
        assert plan.groups[0].boundary_reason == (
            "the next operator is not elementwise, or has its complex operator already"
        )

    def test_elementwise_operators_join_each_other(self) -> None:
        net = Net()
        x = net.input(2, 8)
        plan = fixed_pattern_plan(net.graph(net.binary("Mul", net.relu(x), net.unary("Sigmoid", x))))

        assert len(plan.groups) == 1

    def test_an_elementwise_operator_goes_into_a_reduction(self) -> None:
        net = Net()
        plan = fixed_pattern_plan(net.graph(net.reduce_mean(net.relu(net.input(2, 4, 8)), -1)))

        assert names(plan) == [["relu1", "reducemean1"]]

    def test_a_reduction_takes_nothing_behind_it(self) -> None:
        net = Net()
        plan = fixed_pattern_plan(net.graph(net.relu(net.reduce_mean(net.input(2, 4, 8), -1))))

        assert names(plan) == [["reducemean1"], ["relu1"]]
        assert plan.groups[0].boundary_reason == "a reduction ends its kernel"

    def test_a_convolution_takes_no_transpose(self) -> None:
        net = Net()
        plan = fixed_pattern_plan(net.graph(net.transpose(net.conv(net.input(1, 4, 8, 8), 4), 0, 2, 3, 1)))

        assert names(plan) == [["conv1"], ["transpose1"]]

    def test_a_softmax_stands_alone(self) -> None:
        net = Net()
        plan = fixed_pattern_plan(net.graph(net.relu(net.softmax(net.relu(net.input(2, 8))))))

        assert names(plan) == [["relu1"], ["softmax1"], ["relu2"]]

    def test_a_result_of_the_network_ends_its_kernel(self) -> None:
        net = Net()
        x = net.conv(net.input(1, 4, 8, 8), 4)
        plan = fixed_pattern_plan(net.graph(x, net.relu(x)))

        assert names(plan) == [["conv1"], ["relu1"]]


@settings(max_examples=examples(60))
@given(graph=networks(most_blocks=4))
def test_no_group_has_two_complex_operators(graph: Graph) -> None:
    for group in fixed_pattern_plan(graph).groups:
        assert sum(kind_of(graph.ops[op]) is Kind.COMPLEX for op in group.ops) <= 1


@settings(max_examples=examples(60))
@given(graph=networks(most_blocks=4))
def test_an_opaque_operator_shares_its_group_with_nothing(graph: Graph) -> None:
    for group in fixed_pattern_plan(graph).groups:
        if any(kind_of(graph.ops[op]) is Kind.OPAQUE for op in group.ops):
            assert len(group.ops) == 1


@settings(max_examples=examples(40))
@given(graph=networks(most_blocks=4))
def test_layers_of_the_whole_network_are_the_groups_of_the_plan(graph: Graph) -> None:
    layers = fixed_pattern_layers(graph, list(range(len(graph.ops))))

    assert sorted(map(tuple, layers)) == sorted(group.ops for group in fixed_pattern_plan(graph).groups)


@pytest.mark.parametrize(("model", "kernels"), [("resnet50", 56), ("bert-base", 183)])
def test_networks_of_the_zoo_have_their_known_number_of_kernels(model: str, kernels: int) -> None:
    assert fixed_pattern_plan(load_network(model)).kernels == kernels
