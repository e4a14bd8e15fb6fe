"""Table of simulation engines, and the choice of one for a program.

The compiled engine runs a program if it is there and supports it, the reference engine all others. ``DSASCAPE_PURE=1``
in the environment chooses the reference engine, and Python in place of all other compiled code (`hw_models.in_c`).
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType

from dsascape.hw_models.in_c import log_once
from dsascape.hw_models.simulation.compiled_engine import CompiledEngine
from dsascape.hw_models.simulation.demands import Demands
from dsascape.hw_models.simulation.engine import Engine, EngineLimitError
from dsascape.hw_models.simulation.finished import FinishedRun
from dsascape.hw_models.simulation.program import Program
from dsascape.hw_models.simulation.simpy_engine import SimPyEngine

_REFERENCE = SimPyEngine()
_FASTEST_FIRST: tuple[Engine, ...] = (CompiledEngine(_REFERENCE), _REFERENCE)
ENGINES: Mapping[str, Engine] = MappingProxyType({engine.name: engine for engine in _FASTEST_FIRST})
"""Engines by name, the fastest first; the last is the reference, which runs every program."""


def available_engines() -> list[str]:
    """Return the names of the engines that this process can use, the fastest first."""
    return [name for name, engine in ENGINES.items() if not engine.absence()]


def run_by_fastest(program: Program, demands: Demands) -> FinishedRun:
    """Return the run of ``program`` by the fastest engine that is there and supports it.

    Logs once per cause why an engine that is there leaves a program to the next: as information if it never runs
    programs of this kind, as a warning if the program exceeds a limit. Raises as ``Engine.run`` does.
    """
    for engine in _FASTEST_FIRST[:-1]:
        if engine.absence():  # logged where it was found (`hw_models.in_c`), unless it was asked for
            continue
        refusal = engine.refusal(program)
        if refusal:
            log_once(logging.INFO, f"engine {engine.name}: {refusal}; a slower engine runs such programs")
            continue
        try:
            return engine.run(program, demands)
        except EngineLimitError as error:
            log_once(logging.WARNING, f"engine {engine.name}: {error}; a slower engine runs this program")
    return _REFERENCE.run(program, demands)
