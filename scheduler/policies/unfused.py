"""No fusion: one kernel per operator, every tensor through off-chip memory; the baseline of all other policies."""

from typing import ClassVar

from pydantic.dataclasses import dataclass

from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.plan import FusionPlan
from dsascape.fusion.unfused import unfused_plan
from dsascape.workloads.graph import Graph


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class Unfused:
    """One kernel per operator that moves or computes anything; kernels do not overlap."""

    name: ClassVar[str] = "unfused"
    fuses: ClassVar[bool] = False

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
        return unfused_plan(graph)
