"""Intensive fusion, predicted beside measured: kernels with several complex operators against the kernels they replace.

Both are in the tables of a measured run: a kernel of one policy whose operators are those of several kernels of another
is faster or slower than these by what they took. What other machines would gain is asked of their costs alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from dsascape.fusion.ago.weights import is_complex
from dsascape.fusion.costs import KernelCosts
from dsascape.hw_models import load_hardware
from dsascape.scheduler import Placing
from dsascape.workloads import load_network
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph, WorkloadError

APART = "fixed-pattern"
"""The policy whose kernels have one complex operator each."""
ELSEWHERE = ("kirin990", "snapdragon810", "raspberry_pi_3b_plus")
"""Presets with caches smaller than those of a server."""


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """A kernel of one policy, and those of another that it stands for."""

    network: str
    policy: str
    operators: tuple[str, ...]
    """The complex ones, by name."""
    measured_gain: float
    """What the kernels take apart by what the one takes, here."""
    predicted_gain: float
    gain_elsewhere: Mapping[str, float]
    """Predicted for other machines, as one kernel of many."""


def fused_kernels(kernels: pd.DataFrame, setting: str) -> list[FusedKernel]:
    """Return the kernels that hold several complex operators; ``setting`` names a column that must not differ."""
    found: list[FusedKernel] = []
    for (model, _), own in kernels.groupby(["model", setting], sort=False):
        try:
            network = _Network(str(model))
        except WorkloadError:
            continue  # of another machine's folder
        apart = own[own["policy"] == APART]
        for _, row in own[own["policy"] != APART].iterrows():
            found += network.replaced(row, apart)
    return found


class _Network:
    """A network, and what its kernels cost on other machines."""

    def __init__(self, model: str) -> None:
        graph = load_network(model, batch=1)
        self._graph: Graph = graph
        self._model = model
        self._place = {op.name: place for place, op in enumerate(graph.ops)}
        analysis = Analysis(graph)
        self._costs: dict[str, KernelCosts] = {
            name: Placing(hardware=load_hardware(name), parts=1, dtype="fp32").costs(analysis) for name in ELSEWHERE
        }

    def replaced(self, row: "pd.Series[float]", apart: pd.DataFrame) -> Iterator[FusedKernel]:
        """Yield what one measured kernel replaces, if it holds several complex operators."""
        ops = self._ops(row)
        names = tuple(self._graph.ops[op].name for op in ops if is_complex(self._graph, op))
        if not names[1:]:
            return
        parts = [(part, other) for part, other in ((self._ops(each), each) for _, each in apart.iterrows())
                 if part and set(part) <= set(ops)]  # fmt: skip
        if sorted(op for part, _ in parts for op in part) != sorted(ops):
            return  # cut elsewhere, or rewritten
        yield FusedKernel(
            self._model,
            str(row["policy"]),
            names,
            sum(float(other["measured_s"]) for _, other in parts) / float(row["measured_s"]),
            sum(float(other["predicted_s"]) for _, other in parts) / float(row["predicted_s"]),
            {name: self._gain(costs, ops, [part for part, _ in parts]) for name, costs in self._costs.items()},
        )

    def _ops(self, row: "pd.Series[float]") -> tuple[int, ...]:
        """Return the positions of a kernel's operators; none where the network has no such operators."""
        names = str(row["operators"]).split(", ")
        places = [self._place.get(name) for name in names]
        return tuple(sorted(place for place in places if place is not None)) if None not in places else ()

    def _gain(self, costs: KernelCosts, ops: Sequence[int], parts: Sequence[Sequence[int]]) -> float:
        return sum(map(costs.kernel_s, parts)) / costs.kernel_s(ops)
