"""Trace of a run: start, end and pace of every instruction, the critical path, and the figures of a run."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import starmap
from typing import NamedTuple

from dsascape.hw_models.simulation.energy import BACKGROUND
from dsascape.hw_models.simulation.instructions import InstructionTable, Launch, base_name

_STARTUP = "-startup"
NO_CAUSE = -1
"""Stands for a position in `Trace.released_by`: the instruction started at time zero."""


class Step(NamedTuple):
    """Segment of the critical path: the start-up of one instruction, or the rest of it."""

    position: int
    paced_by: str
    """Limiting unit or memory; for a start-up the launching unit, or the unit's name with ``-startup`` appended."""
    start_ps: int
    end_ps: int


@dataclass(frozen=True)
class Trace:
    """Timeline of a run: every sequence has one entry per instruction of the program, by position."""

    instructions: InstructionTable
    start_ps: Sequence[int]
    """Start time: when the instruction had its unit, its inputs and its buffers."""
    end_ps: Sequence[int]
    released_by: Sequence[int]
    """Instruction whose end let this one start: the one before it on its unit, a dependency, or one that freed space.

    Dispatched work may start after the end of some blocks of the instruction before it.
    """
    limits: Sequence[str]
    """Limiting resource while it ran: its unit, or the memory whose bandwidth was short."""
    startup_ps: Sequence[int]
    """Start-up time of each instruction in ps, from its start on."""
    issued_ps: Sequence[int]
    """Issue time: when it had its inputs and its buffers. It is earlier than the start only on units where start-ups
    overlap with the payloads of earlier instructions."""
    levels: Mapping[str, str] = field(default_factory=dict)
    """Level of the machine that each unit belongs to, as in the program."""
    members: Mapping[str, int] = field(default_factory=dict)
    """Number of members of each unit that one entry stands for."""
    occupancy_bytes: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Occupancy of one copy of each memory: bytes held from each time (in picoseconds) at which it changes."""

    @cached_property
    def makespan_ps(self) -> int:
        """Makespan: the end of the last instruction."""
        return max(self.end_ps, default=0)

    def critical_path(self) -> list[int]:
        """Return the critical path as positions, first to last: each started the moment the one before it ended.

        A dispatched instruction may have started the moment that a member finished its blocks of the one before.
        """
        if not self.end_ps:
            return []
        position = len(self.end_ps) - 1 - self.end_ps[::-1].index(self.makespan_ps)
        path = []
        while position != NO_CAUSE:
            path.append(position)
            position = self.released_by[position]
        return path[::-1]

    @property
    def critical_steps(self) -> Iterator[Step]:
        """Critical path in segments with one limiting resource each; their lengths sum to the makespan."""
        return starmap(Step, self._steps())

    @property
    def steps(self) -> Iterator[Step]:
        """All instructions in the order of their positions, the start-up and the rest of each."""
        spans = zip(range(len(self.start_ps)), self.start_ps, self.end_ps, strict=True)
        return starmap(Step, self._steps_between(spans))

    @cached_property
    def critical_ps(self) -> Mapping[str, int]:
        """Picoseconds of the critical path by limiting resource; the values sum to the makespan."""
        shares: dict[str, int] = {}
        for _, paced_by, start, end in self._steps():
            shares[paced_by] = shares.get(paced_by, 0) + end - start
        return shares

    def critical_start_ps(self) -> int:
        """Return picoseconds of the critical path that launches and start-ups take."""
        launching = {base_name(work.unit) for work in self.instructions.works if isinstance(work.payload, Launch)}
        shares = self.critical_ps.items()
        return sum([spent for name, spent in shares if name in launching or name.endswith(_STARTUP)])

    def _steps(self) -> Iterator[tuple[int, str, int, int]]:
        """Yield the fields of each `Step` of the critical path."""
        path = self.critical_path()
        starts = [self.start_ps[position] for position in path]
        return self._steps_between(zip(path, starts, [*starts[1:], self.makespan_ps], strict=False))

    def _steps_between(self, spans: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, str, int, int]]:
        """Yield the fields of each `Step` of instructions, given as position, start and end."""
        table = self.instructions
        kinds = {name: base_name(name) for name in {*self.limits, *[work.unit for work in table.works]}}
        units = [(kinds[work.unit], isinstance(work.payload, Launch)) for work in table.works]
        startup_of = [unit if is_launch else f"{unit}{_STARTUP}" for unit, is_launch in units]
        work_of, startup_ps, limits = table.work_of, self.startup_ps, self.limits
        for position, start, end in spans:
            running = min(start + startup_ps[position], end)
            if running > start:
                yield position, startup_of[work_of[position]], start, running
            if end > running:
                yield position, kinds[limits[position]], running, end


@dataclass(frozen=True)
class SimulationResult:
    """Figures of one run. Times in picoseconds, energies in picojoules; memories and units by kind."""

    makespan_ps: int
    busy_ps: Mapping[str, int]
    """Busy time of each unit, summed over its members."""
    utilisation: Mapping[str, float]
    """Utilisation of each unit and memory port, 0 to 1: busy share of the makespan, averaged over all copies."""
    traffic_bytes: Mapping[str, int]
    """Bytes read from and written to each memory, summed over its copies."""
    peak_occupancy_bytes: Mapping[str, int]
    """Peak occupancy of one copy of each memory."""
    waited_ps: Mapping[str, Mapping[str, int]]
    """Idle time of each unit, summed over its members, by what the next instruction waited for.

    It waits for the result of a unit, or for ``space`` for its buffers.
    """
    energy_pj: Mapping[str, float]
    simulated_events: int
    engine: str = field(compare=False)
    """Name of the engine that ran the program; results that differ in nothing else are equal."""
    trace: Trace
    was_short_of_space: bool = False
    """Whether any allocation had to wait for space; if none did, the run is the same with larger memories."""
    moved_bytes: Sequence[Mapping[str, float]] = ()
    """Per work of the program: bytes by memory that one instruction moves, over all its participants or blocks."""
    utilisation_at_work: Mapping[str, float] = field(default_factory=dict)
    """`utilisation`, averaged over the copies in the part of the machine that the program runs on: idle clusters, for
    instance, do not count."""

    @property
    def critical_ps(self) -> Mapping[str, int]:
        """Picoseconds of the critical path by limiting resource; see `Trace.critical_ps`."""
        return self.trace.critical_ps

    @property
    def bottleneck(self) -> str:
        """Limiting resource of the largest part of the critical path."""
        return max(self.critical_ps, key=lambda name: (self.critical_ps[name], name), default="nothing")

    @property
    def energy_parts_j(self) -> dict[str, float]:
        """Joules by component, which sum to `energy_j`."""
        return {name: spent * 1e-12 for name, spent in self.energy_pj.items()}

    @property
    def energy_j(self) -> float:
        return sum(self.energy_pj.values()) * 1e-12

    def energy_lasting_j(self, makespan_ps: float) -> float:
        """Return the joules of the same work in another time, over which static power and clocks are drawn."""
        longer = makespan_ps / self.makespan_ps - 1 if self.makespan_ps else 0.0
        return self.energy_j + math.fsum([self.energy_pj.get(name, 0.0) for name in BACKGROUND]) * longer * 1e-12
