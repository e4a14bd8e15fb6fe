"""Products of two dtypes are computed in the pair's own rate, else in the wider dtype, else in the next wider one."""

import itertools
from pathlib import Path
from typing import get_args

import pytest

from dsascape.hw_models import AnyHardware, Gpu, HardwareError, load_hardware
from dsascape.hw_models.common.product_types import BITS, ProductType, operands_of, product_type, wider


@pytest.mark.parametrize(("rates", "left", "right", "expected"), [
    ({"fp16", "int8", "int4"}, "int4", "int4", "int4"),
    ({"fp16", "int8"}, "int4", "int4", "int8"),
    ({"fp16"}, "int4", "int4", "fp16"),
    ({"fp16", "int8"}, "fp8", "fp8", "fp16"),
    ({"fp16", "fp8"}, "fp8", "fp8", "fp8"),
    ({"fp16", "int8", "int4"}, "fp16", "int4", "fp16"),
    ({"fp16", "int8", "int4", "fp16 x int4"}, "fp16", "int4", "fp16 x int4"),
    ({"fp16", "int8", "int4", "fp16 x int4"}, "int4", "fp16", "fp16 x int4"),
    ({"fp16", "int8", "int4"}, "int8", "int4", "int8"),
    ({"fp16", "fp8", "int8"}, "int8", "fp8", "fp16"),
])  # fmt: skip
def test_the_pair_comes_first_then_the_next_wider_dtype(
    rates: set[str], left: str, right: str, expected: str
) -> None:
    assert product_type(rates, left, right, "fp16") == expected


def test_no_product_is_computed_narrower_than_its_wider_operand() -> None:
    rates = [{"fp16", *some} for count in range(3) for some in itertools.combinations(get_args(ProductType), count)]
    for own, left, right in itertools.product(rates, BITS, BITS):
        wide, _ = operands_of(product_type(own, left, right, "fp16"))
        assert BITS[wide] >= min(BITS[wider(left, right, "fp16")], BITS["fp16"])


@pytest.mark.parametrize(("machine", "product", "tera_ops"), [
    ("h100", "fp8", 1979), ("h200", "fp8", 1979), ("h100", "int8", 1979), ("a100", "int8", 624), ("a100", "int4", 1248),
])  # fmt: skip
def test_tensor_units_of_narrow_dtypes_reach_the_data_sheet(machine: str, product: str, tera_ops: float) -> None:
    """Dense rates, a multiply-accumulate counted as two."""
    spec = load_hardware(machine, Gpu)
    published = spec.sms.count * spec.clock_hz * 2 * spec.tensor("fp16").macs_per_cycle  # type: ignore[union-attr]

    peak = 2 * spec.peak_macs_per_s(product)
    assert peak == pytest.approx(tera_ops * 1e12, rel=0.09)  # H200 boosts beyond the clock of the data sheet
    assert peak / published == {"fp8": 2, "int8": 2, "int4": 4}[product]


@pytest.mark.parametrize(("machine", "product"), [("h100", "int4"), ("v100", "fp8"), ("v100", "int4"), ("a100", "fp8")])
def test_rates_that_a_machine_lacks_are_left_out(machine: str, product: str) -> None:
    assert product not in load_hardware(machine).product_types


def with_rate(folder: Path, product: str) -> AnyHardware:
    """Return stcp920 with a rate of its matrix unit: twice that of FP16."""
    path = folder / "mine.yaml"
    path.write_text(f"base: stcp920\nunits: {{matrix: {{macs_per_cycle: {{{product}: 4096}}}}}}\n")
    return load_hardware(str(path))


def test_a_pair_of_dtypes_can_be_given_a_rate(tmp_path: Path) -> None:
    machine = with_rate(tmp_path, "fp16 x int4")

    assert machine.peak_macs_per_s("fp16 x int4") == 2 * machine.peak_macs_per_s("fp16")


def test_a_rate_of_an_unknown_pair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HardwareError, match="has key 'int4 x fp16'"):
        with_rate(tmp_path, "int4 x fp16")
