"""What differs between kinds of machines in a search for programs: two protocols, of a kernel's programs and of a kind.

Each kind has one implementation of both, in a file of its own; `tuner.search.kinds.table` finds it.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from dsascape.hw_models import MachineSpec
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.scheduler.kinds.kind import MachineCosts
from dsascape.scheduler.kinds.schedule import MachineSchedule
from dsascape.tuner.search.analysis import SearchMachine
from dsascape.tuner.search.options import SpaceOptions
from dsascape.tuner.search.reuse.machines import Reusable
from dsascape.tuner.search.runners import Runner
from dsascape.tuner.search.space import Program, Space
from dsascape.tuner.search.tasks import Task
from dsascape.workloads.analysis import Analysis

Decision = Callable[[Steps, random.Random], Steps]
"""One decision about a program, drawn."""


class KernelSpace(Space, ABC):
    """All programs of one kernel on a machine, and how programs of its kind are changed, composed and reused."""

    @abstractmethod
    def mutated(self, steps: Steps, rng: random.Random) -> Program | None:
        """Return a program with one decision changed; None where that did not work."""

    @abstractmethod
    def decisions(self, steps: Steps) -> Iterator[Decision]:
        """Yield the decisions about a program besides sizes of tiles."""

    @abstractmethod
    def composed(self, parts: Sequence[Steps]) -> Program | None:
        """Return the program made of those of the kernel's mini sub-graphs, producers first; None: no legal one.

        ``parts`` has the steps of each mini sub-graph, with the names that stages have in the kernel.
        """

    @abstractmethod
    def composed_apart(self, parts: Sequence[Steps]) -> Program | None:
        """Return the program made of ``parts`` in which none is computed inside of another's tiles; None: no such."""

    @abstractmethod
    def placed_inside(self, steps: Steps) -> Iterator[Program]:
        """Yield the legal programs in which one flexible stage of ``steps`` is computed in another place."""

    @abstractmethod
    def reusable(self) -> Reusable:
        """Return the kernel as one that reuses, and is reused; raise ``ReuseError`` where shapes do not describe it."""


class TunedKind(Protocol):
    """Kind of machine that programs are searched for."""

    def check(self, machine: MachineSpec, threads: int) -> None:
        """Raise ``HardwareError`` for a number of threads that machines of this kind do not take; 0: the usual."""

    def check_hints(self, machine: MachineSpec, hints: str) -> None:
        """Raise ``HintError`` where hints, from the file ``hints``, say nothing about programs of this kind."""

    def settings(self, threads: int) -> dict[str, object]:
        """Return the scheduler tuning of kernels that are tuned, on so many threads; 0: as many as are best."""

    def analysed(self, analysis: Analysis) -> Analysis:
        """Return a network as its kernels are tuned."""

    def simulated(self, machine: MachineSpec, dtype: str, settings: dict[str, object]) -> Runner:
        """Return the machine model as a runner, for kernels in ``dtype`` with the tuning ``settings``."""

    def space(self, naive: NaiveProgram, machine: SearchMachine, options: SpaceOptions | None = None) -> KernelSpace:
        """Return all programs of a kernel on a machine."""

    def tasks(self, schedule: MachineSchedule, costs: MachineCosts) -> tuple[Task, ...]:
        """Return the tasks of a schedule in the order in which they first occur; not of kernels that run in order."""

    def task(self, layer: Layer, costs: MachineCosts) -> Task | None:
        """Return the task of one layer that no schedule has, with the built-in choice for it and weight 0.

        None where steps do not describe its loops, or no machine of this kind can run it.
        """
