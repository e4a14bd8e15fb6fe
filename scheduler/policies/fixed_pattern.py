"""TVM's fixed fusion patterns, kernel by kernel: what the papers compare with as "TVM"."""

from typing import ClassVar, Literal

from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.fixed_pattern import fixed_pattern_of
from dsascape.fusion.plan import FusionPlan
from dsascape.workloads.graph import Graph


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class FixedPattern:
    """One complex operator with its followers a kernel; tiles overlap inside a kernel, kernels do not."""

    name: ClassVar[str] = "fixed-pattern"

    batches_per_cluster: PositiveInt | Literal["best"] | None = None
    """Images a cluster takes at once; ``best`` tries; None: its whole share of the batch (GraphTurbo, section 5.1)."""

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
        del graph  # the analysis knows it
        return costs.analysis.of(fixed_pattern_of)
