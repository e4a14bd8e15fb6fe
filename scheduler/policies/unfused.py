"""Every operator its own kernel, every tensor through DDR: what fusion is measured against."""

from typing import ClassVar

from pydantic.dataclasses import dataclass

from fusion.plan import FusionPlan
from fusion.unfused import unfused_plan
from hw_models import ClusteredDsa
from scheduler.assemble import through_ddr
from scheduler.layers import single_layer
from scheduler.schedule import Schedule
from workloads.graph import Graph


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class Unfused:
    """One kernel per operator that moves or computes anything; kernels do not overlap."""

    name: ClassVar[str] = "unfused"

    def plan(self, graph: Graph, spec: ClusteredDsa) -> FusionPlan:
        return unfused_plan(graph)

    def schedule(self, graph: Graph, spec: ClusteredDsa, dtype: str) -> Schedule:
        return through_ddr(self.plan(graph, spec), spec.cores_per_cluster, dtype, single_layer, self.name)
