"""Generated code of quantised networks agrees with onnxruntime, or is refused with one message."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.fusion import fixed_pattern_plan, unfused_plan
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.workloads import Graph, WorkloadError, import_onnx
from dsascape.workloads.executable import executable
from dsascape.workloads.operators.registry import Array
from tests.quantised_models import read, residual_block, weights_of_few_bits
from tests.tuner.runs import generated, outcomes

pytestmark = pytest.mark.tvm


def product_of_few_bits(
    rows: int, depth: int, columns: int, *, bits: int = 4, has_zeros: bool = True, has_bias: bool = False
) -> Graph:
    """Return com.microsoft::MatMulNBits with weights that a file would have."""
    draw, block, each = np.random.default_rng(0), 32, 8 // bits
    blocks = -(-depth // block)
    known: dict[str, Array] = {
        "b": draw.integers(0, 256, (columns, blocks, block // each)).astype(np.uint8),
        "s": draw.uniform(0.01, 0.1, (columns, blocks)).astype(np.float32),
        "z": draw.integers(0, 256, (columns, -(-blocks // each))).astype(np.uint8),
        "bias": draw.uniform(-1, 1, columns).astype(np.float32),
    }
    names = ["a", "b", "s", "z" if has_zeros else "", "", "bias" if has_bias else ""]
    node = helper.make_node(
        "MatMulNBits", names, ["y"], domain="com.microsoft", K=depth, N=columns, bits=bits, block_size=block
    )  # fmt: skip
    entries = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("a", [rows, depth]), ("y", [rows, columns]))
    ]
    constants = [numpy_helper.from_array(value, name) for name, value in known.items() if name in names]
    body = helper.make_graph([node], "few_bits", entries[:1], entries[1:], constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return import_onnx(helper.make_model(body, opset_imports=opsets, ir_version=10).SerializeToString(), name="few")


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


def test_packed_weights_are_parameters_as_they_lie_in_the_file() -> None:
    graph = product_of_few_bits(1, 64, 16)
    (kernel,) = generated(unfused_plan(graph)).kernels

    assert sorted(kernel.inputs) == ["a", "b", "s", "z"]
    assert graph.tensors["b"].size_bytes == 64 * 16 // 2


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
