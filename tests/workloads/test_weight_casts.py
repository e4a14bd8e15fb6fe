"""Casts of weights stand in front of the products that read them, one for each weight, and change nothing else."""

from dsascape.workloads import load_network
from dsascape.workloads.bias_apart import with_biases_apart
from dsascape.workloads.weight_casts import with_weights_cast


def test_every_weight_of_a_product_is_cast_right_before_it() -> None:
    whole = load_network("resnet50")
    cast = with_weights_cast(whole)

    products = [op for op in whole.ops if op.kind in ("Conv", "Gemm")]
    assert len(cast.ops) == len(whole.ops) + len(products) == 122 + 54
    assert [op for op in cast.ops if op.kind != "Cast"] == list(whole.ops)
    for before, op in zip(cast.ops, cast.ops[1:], strict=False):
        assert (before.kind == "Cast") == (op.kind in ("Conv", "Gemm"))
        if before.kind == "Cast":
            weight = whole.tensors[op.inputs[1]]
            assert before.outputs == (weight.name,)
            assert cast.tensors[before.inputs[0]].role == "weight"
            assert before.nests[0].operations().simple == weight.elements
    assert cast.operations.macs == whole.operations.macs


def test_biases_are_not_cast_and_what_is_cast_is_not_cast_again() -> None:
    apart = with_biases_apart(load_network("squeezenet"))
    once = with_weights_cast(apart)

    assert len(once.ops) == len(apart.ops) + 26
    assert with_weights_cast(once).operations == once.operations
