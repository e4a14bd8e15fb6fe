"""The extended graph: mapping types, algebraic laws, and which intermediate results a plan removes."""

from dsascape.fusion.dnnfusion import Exploration, MappingType, dnnfusion_plan, extended, removable
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net


def test_operators_have_their_mapping_type_and_the_laws_of_their_rules() -> None:
    net = Net()
    x = net.input(2, 4, 4)
    graph = net.graph(net.softmax(net.transpose(net.binary("Mul", x, net.unary("Exp", x)), 0, 2, 1)))
    found = {op.kind: operator for op, operator in zip(graph.ops, extended(Analysis(graph)), strict=True)}

    assert found["Mul"].laws == {"identity", "associative", "distributive", "commutative"}
    assert found["Exp"].laws == {"associative", "commutative"}
    assert found["Softmax"].laws == found["Transpose"].laws == frozenset()
    assert found["Exp"].mapping_type is MappingType.ONE_TO_ONE
    assert found["Transpose"].mapping_type is MappingType.SHUFFLE
    assert found["Softmax"].mapping_type is MappingType.MANY_TO_MANY


def test_results_all_of_whose_readers_are_in_the_block_are_removable() -> None:
    net = Net()
    x = net.unary("Tanh", net.relu(net.input(2, 4)))
    graph = net.graph(net.unary("Exp", x), x)

    assert removable(dnnfusion_plan(Analysis(graph), Exploration(kernel_s=None))) == {
        "relu1": True,
        "tanh1": False,
        "exp1": False,
    }
