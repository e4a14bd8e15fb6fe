"""Convolutions without their bias compute the same sums, and the addition follows them."""

from dsascape.workloads import load_network
from dsascape.workloads.bias_apart import with_biases_apart


def test_every_convolution_with_a_bias_becomes_two_operators_of_the_same_work() -> None:
    whole = load_network("squeezenet")
    apart = with_biases_apart(whole)
    convolutions = [op for op in whole.ops if op.kind == "Conv"]

    assert len(apart.ops) == len(whole.ops) + len(convolutions) == 64 + 26 + 1
    assert apart.operations == whole.operations
    by_name = {op.name: op for op in apart.ops}
    for op in convolutions:
        before, adds = by_name[f"{op.name}:without_bias"], by_name[op.name]
        assert before.inputs == op.inputs[:2]
        assert adds.outputs == op.outputs
        assert adds.nests[0].operations().simple == whole.tensors[op.outputs[0]].elements
        assert adds.nests[0].reads[0].indices == adds.nests[0].write.indices


def test_networks_without_such_biases_stay_as_they_are() -> None:
    graph = load_network("resnet18-raw")

    assert with_biases_apart(graph) == graph
