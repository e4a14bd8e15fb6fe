"""Dtypes are the file's, tensor by tensor; bytes follow from bits; dequantisation goes into the products it feeds."""

import math

import onnx
import pytest
from onnx import TensorProto

from dsascape.workloads.folded_dequantisation import graph_with_dequantisation_folded
from dsascape.workloads.graph import DTYPE_BITS, OPEN, Graph, Tensor
from dsascape.workloads.operand_dtypes import macs_by_dtypes
from tests.quantised_models import product_of_quantised, read, residual_block, weights_of_few_bits

INT4, INT8 = TensorProto.INT4, TensorProto.INT8
BLOCKED = weights_of_few_bits(INT4, 1, 64, 48, block=32)


def pairs(graph: Graph) -> dict[tuple[str, str] | None, int]:
    found: dict[tuple[str, str] | None, int] = {}
    for pair, macs in macs_by_dtypes(graph):
        found[pair] = found.get(pair, 0) + macs
    return found


@pytest.mark.parametrize("dtype", DTYPE_BITS)
def test_bytes_are_bits_rounded_up_to_whole_ones(dtype: str) -> None:
    for elements in range(9):
        tensor = Tensor("t", (elements,), dtype, "weight")
        assert tensor.size_bytes == math.ceil(elements * DTYPE_BITS[dtype] / 8)
        assert tensor.bytes_of(1) == math.ceil(tensor.element_bytes)


@pytest.mark.parametrize(("element", "dtype"), [
    (TensorProto.INT4, "int4"), (TensorProto.UINT4, "uint4"), (TensorProto.INT8, "int8"),
    (TensorProto.UINT8, "uint8"), (TensorProto.FLOAT8E4M3FN, "fp8_e4m3"), (TensorProto.FLOAT8E5M2, "fp8_e5m2"),
])  # fmt: skip
@pytest.mark.parametrize("network", sorted(OPEN))
def test_the_networks_dtype_decides_only_what_the_file_leaves_open(element: int, dtype: str, network: str) -> None:
    graph = read(weights_of_few_bits(element, 2, 64, 48, block=32), network)

    assert graph.tensors["w"].dtype == dtype
    assert {graph.tensors[name].dtype for name in ("x", "s", "wide", "y")} == {network}


def test_weights_of_four_bits_are_half_a_byte_each_and_their_scales() -> None:
    assert read(BLOCKED).weight_bytes == 64 * 48 // 2 + 2 * 48 * 2


def test_an_operand_alone_is_widened_by_its_product() -> None:
    """The narrow numbers are what the product takes from memory; the wide ones are its own."""
    graph = graph_with_dequantisation_folded(read(BLOCKED))

    (op,) = graph.ops
    assert (op.name, op.inputs, [tensor.dtype for tensor in op.internals]) == ("product", ("x", "w", "s"), ["fp16"])
    assert "wide" not in graph.tensors
    assert pairs(graph) == {("", "int4"): 64 * 48}
    assert graph.operations == read(BLOCKED).operations


def test_two_operands_are_multiplied_as_stored_and_the_sums_are_scaled() -> None:
    """Two operations for each of 4 x 48 sums stand for two for each element of either operand."""
    before = read(product_of_quantised(INT8, 4, 64, 48))
    graph = graph_with_dequantisation_folded(before)

    op = graph.ops[-1]
    assert [op.name for op in graph.ops] == ["xq", "product"]
    assert [read.tensor for read in op.nests[0].reads] == ["xq", "w", "sw"]
    assert pairs(before) == {None: 4 * 64 * 48}
    assert pairs(graph) == {("int8", "int8"): 4 * 64 * 48}
    assert before.operations.simple - graph.operations.simple == 2 * (4 * 64 + 64 * 48) - 2 * 4 * 48


def test_scales_that_change_within_a_sum_keep_the_product_wide() -> None:
    """Sums of products with different scales cannot be scaled afterwards; both operands are widened where loaded."""
    built = product_of_quantised(INT8, 4, 64, 48)
    for node in built.graph.node:
        if node.name == "wd":
            node.attribute[0].i = 0
            built.graph.initializer[-1].dims[:] = [64]
            built.graph.initializer[-1].raw_data = built.graph.initializer[-1].raw_data[:48 * 4] + bytes(16 * 4)
    graph = graph_with_dequantisation_folded(read(built))

    assert len(graph.ops[-1].nests) == 3
    assert pairs(graph) == {None: 4 * 64 * 48}


@pytest.mark.parametrize("built", [BLOCKED, product_of_quantised(INT8, 1, 64, 48)], ids=["one", "both"])
def test_a_transposition_in_between_is_folded_too(built: onnx.ModelProto) -> None:
    """Frameworks store weights by output and transpose them; the product reads them as they are stored."""
    straight = graph_with_dequantisation_folded(read(built))
    turned = onnx.ModelProto()
    turned.CopyFrom(built)
    wide = next(node for node in turned.graph.node if node.op_type == "MatMul").input[1]
    for node in turned.graph.node:
        if node.op_type == "MatMul":
            node.input[1] = "turned"
        if wide in node.output:
            node.attribute[0].i = 1 - node.attribute[0].i
    for tensor in turned.graph.initializer:
        if len(tensor.dims) == 2:
            tensor.dims[:] = tensor.dims[::-1]
    turned.graph.node.insert(len(turned.graph.node) - 1, onnx.helper.make_node("Transpose", [wide], ["turned"]))
    graph = graph_with_dequantisation_folded(read(turned))

    assert [op.kind for op in graph.ops] == [op.kind for op in straight.ops]
    assert (graph.weight_bytes, pairs(graph)) == (straight.weight_bytes, pairs(straight))
    assert graph.tensors["w"].shape == (48, 64)


def test_what_others_read_too_stays() -> None:
    """The addition reads the dequantised input; both convolutions multiply bytes."""
    graph = graph_with_dequantisation_folded(read(residual_block(INT8, 8, 6)))

    kinds = [op.kind for op in graph.ops]
    assert kinds.count("DequantizeLinear") == 2  # what is added, and the network's result
    assert set(pairs(graph)) == {("int8", "int8")}


def test_a_network_without_dequantisation_is_itself() -> None:
    graph = graph_with_dequantisation_folded(read(BLOCKED))

    assert graph_with_dequantisation_folded(graph) is graph
