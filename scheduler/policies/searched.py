"""Groupings searched with the simulated machine as judge: never slower than what the other policies find.

Of no paper. First the rivals: every other policy that the kind of machine runs is planned and simulated. Then
groupings: from each rival's grouping, and from the best stretches of the operators' order, a local search on what
single kernels cost (`fusion.searched`) leads to others, which are simulated kernel by kernel. Then the neighbours of
the fastest so far, scheduled as that was: two groups joined, one cut, more or fewer instances. Whatever is simulated to
end first is the plan; it says what schedules it, and how many of its groups no rival has. Where DNNFusion rewrites the
network, all of this is done for the rewritten one as well.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Protocol, get_args

from pydantic import BeforeValidator, Field, PositiveInt
from pydantic.dataclasses import dataclass

from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.plan import FusionError, FusionPlan, Group, plan_from_groups
from dsascape.fusion.searched import Asked, Grouping, best_intervals, grouping_of, improved, neighbours
from dsascape.hw_models import HardwareError, SimulationError
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kinds.table import kind_of
from dsascape.scheduler.policies.ago import Ago
from dsascape.scheduler.policies.astitch import AStitch
from dsascape.scheduler.policies.dnnfusion import DnnFusion
from dsascape.scheduler.policies.fixed_pattern import FixedPattern
from dsascape.scheduler.policies.graphturbo import GraphTurbo
from dsascape.scheduler.policies.unfused import Unfused
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph


class Rival(Protocol):
    """A policy that this one is never worse than."""

    name: ClassVar[str]

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan: ...


RivalName = Literal["graphturbo", "astitch", "dnnfusion", "ago", "fixed-pattern", "unfused"]
RIVAL_NAMES: tuple[RivalName, ...] = get_args(RivalName)
RIVALS: Mapping[str, Rival] = {
    rival.name: rival
    for rival in (GraphTurbo(), AStitch(), DnnFusion(rewriting=False), Ago(), FixedPattern(), Unfused())
}
"""With their default options; DNNFusion plans the network that it is given, and the rewritten one as well."""


def _listed(value: object) -> object:
    """Take a list apart that the command line has as one word."""
    return tuple(value.split(",")) if isinstance(value, str) else value


@plain_dataclass(frozen=True, slots=True)
class Candidate:
    """A plan, what schedules it (empty: kernel by kernel), and how long it takes."""

    plan: FusionPlan
    scheduled_by: str
    costs: Any
    """Of the network that it is a plan of: the given one, or a rewritten one."""
    name: str = ""
    """Of the policy that has it; empty for what the search finds."""
    makespan_ps: int = 0


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class Searched:
    """The fastest of all policies' plans and of what a search finds around them."""

    name: ClassVar[str] = "searched"
    kinds: ClassVar[tuple[str, ...]] = ("clustered_dsa", "cpu", "gpu")

    rivals: Annotated[tuple[RivalName, ...], Field(min_length=1), BeforeValidator(_listed)] = RIVAL_NAMES
    """The policies that it is never worse than; of two that are equally fast, the first one's plan is taken."""
    rewriting: bool | None = None
    """Whether the network is rewritten first, as DNNFusion does; None: whichever is faster."""
    most_kernels: PositiveInt = 1000
    """Sets of operators whose cost as a kernel is asked."""
    most_ops: PositiveInt = 8
    """Operators of a kernel that the search makes; plans of others may have larger ones."""
    most_neighbours: PositiveInt = 16
    """Plans next to the fastest that are simulated in all."""

    def rewritten(self, analysis: Analysis) -> Analysis:
        """Return the network that is planned; one that may be rewritten is, if at all, while it is planned."""
        return DnnFusion(rewriting=True).rewritten(analysis) if self.rewriting else analysis

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
        del graph  # that of the costs
        return _Search(self, costs).run()

    def schedule(self, plan: FusionPlan, costs: Any) -> Any:
        """Return the schedule by the policy that the plan names, or kernel by kernel.

        Its ``policy`` is one under which the network is rewritten before anything else, if the plan is of such a one.
        """
        rewrites = plan.rewritten or self.rewriting
        label = f"{self.name}(rewriting=true)" if rewrites else self.name
        return replace(_scheduled(plan, plan.scheduled_by, costs), policy=label)


def _scheduled(plan: FusionPlan, by: str, costs: Any) -> Any:
    rival = RIVALS.get(by)
    if isinstance(rival, GraphTurbo | AStitch):
        return rival.schedule(plan, costs)
    return kind_of(costs.view.spec).schedule(plan, costs, Searched.name)


class _Search:
    """One search: all that has been simulated, the fastest of it."""

    def __init__(self, policy: Searched, costs: Any) -> None:
        self._policy = policy
        self._costs = costs
        self._name: str = costs.analysis.graph.name
        self._seen: set[tuple[bool, str, object]] = set()
        self._best: Candidate | None = None
        self._refusals: list[str] = []

    def run(self) -> FusionPlan:
        """Return the fastest plan; raise ``ScheduleError`` where no policy has one that runs."""
        rivals = list(self._rivals())
        fastest = self._best
        if fastest is None:
            raise ScheduleError("; ".join(self._refusals[:1]) or f"{self._name}: no policy has a plan")
        for network in dict.fromkeys((self._costs, *(costs for _, costs in rivals))):
            self._search(network, [plan for plan, costs in rivals if costs is network])
        self._climb()
        best = self._best or fastest
        origin = f"as {fastest.name} has it: nothing else that was simulated is faster"
        if best is not fastest:
            known = {group.ops for plan, costs in rivals if costs is best.costs for group in plan.groups}
            gain = 1 - best.makespan_ps / fastest.makespan_ps
            origin = f"{gain:.1%} faster than {fastest.name}, the fastest other; {_found(best.plan, known)}"
        rewritten = best.costs is not self._costs
        return replace(best.plan, scheduled_by=best.scheduled_by, rewritten=rewritten, origin=origin)

    def _rivals(self) -> Iterator[tuple[FusionPlan, Any]]:
        """Yield the plans of the other policies that this kind of machine runs, with the costs of what they plan."""
        networks = {self._costs.analysis: self._costs}
        for rival in map(RIVALS.__getitem__, self._policy.rivals):
            by = _scheduler(rival, self._costs)
            if by is None:
                continue
            planned = [self._costs.analysis]
            if isinstance(rival, DnnFusion) and self._policy.rewriting is None:
                planned.append(DnnFusion(rewriting=True).rewritten(self._costs.analysis))
            for analysis in dict.fromkeys(planned):
                costs = networks.setdefault(analysis, self._costs.with_network(analysis))
                plan = self._planned(rival, costs)
                if plan is not None:
                    self._consider(Candidate(plan, by, costs, rival.name))
                    yield plan, costs

    def _planned(self, rival: Rival, costs: Any) -> FusionPlan | None:
        try:
            return rival.plan(costs.analysis.graph, costs)
        except (FusionError, ScheduleError, SimulationError) as error:
            self._refusals.append(str(error))
            return None

    def _search(self, costs: Any, plans: list[FusionPlan]) -> None:
        """Simulate what single kernels' costs lead to from each plan of one network, and the other policies on it."""
        if costs is not self._costs:  # rewritten, which most policies do not do
            for rival in map(RIVALS.__getitem__, self._policy.rivals):
                by = _scheduler(rival, costs)
                plan = None if by is None else self._planned(rival, costs)
                if plan is not None:
                    self._consider(Candidate(plan, by or "", costs))
        graph = costs.analysis.graph
        for grouping in self._groupings(costs, plans):
            groups = (Group(part, "no other cut of it and of a kernel beside it costs less") for part in grouping)
            self._consider(Candidate(plan_from_groups(graph, groups), "", costs))

    def _groupings(self, costs: Any, plans: list[FusionPlan]) -> Iterator[Grouping]:
        """Yield what the search finds from the best stretches and each plan; what one asks is known to the next."""
        graph, most_ops = costs.analysis.graph, self._policy.most_ops
        starts = dict.fromkeys(map(grouping_of, plans))
        share = max(self._policy.most_kernels // (len(starts) + 1), 1)
        asked = Asked(costs.kernel_s, share)
        for start in (best_intervals(graph, asked, most_ops), *starts):
            yield improved(graph, start, asked, most_ops)
            asked.allow(share)

    def _climb(self) -> None:
        """Step to faster neighbours of the fastest plan until there are none, or enough have been simulated."""
        left = self._policy.most_neighbours
        base: Candidate | None = None
        while base is not self._best:
            base = self._best
            assert base is not None
            for plan in neighbours(base.plan):
                if not left:
                    return
                left -= 1
                if self._consider(Candidate(plan, base.scheduled_by, base.costs)):
                    break

    def _consider(self, candidate: Candidate) -> bool:
        """Simulate a plan; return whether it beats all before."""
        plan, by, costs = candidate.plan, candidate.scheduled_by, candidate.costs
        key = costs is self._costs, by, plan.groups if by else grouping_of(plan)
        if key in self._seen:
            return False
        self._seen.add(key)
        try:
            run = kind_of(costs.view.spec).run(_scheduled(plan, by, costs), costs)
        except (FusionError, ScheduleError, SimulationError, HardwareError) as error:
            self._refusals.append(str(error))
            return False
        if self._best is not None and run.result.makespan_ps >= self._best.makespan_ps:
            return False
        self._best = replace(candidate, makespan_ps=run.result.makespan_ps)
        return True


def _found(plan: FusionPlan, known: Collection[tuple[int, ...]]) -> str:
    """Say how many groups of a plan are not ``known``, and which of them is the largest."""
    new = [group.ops for group in plan.groups if group.ops not in known]
    if not new:
        return "its groups are in others, too"
    said = "1 group is in none of them" if len(new) == 1 else f"{len(new)} groups are in none of them"
    largest = max(new, key=len)
    names = [plan.graph.ops[position].name for position in largest]
    return f"{said}, the largest from {names[0]} to {names[-1]} ({len(names)} operators)"


def _scheduler(rival: Rival, costs: Any) -> str | None:
    """Return the name of a policy that schedules its own plans, none if it only plans; None on other machines."""
    kinds = getattr(rival, "kinds", None)
    if kinds is None:
        return ""
    return rival.name if costs.view.spec.kind in kinds else None
