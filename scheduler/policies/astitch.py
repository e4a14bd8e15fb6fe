"""AStitch as GraphTurbo's authors reproduce it on a scratchpad machine: stitch greedily, never split into instances.

AStitch (ASPLOS '22) keeps intermediate tensors of memory-intensive operators on chip by stitching kernels. On STCP920
(GraphTurbo, section 5.2) the functionality is reproduced "by maximally preserving tensors in L1"; it does not split a
sub-graph into instances, and prefers one kernel for chains of compute-intensive operators, "which spills data to DDR".

Here: layers join along straight and branch patterns with no regard to what fits, so that a network without wide joins
is one kernel; every tensor stays in the local buffers if it fits there for as long as it lives, and goes to DDR if not
(the global buffer only stages). The paper says no more about the reproduction; AStitch itself targets GPUs.
"""

from typing import ClassVar, Literal

from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from fusion.plan import FusionPlan, Group, plan_from_groups
from hw_models import ClusteredDsa
from scheduler.graphturbo.bound import bind_instances
from scheduler.graphturbo.grouping import group_subgraphs
from scheduler.graphturbo.instances import split_into_instances
from scheduler.graphturbo.placement import Capacity, place_pieces
from scheduler.schedule import Schedule
from workloads.graph import Graph

_UNBOUNDED = 2**62
"""Bytes of local buffer that grouping believes in: everything fits, so everything is stitched."""


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class AStitch:
    """Keep tensors on chip where they fit, without splitting into instances."""

    name: ClassVar[str] = "astitch"

    batches_per_cluster: PositiveInt | Literal["best"] | None = None
    """Images a cluster takes at once; ``best`` tries; None: its whole share of the batch (GraphTurbo, section 5.1)."""

    def plan(self, graph: Graph, spec: ClusteredDsa) -> FusionPlan:
        found = group_subgraphs(graph, _UNBOUNDED, 0.0)
        return plan_from_groups(graph, (Group(grouped.sub.ops, "no pattern joins it to another") for grouped in found))

    def schedule(self, graph: Graph, spec: ClusteredDsa, dtype: str) -> Schedule:
        plan = self.plan(graph, spec)
        parts = split_into_instances(plan, [None] * len(plan.groups))
        bound = bind_instances(graph, parts, range(len(parts.instances)), spec.cores_per_cluster)
        window = int(spec.local_buffer.capacity_bytes * spec.local_buffer.weight_window)
        capacity = Capacity(spec.local_buffer.capacity_bytes - window, 0, spills_longest=False)
        placed = place_pieces(bound.runs, bound.pieces, capacity)
        return Schedule(graph, plan, dtype, bound.instances, placed, self.name)
