"""AGO (INFOCOM '23): sub-graphs of any structure; complex operators share a kernel where nothing is recomputed.

The algorithms are in `fusion.ago`, with departures from the paper stated where they are made.
"""

from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat
from pydantic.dataclasses import dataclass

from dsascape.fusion.ago import BASE, BIAS, SLOPE, THRESHOLD, Tuning, Weights, ago_plan
from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.plan import FusionPlan
from dsascape.fusion.profile import ProfileDatabase
from dsascape.hw_models.simulation.pause import collector_paused
from dsascape.workloads.graph import Graph


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class Ago:
    """AGO: clusters operators by weight without patterns, then splits and joins kernels by their cost."""

    name: ClassVar[str] = "ago"

    slope: PositiveFloat = SLOPE
    """Coefficient c of eq. (1)."""
    bias: NonNegativeFloat = BIAS
    """Constant b of eq. (1)."""
    base: Annotated[float, Field(gt=1)] = BASE
    """Base of the logarithms in eq. (1)."""
    threshold: PositiveFloat | Literal["any-two"] = THRESHOLD
    """Td, the exclusive upper bound of a sub-graph's weight; ``any-two``: a power of two above any two operators."""
    intensive: bool = True
    """Whether two complex operators may share a kernel (false: the paper's AGO-NI)."""
    judge: Literal["machine", "none"] = "machine"
    """Criterion for joining kernels: ``machine``: the cost model's time; ``none``: redundancy analysis alone."""

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
