"""Runs of a program on every engine, which must be equal in every figure."""

from contextlib import suppress

from dsascape.hw_models import EnergyModel, Machine, Program, SimulationError, SimulationResult, simulate
from dsascape.hw_models.simulation.engine import Engine, EngineLimitError
from dsascape.hw_models.simulation.engines import ENGINES
from dsascape.hw_models.simulation.instructions import ProgramError

*_, REFERENCE = ENGINES.values()


def simulated_on_every_engine(program: Program, machine: Machine, energy: EnergyModel) -> SimulationResult:
    """Return the run of ``program`` by the engine that is chosen for it; all that support it have equal figures."""
    found = simulate(program, machine, energy)
    for engine in engines_for(program):
        if engine.name == found.engine:
            continue
        with suppress(EngineLimitError):
            assert simulate(program, machine, energy, engine) == found, engine.name
    return found


def engines_for(program: Program) -> list[Engine]:
    """Return the engines that are there and run programs of this kind."""
    return [engine for engine in ENGINES.values() if not (engine.absence() or engine.refusal(program))]


def outcome(program: Program, machine: Machine, energy: EnergyModel, engine: Engine) -> SimulationResult | str:
    """Return the figures of a run, or the message of a program that cannot go on."""
    try:
        return simulate(program, machine, energy, engine)
    except (SimulationError, ProgramError) as error:
        return f"{type(error).__name__}: {error}"
