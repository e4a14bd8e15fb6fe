"""AStitch as GraphTurbo's authors reproduce it on a scratchpad machine: stitch greedily, never split into instances.

AStitch (ASPLOS '22) keeps intermediate tensors of memory-intensive operators on chip by stitching kernels. On STCP920
(GraphTurbo, section 5.2) the functionality is reproduced "by maximally preserving tensors in L1"; it does not split a
sub-graph into instances, and prefers one kernel for chains of compute-intensive operators, "which spills data to DDR".

Here: layers join along straight and branch patterns with no regard to what fits, so that a network without wide joins
is one kernel; every tensor stays in the local buffers if it fits there for as long as it lives, and goes to DDR if not
(the global buffer only stages), or before that to the further levels that a machine may have. The paper says no more
about the reproduction.

AStitch itself targets GPUs, where it stitches memory-intensive operators and leaves compute-intensive ones to
libraries. On a GPU this policy does the same: layers without a multiply-accumulate over a reduction are stitched to
each other, through registers and shared memory, where a block fits (`scheduler.gpu.astitch`).
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.dsa import astitch as on_dsa
from dsascape.scheduler.evaluated import Evaluated
from dsascape.scheduler.gpu import astitch as on_gpu
from dsascape.scheduler.kinds.ways import way_on
from dsascape.workloads.graph import Graph


class _Way(NamedTuple):
    """AStitch on one machine kind."""

    plan_of: Callable[[Any], FusionPlan]
    evaluate_plan: Callable[[str, Any, FusionPlan], Evaluated[Any]]


_WAYS: Mapping[str, _Way] = {
    "clustered_dsa": _Way(on_dsa.plan_of, on_dsa.evaluate_plan),
    "gpu": _Way(on_gpu.plan_of, on_gpu.evaluate_plan),
}


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class AStitch:
    """AStitch: keeps tensors on chip where they fit, without splitting into instances."""

    name: ClassVar[str] = "astitch"
    kinds: ClassVar[tuple[str, ...]] = tuple(_WAYS)

    batches_per_cluster: PositiveInt | Literal["best"] | None = None
    """Images a cluster processes at once; ``best``: the fastest of several; None: its whole share of the batch
    (GraphTurbo, section 5.1)."""

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
        """Return the plan, which no simulation decides on."""
        del graph  # that of the costs
        return way_on(costs, self.name, _WAYS).plan_of(costs)

    def evaluate(self, costs: KernelCosts, plan: FusionPlan | None = None) -> Evaluated[Any]:
        """Return the fastest schedule of the network, or of ``plan``, with its program and simulated run."""
        return self.evaluate_plan(costs, self.plan(costs.analysis.graph, costs) if plan is None else plan)

    def evaluate_plan(self, costs: KernelCosts, plan: FusionPlan) -> Evaluated[Any]:
        """Return the fastest schedule of ``plan`` with its program and simulated run."""
        return way_on(costs, self.name, _WAYS).evaluate_plan(self.name, costs, plan)
