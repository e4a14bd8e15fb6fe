"""GraphTurbo (OSDI '23): sub-graphs as large as the local buffers allow, run as instances that stay on chip.

Steps, one file each in ``scheduler/graphturbo`` and ``scheduler/dsa/graphturbo``: SplitInfo (Algorithm 1), grouping
(Algorithm 2), instances and their order (Algorithm 3), core binding (Algorithm 4), placement with spilling (section
4.3); weights are prefetched and layers overlap as in section 4.4. The options switch steps off as the paper's Fig. 15
does. Interpretations of each algorithm, and departures from it, are stated where it is implemented.

On a GPU (section 5.6) sub-graphs are kernels, their instances thread blocks, and tensors between layers stay in
registers and shared memory (`scheduler.gpu.stitching`). The paper joins two convolutions at most, as its kernel
generator does; here the machine model decides how many layers join, and the simulation whether that was worth it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, PositiveInt
from pydantic.dataclasses import dataclass

from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.fixed_pattern import fixed_pattern_of
from dsascape.fusion.plan import FusionPlan, Split, plan_from_groups
from dsascape.hw_models.simulation.pause import collector_paused
from dsascape.scheduler.dsa.costs import DsaCosts, dsa_costs
from dsascape.scheduler.dsa.deciding.divided import fastest_divided
from dsascape.scheduler.dsa.deciding.evaluation import (
    Candidate,
    Evaluated,
    Evaluator,
    candidate,
    through_ddr_candidate,
    with_fewer_cores,
    with_smaller_buffers,
)
from dsascape.scheduler.dsa.graphturbo.core_binding import unbound_dims
from dsascape.scheduler.dsa.graphturbo.instance_binding import BoundInstances, bind_instances
from dsascape.scheduler.dsa.graphturbo.placement import Capacity
from dsascape.scheduler.dsa.graphturbo.plan_bound import least_bytes
from dsascape.scheduler.dsa.graphturbo.plan_cost import Reads, cost_s
from dsascape.scheduler.dsa.schedule.limits import check_can_be_scheduled, has_too_many_instances
from dsascape.scheduler.dsa.schedule.schedule import Layout, Schedule
from dsascape.scheduler.dsa.view import DDR
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.schedule import GpuSchedule, kernel_by_kernel
from dsascape.scheduler.gpu.stitching import fastest, stitched
from dsascape.scheduler.graphturbo.exact_order import exact_order
from dsascape.scheduler.graphturbo.grouping import Grouping, group_subgraphs
from dsascape.scheduler.graphturbo.instances import InstanceGraph, split_into_instances
from dsascape.scheduler.graphturbo.ordering import breadth_first, depth_first, heaviest_first, peak_live_bytes
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph

_Annotation = Annotated[str, Field(pattern=r"^.+:[0-9]{1,3}$")]


_MOST_PLANS = 512
"""Size of the cache of plans per network; each plan may have hundreds of groups."""
_MOST_BOUND = 32
"""Size of the cache of core-bound instances per network; each entry may have hundreds of layer runs."""
_MOST_BUDGETS = 10
"""Limit on simulated instructions where the first programs are large, in multiples of
``tuning.judged_instructions``."""


_PlanKey = tuple[tuple[tuple[int, ...], Split | None], ...]
"""Groups of a plan and their splits: the part of a plan that its layouts depend on."""


def _plan_key(plan: FusionPlan) -> _PlanKey:
    return tuple([(group.ops, group.split) for group in plan.groups])


def _listed(value: object) -> object:
    """Split a comma-separated list, as given on the command line; return other values unchanged."""
    return value.split(",") if isinstance(value, str) else value


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class GraphTurbo:
    """GraphTurbo: sub-graph instance scheduling on scratchpads."""

    name: ClassVar[str] = "graphturbo"
    kinds: ClassVar[tuple[str, ...]] = ("clustered_dsa", "gpu")

    batches_per_cluster: PositiveInt | Literal["best"] | None = None
    """Images a cluster processes at once; ``best``: the fastest of several; None: its whole share of the batch
    (section 5.1)."""
    outputs: Literal["local", "global"] = "local"
    """Memory in which outputs stay while they fit: the local buffers, or (Fig. 15's first variant) the global one."""
    instances: bool = True
    """Split sub-graphs into instances, where the plan with them costs less (Fig. 15's third variant)."""
    instruction_scheduling: bool = True
    """Prefetch the weights of later layers while earlier ones compute, and let tiles of several layers overlap
    (section 4.4; Fig. 15's fourth variant)."""
    tiles: Literal["searched", "paper"] = "searched"
    """Tiles inside layers: those with the lowest estimated time, or the paper's (section 4.1) where they fit: the two
    outermost dimensions cut as little as the local buffers allow."""
    order: Literal["best", "dfs", "bfs", "heaviest", "exact"] = "best"
    """Order of instances. ``best``: whichever of ``dfs`` and ``bfs`` has fewer live bytes between instances, ``dfs`` on
    a tie. Not in the paper: ``heaviest`` footprint first; ``exact``, the order with the fewest live bytes (CP-SAT)."""
    order_effort_s: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """Time limit of ``exact`` in deterministic solver seconds; the best order so far is then taken."""
    spill: Literal["longest", "latest"] = "longest"
    """Spilling rule of a full buffer: the tensor with the longest live range (section 4.3) or, not in the paper, the
    one written last, which leaves room for those that are read often."""
    unbound: Annotated[tuple[_Annotation, ...], BeforeValidator(_listed)] = ()
    """Dimensions that must not be bound to cores (section 3.4): ``conv1:2``, or ``*:2`` for all tensors."""
    footprint: Literal["all", "made"] = "all"
    """Footprint that has to fit the local buffers when sub-graphs are grouped and split (Algorithm 1's ``peak``):
    ``all``: every tensor an instance touches, inputs from other sub-graphs included; ``made``: intermediates and output
    only, as in section 3.1."""
    most_recompute: Annotated[float, Field(ge=0, le=10)] = 0.25
    """Maximum number of operations that overlapping instances may repeat, as a fraction of the sub-graph's own."""

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
        """Return the plan of the fastest schedule."""
        del graph  # that of the costs
        if isinstance(costs, GpuCosts):
            return self._on_gpu(costs).plan
        return self._fastest(dsa_costs(costs, self.name)).schedule.plan

    def schedule(self, plan: FusionPlan, costs: DsaCosts | GpuCosts) -> Schedule | GpuSchedule:
        """Return the fastest schedule of ``plan``."""
        if isinstance(costs, GpuCosts):
            return kernel_by_kernel(plan, costs, self.name)
        fastest = self._fastest(costs).schedule
        if fastest.plan.groups == plan.groups and self.order != "exact":
            return fastest
        with collector_paused():
            return self._divided((plan,), costs).schedule if costs.view.divides_kernels else self._of_plan(plan, costs)

    def _on_gpu(self, costs: GpuCosts) -> GpuSchedule:
        """Return the faster of stitched layers and separate layers; raise ``ScheduleError`` for options of scratchpads.

        The number of images processed at once is decided by the caller, as on a DSA.
        """
        of_scratchpads = [field for field in fields(self) if field.name != "batches_per_cluster"]
        changed = [field.name for field in of_scratchpads if getattr(self, field.name) != field.default]
        if changed:
            raise ScheduleError(f"policy {self.name}: option {changed[0]} is for clustered DSAs; leave it out on a GPU")
        layers = costs.analysis.of(fixed_pattern_of)
        return fastest([stitched(costs, lambda ops: ""), layers], costs, self.name)

    def _fastest(self, costs: DsaCosts) -> Evaluated:
        with collector_paused():
            evaluated: Evaluated = costs.evaluated.get(self, lambda: self._search(costs))
        return evaluated

    def _search(self, costs: DsaCosts) -> Evaluated:
        """Evaluate the layouts of plans for the machine's buffers and for smaller ones; not in the paper.

        Variants with single steps switched off, and layer by layer through DDR, are evaluated too, so that the chosen
        one is no slower than these; where programs are large, single steps may cost time.
        """
        check_can_be_scheduled(costs)
        if costs.view.divides_kernels:
            return self._divided((*self._plans(costs), costs.analysis.of(fixed_pattern_of)), costs)
        evaluator = Evaluator(costs, self.name, paper_tiles=self.tiles == "paper")
        laid_out: dict[_PlanKey, float] = {}
        patience = left = costs.view.tuning.sizes_without_chance
        for at in with_smaller_buffers(costs):
            left = patience if self._consider_plans(evaluator, at, laid_out) else left - 1
            if evaluator.is_near_bound():
                return evaluator.chosen()
            if not left:  # layouts for smaller buffers mostly move more, though not always
                break
        if self.outputs == "local":
            replace(self, outputs="global")._consider_plans(evaluator, costs, laid_out)
        for fewer in with_fewer_cores(costs, evaluator):
            self._consider_plans(evaluator, fewer, {})
        if not self.unbound:  # layers through DDR ignore this option
            layers = evaluator.laid_out(lambda: through_ddr_candidate(costs.analysis.of(fixed_pattern_of), costs))
            if layers is not None:
                self._consider(evaluator, layers, costs, always=True)
                evaluator.consider(layers, costs, always=True)
        if evaluator.has_spent_budget():
            self._consider_all_sizes(evaluator, costs)
        return evaluator.chosen()

    def _divided(self, plans: Iterable[FusionPlan], costs: DsaCosts) -> Evaluated:
        """Return the fastest schedule of ``plans`` whose layers all clusters share; not in the paper.

        Outputs go to DDR and sub-graphs have one instance, since all clusters read what each of them computes.
        """
        whole = (replace(plan, groups=tuple([replace(group, split=None) for group in plan.groups])) for plan in plans)
        return fastest_divided(
            whole, costs, self.name, overlaps_layers=self.instruction_scheduling, paper_tiles=self.tiles == "paper"
        )

    def _consider_all_sizes(self, evaluator: Evaluator, costs: DsaCosts) -> None:
        """Evaluate the candidates left out after the first large programs: every buffer size, outputs in either memory.

        Only candidates whose traffic and launches alone take less time than the best so far are simulated, up to
        ``_MOST_BUDGETS`` times the instructions that are simulated where programs are small.
        """
        for at in with_smaller_buffers(costs):
            for policy in dict.fromkeys((self, replace(self, outputs="global"))):
                if evaluator.has_spent_budget(_MOST_BUDGETS):
                    return
                policy._consider_plans(evaluator, at, {}, always=True)

    def _consider_plans(
        self, evaluator: Evaluator, at: DsaCosts, laid_out: dict[_PlanKey, float], *, always: bool = False
    ) -> bool:
        """Evaluate the cheapest layouts at one size of local buffer; return whether any of them could win.

        Best-first: the plan with the lowest lower bound is laid out next, until that bound is pruned. ``laid_out``:
        costs of the plans' layouts for larger buffers, from which lower bounds are derived; updated here.
        """
        tuning, chances = at.view.tuning, list[bool]()
        left: list[tuple[float, int, FusionPlan | Candidate]] = [
            (max(least_s, tuning.shrunk * laid_out.get(_plan_key(plan), 0.0)), number, plan)
            for least_s, number, plan in self._contenders(evaluator, at)
        ]
        heapify(left)
        while left and len(chances) < tuning.contenders:
            least_s, number, one = heappop(left)
            if isinstance(one, Candidate):
                chances.append(self._consider(evaluator, one, at, always=always))
            elif evaluator.can_win(least_s, tuning, overlaps_layers=self.instruction_scheduling, always=always):
                laid_out_plan = evaluator.laid_out(partial(self._candidate, one, at))
                if laid_out_plan is None:
                    continue
                laid_out[_plan_key(one)] = laid_out_plan.cost_s(at)
                heappush(left, (laid_out_plan.cost_s(at), number, laid_out_plan))
            else:
                break
        return any(chances)

    def _consider(self, evaluator: Evaluator, one: Candidate, at: DsaCosts, *, always: bool = False) -> bool:
        return evaluator.consider(one, at, overlaps_layers=self.instruction_scheduling, always=always)

    def _contenders(self, evaluator: Evaluator, at: DsaCosts) -> Iterator[tuple[float, int, FusionPlan]]:
        """Yield the distinct plans that may win: lower bound of the cost in seconds, number, plan."""
        seen: set[_PlanKey] = set()
        capacity = self._capacity(at)
        room_bytes = capacity.largest_bytes(at.cores)
        for number, plan in enumerate(self._plans(at)):
            key = _plan_key(plan)
            if key in seen or has_too_many_instances(plan, at):
                continue
            least = least_bytes(at.analysis, plan, room_bytes)
            launches = sum([group.instances for group in plan.groups])
            if evaluator.traffic_can_win(least, launches):
                seen.add(key)
                yield cost_s(at, {DDR: least}, launches), number, plan

    def _candidate(self, plan: FusionPlan, at: DsaCosts, order: Sequence[int] = ()) -> Candidate:
        """Return the layout of a plan for the buffers of ``at``, its instances in ``order`` if that is given."""
        capacity = self._capacity(at)
        bound_of = plan.groups, tuple(order), self.order, self.unbound, at.cores, at.view.tuning.most_padding

        def layout() -> tuple[Layout, Reads]:
            bound = at.analysis.table(bind_instances, _MOST_BOUND).get(bound_of, partial(self._bound, plan, order, at))
            return Layout(plan, bound.instances, bound.placement.within(capacity)), bound.reads

        return candidate(at.analysis, (self, bound_of, capacity), layout)

    def _bound(self, plan: FusionPlan, order: Sequence[int], at: DsaCosts) -> BoundInstances:
        """Return the instances of ``plan`` bound to cores, in ``order`` or else the order of the options."""
        parts = split_into_instances(at.analysis, plan)
        return bind_instances(parts, order or self._ordered(parts), at, unbound_dims(plan.graph, self.unbound))

    def _of_plan(self, plan: FusionPlan, costs: DsaCosts) -> Schedule:
        """Return the fastest schedule of one plan, its instances in the order of the options."""
        parts = split_into_instances(costs.analysis, plan)
        order = self._ordered(parts)
        if self.order == "exact":
            order = exact_order(order, parts.producers, parts.output_bytes, self.order_effort_s).order
        evaluator = Evaluator(costs, self.name, paper_tiles=self.tiles == "paper")
        for at in with_smaller_buffers(costs):
            one = evaluator.laid_out(partial(self._candidate, plan, at, order))
            if one is not None:
                self._consider(evaluator, one, at)
        return evaluator.chosen().schedule

    def _plans(self, costs: DsaCosts) -> Iterator[FusionPlan]:
        """Yield the plans to compare: each with the split of every group, and again without splits.

        The first one, for the machine's own buffers and with instances, is the paper's.
        """
        analysis, cores = costs.analysis, costs.cores * (costs.view.clusters if costs.view.divides_kernels else 1)
        for headroom in costs.view.tuning.grouping_headrooms:
            local_bytes = int(cores * self._capacity(costs).local_bytes * (1 - headroom))
            counts_inputs = self.footprint == "all"
            grouping = group_subgraphs(analysis, local_bytes, self.most_recompute, counts_inputs=counts_inputs)
            for cut in (True, False) if self.instances else (False,):
                key = grouping.fitted_bytes, self.most_recompute, counts_inputs, cut
                yield analysis.table(_plan, _MOST_PLANS).get(key, partial(_plan, analysis, grouping, cut=cut))

    def _ordered(self, parts: InstanceGraph) -> Sequence[int]:
        """Return the order of the instances; for ``exact`` the one that the solver starts from."""
        producers, output_bytes = parts.producers, parts.output_bytes
        wide = breadth_first(range(len(parts.instances)), producers)
        if self.order == "bfs":
            return wide
        if self.order == "heaviest":
            return heaviest_first(wide, producers, output_bytes)
        deep = depth_first(wide, producers)
        if self.order == "dfs":
            return deep
        return min(deep, wide, key=lambda order: peak_live_bytes(order, producers, output_bytes))

    def _capacity(self, costs: DsaCosts) -> Capacity:
        """Return the capacities for slices: a share of the global buffer, the local one less weights and one tile.

        The tile is one whose load takes as long as its start-up, since smaller ones mostly wait; it has at most half.
        """
        local, *further = costs.on_chip
        tile_bytes = min(local.startup_bytes, local.outputs_bytes // 2)
        tuning = costs.view.tuning
        return Capacity.of(
            costs.on_chip, tile_bytes, uses_local=self.outputs == "local", spills_longest=self.spill == "longest",
            most_exchanged=tuning.most_exchanged if further else 1.0,
            apart_steps=tuning.most_layers_at_work if self.instruction_scheduling else 0,
        )  # fmt: skip


def _plan(analysis: Analysis, grouping: Grouping, *, cut: bool) -> FusionPlan:
    """Return the plan of a grouping, its groups split into instances (``cut``) or whole."""
    return plan_from_groups(analysis.graph, [grouped.group(cut=cut) for grouped in grouping.subgraphs])
