"""Quantised twins of the zoo's networks: eight bits in products, all else as it was, each datum quantised once."""

import pytest

from dsascape.workloads import load_network
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.folded_dequantisation import with_dequantisation_folded
from dsascape.workloads.operand_dtypes import macs_by_dtypes
from dsascape.workloads.zoo import QUANTISED_ENTRIES


@pytest.mark.parametrize("name", [entry.name for entry in QUANTISED_ENTRIES])
def test_every_product_multiplies_bytes_and_there_are_as_many(name: str) -> None:
    plain, folded = load_network(name.removesuffix("-int8")), with_dequantisation_folded(Analysis(load_network(name)))

    assert {pair for pair, _ in macs_by_dtypes(folded.graph)} == {("int8", "int8")}
    assert folded.graph.operations.macs == plain.operations.macs


def test_what_is_between_convolutions_stays_in_the_dtype_of_the_network() -> None:
    graph = load_network("resnet18-int8").with_dtype("fp16")
    dtypes = {op.kind: graph.tensors[op.outputs[0]].dtype for op in graph.ops}

    assert dtypes["Add"] == dtypes["MaxPool"] == dtypes["Conv"] == "fp16"
    assert dtypes["QuantizeLinear"] == "int8"


def test_data_of_two_convolutions_are_quantised_once() -> None:
    """The first block of each later stage of ResNet-18 has two convolutions that read the same, 3 stages in all.

    20 convolutions and a product read 18 different tensors.
    """
    graph = load_network("resnet18-int8")

    assert sum(op.kind == "QuantizeLinear" for op in graph.ops) == 18
    assert sum(op.kind in {"Conv", "Gemm"} for op in graph.ops) == 21


def test_quantisation_with_a_constant_scale_multiplies() -> None:
    """0 divisions; a multiplication, rounding, the zero point and a bound for each number."""
    graph = load_network("squeezenet-int8")
    first = next(op for op in graph.ops if op.kind == "QuantizeLinear")

    assert first.nests[0].operations().simple == 4 * 3 * 224 * 224
    assert graph.operations.special == 0


def test_scales_lie_along_output_channels() -> None:
    graph = load_network("resnet18-int8")

    assert graph.tensors["conv1.weight.scale"].shape == (64,)
    assert graph.tensors["fc.weight.scale"].shape == (1000,)
    assert graph.tensors["conv1.weight"].dtype == "int8"
