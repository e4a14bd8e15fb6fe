"""AStitch as GraphTurbo's authors reproduce it on a scratchpad machine: stitch greedily, never split into instances.

AStitch (ASPLOS '22) keeps intermediate tensors of memory-intensive operators on chip by stitching kernels. On STCP920
(GraphTurbo, section 5.2) the functionality is reproduced "by maximally preserving tensors in L1"; it does not split a
sub-graph into instances, and prefers one kernel for chains of compute-intensive operators, "which spills data to DDR".

Here: layers join along straight and branch patterns with no regard to what fits, so that a network without wide joins
is one kernel; every tensor stays in the local buffers if it fits there for as long as it lives, and goes to DDR if not
(the global buffer only stages). The paper says no more about the reproduction.

AStitch itself targets GPUs, where it stitches memory-intensive operators and leaves compute-intensive ones to
libraries. On a GPU this policy does the same: layers without a multiply-accumulate over a reduction are stitched to
each other, through registers and shared memory, where a block fits (`scheduler.gpu.stitching`). Departures: stitching
has to pay by the cost model, where AStitch has rules; results never pass through DRAM within a kernel, which would
require synchronising all blocks; unconnected operators are not put into one kernel.
"""

from collections.abc import Iterator
from functools import partial
from typing import ClassVar, Literal

from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.plan import FusionPlan, Group, plan_from_groups
from dsascape.hw_models.simulation.pause import collector_paused
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.evaluation import (
    Evaluated,
    Evaluator,
    candidate,
    with_fewer_cores,
    with_smaller_buffers,
)
from dsascape.scheduler.dsa.graphturbo.instance_binding import bind_instances
from dsascape.scheduler.dsa.graphturbo.placement import Capacity
from dsascape.scheduler.dsa.graphturbo.plan_cost import Reads
from dsascape.scheduler.dsa.schedule.limits import check_can_be_scheduled
from dsascape.scheduler.dsa.schedule.schedule import Layout, Schedule
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.schedule import GpuSchedule, kernel_by_kernel
from dsascape.scheduler.gpu.stitching import stitched
from dsascape.scheduler.graphturbo.grouping import group_subgraphs
from dsascape.scheduler.graphturbo.instances import split_into_instances
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph

_UNBOUNDED = 2**62
"""Local buffer size in bytes given to grouping: so large that everything fits and everything is stitched."""


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class AStitch:
    """AStitch: keeps tensors on chip where they fit, without splitting into instances."""

    name: ClassVar[str] = "astitch"
    kinds: ClassVar[tuple[str, ...]] = ("clustered_dsa", "gpu")

    batches_per_cluster: PositiveInt | Literal["best"] | None = None
    """Images a cluster processes at once; ``best``: the fastest of several; None: its whole share of the batch
    (GraphTurbo, section 5.1)."""

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
        if isinstance(costs, GpuCosts):
            return stitched(costs, partial(_is_memory_intensive, costs.analysis))
        with collector_paused():
            grouping = group_subgraphs(costs.analysis, _UNBOUNDED, 0.0)
        ops = [grouped.sub.ops for grouped in grouping.subgraphs]
        return plan_from_groups(graph, [Group(each, "no pattern joins it to another") for each in ops])

    def schedule(self, plan: FusionPlan, costs: DsaCosts | GpuCosts) -> Schedule | GpuSchedule:
        """Return the fastest of the schedules for the machine's local buffers, for smaller ones, and for none.

        Tried in order: all tensors that fit kept local; without those that cores would mostly exchange; fewer cores.
        On a GPU: the plan, kernel by kernel.
        """
        if isinstance(costs, GpuCosts):
            return kernel_by_kernel(plan, costs, self.name)
        if costs.view.divides_kernels:
            raise ScheduleError(f"policy {self.name}: keeps tensors on chip, and so divides no kernel among clusters")
        evaluated: Evaluated = costs.evaluated.get(self, lambda: _search(plan, costs, self.name))
        return evaluated.schedule


def _is_memory_intensive(analysis: Analysis, ops: frozenset[int]) -> str:
    """Return the reason why operators are not stitched; empty if all of them are memory-intensive."""
    layer = layer_of(analysis, ops)
    return "" if layer is None or layer.contraction is None else "compute-intensive operators are left to libraries"


def _search(plan: FusionPlan, costs: DsaCosts, policy: str) -> Evaluated:
    check_can_be_scheduled(costs)
    evaluator = Evaluator(costs, policy)
    few = costs.view.tuning.most_exchanged

    def tried() -> Iterator[tuple[DsaCosts, bool, float]]:
        yield costs, True, 1.0
        yield from ((at, True, few) for at in with_smaller_buffers(costs))
        yield costs, False, few
        yield from ((at, True, 1.0) for at in with_fewer_cores(costs, evaluator))

    for at, uses_local, most_exchanged in tried():
        capacity = Capacity(
            at.on_chip[0].outputs_bytes, (), uses_local, spills_longest=False, most_exchanged=most_exchanged
        )
        layout_key = policy, plan.groups, capacity, at.cores, costs.view.tuning.most_padding
        make = partial(candidate, costs.analysis, layout_key, partial(_layout, plan, at, capacity))
        shown = evaluator.laid_out(make)
        if shown is not None:
            evaluator.consider(shown, at)
        if evaluator.is_near_bound():
            break
    return evaluator.chosen()


def _layout(plan: FusionPlan, costs: DsaCosts, capacity: Capacity) -> tuple[Layout, Reads]:
    parts = split_into_instances(costs.analysis, plan)
    bound = bind_instances(parts, range(len(parts.instances)), costs)
    return Layout(plan, bound.instances, bound.placement.within(capacity)), bound.reads
