"""Evaluation of schedules by simulation: of several candidates, the one with the shortest makespan is taken.

Traffic alone does not tell which layout is best: tiles with too many start-ups, or weights fetched in small pieces,
cost more than they save. So layouts are scheduled and simulated, except those pruned because their traffic and launches
alone take longer than the best so far, or because results of similar ones rule them out; and only up to a budget of
instructions, as simulating large programs takes long.

A layout made for smaller local buffers runs on larger ones unchanged. Such layouts are candidates too, at sizes that do
not depend on the machine's own, so that more local buffer does not make a network slower. They are evaluated on the
machine with these smaller buffers: the result is cached with the network and valid for every machine with otherwise
equal timing.
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
from dsascape.scheduler.dsa.graphturbo.plan_cost import Reads, cost_s, moved_bytes, no_overlap_s, reads_of
from dsascape.scheduler.dsa.lower.program import lower
from dsascape.scheduler.dsa.placing.needs import RunNeeds, needs_of
from dsascape.scheduler.dsa.schedule.schedule import Layout, Schedule
from dsascape.scheduler.dsa.tuning import DsaTuning
from dsascape.scheduler.dsa.view import GLOBAL
from dsascape.scheduler.errors import PinError, ScheduleError
from dsascape.workloads.analysis import Analysis

_KIB = 1024
_ON_CHIP_UNITS = ("path_load", "path_store", "broadcast")
_MOST_LAYOUTS = 128
"""Size of the cache of candidate layouts per network; each may have hundreds of layer runs."""
_MOST_DECISIONS = 32
"""Size of the cache of execution decisions per network; each entry may have hundreds of layer runs."""
_MOST_RUNS, _MOST_INSTRUCTIONS = 8, 20_000
"""Size of the cache of fastest schedules per network, and the maximum number of instructions of each program in it; an
instruction takes a kilobyte."""


def with_smaller_buffers(costs: DsaCosts) -> Iterator[DsaCosts]:
    """Yield ``costs``, then the same machine with smaller local buffers: powers of the fourth root of two, in KiB.

    ``tuning.smaller_buffers`` of them at most.
    """
    yield costs
    own, left = costs.view.local_buffer_bytes, costs.view.tuning.smaller_buffers
    rung = 4 * 32
    while _rung_bytes(rung) >= own:
        rung -= 1
    for number in range(rung, rung - left, -1):
        if _rung_bytes(number) < _KIB:
            return
        yield costs.with_local_buffer(_rung_bytes(number))


def with_fewer_cores(costs: DsaCosts, evaluator: "Evaluator") -> Iterator[DsaCosts]:
    """Yield the same machine with half of its cores, and half of these again as long as that was faster.

    Fewer cores exchange less, and shared operands pass their paths less often; a layout made for them runs on more
    cores unchanged. None where the best so far does not wait for on-chip transfers, nor any number of cores whose
    arithmetic alone takes as long.
    """
    cores, before_s = costs.cores // 2, math.inf
    total_s = costs.arithmetic_s * costs.cores
    while cores and total_s / cores < evaluator.best_s < before_s and evaluator.waits_on_chip():
        before_s = evaluator.best_s
        yield costs.with_cores(cores)
        cores //= 2


def _rung_bytes(number: int) -> int:
    return int(_KIB * 2 ** (number / 4))


@dataclass(frozen=True)
class Candidate:
    """A layout to be evaluated, and its traffic."""

    layout_key: Hashable
    """Cache key of everything the layout depends on besides the network."""
    layout: Layout
    moved_bytes: Mapping[str, int]
    """Bytes moved to and from DDR and the global buffer, by memory."""

    @cached_property
    def _needs_of_broadcasts(self) -> Sequence[RunNeeds]:
        return needs_of(self.layout.runs, self.layout.slices, broadcasts=True)

    def needs_on(self, costs: DsaCosts) -> Sequence[RunNeeds]:
        """Return halos and routes of its runs; cached for machines that broadcast."""
        if costs.view.broadcasts:
            return self._needs_of_broadcasts
        return needs_of(self.layout.runs, self.layout.slices, broadcasts=False)

    def cost_s(self, costs: DsaCosts) -> float:
        """Return the seconds of its traffic and launches without any overlap."""
        return cost_s(costs, self.moved_bytes, self.layout.kernels)


def candidate(analysis: Analysis, layout_key: Hashable, make: Callable[[], tuple[Layout, Reads]]) -> Candidate:
    """Return the candidate of the layout and reads that ``make`` returns, cached by ``layout_key``."""
    return analysis.table(candidate, _MOST_LAYOUTS).get(layout_key, partial(_made, layout_key, make))


def _made(layout_key: Hashable, make: Callable[[], tuple[Layout, Reads]]) -> Candidate:
    layout, reads = make()
    return Candidate(layout_key, layout, moved_bytes(layout, reads))


def through_ddr_candidate(plan: FusionPlan, costs: DsaCosts) -> Candidate:
    """Return the candidate that runs the plan's kernels in sequence, with all tensors in DDR."""
    layout_key = "through DDR", plan.groups, costs.view.timing, costs.dtype

    def make() -> tuple[Layout, Reads]:
        layout = through_ddr(plan, costs)
        return layout, reads_of(layout.runs, layout.slices)

    return candidate(costs.analysis, layout_key, make)


@dataclass(frozen=True, slots=True)
class Timed:
    """Simulated time of a candidate on a machine, or the reason why it cannot be scheduled."""

    seconds: float = 0.0
    instructions: int = 0
    """Number of instructions of its program."""
    overlaps: bool = False
    """Whether any of its layers overlap, or weights are prefetched."""
    refusal: str = ""
    """Reason why it cannot be scheduled; empty if it can."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A schedule with its program and simulation result."""

    schedule: Schedule
    program: Program
    result: SimulationResult

    @property
    def seconds(self) -> float:
        return self.result.makespan_ps / PS_PER_S


@dataclass(frozen=True, slots=True)
class _Incumbent:
    """Incumbent: the fastest candidate so far."""

    key: Hashable
    """Cache key of everything its simulation depends on besides the network."""
    candidate: Candidate
    at: DsaCosts
    overlaps_layers: bool
    seconds: float
    evaluated: Evaluated | None
    """Its schedule and simulation result at these buffers; None if its time came from the cache."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Result of a simulated candidate, for pruning similar ones."""

    cores: int
    local_buffer_bytes: int
    traffic_s: float
    """Seconds of its traffic and launches without overlap."""
    launches: int
    seconds: float

    def is_similar(
        self, cores: int, local_buffer_bytes: int, traffic_s: float, launches: int, tuning: DsaTuning
    ) -> bool:
        """Return whether a layout is estimated to take as long or slightly longer, at no fewer launches.

        For smaller buffers the tolerance is ``tuning.alike``, for the same buffers ``tuning.nearly_equal``.
        """
        if cores != self.cores or launches < self.launches or local_buffer_bytes > self.local_buffer_bytes:
            return False
        longer = tuning.alike if local_buffer_bytes < self.local_buffer_bytes else tuning.nearly_equal
        return self.traffic_s <= traffic_s <= self.traffic_s * (1 + longer)


class Evaluator:
    """Evaluates candidates by simulation, with pruning, and keeps the fastest."""

    def __init__(self, costs: DsaCosts, policy: str, *, paper_tiles: bool = False) -> None:
        self._costs = costs
        self._policy = policy
        self._paper_tiles = paper_tiles
        self._best: _Incumbent | None = None
        self._refusal = ""
        """Message of the first layout that could not be scheduled."""
        self._seen: set[Hashable] = set()
        self._runs: dict[bool, list[_Run]] = {True: [], False: []}
        """Simulated candidates, by whether their layers overlap."""
        self._simulated = 0
        """Number of instructions simulated so far."""

    def traffic_can_win(self, moved_ddr_bytes: int, launches: int) -> bool:
        """Return whether the lower bound of a layout with this off-chip traffic is below the best time so far."""
        return self._best is None or self.least_s(moved_ddr_bytes, launches) < self._best.seconds

    @property
    def best_s(self) -> float:
        """Seconds of the best candidate so far; infinite if there is none."""
        return math.inf if self._best is None else self._best.seconds

    def waits_on_chip(self) -> bool:
        """Return whether on-chip transfers weigh more than arithmetic on the best candidate's critical path.

        True as well if that is unknown.
        """
        best = self._best
        if best is None:
            return False
        cache = best.at.analysis.table(_waits_on_chip)
        if best.evaluated is None:
            return cache.peek(best.key) is not False
        return cache.get(best.key, partial(_waits_on_chip, best.evaluated, best.at))

    def least_s(self, moved_ddr_bytes: int, launches: int) -> float:
        """Return a lower bound in seconds for schedules with this off-chip traffic and number of launches."""
        costs = self._costs
        return launches * costs.launch_s + max(moved_ddr_bytes / costs.most_off_chip_bytes_per_s, costs.arithmetic_s)

    def is_near_bound(self) -> bool:
        """Return whether the best time is within ``tuning.near_least`` of the network's lower bound."""
        least_s = self.least_s(self._costs.analysis.of(least_bytes), 1)
        return self._best is not None and self._best.seconds <= self._costs.view.tuning.near_least * least_s

    def consider(
        self, shown: Candidate, at: DsaCosts, *, overlaps_layers: bool = False, always: bool = False
    ) -> bool:
        """Simulate the schedule of a candidate, made ``at`` the buffers that it is for, unless it is pruned.

        ``always``: even if the budget of ``tuning.judged_instructions`` is used up, unless its traffic and launches
        alone take longer than the best. Return whether it survived pruning by its traffic. Where it takes far longer
        with overlapping layers than its traffic suggests, it is also tried without, if that may be faster.
        """
        tuning, traffic_s, launches = at.view.tuning, shown.cost_s(at), shown.layout.kernels
        if not self.can_win(traffic_s, tuning, overlaps_layers=overlaps_layers, always=always):
            return False
        key = shown.layout_key, at.view.timing, at.dtype, overlaps_layers, self._paper_tiles
        size_bytes, runs = at.view.local_buffer_bytes, self._runs[overlaps_layers]
        similar = [run for run in runs if run.is_similar(at.cores, size_bytes, traffic_s, launches, tuning)]
        if key in self._seen or (similar and not always):
            return True
        self._seen.add(key)
        results: list[Evaluated] = []
        decided = partial(self._decide, shown, at, overlaps_layers)
        timed = at.analysis.table(simulated).get(key, partial(simulated, decided, at, results))
        self._simulated += timed.instructions
        if timed.refusal:
            self._refusal = self._refusal or timed.refusal
            return True
        runs.append(_Run(at.cores, size_bytes, traffic_s, launches, timed.seconds))
        if self._best is None or timed.seconds < self._best.seconds:
            self._best = _Incumbent(key, shown, at, overlaps_layers, timed.seconds, results[0] if results else None)
        hides_little = timed.seconds > tuning.promising * max(traffic_s, self._costs.arithmetic_s)
        if timed.overlaps and hides_little and tuning.apart * no_overlap_s(at, shown.layout) < self._best.seconds:
            self.consider(shown, at, always=always)
        return True

    def laid_out(self, make: Callable[[], Candidate]) -> Candidate | None:
        """Return the candidate that ``make`` lays out; None if pinned decisions rule it out, the reason being kept."""
        try:
            return make()
        except PinError as error:
            self._refusal = self._refusal or str(error)
            return None

    def has_spent_budget(self, times: int = 1) -> bool:
        """Return whether more than ``times`` the budget of ``tuning.judged_instructions`` has been simulated."""
        return self._simulated > times * self._costs.view.tuning.judged_instructions

    def is_best(self, shown: Candidate) -> bool:
        """Return whether a candidate is the incumbent."""
        return self._best is not None and self._best.candidate.layout_key == shown.layout_key

    def can_win(
        self, traffic_s: float, tuning: DsaTuning, *, overlaps_layers: bool = False, always: bool = False
    ) -> bool:
        """Return whether a candidate with this lower bound can beat the incumbent; monotone in ``traffic_s``.

        ``always``: prune by ``traffic_s`` alone, not by results of other candidates or the budget.
        """
        if self._best is None:
            return True
        if always:
            return traffic_s < self._best.seconds
        runs = self._runs[False]
        if overlaps_layers:  # which may be tried without overlap too
            runs = [*self._runs[True], *runs]
        late_s = [run.seconds - run.traffic_s for run in runs]
        expected_s = traffic_s + min(late_s, default=-traffic_s)
        least_s = max(traffic_s * tuning.hopeless, expected_s * tuning.unlikely)
        return self._simulated <= tuning.judged_instructions and least_s < self._best.seconds

    def _decide(self, shown: Candidate, at: DsaCosts, overlaps_layers: bool) -> Schedule:
        key = shown.layout_key, at.view.apart_from_ddr, at.dtype, overlaps_layers, self._paper_tiles

        def decisions() -> Decisions:
            needs = shown.needs_on(at)
            return Decisions(shown.layout, at, needs, overlaps_layers=overlaps_layers, paper_tiles=self._paper_tiles)

        return at.analysis.table(Decisions, _MOST_DECISIONS).get(key, decisions).schedule(at, self._policy)

    def chosen(self) -> Evaluated:
        """Return the fastest schedule, simulated on the machine itself; raise ``ScheduleError`` if there is none."""
        best = self._best
        if best is None:
            raise ScheduleError(self._refusal or f"{self._costs.analysis.graph.name}: no layout was considered")
        cache = best.at.analysis.table(evaluate_schedule, _MOST_RUNS)
        key = best.key, self._policy
        cached = best.evaluated or cache.peek(key)
        if cached is None or best.at.cores != self._costs.cores:
            return evaluate_schedule(self._decide(best.candidate, best.at, best.overlaps_layers), self._costs)
        if len(cached.program.instructions) <= _MOST_INSTRUCTIONS:
            cache.get(key, lambda: cached)
        return cached if cached is best.evaluated and best.at is self._costs else on_larger_buffers(cached, self._costs)


def _waits_on_chip(evaluated: Evaluated, costs: DsaCosts) -> bool:
    """Return whether on-chip transfers take more of the critical path than compute units."""
    spent = evaluated.result.critical_ps
    moving = sum([ps for name, ps in spent.items() if name.removesuffix("-startup") in (GLOBAL, *_ON_CHIP_UNITS)])
    return moving > sum([spent.get(unit, 0) for unit in costs.view.spec.units])


def simulated(decide: Callable[[], Schedule], costs: DsaCosts, results: list[Evaluated]) -> Timed:
    """Return the simulated time of the schedule that ``decide`` returns; append it with its result to ``results``.

    If it cannot be scheduled, nothing is appended, and the returned record has the reason.
    """
    try:
        evaluated = evaluate_schedule(decide(), costs)
    except ScheduleError as error:
        return Timed(refusal=str(error))
    results.append(evaluated)
    return Timed(evaluated.seconds, len(evaluated.program.instructions), evaluated.schedule.is_interleaved)


def evaluate_schedule(schedule: Schedule, costs: DsaCosts) -> Evaluated:
    """Return a schedule with its program and simulation result on the machine of ``costs``."""
    return run(schedule, lower(schedule, costs.view), costs)


def on_larger_buffers(evaluated: Evaluated, costs: DsaCosts) -> Evaluated:
    """Return ``evaluated`` on the machine of ``costs``, whose local buffers are at least as large.

    Programs do not depend on the buffers' size; nor do results of runs that are never short of space, except energy.
    """
    if evaluated.result.was_short_of_space:
        return run(evaluated.schedule, evaluated.program, costs)
    spent = energy_pj(evaluated.program, dsa_energy(costs.view.spec), evaluated.result.makespan_ps)
    return replace(evaluated, result=replace(evaluated.result, energy_pj=spent))


def run(schedule: Schedule, program: Program, costs: DsaCosts) -> Evaluated:
    """Return a schedule with its program and the result of simulating it on the machine of ``costs``."""
    spec = costs.view.spec
    return Evaluated(schedule, program, simulate(program, dsa_machine(spec), dsa_energy(spec)))
