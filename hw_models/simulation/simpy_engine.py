"""Reference engine: event handlers in Python, called by SimPy."""

from dataclasses import dataclass

from dsascape.hw_models.simulation.clock import Clock
from dsascape.hw_models.simulation.demands import Demands
from dsascape.hw_models.simulation.finished import FinishedRun
from dsascape.hw_models.simulation.machine import SimulationError
from dsascape.hw_models.simulation.program import Program
from dsascape.hw_models.simulation.running import Running
from dsascape.hw_models.simulation.starting import start_units


@dataclass(frozen=True)
class SimPyEngine:
    """Reference engine, which runs every program and reports where a program is wrong."""

    name: str = "simpy"

    def absence(self) -> str:
        """Return an empty text: it is always there."""
        return ""

    def refusal(self, program: Program) -> str:
        """Return an empty text: it runs programs of every kind."""
        del program
        return ""

    def run(self, program: Program, demands: Demands) -> FinishedRun:
        """Return the run of ``program``; raise ``ProgramError`` or ``SimulationError`` where it cannot go on."""
        clock = Clock()
        running = Running(program, clock, demands)
        workers = start_units(running)
        clock.run()
        if running.unfinished:
            raise SimulationError(running.deadlock())
        busy_ps: dict[str, int] = {}
        for worker in workers:
            busy_ps[worker.kind] = busy_ps.get(worker.kind, 0) + worker.busy_ps
        return running.finished(self.name, busy_ps)
