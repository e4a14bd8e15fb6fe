"""Kernels of an eager framework: functions are whole, and nothing is fused across them."""

from dsascape.fusion.eager import eager_plan
from dsascape.fusion.unfused import unfused_plan
from dsascape.workloads import Graph, load_network
from tests.graphs import Net


def kinds_of(graph: Graph) -> list[tuple[str, ...]]:
    """Return the kinds of the operators of each kernel, views left out."""
    plan = eager_plan(graph)
    kernels = [[graph.ops[op] for op in group.ops if not graph.ops[op].is_view] for group in plan.groups]
    return [tuple([op.kind for op in ops]) for ops in kernels if ops]


def test_a_linear_layer_has_its_bias_and_its_activation_does_not_join_it() -> None:
    net = Net()
    x = net.bias(net.dense(net.input(2, 4, 8), 16))

    assert kinds_of(net.graph(net.relu(x))) == [("MatMul", "Add"), ("Relu",)]


def test_a_sum_of_two_activations_is_a_kernel() -> None:
    net = Net()
    x = net.input(2, 4, 8)

    assert kinds_of(net.graph(net.add(net.dense(x, 8), x))) == [("MatMul",), ("Add",)]


def test_attention_is_one_kernel_with_the_movements_into_and_out_of_heads() -> None:
    net = Net()
    x = net.input(2, 16, 32)
    q, k, v = [net.transpose(net.reshape(net.dense(x, 32), 2, 16, 4, 8), *order) for order in
               ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))]  # fmt: skip
    mixed = net.matmul(net.softmax(net.matmul(q, k)), v)
    y = net.reshape(net.transpose(mixed, 0, 2, 1, 3), 2, 16, 32)

    kernels = kinds_of(net.graph(net.dense(y, 32)))

    assert sorted(map(len, kernels)) == [1, 1, 1, 1, 7]
    attention = next(each for each in kernels if len(each) > 1)
    assert sorted(attention) == ["MatMul", "MatMul", "Softmax", *["Transpose"] * 4]


def test_a_convolution_its_normalisation_and_its_activation_are_three() -> None:
    net = Net()
    x = net.relu(net.batch_norm(net.conv(net.input(1, 4, 8, 8), 8)))

    assert kinds_of(net.graph(x)) == [("Conv",), ("BatchNormalization",), ("Relu",)]


def test_gelu_by_its_error_function_is_one_kernel_in_every_block_of_bert() -> None:
    graph = load_network("bert-tiny")
    kernels = kinds_of(graph)

    assert kernels.count(("Div", "Erf", "Add", "Mul", "Mul")) == 2
    assert len(kernels) < unfused_plan(graph).kernels
