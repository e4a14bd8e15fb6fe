"""Protocol of simulation engines: a program and its demands on a machine go in, a finished run comes out."""

from typing import Protocol

from dsascape.hw_models.simulation.demands import Demands
from dsascape.hw_models.simulation.finished import FinishedRun
from dsascape.hw_models.simulation.program import Program


class EngineLimitError(Exception):
    """A program that exceeds a limit of an engine, which the message names; another engine has to run it."""


class Engine(Protocol):
    """Simulation engine. All engines give equal runs of a program, to the last digit; only ``engine`` differs."""

    @property
    def name(self) -> str:
        """Name of the engine, as results state it."""

    def absence(self) -> str:
        """Return why this process cannot use the engine; empty if it can."""

    def refusal(self, program: Program) -> str:
        """Return why the engine does not run programs of this kind; empty if it does."""

    def run(self, program: Program, demands: Demands) -> FinishedRun:
        """Return the run of ``program``, given its ``demands`` on a machine.

        Raises ``ProgramError`` for a work that its unit cannot execute, ``SimulationError`` for buffers that cannot
        fit and for deadlock, both with the message of the reference engine, and ``EngineLimitError``.
        """
