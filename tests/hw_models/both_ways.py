"""Runs by the compiled engine and by Python, which must be equal in every figure."""

import pytest

from dsascape.hw_models import EnergyModel, Machine, Program, SimulationResult, simulate
from dsascape.hw_models.simulation.compiled_run import is_compiled


def simulated_both_ways(program: Program, machine: Machine, energy: EnergyModel) -> SimulationResult:
    """Return the run of ``program`` that compiled code and Python come to alike."""
    found = simulate(program, machine, energy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSASCAPE_PURE", "1")
        assert not is_compiled()
        assert simulate(program, machine, energy) == found
    return found
