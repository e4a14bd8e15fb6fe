"""The fitted value in the STCP920 preset is the one that the fit gives."""

from dsascape.experiments.papers.graphturbo_calibration import MACHINE, NUMBERS, machine_with, misfit, simulated
from dsascape.hw_models import load_hardware
from dsascape.hw_models.text.quantities import PICOSECONDS


def test_the_preset_fits_better_than_a_launch_that_is_a_fifth_shorter_or_longer() -> None:
    launch_us = getattr(load_hardware(MACHINE), "launch_ps", 0) / PICOSECONDS["us"]
    around = {factor: misfit(simulated(machine_with("launch", launch_us * factor))) for factor in (0.8, 1.0, 1.2)}

    assert around[1.0] < min(around[0.8], around[1.2])


def test_all_other_numbers_are_as_they_were_assumed() -> None:
    preset = load_hardware(MACHINE)
    launch_us = getattr(preset, "launch_ps", 0) / PICOSECONDS["us"]

    assert machine_with("launch", launch_us) == preset
    assert set(NUMBERS) >= {"launch"}
