"""Presets of one die, and cores of one design, have the same values but for what makes them different parts."""

from typing import Any

import pytest

from dsascape.hw_models import AnyHardware, load_hardware, parameter_paths
from dsascape.hw_models.machine_files.load import plain


def value_at(spec: AnyHardware, path: str) -> Any:
    found: Any = plain(spec)
    for part in path.split("."):
        found = found[int(part)] if isinstance(found, list) else found[part]
    return found


def differences(one: str, other: str, part: str = "", other_part: str = "") -> set[str]:
    """Return the paths below a part of each preset at which they differ."""
    first, second = load_hardware(one), load_hardware(other)
    mine, theirs = [
        {path.removeprefix(inside): value_at(spec, path) for path in parameter_paths(spec) if path.startswith(inside)}
        for spec, inside in ((first, part), (second, other_part or part))
    ]  # fmt: skip
    assert mine
    assert theirs
    return {path for path in mine.keys() | theirs.keys() if mine.get(path) != theirs.get(path)}


def test_an_h200_is_an_h100_with_other_dram() -> None:
    of_dram = {"name", "dram.capacity", "dram.bandwidth", "dram.efficiency", "library_efficiency.memory"}
    of_its_interface = {"area.dram", "energy.static_power"}

    assert differences("h100", "h200") <= of_dram | of_its_interface


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
