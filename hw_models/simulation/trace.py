"""The trace of a run: who did what when, and the figures that follow from it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import starmap
from typing import NamedTuple

from dsascape.hw_models.simulation.instructions import InstructionTable, Launch, base_name

STARTED_BY_NOBODY = -1


class Step(NamedTuple):
    """A stretch of the critical path: one instruction's start-up, or the rest of it."""

    position: int
    paced_by: str
    """Unit or memory that set the pace; for a start-up the launching unit, or a unit with ``-startup`` behind it."""
    start_ps: int
    end_ps: int


@dataclass(frozen=True)
class Trace:
    """One entry per instruction of the program, by position."""

    instructions: InstructionTable
    start_ps: Sequence[int]
    """When the instruction had its unit, its inputs and its buffers."""
    end_ps: Sequence[int]
    released_by: Sequence[int]
    """Whose end let the instruction start: before it on its unit, waited for, or freeing its space.

    Of dispatched work, the end of some blocks of the one before it is enough.
    """
    limits: Sequence[str]
    """What set the pace while it ran: its unit, or the memory whose bandwidth was short."""
    startup_ps: Sequence[int]
    """Part of the time since the start that was start-up."""
    issued_ps: Sequence[int]
    """When it had its inputs and its buffers: before its start only on units where start-ups pass under the payloads of
    earlier instructions."""
    levels: Mapping[str, str] = field(default_factory=dict)
    """Per unit: the level of the machine that it belongs to, as in the program."""
    members: Mapping[str, int] = field(default_factory=dict)
    """Per unit: how many members do what one entry says."""
    occupancy_bytes: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Per memory: by the times at which that changes, the bytes that one copy holds from then on."""

    @cached_property
    def makespan_ps(self) -> int:
        """When the last instruction ends."""
        return max(self.end_ps, default=0)

    def critical_path(self) -> list[int]:
        """Return instructions, first to last, each of which started the moment the one before it ended.

        A dispatched one may have started the moment that a member finished its blocks of the one before.
        """
        if not self.end_ps:
            return []
        position = len(self.end_ps) - 1 - self.end_ps[::-1].index(self.makespan_ps)
        path = []
        while position != STARTED_BY_NOBODY:
            path.append(position)
            position = self.released_by[position]
        return path[::-1]

    @property
    def critical_steps(self) -> Iterator[Step]:
        """The critical path in stretches with one pace each; together they last the makespan."""
        return starmap(Step, self._steps())

    def critical_ps(self) -> dict[str, int]:
        """Return the makespan by what set the pace on the critical path; its values sum to the makespan."""
        shares: dict[str, int] = {}
        for _, paced_by, start, end in self._steps():
            shares[paced_by] = shares.get(paced_by, 0) + end - start
        return shares

    def _steps(self) -> Iterator[tuple[int, str, int, int]]:
        """Yield the numbers of each step."""
        path, table = self.critical_path(), self.instructions
        kinds = {name: base_name(name) for name in {*self.limits, *[work.unit for work in table.works]}}
        units = [(kinds[work.unit], isinstance(work.payload, Launch)) for work in table.works]
        startup_of = [unit if is_launch else f"{unit}-startup" for unit, is_launch in units]
        starts = [self.start_ps[position] for position in path]
        work_of, startup_ps, limits = table.work_of, self.startup_ps, self.limits
        for position, start, end in zip(path, starts, [*starts[1:], self.makespan_ps], strict=False):
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
    """Per unit: time under way, summed over its members."""
    utilisation: Mapping[str, float]
    """Per unit and memory port: share of the makespan that all of them, idle ones included, were at work."""
    traffic_bytes: Mapping[str, int]
    """Per memory: bytes read and written, all copies together."""
    peak_occupancy_bytes: Mapping[str, int]
    """Per memory: the most that one copy held."""
    waited_ps: Mapping[str, Mapping[str, int]]
    """Per unit: time that its members had nothing to do, by what the next instruction waited for.

    That is a unit, or ``space`` for buffers.
    """
    energy_pj: Mapping[str, float]
    simulated_events: int
    trace: Trace
    was_short_of_space: bool = False
    """Whether any buffer did not get its space at once: if not, the run is the same in larger memories."""
    moved_bytes: Sequence[Mapping[str, float]] = ()
    """By work of the program: what all that take part in one instruction read and write of each memory."""

    @cached_property
    def critical_ps(self) -> Mapping[str, int]:
        """The makespan by what set the pace on the critical path: see `Trace.critical_ps`."""
        return self.trace.critical_ps()

    @property
    def bottleneck(self) -> str:
        """What the largest part of the critical path was paced by."""
        return max(self.critical_ps, key=lambda name: (self.critical_ps[name], name), default="nothing")

    @property
    def energy_j(self) -> float:
        return sum(self.energy_pj.values()) * 1e-12
