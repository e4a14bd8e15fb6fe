"""GraphTurbo (OSDI '23): sub-graphs as large as the local buffers allow, run as instances that stay on chip.

Steps, one file each in ``scheduler/graphturbo``: SplitInfo (Algorithm 1), grouping (Algorithm 2), instances and their
order (Algorithm 3), core binding (Algorithm 4), placement with spilling (section 4.3); weights are fetched ahead and
layers overlap while the program is lowered (section 4.4). The options switch steps off as the paper's Fig. 15 does.
The readings of each algorithm, and what departs from it, are stated where it is implemented.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import BeforeValidator, Field, PositiveInt
from pydantic.dataclasses import dataclass

from fusion.plan import FusionPlan, Group, plan_from_groups
from hw_models import ClusteredDsa
from hw_models.pause import collector_paused
from scheduler.device import DsaDevice
from scheduler.graphturbo.bound import bind_instances
from scheduler.graphturbo.core_binding import unbound_dims
from scheduler.graphturbo.exact_order import exact_order
from scheduler.graphturbo.grouping import Grouped, group_subgraphs
from scheduler.graphturbo.instances import InstanceGraph, instance_counts, split_into_instances
from scheduler.graphturbo.ordering import breadth_first, depth_first, heaviest_first, peak_live_bytes
from scheduler.graphturbo.placement import Capacity, place_pieces
from scheduler.graphturbo.plan_cost import cost_ps, least_bytes, moved_bytes
from scheduler.graphturbo.splitting import Split
from scheduler.occupancy import MOST_OPEN
from scheduler.schedule import Schedule
from workloads.graph import Graph

_PIECES_SHARE = 0.6
"""Part of the global buffer that outputs may take; the rest is for tiles and weights on their way through it."""
_HEADROOMS = (0.0, 0.15, 0.3, 0.4, -0.25)
"""Shares of the local buffers that grouping leaves free, tried in turn, each with instances and without; the plan whose
traffic and launches take least time is taken. Algorithm 1's footprint is that of one instance: it lacks the outputs
of others that wait beside it, halos, and parts that do not divide evenly; it has in full what may be spilled; and it
does not know what a launch costs. The first, with instances, is the paper's own; the comparison is not in the paper."""
_NEAR_LEAST = 1.1
"""A plan that takes at most this much more than any has to is not improved upon."""

_Annotation = Annotated[str, Field(pattern=r"^.+:[0-9]{1,3}$")]


def _listed(value: object) -> object:
    """Take a list apart that the command line has as one word."""
    return value.split(",") if isinstance(value, str) else value


class _Candidate(NamedTuple):
    """A plan that was made all the way: the time of its traffic and launches, its instances, its schedule."""

    cost_ps: float
    parts: InstanceGraph
    schedule: Schedule


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class GraphTurbo:
    """Sub-graph instance scheduling on scratchpads."""

    name: ClassVar[str] = "graphturbo"

    batches_per_cluster: PositiveInt | Literal["best"] | None = None
    """Images a cluster takes at once; ``best`` tries; None: its whole share of the batch (section 5.1)."""
    outputs: Literal["local", "global"] = "local"
    """Where outputs are kept as long as they fit: the local buffers, or (Fig. 15's first variant) the global one."""
    instances: bool = True
    """Split sub-graphs into instances, where the plan with them costs less (Fig. 15's third variant)."""
    instruction_scheduling: bool = True
    """Fetch the weights of later layers while earlier ones compute, and let tiles of several layers compute at the same
    time (section 4.4; Fig. 15's fourth variant)."""
    tiles: Literal["searched", "paper"] = "searched"
    """Tiles inside layers: those with the best estimate, or the paper's (section 4.1) where they fit: the two outermost
    dimensions cut as little as the local buffers allow."""
    order: Literal["best", "dfs", "bfs", "heaviest", "exact"] = "best"
    """``best`` takes whichever of ``dfs`` and ``bfs`` keeps fewer bytes alive between instances, ``dfs`` when they are
    equal. Not in the paper: ``heaviest`` footprint first; ``exact``, the order that keeps the fewest alive (CP-SAT)."""
    order_effort_s: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """Deterministic solver seconds for ``exact``, which then takes the best order found."""
    spill: Literal["longest", "latest"] = "longest"
    """What leaves a buffer that is full: the tensor with the longest life (section 4.3), or, not in the paper, the one
    written last, which stays out of the way of those that are read often."""
    unbound: Annotated[tuple[_Annotation, ...], BeforeValidator(_listed)] = ()
    """Dimensions annotated as not to be bound to cores (section 3.4): ``conv1:2``, or ``*:2`` for all tensors."""
    most_recompute: Annotated[float, Field(ge=0, le=10)] = 0.25
    """Operations that overlapping instances may repeat, as a share of the sub-graph's own."""

    def plan(self, graph: Graph, spec: ClusteredDsa) -> FusionPlan:
        return self.schedule(graph, spec, "fp16").plan

    def schedule(self, graph: Graph, spec: ClusteredDsa, dtype: str) -> Schedule:
        with collector_paused():
            chosen = self._chosen(graph, spec, dtype)
        if self.order != "exact":
            return chosen.schedule
        parts = chosen.parts
        known = self._ordered(parts)
        order = exact_order(known, parts.producers, parts.output_bytes, self.order_effort_s).order
        return self._scheduled(spec, dtype, chosen.schedule.plan, parts, order)

    def instance_graph(self, graph: Graph, spec: ClusteredDsa, dtype: str) -> InstanceGraph:
        """Return the instances that are to be ordered."""
        return self._chosen(graph, spec, dtype).parts

    def _chosen(self, graph: Graph, spec: ClusteredDsa, dtype: str) -> _Candidate:
        """Return the plan whose traffic and launches take least time, the first of equals."""
        device = DsaDevice(spec, spec.clusters)
        seen: set[tuple[object, ...]] = set()
        best: _Candidate | None = None
        for plan, splits in self._plans(graph, spec):
            counts = instance_counts(plan, splits)
            cuts = tuple(splits) if any(count > 1 for count in counts) else None
            key = tuple(group.ops for group in plan.groups), cuts
            least_ps = cost_ps(device, {"ddr": least_bytes(plan, counts)}, sum(counts))
            if key in seen or (best is not None and least_ps >= best.cost_ps):
                continue
            seen.add(key)
            parts = split_into_instances(plan, splits)
            schedule = self._scheduled(spec, dtype, plan, parts, self._ordered(parts))
            found_ps = cost_ps(device, moved_bytes(schedule), schedule.kernels)
            if best is None or found_ps < best.cost_ps:
                best = _Candidate(found_ps, parts, schedule)
            if best.cost_ps <= _NEAR_LEAST * cost_ps(device, {"ddr": least_bytes(plan, [1] * len(counts))}, 1):
                break
        assert best is not None
        return best

    def _plans(self, graph: Graph, spec: ClusteredDsa) -> Iterator[tuple[FusionPlan, list[Split | None]]]:
        """Yield the plans to be compared: each with the split of every group, and again with none."""
        for headroom in _HEADROOMS:
            plan, grouped = self._grouped(graph, spec, headroom)
            if self.instances:
                yield plan, [group.split for group in grouped]
            yield plan, [None] * len(grouped)

    def _scheduled(
        self, spec: ClusteredDsa, dtype: str, plan: FusionPlan, parts: InstanceGraph, order: Sequence[int]
    ) -> Schedule:
        graph = plan.graph
        bound = bind_instances(graph, parts, order, spec.cores_per_cluster, unbound_dims(graph, self.unbound))
        placed = place_pieces(bound.runs, bound.pieces, self._capacity(spec), bound.shared)
        return Schedule(
            graph, plan, dtype, bound.instances, placed, self.name, overlaps_layers=self.instruction_scheduling,
            paper_tiles=self.tiles == "paper",
        )  # fmt: skip

    def _grouped(self, graph: Graph, spec: ClusteredDsa, headroom: float) -> tuple[FusionPlan, list[Grouped]]:
        """Return the plan and, per group of the plan, what Algorithm 2 knows about it."""
        local_bytes = int(spec.cores_per_cluster * self._capacity(spec).local_bytes * (1 - headroom))
        found = group_subgraphs(graph, local_bytes, self.most_recompute)
        plan = plan_from_groups(graph, (Group(g.sub.ops, g.reason) for g in found))
        by_ops = {g.sub.ops: g for g in found}
        return plan, [by_ops[group.ops] for group in plan.groups]

    def _ordered(self, parts: InstanceGraph) -> Sequence[int]:
        """Return the order of the instances; for ``exact`` the one that the solver begins with."""
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

    def _capacity(self, spec: ClusteredDsa) -> Capacity:
        """Return what pieces may take: a share of the global buffer; the local one but for weights and room for a tile.

        The tile is one whose load takes as long as its start-up, because smaller ones mostly wait; it has at most half.
        """
        buffer = spec.local_buffer
        tile_bytes = DsaDevice(spec, spec.clusters).path_startup_bytes
        room = buffer.capacity_bytes - int(buffer.capacity_bytes * buffer.weight_window)
        shared = 0 if spec.global_buffer is None else int(spec.global_buffer.capacity_bytes * _PIECES_SHARE)
        return Capacity(
            room - min(tile_bytes, room // 2), shared, uses_local=self.outputs == "local",
            spills_longest=self.spill == "longest", apart_steps=MOST_OPEN if self.instruction_scheduling else 0,
        )  # fmt: skip
