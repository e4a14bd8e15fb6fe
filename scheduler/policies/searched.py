"""Search over groupings, evaluated by simulation: never slower than the plans of the other policies.

Not from a paper. First the rivals: every other policy that runs on the kind of machine is planned and simulated. Then
groupings: from each rival's grouping, and from the best intervals of the operators' order, a local search on the costs
of single kernels (`fusion.searched`) leads to others, which are simulated kernel by kernel. Then the neighbours of the
fastest so far, scheduled as that was: two groups joined, one cut, more or fewer instances. The plan with the shortest
simulated makespan wins; it names the policy that schedules it, and how many of its groups no rival has. Where DNNFusion
rewrites the network, all of this is done for the rewritten one as well.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Protocol, get_args, runtime_checkable

from pydantic import BeforeValidator, Field, PositiveInt
from pydantic.dataclasses import dataclass

from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.plan import FusionError, FusionPlan, Group, plan_from_groups
from dsascape.fusion.searched import BudgetedCosts, Grouping, best_intervals, grouping_of, improved, neighbours
from dsascape.hw_models import HardwareError, SimulationError
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.evaluated import Evaluated
from dsascape.scheduler.kinds.table import kind_of
from dsascape.scheduler.policies.ago import Ago
from dsascape.scheduler.policies.astitch import AStitch
from dsascape.scheduler.policies.dnnfusion import DnnFusion
from dsascape.scheduler.policies.fixed_pattern import FixedPattern
from dsascape.scheduler.policies.graphturbo import GraphTurbo
from dsascape.scheduler.policies.unfused import Unfused
from dsascape.scheduler.policy import EvaluatingPolicy
from dsascape.wording import count
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph

_REFUSALS = (FusionError, ScheduleError, SimulationError, HardwareError)
"""Errors with which a plan is passed over."""


class Rival(Protocol):
    """A policy whose plan is simulated too, so that the search is never slower than it."""

    name: ClassVar[str]

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan: ...


@runtime_checkable
class EvaluatingRival(EvaluatingPolicy, Protocol):
    """A rival that schedules its own plans, and their neighbours."""

    def evaluate_plan(self, costs: Any, plan: FusionPlan) -> Evaluated[Any]:
        """Return the fastest schedule of ``plan`` by itself, with its simulated run."""


RivalName = Literal["graphturbo", "astitch", "dnnfusion", "ago", "fixed-pattern", "unfused"]
RIVAL_NAMES: tuple[RivalName, ...] = get_args(RivalName)
RIVALS: Mapping[str, Rival] = {
    rival.name: rival
    for rival in (GraphTurbo(), AStitch(), DnnFusion(rewriting=False), Ago(), FixedPattern(), Unfused())
}
"""Rival policies by name, with default options; DNNFusion plans the network as given and the rewritten one."""


def _variants(rival: Rival) -> tuple[Rival, ...]:
    """Return a rival in each form in which it is planned: AGO with the paper's Td, and with one above any two."""
    return (rival, replace(rival, threshold="any-two")) if isinstance(rival, Ago) else (rival,)


def _listed(value: object) -> object:
    """Split a comma-separated list, as given on the command line; return other values unchanged."""
    return tuple(value.split(",")) if isinstance(value, str) else value


@plain_dataclass(frozen=True, slots=True)
class Candidate:
    """A plan and the policy that schedules it (empty: kernel by kernel), with the network's cost model."""

    plan: FusionPlan
    scheduled_by: str
    costs: Any
    """Cost model of the plan's network: the given one, or a rewritten one."""
    name: str = ""
    """Name of the policy that made the plan; empty for plans made by the search."""


@plain_dataclass(frozen=True, slots=True)
class _Best:
    """The fastest candidate so far, and its run."""

    candidate: Candidate
    evaluated: Evaluated[Any]

    @property
    def makespan_ps(self) -> int:
        return self.evaluated.result.makespan_ps


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
        """Return the fastest plan; it says which policy schedules it, and how it compares with the others."""
        del graph  # that of the costs
        return self.evaluate(costs).plan

    def evaluate(self, costs: Any, plan: FusionPlan | None = None) -> Evaluated[Any]:
        """Return the fastest schedule of the network, or that of ``plan``, with its program and simulated run.

        ``plan`` is scheduled by the policy that it names, or kernel by kernel. The schedule's ``policy`` label includes
        ``rewriting=true`` if the plan is of a rewritten network.
        """
        if plan is None:
            return self._labelled(_Search(self, costs).run())
        rival = RIVALS.get(plan.scheduled_by)
        if isinstance(rival, EvaluatingRival):
            evaluated = rival.evaluate(costs, plan)
        else:
            evaluated = _kernel_by_kernel(plan, costs)
        return self._labelled(replace(evaluated, schedule=replace(evaluated.schedule, plan=plan)))

    def _labelled(self, evaluated: Evaluated[Any]) -> Evaluated[Any]:
        """Return a run with the schedule under this policy's label."""
        rewrites = evaluated.plan.rewritten or self.rewriting
        label = f"{self.name}(rewriting=true)" if rewrites else self.name
        return replace(evaluated, schedule=replace(evaluated.schedule, policy=label))


def _kernel_by_kernel(plan: FusionPlan, costs: Any) -> Evaluated[Any]:
    kind = kind_of(costs.view.spec)
    return kind.run(kind.schedule(plan, costs, Searched.name), costs)


class _Search:
    """One search: the set of simulated plans, and the fastest of them."""

    def __init__(self, policy: Searched, costs: Any) -> None:
        self._policy = policy
        self._costs = costs
        self._name: str = costs.analysis.graph.name
        self._seen: set[tuple[bool, str, object]] = set()
        self._best: _Best | None = None
        self._refusals: list[str] = []

    def run(self) -> Evaluated[Any]:
        """Return the run of the fastest plan; raise ``ScheduleError`` if no policy has a plan that runs."""
        rivals = list(self._rivals())
        fastest = self._best
        if fastest is None:
            raise ScheduleError("; ".join(self._refusals[:1]) or f"{self._name}: no other policy gives a plan")
        for network in dict.fromkeys((self._costs, *(costs for _, costs in rivals))):
            self._search(network, [plan for plan, costs in rivals if costs is network])
        self._climb()
        best = self._best or fastest
        name, found = fastest.candidate.name, best.candidate
        origin = f"as {name} has it: nothing else that was simulated is faster"
        if best is not fastest:
            rival_groups = {group.ops for plan, costs in rivals if costs is found.costs for group in plan.groups}
            gain = 1 - best.makespan_ps / fastest.makespan_ps
            origin = f"{gain:.1%} faster than {name}, the fastest other; {_found(found.plan, rival_groups)}"
        rewritten = found.costs is not self._costs
        plan = replace(found.plan, scheduled_by=found.scheduled_by, rewritten=rewritten, origin=origin)
        return replace(best.evaluated, schedule=replace(best.evaluated.schedule, plan=plan))

    def _rivals(self) -> Iterator[tuple[FusionPlan, Any]]:
        """Yield the plans of the rivals that run on this kind of machine, each with the cost model of its network."""
        networks = {self._costs.analysis: self._costs}
        for rival in map(RIVALS.__getitem__, self._policy.rivals):
            if not _runs_on(rival, self._costs):
                continue
            planned = [self._costs.analysis]
            if isinstance(rival, DnnFusion) and self._policy.rewriting is None:
                planned.append(DnnFusion(rewriting=True).rewritten(self._costs.analysis))
            for analysis in dict.fromkeys(planned):
                costs = networks.setdefault(analysis, self._costs.with_network(analysis))
                for variant in _variants(rival):
                    plan = self._consider_rival(variant, costs, rival.name)
                    if plan is not None:
                        yield plan, costs

    def _consider_rival(self, rival: Rival, costs: Any, name: str = "") -> FusionPlan | None:
        """Simulate the plan of a rival, and return it; None if it has none. ``name``: of the policy, to be stated."""
        evaluated: Evaluated[Any] | None = None
        try:
            if isinstance(rival, EvaluatingRival):
                with suppress(*_REFUSALS):  # of its plan, which may be made all the same
                    evaluated = rival.evaluate(costs)
            plan = rival.plan(costs.analysis.graph, costs) if evaluated is None else evaluated.plan
        except (FusionError, ScheduleError, SimulationError) as error:
            self._refusals.append(str(error))
            return None
        by = rival.name if isinstance(rival, EvaluatingRival) else ""
        self._consider(Candidate(plan, by, costs, name), evaluated)
        return plan

    def _search(self, costs: Any, plans: list[FusionPlan]) -> None:
        """Simulate the groupings that a local search reaches from each plan of one network.

        For a rewritten network, the rivals' plans of it come first.
        """
        if costs is not self._costs:  # rewritten, which most policies do not do
            for rival in map(RIVALS.__getitem__, self._policy.rivals):
                if _runs_on(rival, costs):
                    for variant in _variants(rival):
                        self._consider_rival(variant, costs)
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
        base: _Best | None = None
        while base is not self._best:
            base = self._best
            assert base is not None
            start = base.candidate
            for plan in neighbours(start.plan):
                if not left:
                    return
                left -= 1
                if self._consider(Candidate(plan, start.scheduled_by, start.costs)):
                    break

    def _consider(self, candidate: Candidate, evaluated: Evaluated[Any] | None = None) -> bool:
        """Simulate a plan unless it was seen before, or is evaluated; return whether it is the fastest so far."""
        plan, by, costs = candidate.plan, candidate.scheduled_by, candidate.costs
        key = costs is self._costs, by, plan.groups if by else grouping_of(plan)
        if key in self._seen:
            return False
        self._seen.add(key)
        try:
            run = _evaluated(candidate) if evaluated is None else evaluated
        except _REFUSALS as error:
            self._refusals.append(str(error))
            return False
        if self._best is not None and run.result.makespan_ps >= self._best.makespan_ps:
            return False
        self._best = _Best(candidate, run)
        return True


def _evaluated(candidate: Candidate) -> Evaluated[Any]:
    """Return the run of a candidate's plan, scheduled by itself by the policy that it names, or kernel by kernel."""
    rival = RIVALS.get(candidate.scheduled_by)
    if isinstance(rival, EvaluatingRival):
        return rival.evaluate_plan(candidate.costs, candidate.plan)
    return _kernel_by_kernel(candidate.plan, candidate.costs)


def _found(plan: FusionPlan, known_groups: Collection[tuple[int, ...]]) -> str:
    """Return text about the groups of a plan that are not ``known_groups``: how many, and the largest of them."""
    new = [group.ops for group in plan.groups if group.ops not in known_groups]
    if not new:
        return "its groups are in others, too"
    said = f"{count(len(new), 'group')} {'is' if len(new) == 1 else 'are'} in none of them"
    largest = max(new, key=len)
    names = [plan.graph.ops[position].name for position in largest]
    return f"{said}, the largest from {names[0]} to {names[-1]} ({count(len(names), 'operator')})"


def _runs_on(rival: Rival, costs: Any) -> bool:
    """Return whether a rival plans for this kind of machine."""
    return not isinstance(rival, EvaluatingRival) or costs.view.spec.kind in rival.kinds
