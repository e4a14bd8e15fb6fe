"""Generated code of quantised networks agrees with onnxruntime, or is refused with one message."""

from typing import Any

import pytest
from onnx import TensorProto

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.fusion import fixed_pattern_plan, unfused_plan
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.workloads import WorkloadError
from dsascape.workloads.executable import executable
from tests.quantised_models import product_of_few_bits, read, residual_block, weights_of_few_bits
from tests.tuner.runs import generated, outcomes

pytestmark = pytest.mark.tvm


SHAPES: dict[str, dict[str, Any]] = {
    "one row": {"rows": 1, "depth": 64, "columns": 40},
    "zeros in the middle": {"rows": 4, "depth": 64, "columns": 24, "has_zeros": False},
    "an odd number of blocks": {"rows": 3, "depth": 96, "columns": 17},
    "a block beyond the end": {"rows": 5, "depth": 80, "columns": 16, "has_bias": True},
    "eight bits": {"rows": 2, "depth": 64, "columns": 16, "bits": 8},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_product_widens_weights_of_few_bits_where_it_loads_them(shape: str) -> None:
    graph = product_of_few_bits(**SHAPES[shape])
    found, refused = outcomes(unfused_plan(graph), network=executable(graph))

    assert refused == {}
    assert list(found) == ["kernel0_com_microsoft__matmulnbits"]
    assert max(found.values()) <= KERNEL_TOLERANCE


def test_parameters_are_packed_weights_in_panels() -> None:
    graph = product_of_few_bits(1, 64, 16)
    (kernel,) = generated(unfused_plan(graph)).kernels

    assert sorted(kernel.inputs) == ["a", "b", "s", "z"]
    assert graph.tensors["b"].size_bytes == 64 * 16 // 2
    assert sorted(kernel.packings) == ["b", "s", "z"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("element", [TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8, TensorProto.UINT8])
def test_weights_of_few_bits_are_widened_by_the_scale_of_their_block(element: int) -> None:
    found, refused = outcomes(unfused_plan(read(weights_of_few_bits(element, 3, 64, 24, block=32), "fp32")))

    assert refused == {}
    assert max(found.values()) <= KERNEL_TOLERANCE


def test_a_block_between_quantisers_gives_the_same_integers() -> None:
    graph = read(residual_block(TensorProto.INT8, 2, 5), "fp32")

    found, refused = outcomes(fixed_pattern_plan(graph), network=executable(graph))

    assert refused == {}
    assert max(found.values()) <= KERNEL_TOLERANCE


def test_numbers_of_eight_bits_with_an_exponent_are_refused_in_one_message() -> None:
    graph = read(weights_of_few_bits(TensorProto.FLOAT8E4M3FN, 3, 64, 24, block=32), "fp32")

    with pytest.raises(WorkloadError, match=r"'w' of node 'wide' \(DequantizeLinear\) is fp8_e4m3; only fp32 is"):
        executable(graph)
