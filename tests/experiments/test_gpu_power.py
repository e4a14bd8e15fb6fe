"""Energies of presets follow from kernels measured on a GPU."""

import pytest

from dsascape.experiments.papers.gpu_power import CALIBRATED, GPUS, Energies
from dsascape.hw_models import Gpu, load_hardware


def test_the_preset_states_what_its_kernels_give() -> None:
    for path, _, _, here, states in Energies(CALIBRATED).stated():
        assert states == pytest.approx(here, rel=0.01), path


def test_the_voltage_of_the_preset_is_that_of_two_throttled_kernels() -> None:
    own, voltage = Energies(CALIBRATED), Energies(CALIBRATED).spec.energy.voltage
    assert voltage is not None
    assert voltage.lowest == pytest.approx(own.voltage.lowest, abs=1e-3)
    assert voltage.flat_to == pytest.approx(own.voltage.flat_to, abs=1e-3)


def test_presets_of_one_die_agree_in_the_energies_of_what_is_on_it() -> None:
    first, *others = [load_hardware(name, Gpu).energy for name in ("h100", "h200", "gh200")]
    off_die = {"static_power_w", "dram", "dram_static"}
    for other in others:
        assert other.model_dump(exclude=off_die) == first.model_dump(exclude=off_die)


@pytest.mark.parametrize("gpu", GPUS)
def test_kernels_of_one_event_are_predicted_within_a_quarter(gpu: str) -> None:
    energies = Energies(gpu)
    kernels = [each for each in energies.kernels if each.name in ("integers", "reads", "writes") and each.is_random]
    assert len(kernels) >= 5
    for kernel in kernels:
        assert energies.predicted_w(kernel) == pytest.approx(kernel.watts, rel=0.25)


def test_an_idle_chip_draws_what_was_measured_before_and_after_its_clocks_run() -> None:
    own = Energies(CALIBRATED)
    assert own.facts["idle_w"] < own.clocked_w
    assert own.clocked_w == pytest.approx(own.predicted_w(own.kernels[0]), rel=0.01)
