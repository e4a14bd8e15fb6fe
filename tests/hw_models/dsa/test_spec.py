"""A description of a scratchpad accelerator that makes no sense is rejected when it is read."""

import importlib.resources
from pathlib import Path

import pytest

from dsascape.hw_models import HardwareError, load_hardware
from dsascape.hw_models.dsa.memories import RESERVED_NAMES

PRESET = (importlib.resources.files("dsascape.hw_models") / "presets/stcp920.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", RESERVED_NAMES)
def test_a_unit_may_not_take_the_name_of_what_every_machine_has(name: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(PRESET.replace("\n  vector_core:", f"\n  {name}:"), encoding="utf-8")

    with pytest.raises(HardwareError, match=f"units.{name}: is a reserved name; needs another"):
        load_hardware(mine)


def test_every_dtype_that_is_computed_has_its_energy(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(PRESET.replace("\n    int8: 0.137 pJ", ""), encoding="utf-8")

    with pytest.raises(HardwareError, match=r"energy\.mac has fp16; needs int8 too, which units\.matrix"):
        load_hardware(mine)
