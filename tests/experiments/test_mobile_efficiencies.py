"""Efficiencies on GPUs of phones and of FP16: the table has what the recorded times give, and presets name its rows."""

from pathlib import Path

import pytest

from dsascape.experiments.api import simulate
from dsascape.experiments.papers.cpu_efficiencies import error, fitted
from dsascape.experiments.papers.mobile_efficiencies import (
    FP16_KINDS,
    MOBILE_KINDS,
    recorded_fp16,
    recorded_mobile,
    simulated_ms,
)
from dsascape.hw_models import Cpu, HardwareError, load_hardware, preset_names
from dsascape.hw_models.machine_files.efficiencies import efficiency_rows
from dsascape.hw_models.machine_files.load import hardware_of_text

MOBILE = "adreno640", "adreno650", "mali_g76"


def test_gpus_of_phones_state_what_the_development_devices_give() -> None:
    found = fitted(recorded_mobile(), MOBILE_KINDS)

    for name in MOBILE:
        stated = {str(kind): share for kind, share in load_hardware(name).library_efficiency.items()}
        assert {kind: stated[kind] for kind in MOBILE_KINDS} == pytest.approx(found, abs=0.006)


def test_either_development_device_says_half_of_what_the_bound_misses_on_the_other() -> None:
    """Without efficiencies both are off by a factor of four."""
    rows = recorded_mobile()
    halves = [[row for row in rows if row.device == name] for name in MOBILE[:2]]

    for mine, theirs in (halves, reversed(halves)):
        bound = dict.fromkeys(MOBILE_KINDS, 1.0)
        assert error(theirs, fitted(mine, MOBILE_KINDS)) < 0.5 * error(theirs, bound)


def test_halves_state_what_the_development_devices_give() -> None:
    spec = load_hardware("snapdragon855", Cpu)
    others = {str(kind): share for kind, share in spec.library_efficiency.items() if kind in ("other", "memory")}

    assert spec.library_efficiency_of["fp16"] == pytest.approx(fitted(recorded_fp16(others), FP16_KINDS), abs=0.006)


def test_no_processor_has_one_efficiency_for_all_kinds() -> None:
    for name in preset_names():
        shares = load_hardware(name).library_efficiency
        assert "depthwise" not in shares or shares["depthwise"] < shares["convolution"], name


def test_parts_of_a_network_are_those_of_its_simulation() -> None:
    (row,) = [row for row in recorded_mobile() if (row.device, row.network) == ("adreno640", "resnet18")]
    record = simulate("resnet18", "adreno640", "fixed-pattern", dtype="fp16").record
    shares = {str(kind): share for kind, share in load_hardware("adreno640").library_efficiency.items()}

    assert simulated_ms("adreno640", "resnet18") == pytest.approx(dict(row.by_kind_ms), rel=0.02, abs=0.001)
    assert record.latency_s * 1e3 == pytest.approx(sum(row.by_kind_ms.values()), rel=0.01)
    assert record.expected_latency_s * 1e3 == pytest.approx(row.expected_ms(shares), rel=0.01)


def test_a_file_may_name_a_row_over_that_of_its_base(tmp_path: Path) -> None:
    place = tmp_path / "mine.yaml"
    place.write_text("base: snapdragon810\nlibrary_efficiency: ncnn/in order\n", encoding="utf-8")

    assert load_hardware(place).library_efficiency == efficiency_rows()["ncnn/in order"]["kinds"]


def test_a_row_that_the_table_lacks_is_refused() -> None:
    with pytest.raises(HardwareError, match=r"has 'ncnn/in ordr' \(did you mean ncnn/in order\?\); known: "):
        hardware_of_text("base: snapdragon810\nlibrary_efficiency: ncnn/in ordr\n", "mine.yaml")
