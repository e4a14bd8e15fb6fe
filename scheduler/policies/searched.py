"""Search over groupings, evaluated by simulation: never slower than the plans of the other policies.

Not from a paper. First the rivals: every other policy that runs on the kind of machine is planned and simulated. Then
groupings: from each rival's grouping, and from the best intervals of the operators' order, a local search on the costs
of single kernels (`fusion.searched`) leads to others, which are simulated kernel by kernel. Then the neighbours of the
fastest so far, scheduled as that was: two groups joined, one cut, more or fewer instances. The plan with the shortest
simulated makespan wins; it names the policy that schedules it, and how many of its groups no rival has. Where DNNFusion
rewrites the network, all of this is done for the rewritten one as well.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Protocol, get_args

from pydantic import BeforeValidator, Field, PositiveInt
from pydantic.dataclasses import dataclass

from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.plan import FusionError, FusionPlan, Group, plan_from_groups
from dsascape.fusion.searched import BudgetedCosts, Grouping, best_intervals, grouping_of, improved, neighbours
from dsascape.hw_models import HardwareError, SimulationError
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kinds.table import kind_of
from dsascape.scheduler.policies.ago import Ago
from dsascape.scheduler.policies.astitch import AStitch
from dsascape.scheduler.policies.dnnfusion import DnnFusion
from dsascape.scheduler.policies.fixed_pattern import FixedPattern
from dsascape.scheduler.policies.graphturbo import GraphTurbo
from dsascape.scheduler.policies.unfused import Unfused
from dsascape.wording import count
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph


class Rival(Protocol):
    """A policy whose plan is simulated too, so that the search is never slower than it."""

    name: ClassVar[str]

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan: ...


RivalName = Literal["graphturbo", "astitch", "dnnfusion", "ago", "fixed-pattern", "unfused"]
RIVAL_NAMES: tuple[RivalName, ...] = get_args(RivalName)
RIVALS: Mapping[str, Rival] = {
    rival.name: rival
    for rival in (GraphTurbo(), AStitch(), DnnFusion(rewriting=False), Ago(), FixedPattern(), Unfused())
}
"""Rival policies by name, with default options; DNNFusion plans the network as given and the rewritten one."""


def _listed(value: object) -> object:
    """Split a comma-separated list, as given on the command line; return other values unchanged."""
    return tuple(value.split(",")) if isinstance(value, str) else value


@plain_dataclass(frozen=True, slots=True)
class Candidate:
    """A plan, the policy that schedules it (empty: kernel by kernel), and its simulated makespan."""

    plan: FusionPlan
    scheduled_by: str
    costs: Any
    """Cost model of the plan's network: the given one, or a rewritten one."""
    name: str = ""
    """Name of the policy that made the plan; empty for plans made by the search."""
    makespan_ps: int = 0


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class Searched:
    """Searched: the fastest of all policies' plans and of the plans that a search reaches from them."""

    name: ClassVar[str] = "searched"
    kinds: ClassVar[tuple[str, ...]] = ("clustered_dsa", "cpu", "gpu")

    rivals: Annotated[tuple[RivalName, ...], Field(min_length=1), BeforeValidator(_listed)] = RIVAL_NAMES
    """Rival policies that the search is never slower than; on a tie the plan of the first one is taken."""
    rewriting: bool | None = None
    """Whether the network is rewritten first, as DNNFusion does; None: whichever is faster."""
    most_kernels: PositiveInt = 1000
    """Maximum number of operator sets whose cost as a kernel is evaluated."""
    most_ops: PositiveInt = 8
    """Maximum number of operators in a kernel made by the search; rivals' plans may have larger ones."""
    most_neighbours: PositiveInt = 16
    """Maximum number of neighbours of the fastest plan that are simulated in all."""

    def rewritten(self, analysis: Analysis) -> Analysis:
        """Return the network to plan: rewritten if ``rewriting`` is true; with None, `plan` decides."""
        return DnnFusion(rewriting=True).rewritten(analysis) if self.rewriting else analysis

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
        del graph  # that of the costs
        return _Search(self, costs).run()

    def schedule(self, plan: FusionPlan, costs: Any) -> Any:
        """Return the schedule made by the policy that the plan names, or kernel by kernel.

        The schedule's ``policy`` label includes ``rewriting=true`` if the plan is of a rewritten network.
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
    """One search: the set of simulated plans, and the fastest of them."""

    def __init__(self, policy: Searched, costs: Any) -> None:
        self._policy = policy
        self._costs = costs
        self._name: str = costs.analysis.graph.name
        self._seen: set[tuple[bool, str, object]] = set()
        self._best: Candidate | None = None
        self._refusals: list[str] = []

    def run(self) -> FusionPlan:
        """Return the fastest plan; raise ``ScheduleError`` if no policy has a plan that runs."""
        rivals = list(self._rivals())
        fastest = self._best
        if fastest is None:
            raise ScheduleError("; ".join(self._refusals[:1]) or f"{self._name}: no other policy gives a plan")
        for network in dict.fromkeys((self._costs, *(costs for _, costs in rivals))):
            self._search(network, [plan for plan, costs in rivals if costs is network])
        self._climb()
        best = self._best or fastest
        origin = f"as {fastest.name} has it: nothing else that was simulated is faster"
        if best is not fastest:
            rival_groups = {group.ops for plan, costs in rivals if costs is best.costs for group in plan.groups}
            gain = 1 - best.makespan_ps / fastest.makespan_ps
            origin = f"{gain:.1%} faster than {fastest.name}, the fastest other; {_found(best.plan, rival_groups)}"
        rewritten = best.costs is not self._costs
        return replace(best.plan, scheduled_by=best.scheduled_by, rewritten=rewritten, origin=origin)

    def _rivals(self) -> Iterator[tuple[FusionPlan, Any]]:
        """Yield the plans of the rivals that run on this kind of machine, each with the cost model of its network."""
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
        """Simulate the groupings that a local search reaches from each plan of one network.

        For a rewritten network, the rivals' plans of it come first.
        """
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
        """Yield locally optimal groupings, started from the best intervals and from each plan; costs are shared."""
        graph, most_ops = costs.analysis.graph, self._policy.most_ops
        starts = dict.fromkeys(map(grouping_of, plans))
        share = max(self._policy.most_kernels // (len(starts) + 1), 1)
        kernel_costs = BudgetedCosts(costs.kernel_s, share)
        for start in (best_intervals(graph, kernel_costs, most_ops), *starts):
            yield improved(graph, start, kernel_costs, most_ops)
            kernel_costs.allow(share)

    def _climb(self) -> None:
        """Step to faster neighbours of the fastest plan until there are none, or ``most_neighbours`` are simulated."""
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
        """Simulate a plan unless it was seen before; return whether it is the fastest so far."""
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


def _found(plan: FusionPlan, known_groups: Collection[tuple[int, ...]]) -> str:
    """Return text about the groups of a plan that are not ``known_groups``: how many, and the largest of them."""
    new = [group.ops for group in plan.groups if group.ops not in known_groups]
    if not new:
        return "its groups are in others, too"
    said = f"{count(len(new), 'group')} {'is' if len(new) == 1 else 'are'} in none of them"
    largest = max(new, key=len)
    names = [plan.graph.ops[position].name for position in largest]
    return f"{said}, the largest from {names[0]} to {names[-1]} ({count(len(names), 'operator')})"


def _scheduler(rival: Rival, costs: Any) -> str | None:
    """Return the name of a rival that schedules its own plans, empty if it only plans; None on unsupported machines."""
    kinds = getattr(rival, "kinds", None)
    if kinds is None:
        return ""
    return rival.name if costs.view.spec.kind in kinds else None
