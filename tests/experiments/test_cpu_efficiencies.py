"""Efficiencies by kind: those that made the times are found again, and presets state what the recorded times give."""

from dataclasses import replace

import pytest

from dsascape.experiments.papers.cpu_efficiencies import KINDS, Parts, alike, error, fitted, recorded
from dsascape.hw_models import Cpu, load_hardware

IN_ORDER = ("snapdragon410", "raspberry_pi_3b_plus")
OUT_OF_ORDER = ("snapdragon660", "snapdragon810", "snapdragon835", "kirin970", "rk3399", "raspberry_pi_4")


def of(*devices: str) -> list[Parts]:
    return [row for row in recorded() if row.device in devices]


def test_one_efficiency_of_all_kinds_has_no_bias() -> None:
    parts = {"product": 3.0, "convolution": 1.0, "depthwise": 1.0, "other": 0.0, "memory": 0.0}
    row = Parts("device", "network", 10.5, 0.5, parts)

    assert alike([row]) == pytest.approx(0.5)  # 5 ms of 10
    assert error([row], dict.fromkeys(KINDS, 0.5)) == pytest.approx(0)


def test_efficiencies_that_made_the_times_are_nearly_found_again() -> None:
    true = {"product": 0.8, "convolution": 0.5, "depthwise": 0.4, "other": 0.5, "memory": 0.7}
    rows = [replace(row, ms=row.expected_ms(true)) for row in of("snapdragon835")]
    found = fitted(rows)

    assert error(rows, found) / len(rows) < 0.02
    assert {kind: found[kind] for kind in KINDS[:3]} == pytest.approx({kind: true[kind] for kind in KINDS[:3]}, rel=0.1)


@pytest.mark.parametrize(
    ("devices", "presets"), [(("snapdragon410",), IN_ORDER), (("snapdragon810", "snapdragon835"), OUT_OF_ORDER)]
)
def test_presets_state_what_the_development_devices_give(devices: tuple[str, ...], presets: tuple[str, ...]) -> None:
    rows = of(*devices)
    found = fitted(rows)

    assert error(rows, found) < error(rows, dict.fromkeys(KINDS, alike(rows)))
    for name in presets:
        spec = load_hardware(name)
        assert isinstance(spec, Cpu)
        stated = {str(kind): share for kind, share in spec.library_efficiency.items()}
        assert stated == pytest.approx(found, abs=0.006)
