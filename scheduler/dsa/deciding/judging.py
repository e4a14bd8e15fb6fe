"""Schedules judged by the machine: of several, the one that is simulated to end first is taken.

Which layout is best cannot be told from its traffic alone: tiles that start up too often, or weights that come in small
pieces, cost more than what they save. So layouts are scheduled and run, but for those whose traffic and launches alone
take longer than the best so far, and for those that what came of others leaves no chance; and only so many, as
simulating large programs takes long.

A layout made for smaller local buffers runs on larger ones as it is. Such are considered too, at sizes that do not
depend on the machine's own, so that more local buffer does not make a network slower. They are judged on the machine
with these smaller buffers: what comes of it is kept with the network and serves every machine that differs in nothing
else that takes time.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from dsascape.fusion.plan import FusionPlan
from dsascape.hw_models import Program, SimulationResult, dsa_energy, dsa_machine, simulate
from dsascape.hw_models.simulation.energy import energy_pj
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.execution import Decisions
from dsascape.scheduler.dsa.deciding.kernel_by_kernel import through_ddr
from dsascape.scheduler.dsa.graphturbo.plan_bound import least_bytes
from dsascape.scheduler.dsa.graphturbo.plan_cost import Reads, apart_s, cost_s, moved_bytes, reads_of
from dsascape.scheduler.dsa.lower.program import lower
from dsascape.scheduler.dsa.placing.needs import RunNeeds, needs_of
from dsascape.scheduler.dsa.schedule.schedule import Layout, Schedule
from dsascape.scheduler.dsa.tuning import DsaTuning
from dsascape.scheduler.dsa.view import GLOBAL
from dsascape.scheduler.errors import ScheduleError
from dsascape.workloads.analysis import Analysis

_KIB = 1024
_ON_CHIP_UNITS = ("path_load", "path_store", "broadcast")
_MOST_LAYOUTS = 128
"""Kept of one network: each may have hundreds of layer runs."""
_MOST_DECISIONS = 32
"""The same."""
_MOST_RUNS, _MOST_INSTRUCTIONS = 8, 20_000
"""Kept of one network: what was fastest at earlier points, and of how many instructions. Each takes a kilobyte."""


def with_smaller_buffers(costs: DsaCosts) -> Iterator[DsaCosts]:
    """Yield ``costs``, then the same machine with smaller local buffers: powers of the fourth root of two, in KiB."""
    yield costs
    own, left = costs.view.local_buffer_bytes, costs.view.tuning.smaller_buffers
    rung = 4 * 32
    while _rung_bytes(rung) >= own:
        rung -= 1
    for number in range(rung, rung - left, -1):
        if _rung_bytes(number) < _KIB:
            return
        yield costs.with_local_buffer(_rung_bytes(number))


def with_fewer_cores(costs: DsaCosts, judge: "Judge") -> Iterator[DsaCosts]:
    """Yield the same machine with half of its cores, and with half of these again as long as that brought something.

    Fewer cores exchange less, and what all of them need passes their paths less often; a layout made for them runs on
    more as it is. None where the best so far does not wait for that, nor any whose arithmetic alone takes as long.
    """
    cores, before_s = costs.cores // 2, math.inf
    while cores and costs.arithmetic_s * costs.cores / cores < judge.best_s < before_s and judge.waits_on_chip():
        before_s = judge.best_s
        yield costs.with_cores(cores)
        cores //= 2


def _rung_bytes(number: int) -> int:
    return int(_KIB * 2 ** (number / 4))


@dataclass(frozen=True)
class Candidate:
    """A layout to be judged, and its traffic."""

    made_of: Hashable
    """All that it depends on but the network: of one network, equal values make equal layouts."""
    layout: Layout
    moved_bytes: Mapping[str, int]
    """To and from DDR and the global buffer, by memory."""

    @cached_property
    def _needs_of_broadcasts(self) -> Sequence[RunNeeds]:
        return needs_of(self.layout.runs, self.layout.slices, broadcasts=True)

    def needs_on(self, costs: DsaCosts) -> Sequence[RunNeeds]:
        """Return what its runs need; kept for machines that broadcast."""
        if costs.view.broadcasts:
            return self._needs_of_broadcasts
        return needs_of(self.layout.runs, self.layout.slices, broadcasts=False)

    def cost_s(self, costs: DsaCosts) -> float:
        """Return the seconds of its traffic and launches, as if nothing overlapped."""
        return cost_s(costs, self.moved_bytes, self.layout.kernels)


def candidate(analysis: Analysis, made_of: Hashable, make: Callable[[], tuple[Layout, Reads]]) -> Candidate:
    """Return what ``make`` lays out, with what that reads; for a ``made_of`` that came before, what it was then."""
    return analysis.table(candidate, _MOST_LAYOUTS).get(made_of, partial(_made, made_of, make))


def _made(made_of: Hashable, make: Callable[[], tuple[Layout, Reads]]) -> Candidate:
    layout, reads = make()
    return Candidate(made_of, layout, moved_bytes(layout, reads))


def through_ddr_candidate(plan: FusionPlan, costs: DsaCosts) -> Candidate:
    """Return the plan's kernels layer by layer, with all tensors in DDR."""
    made_of = "through DDR", plan.groups, costs.cores, costs.view.tuning.most_padding

    def make() -> tuple[Layout, Reads]:
        layout = through_ddr(plan, costs)
        return layout, reads_of(layout.runs, layout.slices)

    return candidate(costs.analysis, made_of, make)


@dataclass(frozen=True, slots=True)
class Timed:
    """What came of a candidate on a machine."""

    seconds: float = 0.0
    instructions: int = 0
    """Of its program."""
    overlaps: bool = False
    """Whether any of its layers does, or fetches weights ahead."""
    refusal: str = ""
    """Why it cannot be scheduled; empty if it can."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A schedule with its program and its run."""

    schedule: Schedule
    program: Program
    result: SimulationResult

    @property
    def seconds(self) -> float:
        return self.result.makespan_ps / PS_PER_S


@dataclass(frozen=True, slots=True)
class _Leader:
    """The fastest so far."""

    key: Hashable
    """All that its run depends on but the network."""
    candidate: Candidate
    at: DsaCosts
    overlaps_layers: bool
    seconds: float
    judged: Judged | None
    """Its run at these buffers, if it is not known from an earlier point."""


@dataclass(frozen=True, slots=True)
class _Run:
    """A candidate that has been simulated."""

    cores: int
    local_buffer_bytes: int
    promised_s: float
    """Of its traffic and launches."""
    launches: int
    seconds: float

    def is_like(self, cores: int, local_buffer_bytes: int, promised_s: float, launches: int, tuning: DsaTuning) -> bool:
        """Return whether a layout promises as long a time or a little longer, at no fewer launches.

        One for smaller buffers may promise more than one for the same, and is like this one all the same.
        """
        if cores != self.cores or launches < self.launches or local_buffer_bytes > self.local_buffer_bytes:
            return False
        longer = tuning.alike if local_buffer_bytes < self.local_buffer_bytes else tuning.nearly_equal
        return self.promised_s <= promised_s <= self.promised_s * (1 + longer)


class Judge:
    """Keeps the fastest of the schedules that it is shown."""

    def __init__(self, costs: DsaCosts, policy: str, *, paper_tiles: bool = False) -> None:
        self._costs = costs
        self._policy = policy
        self._paper_tiles = paper_tiles
        self._best: _Leader | None = None
        self._refusal = ""
        """Of the first layout that could not be scheduled."""
        self._seen: set[Hashable] = set()
        self._runs: dict[bool, list[_Run]] = {True: [], False: []}
        """What has been simulated, with its layers overlapping and without."""
        self._simulated = 0
        """Instructions of all programs so far."""

    def may_win(self, moved_ddr_bytes: int, launches: int) -> bool:
        """Return whether a layout with such traffic off the chip could be faster than the best so far."""
        return self._best is None or self.least_s(moved_ddr_bytes, launches) < self._best.seconds

    @property
    def best_s(self) -> float:
        """What the best so far takes; infinite if there is none."""
        return math.inf if self._best is None else self._best.seconds

    def waits_on_chip(self) -> bool:
        """Return whether the best so far waits longer for data on the chip than for arithmetic, or may do so."""
        best = self._best
        if best is None:
            return False
        known = best.at.analysis.table(_waits_on_chip)
        if best.judged is None:
            return known.known(best.key) is not False
        return known.get(best.key, partial(_waits_on_chip, best.judged, best.at))

    def least_s(self, moved_ddr_bytes: int, launches: int) -> float:
        """Return the seconds that no schedule with such traffic and so many launches can beat."""
        costs = self._costs
        return launches * costs.launch_s + max(moved_ddr_bytes / costs.most_off_chip_bytes_per_s, costs.arithmetic_s)

    def is_content(self) -> bool:
        """Return whether the best so far is hardly slower than the network's least traffic and its arithmetic."""
        least_s = self.least_s(self._costs.analysis.of(least_bytes), 1)
        return self._best is not None and self._best.seconds <= self._costs.view.tuning.near_least * least_s

    def consider(
        self, shown: Candidate, at: DsaCosts, *, overlaps_layers: bool = False, always: bool = False
    ) -> bool:
        """Simulate the schedule of a candidate, made ``at`` the buffers that it is for, unless it cannot win.

        ``always``: also where programs simulated so far have used up ``tuning.judged_instructions``, unless its traffic
        and launches alone take longer than the best. Return whether its traffic leaves it a chance. Where overlapping
        layers gets far less out of it than its traffic promises, it is also tried without, if that may be faster.
        """
        tuning, promised_s, launches = at.view.tuning, shown.cost_s(at), shown.layout.kernels
        if not self.has_chance(promised_s, tuning, overlaps_layers=overlaps_layers, always=always):
            return False
        key = shown.made_of, at.view.timing, at.dtype, overlaps_layers, self._paper_tiles
        size_bytes, runs = at.view.local_buffer_bytes, self._runs[overlaps_layers]
        alike = [run for run in runs if run.is_like(at.cores, size_bytes, promised_s, launches, tuning)]
        if key in self._seen or (alike and not always):
            return True
        self._seen.add(key)
        made: list[Judged] = []
        decided = partial(self._decide, shown, at, overlaps_layers)
        timed = at.analysis.table(simulated).get(key, partial(simulated, decided, at, made))
        self._simulated += timed.instructions
        if timed.refusal:
            self._refusal = self._refusal or timed.refusal
            return True
        runs.append(_Run(at.cores, size_bytes, promised_s, launches, timed.seconds))
        if self._best is None or timed.seconds < self._best.seconds:
            self._best = _Leader(key, shown, at, overlaps_layers, timed.seconds, made[0] if made else None)
        hides_little = timed.seconds > tuning.promising * max(promised_s, self._costs.arithmetic_s)
        if timed.overlaps and hides_little and tuning.apart * apart_s(at, shown.layout) < self._best.seconds:
            self.consider(shown, at, always=always)
        return True

    def has_used_up(self, times: int = 1) -> bool:
        """Return whether as many instructions as are simulated to choose have been simulated so many ``times``."""
        return self._simulated > times * self._costs.view.tuning.judged_instructions

    def leads(self, shown: Candidate) -> bool:
        """Return whether a candidate is the best so far."""
        return self._best is not None and self._best.candidate.made_of == shown.made_of

    def has_chance(
        self, promised_s: float, tuning: DsaTuning, *, overlaps_layers: bool = False, always: bool = False
    ) -> bool:
        """Return whether something that promises to take so long may be the fastest; what promises more has less.

        ``always``: nothing but its lower bound ``promised_s`` speaks against it.
        """
        if self._best is None:
            return True
        if always:
            return promised_s < self._best.seconds
        runs = self._runs[False]
        if overlaps_layers:  # which may be tried without overlap too
            runs = [*self._runs[True], *runs]
        late_s = [run.seconds - run.promised_s for run in runs]
        expected_s = promised_s + min(late_s, default=-promised_s)
        least_s = max(promised_s * tuning.hopeless, expected_s * tuning.unlikely)
        return self._simulated <= tuning.judged_instructions and least_s < self._best.seconds

    def _decide(self, shown: Candidate, at: DsaCosts, overlaps_layers: bool) -> Schedule:
        key = shown.made_of, at.view.apart_from_ddr, at.dtype, overlaps_layers, self._paper_tiles

        def decisions() -> Decisions:
            needs = shown.needs_on(at)
            return Decisions(shown.layout, at, needs, overlaps_layers=overlaps_layers, paper_tiles=self._paper_tiles)

        return at.analysis.table(Decisions, _MOST_DECISIONS).get(key, decisions).schedule(at, self._policy)

    def chosen(self) -> Judged:
        """Return the fastest, run on the machine itself; raise ``ScheduleError`` if there is none."""
        best = self._best
        if best is None:
            raise ScheduleError(self._refusal or f"{self._costs.analysis.graph.name}: no layout was considered")
        kept = best.at.analysis.table(judged, _MOST_RUNS)
        key = best.key, self._policy
        found = best.judged or kept.known(key)
        if found is None or best.at.cores != self._costs.cores:
            return judged(self._decide(best.candidate, best.at, best.overlaps_layers), self._costs)
        if len(found.program.instructions) <= _MOST_INSTRUCTIONS:
            kept.get(key, lambda: found)
        return found if found is best.judged and best.at is self._costs else on_larger(found, self._costs)


def _waits_on_chip(found: Judged, costs: DsaCosts) -> bool:
    """Return whether more of the critical path is for what moves between buffers than for what computes."""
    spent = found.result.critical_ps
    moving = sum([ps for name, ps in spent.items() if name.removesuffix("-startup") in (GLOBAL, *_ON_CHIP_UNITS)])
    return moving > sum([spent.get(unit, 0) for unit in costs.view.spec.units])


def simulated(decided: Callable[[], Schedule], costs: DsaCosts, made: list[Judged]) -> Timed:
    """Return what comes of the schedule ``decided``; its run, if there is one, joins those ``made``."""
    try:
        found = judged(decided(), costs)
    except ScheduleError as error:
        return Timed(refusal=str(error))
    made.append(found)
    return Timed(found.seconds, len(found.program.instructions), found.schedule.is_interleaved)


def judged(schedule: Schedule, costs: DsaCosts) -> Judged:
    """Return a schedule with its program and its run on the machine of ``costs``."""
    return run(schedule, lower(schedule, costs.view), costs)


def on_larger(found: Judged, costs: DsaCosts) -> Judged:
    """Return what ``found`` is on the machine of ``costs``, whose local buffers are at least as large.

    No program depends on the buffers' size; nor does a run that is never short of space, but for its energy.
    """
    if found.result.was_short_of_space:
        return run(found.schedule, found.program, costs)
    spent = energy_pj(found.program, dsa_energy(costs.view.spec), found.result.makespan_ps)
    return replace(found, result=replace(found.result, energy_pj=spent))


def run(schedule: Schedule, program: Program, costs: DsaCosts) -> Judged:
    """Return a schedule with its program, run on the machine of ``costs``."""
    spec = costs.view.spec
    return Judged(schedule, program, simulate(program, dsa_machine(spec), dsa_energy(spec)))
