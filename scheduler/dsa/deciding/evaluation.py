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
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.candidates import Candidate
from dsascape.scheduler.dsa.deciding.execution import PreparedLayout, execute, prepare
from dsascape.scheduler.dsa.deciding.runs import evaluate_schedule, on_larger_buffers, timed_schedule, with_energy
from dsascape.scheduler.dsa.graphturbo.plan_bound import least_bytes
from dsascape.scheduler.dsa.graphturbo.plan_cost import no_overlap_s
from dsascape.scheduler.dsa.schedule.schedule import Schedule
from dsascape.scheduler.dsa.tuning import DsaTuning
from dsascape.scheduler.dsa.view import GLOBAL
from dsascape.scheduler.errors import PinError, ScheduleError
from dsascape.scheduler.evaluated import Evaluated
from dsascape.workloads.memo import memoized

_ON_CHIP_UNITS = ("path_load", "path_store", "broadcast")
_MOST_PREPARED = 32
"""Size of the cache of prepared layouts per network; each entry may have hundreds of layer runs."""
_MOST_RUNS, _MOST_INSTRUCTIONS = 8, 20_000
"""Size of the cache of simulated schedules per network, and the maximum number of instructions of each program in it;
an instruction takes a kilobyte."""


@dataclass(frozen=True, slots=True)
class _Incumbent:
    """Incumbent: the fastest candidate so far, as evaluated at the buffers and cores of ``at``; without energy."""

    at: DsaCosts
    evaluated: Evaluated[Schedule]

    @property
    def seconds(self) -> float:
        """Simulated time of its schedule."""
        return self.evaluated.seconds


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
        """Return whether on-chip transfers weigh more than arithmetic on the best candidate's critical path."""
        best = self._best
        return best is not None and _waits_on_chip(best.evaluated, best.at)

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
        key = shown, at.timing.memo_key, overlaps_layers
        size_bytes, runs = at.view.local_buffer_bytes, self._runs[overlaps_layers]
        similar = [run for run in runs if run.is_similar(at.cores, size_bytes, traffic_s, launches, tuning)]
        if key in self._seen or (similar and not always):
            return True
        self._seen.add(key)
        try:
            evaluated = evaluated_candidate(at.timing, shown, self._policy, overlaps_layers, self._paper_tiles)
        except ScheduleError as error:
            self._refusal = self._refusal or str(error)
            return True
        self._simulated += len(evaluated.program.instructions)
        runs.append(_Run(at.cores, size_bytes, traffic_s, launches, evaluated.seconds))
        if self._best is None or evaluated.seconds < self._best.seconds:
            self._best = _Incumbent(at, evaluated)
        hides_little = evaluated.seconds > tuning.promising * max(traffic_s, self._costs.arithmetic_s)
        is_interleaved = evaluated.schedule.is_interleaved
        if is_interleaved and hides_little and tuning.apart * no_overlap_s(at, shown.layout) < self._best.seconds:
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

    def chosen(self) -> Evaluated[Schedule]:
        """Return the fastest schedule, simulated on the machine itself; raise ``ScheduleError`` if there is none."""
        best, costs = self._best, self._costs
        if best is None:
            raise ScheduleError(self._refusal or f"{costs.analysis.graph.name}: no layout was considered")
        if best.at.cores != costs.cores:
            return evaluate_schedule(best.evaluated.schedule, costs)
        return with_energy(best.evaluated, costs) if best.at is costs else on_larger_buffers(best.evaluated, costs)


def _is_small(evaluated: Evaluated[Schedule]) -> bool:
    return len(evaluated.program.instructions) <= _MOST_INSTRUCTIONS


@memoized(most=_MOST_RUNS, stores=_is_small)
def evaluated_candidate(
    costs: DsaCosts, shown: Candidate, policy: str, overlaps_layers: bool, paper_tiles: bool
) -> Evaluated[Schedule]:
    """Return the schedule of a candidate with its simulated run, without energy; ``costs``: `DsaCosts.timing`.

    ``overlaps_layers`` and ``paper_tiles`` are those of `prepare`. Raises ``ScheduleError`` as `execute` does.
    """
    prepared = _prepared(costs.apart_from_ddr, shown, overlaps_layers, paper_tiles)
    return timed_schedule(execute(prepared, costs, policy), costs)


@memoized(most=_MOST_PREPARED)
def _prepared(costs: DsaCosts, shown: Candidate, overlaps_layers: bool, paper_tiles: bool) -> PreparedLayout:
    needs = shown.needs_on(costs)
    return prepare(shown.layout, costs, needs, overlaps_layers=overlaps_layers, paper_tiles=paper_tiles)


def _waits_on_chip(evaluated: Evaluated[Schedule], costs: DsaCosts) -> bool:
    """Return whether on-chip transfers take more of the critical path than compute units."""
    spent = evaluated.result.critical_ps
    moving = sum([ps for name, ps in spent.items() if name.removesuffix("-startup") in (GLOBAL, *_ON_CHIP_UNITS)])
    return moving > sum([spent.get(unit, 0) for unit in costs.view.spec.units])


def with_fewer_cores(costs: DsaCosts, evaluator: Evaluator) -> Iterator[DsaCosts]:
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
