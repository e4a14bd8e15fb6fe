"""GraphTurbo on a DSA: the search for the fastest schedule, which simulates layouts of several plans.

The plans for the machine's buffers and for smaller ones are laid out best-first by lower bounds, scheduled and
simulated (`scheduler.dsa.deciding.evaluation`); not in the paper, whose plan is the first one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Literal

from dsascape.fusion.fixed_pattern import fixed_pattern_of
from dsascape.fusion.plan import FusionPlan
from dsascape.hw_models.simulation.pause import collector_paused
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.candidates import Candidate, through_ddr_candidate, with_smaller_buffers
from dsascape.scheduler.dsa.deciding.divided import fastest_divided
from dsascape.scheduler.dsa.deciding.evaluation import Evaluator, with_fewer_cores
from dsascape.scheduler.dsa.deciding.with_levels import fastest_with_levels
from dsascape.scheduler.dsa.graphturbo.layouts import (
    PlanKey,
    capacity_of,
    laid_out,
    ordered,
    plan_key,
    plans_of,
)
from dsascape.scheduler.dsa.graphturbo.plan_bound import least_bytes
from dsascape.scheduler.dsa.graphturbo.plan_cost import cost_s
from dsascape.scheduler.dsa.schedule.limits import check_can_be_scheduled, has_too_many_instances
from dsascape.scheduler.dsa.schedule.schedule import Schedule
from dsascape.scheduler.dsa.view import DDR
from dsascape.scheduler.evaluated import Evaluated
from dsascape.scheduler.graphturbo.attention import holds_attention, with_attention_apart
from dsascape.scheduler.graphturbo.exact_order import exact_order
from dsascape.scheduler.graphturbo.instances import split_into_instances
from dsascape.scheduler.graphturbo.options import GraphTurboOptions

_MOST_BUDGETS = 10
"""Limit on simulated instructions where the first programs are large, in multiples of
``tuning.judged_instructions``."""


def evaluate(options: GraphTurboOptions, costs: DsaCosts, plan: FusionPlan | None = None) -> Evaluated[Schedule]:
    """Return the fastest schedule of a network, or of ``plan``, with its simulated run.

    A plan that the search itself arrives at gets the schedule that the search has found; another one is evaluated by
    itself, as `evaluate_plan` says. Raises ``ScheduleError`` if nothing can be scheduled.
    """
    return fastest_with_levels(costs, partial(_evaluated, options, plan))


def _evaluated(options: GraphTurboOptions, plan: FusionPlan | None, costs: DsaCosts) -> Evaluated[Schedule]:
    with collector_paused():
        fastest = _fastest(options, costs)
    if options.order != "exact" and (plan is None or fastest.plan.groups == plan.groups):
        return fastest
    return _evaluated_plan(options, fastest.plan if plan is None else plan, costs)


def evaluate_plan(options: GraphTurboOptions, costs: DsaCosts, plan: FusionPlan) -> Evaluated[Schedule]:
    """Return the fastest schedule of one plan, its instances in the order of the options, with its simulated run."""
    return fastest_with_levels(costs, partial(_evaluated_plan, options, plan))


def _evaluated_plan(options: GraphTurboOptions, plan: FusionPlan, costs: DsaCosts) -> Evaluated[Schedule]:
    with collector_paused():
        return _divided(options, costs, (plan,)) if costs.view.divides_kernels else _of_plan(options, costs, plan)


def _fastest(options: GraphTurboOptions, costs: DsaCosts) -> Evaluated[Schedule]:
    """Evaluate the layouts of plans for the machine's buffers and for smaller ones; not in the paper.

    Variants with single steps switched off, and layer by layer through DDR, are evaluated too, so that the chosen
    one is no slower than these; where programs are large, single steps may cost time.
    """
    check_can_be_scheduled(costs)
    if costs.view.divides_kernels:
        return _divided(options, costs, (*plans_of(options, costs), costs.analysis.of(fixed_pattern_of)))
    evaluator = Evaluator(costs, options.name, paper_tiles=options.tiles == "paper")
    search = _Search(options, evaluator)
    known_s: dict[PlanKey, float] = {}
    patience = left = costs.view.tuning.sizes_without_chance
    for at in with_smaller_buffers(costs):
        left = patience if search.consider_plans(at, known_s) else left - 1
        if evaluator.is_near_bound():
            return evaluator.chosen()
        if not left:  # layouts for smaller buffers mostly move more, though not always
            break
    if options.attention == "whole":
        search.consider_whole_attention(costs)
    if options.outputs == "local":
        search.with_outputs("global").consider_plans(costs, known_s)
    for fewer in with_fewer_cores(costs, evaluator):
        search.consider_plans(fewer, {})
    if not options.unbound:  # layers through DDR ignore this option
        layers = evaluator.laid_out(lambda: through_ddr_candidate(costs.analysis.of(fixed_pattern_of), costs))
        if layers is not None:
            search.consider(layers, costs, always=True)
            evaluator.consider(layers, costs, always=True)
    if evaluator.has_spent_budget():
        search.consider_all_sizes(costs)
    return evaluator.chosen()


def _divided(options: GraphTurboOptions, costs: DsaCosts, plans: Iterable[FusionPlan]) -> Evaluated[Schedule]:
    """Return the fastest schedule of ``plans`` whose layers all clusters share; not in the paper.

    Outputs go to DDR and sub-graphs have one instance, since all clusters read what each of them computes.
    """
    whole = (replace(plan, groups=tuple([replace(group, split=None) for group in plan.groups])) for plan in plans)
    return fastest_divided(
        whole, costs, options.name, overlaps_layers=options.instruction_scheduling,
        paper_tiles=options.tiles == "paper",
    )  # fmt: skip


def _of_plan(options: GraphTurboOptions, costs: DsaCosts, plan: FusionPlan) -> Evaluated[Schedule]:
    """Return the fastest schedule of one plan, its instances in the order of the options."""
    parts = split_into_instances(costs.analysis, plan)
    order = ordered(options.order, parts)
    if options.order == "exact":
        order = exact_order(order, parts.producers, parts.output_bytes, options.order_effort_s).order
    evaluator = Evaluator(costs, options.name, paper_tiles=options.tiles == "paper")
    search = _Search(options, evaluator)
    for at in with_smaller_buffers(costs):
        one = evaluator.laid_out(partial(laid_out, options, plan, at, order))
        if one is not None:
            search.consider(one, at)
    return evaluator.chosen()


@dataclass(frozen=True, slots=True)
class _Search:
    """Search with one set of options; several may share an evaluator, which keeps the fastest schedule of all."""

    options: GraphTurboOptions
    evaluator: Evaluator

    def with_outputs(self, outputs: Literal["local", "global"]) -> "_Search":
        """Return the search with outputs in another memory."""
        return replace(self, options=replace(self.options, outputs=outputs))

    def consider_all_sizes(self, costs: DsaCosts) -> None:
        """Evaluate the candidates left out after the first large programs: every buffer size, outputs in either memory.

        Only candidates whose traffic and launches alone take less time than the best so far are simulated, up to
        ``_MOST_BUDGETS`` times the instructions that are simulated where programs are small.
        """
        searches = [self] if self.options.outputs == "global" else [self, self.with_outputs("global")]
        for at in with_smaller_buffers(costs):
            for search in searches:
                if self.evaluator.has_spent_budget(_MOST_BUDGETS):
                    return
                search.consider_plans(at, {}, always=True)

    def consider_whole_attention(self, at: DsaCosts) -> None:
        """Evaluate the plans for the machine's buffers with attention as one layer of a group, or as one by itself."""
        distinct: dict[PlanKey, FusionPlan] = {}
        for plan in plans_of(self.options, at):
            apart = with_attention_apart(at.analysis, plan)
            if holds_attention(at.analysis, plan):
                distinct[plan_key(plan)] = plan
            if apart is not None:
                distinct[plan_key(apart)] = apart
        for plan in distinct.values():
            if not has_too_many_instances(plan, at):
                shown = self.evaluator.laid_out(partial(laid_out, self.options, plan, at, attention="whole"))
                if shown is not None:
                    self.consider(shown, at)

    def consider_plans(self, at: DsaCosts, known_s: dict[PlanKey, float], *, always: bool = False) -> bool:
        """Evaluate the cheapest layouts at one size of local buffer; return whether any of them could win.

        Best-first: the plan with the lowest lower bound is laid out next, until that bound is pruned. ``known_s``:
        costs of the plans' layouts for larger buffers, from which lower bounds are derived; updated here.
        """
        evaluator, tuning, chances = self.evaluator, at.view.tuning, list[bool]()
        left: list[tuple[float, int, FusionPlan | Candidate]] = [
            (max(least_s, tuning.shrunk * known_s.get(plan_key(plan), 0.0)), number, plan)
            for least_s, number, plan in self._contenders(at)
        ]
        heapify(left)
        while left and len(chances) < tuning.contenders:
            least_s, number, one = heappop(left)
            if isinstance(one, Candidate):
                chances.append(self.consider(one, at, always=always))
            elif evaluator.can_win(
                least_s, tuning, overlaps_layers=self.options.instruction_scheduling, always=always
            ):
                laid_out_plan = evaluator.laid_out(partial(laid_out, self.options, one, at))
                if laid_out_plan is None:
                    continue
                known_s[plan_key(one)] = laid_out_plan.cost_s(at)
                heappush(left, (laid_out_plan.cost_s(at), number, laid_out_plan))
            else:
                break
        return any(chances)

    def consider(self, one: Candidate, at: DsaCosts, *, always: bool = False) -> bool:
        """Simulate a candidate unless it is pruned, as `Evaluator.consider` says."""
        return self.evaluator.consider(one, at, overlaps_layers=self.options.instruction_scheduling, always=always)

    def _contenders(self, at: DsaCosts) -> Iterator[tuple[float, int, FusionPlan]]:
        """Yield the distinct plans that may win: lower bound of the cost in seconds, number, plan."""
        seen: set[PlanKey] = set()
        capacity = capacity_of(self.options, at)
        room_bytes = capacity.largest_bytes(at.cores)
        for number, plan in enumerate(plans_of(self.options, at)):
            key = plan_key(plan)
            if key in seen or has_too_many_instances(plan, at):
                continue
            least = least_bytes(at.analysis, plan, room_bytes)
            launches = sum([group.instances for group in plan.groups])
            if self.evaluator.traffic_can_win(least, launches):
                seen.add(key)
                yield cost_s(at, {DDR: least}, launches), number, plan
