"""Areas follow published dies, and off-chip bandwidth costs area and power on every kind of machine."""

import pytest

from dsascape.hw_models import AnyHardware, load_hardware, preset_names, with_values
from dsascape.hw_models.common.silicon import (
    core_logic_mm2,
    ddr_mm2_per_gb_per_s,
    logic_over_7nm,
    macs_mm2,
    sram_mm2_per_mib,
)
from dsascape.scheduler import kind_of

DDR = {"clustered_dsa": "ddr", "cpu": "dram", "gpu": "dram"}


def area(name: str, changes: dict[str, object] | None = None) -> float:
    mm2 = with_values(load_hardware(name), changes or {}).area_mm2
    assert mm2 is not None
    return mm2


def static_w(machine: AnyHardware) -> float:
    return kind_of(machine).energy(machine).static_power_w


@pytest.mark.parametrize(
    ("name", "whole_die", "published_mm2", "error"),
    [
        ("v100", {"sms.count": 84}, 815, 0.05),
        ("p100", {"sms.count": 60}, 610, 0.05),
        ("h100", {"sms.count": 144, "l2.capacity": "60 MiB", "dram.bandwidth": "4020 GB/s"}, 814, 0.12),
        ("platinum_8124m", {}, 485, 0.02),
    ],
)
def test_dies_that_nothing_was_derived_from_are_met_within_the_stated_error(
    name: str, whole_die: dict[str, object], published_mm2: float, error: float
) -> None:
    assert area(name, whole_die) == pytest.approx(published_mm2, rel=error)


def test_a_die_of_zen_4_is_overestimated_by_a_fifth() -> None:
    parts = with_values(load_hardware("epyc"), {"cores.core.count": 8}).area_parts_mm2

    assert (parts["cores"] + parts["caches"]) / 66.3 == pytest.approx(1.19, abs=0.01)


def test_the_die_that_the_figures_of_gpus_come_from_is_met() -> None:
    ga100 = {"sms.count": 128, "l2.capacity": "48 MiB", "dram.bandwidth": "1866 GB/s"}

    assert area("a100", ga100) == pytest.approx(826, rel=0.01)


def test_cores_that_the_default_is_fitted_to_are_met() -> None:
    assert core_logic_mm2(3, 1.96e9, 20) == pytest.approx(2.0 - 80 / 1024 * 1.2 * 2.15, rel=0.04)
    assert core_logic_mm2(6, 3.7e9, 5) == pytest.approx(3.84 - 1.0625 * 0.7 * 2.15, rel=0.04)


def test_a_placed_multiply_accumulate_is_worked_out_by_hand() -> None:
    assert macs_mm2("fp16", 1024, 7) == pytest.approx(1024 * 177 * 2.31 / 1e6)
    assert macs_mm2("fp16", 1, 14) == pytest.approx(2.88 * macs_mm2("fp16", 1, 7))


def test_only_the_controller_of_an_interface_scales_with_the_node() -> None:
    assert ddr_mm2_per_gb_per_s(7) == pytest.approx((1.45 + 0.99) / 16)
    assert ddr_mm2_per_gb_per_s(14) == pytest.approx((1.45 + 0.99 * 2.88) / 16)


def test_a_newer_node_is_never_larger() -> None:
    nodes = [90, 65, 45, 40, 28, 22, 20, 16, 14, 12, 10, 7, 6, 5, 4, 3]
    for figure in (logic_over_7nm, sram_mm2_per_mib, ddr_mm2_per_gb_per_s):
        values = [figure(node) for node in nodes]
        assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_has_an_area_of_its_parts_and_pays_for_off_chip_bandwidth(name: str) -> None:
    machine = load_hardware(name)
    path = f"{DDR[machine.kind]}.bandwidth"
    before = machine.area_parts_mm2
    twice = with_values(machine, {path: f"{2 * getattr(machine, DDR[machine.kind]).bandwidth_bytes_per_s} B/s"})

    assert machine.area_mm2 == pytest.approx(sum(before.values()))
    assert min(before.values()) >= 0
    changed = {part for part, mm2 in twice.area_parts_mm2.items() if mm2 != before[part]}
    assert changed == {DDR[machine.kind]}
    assert twice.area_parts_mm2[DDR[machine.kind]] == pytest.approx(2 * before[DDR[machine.kind]])
    assert static_w(twice) > static_w(machine)


def test_more_of_any_part_of_a_gpu_or_cpu_is_larger() -> None:
    for name, path, value in (
        ("a100", "sms.count", 109), ("a100", "l2.capacity", "41 MiB"), ("a100", "sms.registers", 65792),
        ("a100", "sms.shared.capacity", "200 KiB"), ("a100", "sms.lanes.fp32", 640),
        ("a100", "sms.tensor.fp16.macs_per_cycle", 2048), ("kirin990", "cores.big.count", 3),
        ("kirin990", "cores.big.issue_width", 5), ("kirin990", "l3.capacity", "5 MiB"),
        ("kirin990", "cores.little.l2.capacity", "256 KiB"), ("epyc", "cores.core.area", "3 mm2"),
    ):  # fmt: skip
        assert area(name, {path: value}) > area(name), path


def test_static_power_of_an_interface_is_worked_out_by_hand() -> None:
    machine = with_values(load_hardware("stcp920"), {"energy.static_power": "2 W", "ddr.bandwidth": "100 GB/s"})

    assert static_w(machine) == pytest.approx(2 + 100 * 0.004)


@pytest.mark.parametrize(("name", "cores"), [("stcp920", 32), ("snapdragon865", 8), ("a100", 108)])
def test_every_core_draws_its_static_power_beside_that_of_the_rest(name: str, cores: int) -> None:
    machine = with_values(load_hardware(name), {"energy.static_power": "2 W"})
    leaking = with_values(machine, {"energy.core_static": "250 mW"})

    assert static_w(leaking) - static_w(machine) == pytest.approx(cores * 0.25)
    assert static_w(with_values(machine, {"energy.core_static": "0 W"})) == static_w(machine)
