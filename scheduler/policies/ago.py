"""AGO (INFOCOM '23): sub-graphs of any structure, in which complex operators share a kernel where nothing is redone.

`fusion.ago` has the algorithms, their departures stated where they are made.
"""

from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat
from pydantic.dataclasses import dataclass

from dsascape.fusion.ago import BASE, BIAS, SLOPE, Tuning, Weights, ago_plan
from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.plan import FusionPlan
from dsascape.fusion.profile import ProfileDatabase
from dsascape.hw_models.simulation.pause import collector_paused
from dsascape.workloads.graph import Graph


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class Ago:
    """Cluster by weight without patterns, then split and join as the machine takes it."""

    name: ClassVar[str] = "ago"

    slope: PositiveFloat = SLOPE
    """c of eq. (1)."""
    bias: NonNegativeFloat = BIAS
    """b of eq. (1)."""
    base: Annotated[float, Field(gt=1)] = BASE
    """Of the logarithms of eq. (1)."""
    threshold: PositiveFloat | None = None
    """Td: a sub-graph weighs less; None: 16384, or a higher power of two where two operators weigh as much."""
    intensive: bool = True
    """Whether two complex operators may share a kernel (false: the paper's AGO-NI)."""
    judge: Literal["machine", "none"] = "machine"
    """Who decides whether kernels are joined: what the machine takes, or redundancy analysis alone."""

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
        del graph  # the analysis knows it
        kernel_s = partial(ProfileDatabase().kernel_s, costs) if self.judge == "machine" else None
        tuning = Tuning(
            weights=Weights(self.slope, self.bias, self.base),
            threshold=self.threshold,
            intensive=self.intensive,
            kernel_s=kernel_s,
        )
        with collector_paused():
            return ago_plan(costs.analysis, tuning)
