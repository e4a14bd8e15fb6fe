"""Presets of one die, and cores of one design, have the same values but for what makes them different parts."""

from pathlib import Path
from typing import Any

import pytest

from dsascape.hw_models import AnyHardware, Gpu, load_hardware, parameter_paths, preset_names
from dsascape.hw_models.common.product_types import ProductType
from dsascape.hw_models.machine_files.load import plain


def value_at(spec: AnyHardware, path: str) -> Any:
    found: Any = plain(spec)
    for part in path.split("."):
        found = found[int(part)] if isinstance(found, list) else found[part]
    return found


def differences(one: str, other: str, part: str = "", other_part: str = "") -> set[str]:
    """Return the paths below a part of each preset at which they differ, those that only lists show left out."""
    first, second = load_hardware(one), load_hardware(other)
    mine, theirs = [
        {
            path.removeprefix(inside): value_at(spec, path)
            for path in parameter_paths(spec) if path.startswith(inside) and not path.startswith("product.")
        }
        for spec, inside in ((first, part), (second, other_part or part))
    ]  # fmt: skip
    assert mine
    assert theirs
    return {path for path in mine.keys() | theirs.keys() if mine.get(path) != theirs.get(path)}


def test_an_h200_is_an_h100_with_other_dram() -> None:
    of_dram = {"name", "dram.capacity", "dram.bandwidth", "dram.efficiency", "library_efficiency.memory"}
    of_its_interface = {"area.dram", "energy.static_power"}

    assert differences("h100", "h200") <= of_dram | of_its_interface


_OF_THE_CARD = {
    "name", "sms.count", "sms.clock", "l2.capacity", "l2.bandwidth", "l2.latency", "dram.capacity", "dram.bandwidth",
    "energy.dram", "energy.static_power", "area.dram", "library_efficiency.tensor", "power_limit",
    "host.function", "host.kernel", "library.copied_bytes_per_cycle",
}  # fmt: skip


@pytest.mark.parametrize(("one", "other", "more"), [
    ("a100", "a30", {"energy.static_power"}),
    ("a10", "rtx_3090", {"sms.tensor.fp16.macs_per_cycle", "sms.tensor.bf16.macs_per_cycle"}),
    ("l40s", "l4", {"dram.latency"}),
    ("p100", "p100_pcie", {"library_efficiency.memory"}),
    ("v100", "v100_pcie", set()),
    ("a100", "a100_pcie_40gb", {"sustained_factor"}),
    ("a100", "a100_pcie_80gb", set()),
    ("l40s", "rtx_4090", {f"sms.tensor.{each}.macs_per_cycle" for each in ("fp16", "bf16", "fp8")}),
])  # fmt: skip
def test_cards_of_one_design_differ_in_what_the_cards_are(one: str, other: str, more: set[str]) -> None:
    assert differences(one, other) <= _OF_THE_CARD | more


@pytest.mark.parametrize(("name", "dtype", "tera"), [
    ("t4", "fp16", 65), ("t4", "int8", 130), ("a30", "fp16", 165), ("a10", "fp16", 125), ("l4", "int8", 242),
    ("l40s", "fp16", 362), ("rtx_3090", "fp16", 71), ("rtx_3090", "int8", 284), ("rtx_4090", "fp16", 165),
    ("rtx_4090", "int8", 661),
])  # fmt: skip
def test_tensor_units_have_the_peak_of_the_data_sheet(name: str, dtype: ProductType, tera: float) -> None:
    sms = load_hardware(name, Gpu).sms

    assert 2 * sms.count * sms.clock_hz * sms.tensor[dtype].macs_per_cycle / 1e12 == pytest.approx(tera, rel=0.015)


@pytest.mark.parametrize(("one", "other", "core", "other_core"), [
    ("kirin980", "kirin990", "big", "big"), ("kirin980", "kirin990", "middle", "middle"),
    ("kirin980", "kirin990", "little", "little"), ("kirin990", "kirin990", "big", "middle"),
    ("snapdragon855", "snapdragon865", "silver", "silver"), ("platinum_8124m", "platinum_8269cy", "core", "core"),
])  # fmt: skip
def test_cores_of_one_design_differ_in_clock_and_number(one: str, other: str, core: str, other_core: str) -> None:
    assert differences(one, other, f"cores.{core}.", f"cores.{other_core}.") <= {"clock", "count"}


def test_l1_and_l2_pass_as_much_in_all_cortex_a55() -> None:
    found = differences("kirin990", "snapdragon865", "cores.little.", "cores.silver.")

    assert not found & {"l1.bytes_per_cycle", "l2.bytes_per_cycle", "fma_pipes", "issue_width"}


def test_what_lists_say_of_a_product_is_not_of_the_machines_that_it_is_a_base_of(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("base: tpu_v4i\n")
    whole, mine = load_hardware("tpu_v4i"), load_hardware(tmp_path / "mine.yaml")

    assert (whole.product.year, whole.stated_power_w) == (2020, 175)
    assert (mine.product.year, mine.stated_power_w) == (None, None)
    assert load_hardware("h100").stated_power_w == load_hardware("h100", Gpu).power_limit_w == 700


def test_cores_and_gpus_of_phones_and_boards_say_so() -> None:
    whole = {name for name in preset_names() if load_hardware(name).product.part_of is None}

    assert not [name for name in whole if name.startswith(("kirin", "snapdragon", "raspberry", "adreno", "mali", "rk"))]
    assert {"h100", "t4", "goya", "platinum_8124m"} <= whole
