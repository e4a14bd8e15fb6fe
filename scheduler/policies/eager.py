"""Functions of an eager framework, a kernel each: what PyTorch launches without a compiler."""

from typing import ClassVar

from pydantic.dataclasses import dataclass

from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.eager import EAGER, eager_plan
from dsascape.fusion.plan import FusionPlan
from dsascape.workloads.graph import Graph


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class Eager:
    """One kernel per function: linear layers with bias, activations and attention whole; kernels do not overlap."""

    name: ClassVar[str] = EAGER
    fuses: ClassVar[bool] = False

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
        return eager_plan(graph)
