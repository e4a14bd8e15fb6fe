"""TVM's fixed fusion patterns, layer by layer through DDR: what the papers compare with as "TVM" on a DSA."""

from typing import ClassVar, Literal

from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from fusion.fixed_pattern import fixed_pattern_plan
from fusion.plan import FusionPlan
from hw_models import ClusteredDsa
from scheduler.assemble import through_ddr
from scheduler.layers import single_layer
from scheduler.schedule import Schedule
from workloads.graph import Graph


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class FixedPattern:
    """One complex operator with its followers a kernel; tiles overlap inside a kernel, kernels do not."""

    name: ClassVar[str] = "fixed-pattern"

    batches_per_cluster: PositiveInt | Literal["best"] | None = None
    """Images a cluster takes at once; ``best`` tries; None: its whole share of the batch (GraphTurbo, section 5.1)."""

    def plan(self, graph: Graph, spec: ClusteredDsa) -> FusionPlan:
        return fixed_pattern_plan(graph)

    def schedule(self, graph: Graph, spec: ClusteredDsa, dtype: str) -> Schedule:
        return through_ddr(self.plan(graph, spec), spec.cores_per_cluster, dtype, single_layer, self.name)
