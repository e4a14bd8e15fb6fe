"""Names are found in each spelling that Unicode holds for compatible: as copied from a PDF or typed on any keyboard."""

import pytest

from dsascape.experiments.question.constraints import read_constraints
from dsascape.hw_models.machine_files.load import load_hardware, preset_names, with_values
from dsascape.scheduler.policy import POLICIES, make_policy
from dsascape.workloads.zoo import zoo_entry, zoo_names


def wide(text: str) -> str:
    """Return ``text`` in full-width signs, which look like the usual ones but are others."""
    return "".join(chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" else sign for sign in text)


@pytest.mark.parametrize("name", preset_names())
def test_presets(name: str) -> None:
    assert load_hardware(wide(name)) == load_hardware(name)


@pytest.mark.parametrize("name", sorted(POLICIES.entries()))
def test_policies(name: str) -> None:
    assert make_policy(wide(name)) == make_policy(name)


def test_networks() -> None:
    assert [zoo_entry(wide(name)).name for name in zoo_names()] == list(zoo_names())


def test_paths_of_parameters_and_figures_of_limits() -> None:
    machine = load_hardware("stcp920")

    assert with_values(machine, {wide("ddr.bandwidth"): wide("60 GB/s")}) == with_values(
        machine, {"ddr.bandwidth": "60 GB/s"}
    )
    assert read_constraints([wide("area_mm2<=20mm2")]) == read_constraints(["area_mm2<=20mm2"])
