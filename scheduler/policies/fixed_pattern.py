"""TVM's fixed fusion patterns, kernel by kernel: the baseline called "TVM" in the papers."""

from typing import ClassVar, Literal

from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.fixed_pattern import fixed_pattern_of
from dsascape.fusion.plan import FusionPlan
from dsascape.workloads.graph import Graph


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class FixedPattern:
    """One kernel per complex operator and its followers; tiles overlap inside a kernel, kernels do not."""

    name: ClassVar[str] = "fixed-pattern"

    batches_per_cluster: PositiveInt | Literal["best"] | None = None
    """Images a cluster processes at once; ``best``: the fastest of several; None: its whole share of the batch
    (GraphTurbo, section 5.1)."""

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
        del graph  # the analysis knows it
        return costs.analysis.of(fixed_pattern_of)
