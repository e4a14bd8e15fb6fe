"""Policy of the experiments on AGO's tuner: each network, which is one sub-graph there, is one kernel."""

from dataclasses import dataclass
from typing import ClassVar

from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.plan import FusionPlan, Group, plan_from_groups
from dsascape.workloads import Graph


@dataclass(frozen=True, kw_only=True)
class OneKernel:
    """All operators of a network in one kernel, whatever that costs."""

    name: ClassVar[str] = "one-kernel"

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
        del costs
        return plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])
