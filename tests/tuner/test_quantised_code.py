"""Generated code of quantised networks agrees with onnxruntime, or is refused with one message."""

import pytest
from onnx import TensorProto

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.fusion import fixed_pattern_plan, unfused_plan
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.workloads import WorkloadError
from dsascape.workloads.executable import executable
from tests.quantised_models import read, residual_block, weights_of_few_bits
from tests.tuner.runs import outcomes

pytestmark = pytest.mark.tvm


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
