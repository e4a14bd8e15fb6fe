"""Layouts that GraphTurbo compares on a DSA: plans for several sizes of local buffer, their instances and slices.

SplitInfo and grouping (Algorithms 1 and 2) give plans, `split_into_instances` and an order (Algorithm 3) their
instances, core binding (Algorithm 4) and placement (section 4.3) a layout.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from dsascape.fusion.plan import FusionPlan, Split, plan_from_groups
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.candidates import Candidate, candidate_of
from dsascape.scheduler.dsa.graphturbo.core_binding import unbound_dims
from dsascape.scheduler.dsa.graphturbo.instance_binding import BoundInstances, bind_instances
from dsascape.scheduler.dsa.graphturbo.placement import Capacity
from dsascape.scheduler.dsa.schedule.schedule import Layout
from dsascape.scheduler.graphturbo.grouping import Grouping, group_subgraphs
from dsascape.scheduler.graphturbo.instances import InstanceGraph, split_into_instances
from dsascape.scheduler.graphturbo.options import GraphTurboOptions
from dsascape.scheduler.graphturbo.ordering import breadth_first, depth_first, heaviest_first, peak_live_bytes
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.memo import memoized

_MOST_PLANS = 512
"""Size of the cache of plans per network; each plan may have hundreds of groups."""
_MOST_LAYOUTS = 128
"""Size of the cache of candidate layouts per network; each may have hundreds of layer runs."""
_MOST_BOUND = 32
"""Size of the cache of core-bound instances per network; each entry may have hundreds of layer runs."""

OrderRule = Literal["best", "dfs", "bfs", "heaviest", "exact", "planned"]
"""Rule for the order of instances: those of `GraphTurboOptions.order`, or as they stand in the plan."""
InstanceOrder = OrderRule | tuple[int, ...]
"""Rule, or the numbers of the instances in order."""
AttentionLayers = Literal["parts", "whole"]
"""Whether attention is the layers of its operators, or one layer (`split_into_instances`)."""
PlanKey = tuple[tuple[tuple[int, ...], Split | None], ...]
"""Groups of a plan and their splits: the part of a plan that its layouts depend on."""


def plan_key(plan: FusionPlan) -> PlanKey:
    """Return the part of a plan that its layouts depend on."""
    return tuple([(group.ops, group.split) for group in plan.groups])


def plans_of(options: GraphTurboOptions, costs: DsaCosts) -> Iterator[FusionPlan]:
    """Yield the plans to compare: each with the split of every group, and again without splits.

    The first one, for the machine's own buffers and with instances, is the paper's.
    """
    analysis, cores = costs.analysis, costs.cores * (costs.view.clusters if costs.view.divides_kernels else 1)
    for headroom in costs.view.tuning.grouping_headrooms:
        local_bytes = int(cores * capacity_of(options, costs).local_bytes * (1 - headroom))
        counts_inputs = options.footprint == "all"
        grouping = group_subgraphs(analysis, local_bytes, options.most_recompute, counts_inputs=counts_inputs)
        for cut in (True, False) if options.instances else (False,):
            yield _plan(analysis, grouping, cut)


@memoized(most=_MOST_PLANS)
def _plan(analysis: Analysis, grouping: Grouping, cut: bool) -> FusionPlan:
    """Return the plan of a grouping, its groups split into instances (``cut``) or whole."""
    return plan_from_groups(analysis.graph, [grouped.group(cut=cut) for grouped in grouping.subgraphs])


def laid_out(
    options: GraphTurboOptions, plan: FusionPlan, costs: DsaCosts, order: Sequence[int] = (),
    attention: AttentionLayers = "parts",
) -> Candidate:  # fmt: skip
    """Return the layout of a plan for the buffers of ``costs``, its instances in ``order`` if that is given."""
    capacity = capacity_of(options, costs)
    return placed(costs.binding, plan, tuple(order) or options.order, options.unbound, capacity, attention)


@memoized(most=_MOST_LAYOUTS)
def placed(
    costs: DsaCosts, plan: FusionPlan, order: InstanceOrder, unbound: tuple[str, ...], capacity: Capacity,
    attention: AttentionLayers,
) -> Candidate:  # fmt: skip
    """Return the layout of a plan on the cores of `DsaCosts.binding`, its slices within ``capacity``.

    ``unbound``: dimensions that are not bound to cores.
    """
    bound = _bound(costs, plan, order, unbound, attention)
    layout = Layout(plan, bound.instances, bound.placement.within(capacity))
    return candidate_of((costs.memo_key, plan, order, unbound, capacity, attention), layout, bound.reads)


@memoized(most=_MOST_BOUND)
def _bound(
    costs: DsaCosts, plan: FusionPlan, order: InstanceOrder, unbound: tuple[str, ...], attention: AttentionLayers
) -> BoundInstances:
    parts = split_into_instances(costs.analysis, plan, has_whole_attention=attention == "whole")
    numbers = ordered(order, parts) if isinstance(order, str) else order
    return bind_instances(parts, numbers, costs, unbound_dims(plan.graph, unbound))


def ordered(rule: OrderRule, parts: InstanceGraph) -> Sequence[int]:
    """Return the order of the instances; for ``exact`` the one that the solver starts from."""
    if rule == "planned":
        return range(len(parts.instances))
    producers, output_bytes = parts.producers, parts.output_bytes
    wide = breadth_first(range(len(parts.instances)), producers)
    if rule == "bfs":
        return wide
    if rule == "heaviest":
        return heaviest_first(wide, producers, output_bytes)
    deep = depth_first(wide, producers)
    if rule == "dfs":
        return deep
    return min(deep, wide, key=lambda order: peak_live_bytes(order, producers, output_bytes))


def capacity_of(options: GraphTurboOptions, costs: DsaCosts) -> Capacity:
    """Return the capacities for slices: a share of the global buffer, the local one less weights and one tile.

    The tile is one whose load takes as long as its start-up, since smaller ones mostly wait; it has at most half.
    """
    local, *further = costs.on_chip
    tile_bytes = min(local.startup_bytes, local.outputs_bytes // 2)
    tuning = costs.view.tuning
    return Capacity.of(
        costs.on_chip, tile_bytes, uses_local=options.outputs == "local", spills_longest=options.spill == "longest",
        most_exchanged=tuning.most_exchanged if further else 1.0,
        apart_steps=tuning.most_layers_at_work if options.instruction_scheduling else 0,
    )  # fmt: skip
