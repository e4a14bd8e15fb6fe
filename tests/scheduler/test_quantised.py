"""Quantised networks on machines of every kind: bytes as the file has them, products at the rates of their dtypes."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from dsascape.experiments.api import simulate
from dsascape.experiments.point.job import Outcome
from dsascape.hw_models import Compute, Gpu, load_hardware
from dsascape.scheduler import policy_types
from dsascape.scheduler.product_rates import macs_by_product, mean_peak_macs_per_s, rates_lacking
from dsascape.workloads import DTYPE_BITS
from dsascape.workloads.folded_dequantisation import graph_with_dequantisation_folded
from tests.quantised_models import product_of_quantised, read, residual_block, weights_of_few_bits
from tests.scheduler.small import product

INT4, INT8, FP8 = TensorProto.INT4, TensorProto.INT8, TensorProto.FLOAT8E4M3FN
OFF_CHIP = {"a100": "dram", "h100": "dram", "platinum_8269cy": "dram", "stcp920": "ddr", "ascend910": "ddr"}
SIDE, BLOCK = 4096, 32
WEIGHT_BYTES = SIDE * SIDE // 2
SCALES = SIDE * SIDE // BLOCK
"""Number of scales, which are of the network's dtype."""


def dtype_of(machine: str) -> str:
    return "fp32" if machine.startswith("platinum") else "fp16"


def ran(built: onnx.ModelProto, machine: str, policy: str = "fixed-pattern") -> Outcome:
    return simulate(read(built, dtype_of(machine)), machine, policy)


def macs(outcome: Outcome) -> dict[str, int]:
    """Return the multiply-accumulates of a program by the dtype in which they are computed."""
    table = outcome.program.instructions
    found: dict[str, int] = {}
    for number, count in table.counts().items():
        work = table.works[number]
        if isinstance(work.payload, Compute) and work.payload.macs:
            dtype = work.payload.product or work.payload.dtype
            found[dtype] = found.get(dtype, 0) + count * work.payload.macs * outcome.program.executions(work)
    return found


@pytest.fixture(scope="module")
def matrix() -> onnx.ModelProto:
    return weights_of_few_bits(INT4, 1, SIDE, SIDE, BLOCK)


@pytest.mark.parametrize("machine", OFF_CHIP)
def test_a_decoded_token_reads_half_a_byte_for_each_weight(matrix: onnx.ModelProto, machine: str) -> None:
    """8 MiB of weights and their scales; caches may bring what they share lines with, once more."""
    least = WEIGHT_BYTES + SCALES * DTYPE_BITS[dtype_of(machine)] // 8
    outcome = ran(matrix, machine)

    assert least <= outcome.record.traffic_bytes[OFF_CHIP[machine]] <= 1.02 * least
    assert outcome.record.kernels == 1


@pytest.mark.parametrize("machine", ["a100", "h100"])
def test_a_decoded_token_is_bound_by_memory(matrix: onnx.ModelProto, machine: str) -> None:
    spec, outcome = load_hardware(machine, Gpu), ran(matrix, machine)
    moving_s = (WEIGHT_BYTES + 2 * SCALES) / outcome.record.off_chip_bytes_per_s

    assert outcome.record.bottleneck == "dram"
    assert moving_s < outcome.record.latency_s - spec.launch_ps * 1e-12 < 1.5 * moving_s


def test_a_policy_that_fuses_nothing_writes_the_wide_weights(matrix: onnx.ModelProto) -> None:
    """They are too many for the on-chip memories of this machine: written and read, two bytes each."""
    outcome = ran(matrix, "stcp920", "unfused")

    wide_bytes = 2 * SIDE * SIDE
    assert outcome.record.kernels == 2
    assert outcome.record.traffic_bytes["ddr"] >= WEIGHT_BYTES + 2 * SCALES + 2 * wide_bytes


@pytest.mark.sampled(8)
@pytest.mark.parametrize("policy", sorted(policy_types()))
@pytest.mark.parametrize("machine", ["h100", "platinum_8269cy", "stcp920"])
def test_dequantisation_is_folded_in_every_policy_that_fuses(machine: str, policy: str) -> None:
    kind, policies = load_hardware(machine).kind, policy_types()
    if kind not in getattr(policies[policy], "kinds", (kind,)):
        pytest.skip("schedules other machines")
    outcome = ran(residual_block(INT8, 16, 8), machine, policy)

    computed = macs(outcome)
    if policy in ("unfused", "eager"):
        assert set(computed) == {dtype_of(machine)}
    else:  # units that have no int8, as the vector unit of stcp920, may take a part of a layer
        assert computed["int8"] >= 0.9 * sum(computed.values())


@pytest.mark.parametrize("machine", ["a100", "stcp920", "platinum_8269cy"])
def test_a_block_between_quantisers_runs_at_integer_rates_by_itself(machine: str) -> None:
    """No dtype is asked for."""
    built = residual_block(INT8, 256, 28)
    outcome, spec = ran(built, machine), load_hardware(machine)

    assert outcome.record.peak_macs_per_s == spec.peak_macs_per_s("int8")
    assert set(macs(outcome)) == {"int8"}
    assert outcome.record.latency_s < ran(built, machine, "unfused").record.latency_s


@pytest.mark.parametrize(("machine", "element", "faster"), [
    ("h100", FP8, True), ("a100", FP8, False), ("a100", INT4, True), ("h100", INT8, True),
])  # fmt: skip
def test_large_products_are_as_fast_as_the_matrix_units_of_their_dtype(
    machine: str, element: int, *, faster: bool
) -> None:
    quantised = ran(product_of_quantised(element, 4096, 4096, 4096), machine)
    floats = simulate(product(4096, 4096, 4096), machine, "fixed-pattern")

    assert (quantised.record.latency_s < 0.75 * floats.record.latency_s) == faster


@pytest.mark.parametrize(("machine", "element", "said"), [
    ("a100", FP8, "a100 has no rate for products in fp8: 1 product of the network is computed in fp16"),
    ("h100", INT4, "h100 has no rate for products in int4: 1 product of the network is computed in int8"),
    ("h100", FP8, ""), ("a100", INT4, ""),
])  # fmt: skip
def test_a_rate_that_a_machine_lacks_is_said(machine: str, element: int, said: str) -> None:
    graph = graph_with_dequantisation_folded(read(product_of_quantised(element, 8, 32, 8)))

    assert list(rates_lacking(graph, load_hardware(machine), "fp16")) == ([said] if said else [])


def test_an_operand_that_is_widened_where_it_is_loaded_needs_no_rate_of_its_own(matrix: onnx.ModelProto) -> None:
    graph = graph_with_dequantisation_folded(read(matrix))
    machine = load_hardware("h100")

    assert list(rates_lacking(graph, machine, "fp16")) == []
    assert macs_by_product(graph, machine, "fp16") == {"fp16": SIDE * SIDE}


def test_the_peak_of_several_dtypes_is_the_mean_by_time() -> None:
    """One product of bytes and one of wide numbers, of equal size: twice the rate for one half of them."""
    built = product_of_quantised(INT8, 64, 64, 64)
    built.graph.node.append(onnx.helper.make_node("MatMul", ["y", "v"], ["z"], name="second"))
    built.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((64, 64), np.float32), "v"))
    built.graph.output[0].name = "z"
    graph, machine = graph_with_dequantisation_folded(read(built)), load_hardware("a100")

    mean = mean_peak_macs_per_s(graph, machine, "fp16")
    assert mean == pytest.approx(machine.peak_macs_per_s("fp16") * 2 / 1.5)


def test_a_machine_with_a_rate_for_the_pair_multiplies_as_stored(tmp_path: Any) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("base: stcp920\nunits: {matrix: {macs_per_cycle: {fp16 x int4: 4096}}}\n")
    built = weights_of_few_bits(INT4, 64, 256, 256, BLOCK)

    assert set(macs(ran(built, str(path)))) == {"fp16 x int4"}
    assert set(macs(ran(built, "stcp920"))) == {"fp16"}
