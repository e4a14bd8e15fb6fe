"""GraphTurbo (OSDI '23): sub-graphs as large as the local buffers allow, run as instances that stay on chip.

Steps, one file each in ``scheduler/graphturbo`` and ``scheduler/dsa/graphturbo``: SplitInfo (Algorithm 1), grouping
(Algorithm 2), instances and their order (Algorithm 3), core binding (Algorithm 4), placement with spilling (section
4.3); weights are prefetched and layers overlap as in section 4.4. The options switch steps off as the paper's Fig. 15
does. Interpretations of each algorithm, and departures from it, are stated where it is implemented. On a DSA
`scheduler.dsa.graphturbo.search` takes the fastest of several schedules, on a GPU `scheduler.gpu.graphturbo` does.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from pydantic.dataclasses import dataclass

from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.dsa.graphturbo import search
from dsascape.scheduler.evaluated import Evaluated
from dsascape.scheduler.gpu import graphturbo as on_gpu
from dsascape.scheduler.graphturbo.options import GraphTurboOptions
from dsascape.scheduler.kinds.ways import way_on
from dsascape.workloads.graph import Graph


class _Way(NamedTuple):
    """GraphTurbo on one machine kind."""

    evaluate: Callable[[GraphTurboOptions, Any, FusionPlan | None], Evaluated[Any]]
    evaluate_plan: Callable[[GraphTurboOptions, Any, FusionPlan], Evaluated[Any]]


_WAYS: Mapping[str, _Way] = {
    "clustered_dsa": _Way(search.evaluate, search.evaluate_plan),
    "gpu": _Way(on_gpu.evaluate, on_gpu.evaluate_plan),
}


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class GraphTurbo(GraphTurboOptions):
    """GraphTurbo: sub-graph instance scheduling on scratchpads."""

    kinds: ClassVar[tuple[str, ...]] = tuple(_WAYS)

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
        """Return the plan of the fastest schedule."""
        del graph  # that of the costs
        return self.evaluate(costs).plan

    def evaluate(self, costs: KernelCosts, plan: FusionPlan | None = None) -> Evaluated[Any]:
        """Return the fastest schedule of the network, or of ``plan``, with its program and simulated run."""
        return way_on(costs, self.name, _WAYS).evaluate(self, costs, plan)

    def evaluate_plan(self, costs: KernelCosts, plan: FusionPlan) -> Evaluated[Any]:
        """Return the fastest schedule of ``plan`` by itself, without the search for other plans."""
        return way_on(costs, self.name, _WAYS).evaluate_plan(self, costs, plan)
