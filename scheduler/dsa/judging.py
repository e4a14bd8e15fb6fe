"""Schedules judged by the machine: of several, the one that is simulated to end first is taken.

Which layout is best cannot be told from its traffic alone: tiles that start up too often, or weights that come in small
pieces, cost more than what they save. So layouts are scheduled and run, but for those whose traffic and launches alone
take longer than the best so far; and only so many, as simulating large programs takes long.

A layout made for smaller local buffers runs on larger ones as it is. Such are considered too, at sizes that do not
depend on the machine's own, so that more local buffer does not make a network slower.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from hw_models import Program, dsa_energy, dsa_machine, simulate
from hw_models.quantities import PS_PER_S
from scheduler.dsa.costs import DsaCosts
from scheduler.dsa.execution import decide
from scheduler.dsa.graphturbo.plan_cost import cost_s, least_bytes, moved_bytes
from scheduler.dsa.lower.program import lower
from scheduler.dsa.schedule import Layout, Schedule
from scheduler.errors import ScheduleError

_KIB = 1024


def with_smaller_buffers(costs: DsaCosts) -> Iterator[DsaCosts]:
    """Yield ``costs``, then the same machine with smaller local buffers: powers of the root of two, in KiB."""
    yield costs
    own, left = costs.view.local_buffer_bytes, costs.view.tuning.smaller_buffers
    rung = 64
    while _rung_bytes(rung) >= own:
        rung -= 1
    for number in range(rung, rung - left, -1):
        if _rung_bytes(number) < _KIB:
            return
        yield costs.with_local_buffer(_rung_bytes(number))


def _rung_bytes(number: int) -> int:
    return int(_KIB * 2 ** (number / 2))


@dataclass(frozen=True, slots=True)
class Judged:
    """The fastest of some schedules, with its program."""

    schedule: Schedule
    program: Program
    seconds: float


class Judge:
    """Keeps the fastest of the schedules that it is shown."""

    def __init__(self, costs: DsaCosts, policy: str) -> None:
        self._costs = costs
        self._policy = policy
        self._best: Judged | None = None
        self._refusal: ScheduleError | None = None
        """Of the first layout that could not be scheduled."""
        self._seen: set[tuple[object, ...]] = set()
        self._simulated = 0
        """Instructions of all programs so far."""

    def may_win(self, moved_ddr_bytes: int, launches: int) -> bool:
        """Return whether a layout with such traffic off the chip could be faster than the best so far."""
        return self._best is None or self.least_s(moved_ddr_bytes, launches) < self._best.seconds

    def least_s(self, moved_ddr_bytes: int, launches: int) -> float:
        """Return the seconds that no schedule with such traffic and so many launches can beat."""
        costs = self._costs
        return launches * costs.launch_s + max(moved_ddr_bytes / costs.most_off_chip_bytes_per_s, costs.arithmetic_s)

    def is_content(self) -> bool:
        """Return whether the best so far is hardly slower than the network's least traffic and its arithmetic."""
        least_s = self.least_s(least_bytes(self._costs.analysis), 1)
        return self._best is not None and self._best.seconds <= self._costs.view.tuning.near_least * least_s

    def consider(
        self, layout: Layout, at: DsaCosts, *, overlaps_layers: bool = False, paper_tiles: bool = False
    ) -> bool:
        """Simulate the schedule of ``layout``, made ``at`` the buffers that it is for, unless it cannot win.

        Return whether its traffic leaves it a chance. Where overlapping layers gets far less out of it than its traffic
        promises, it is also tried without.
        """
        groups = tuple((group.ops, group.split) for group in layout.plan.groups)
        key = groups, tuple(each.memory for each in layout.slices), overlaps_layers
        tuning, cost_s = at.view.tuning, layout_cost_s(layout, at)
        is_spent = self._simulated > tuning.judged_instructions
        if self._best is not None and (is_spent or cost_s * tuning.hopeless >= self._best.seconds):
            return False
        if key in self._seen:
            return True
        self._seen.add(key)
        try:
            schedule = decide(layout, at, self._policy, overlaps_layers=overlaps_layers, paper_tiles=paper_tiles)
        except ScheduleError as error:
            self._refusal = self._refusal or error
            return True
        found = judged(schedule, self._costs)
        self._simulated += len(found.program.instructions)
        if self._best is None or found.seconds < self._best.seconds:
            self._best = found
        if overlaps_layers and found.seconds > tuning.promising * max(cost_s, self._costs.arithmetic_s):
            self.consider(layout, at, paper_tiles=paper_tiles)
        return True

    def chosen(self) -> Judged:
        """Return the fastest; raise ``ScheduleError`` if there is none."""
        if self._best is None:
            raise self._refusal or ScheduleError(f"{self._costs.analysis.graph.name}: no layout was considered")
        return self._best


def layout_cost_s(layout: Layout, costs: DsaCosts) -> float:
    """Return the seconds of a layout's traffic and launches, as if nothing overlapped."""
    return cost_s(costs, moved_bytes(layout), layout.kernels)


def judged(schedule: Schedule, costs: DsaCosts) -> Judged:
    """Return a schedule with its program and its simulated time on the machine of ``costs``."""
    spec = costs.view.spec
    program = lower(schedule, costs.view)
    result = simulate(program, dsa_machine(spec), dsa_energy(spec))
    return Judged(schedule, program, result.makespan_ps / PS_PER_S)
