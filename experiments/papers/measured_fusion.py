"""Gain of intensive fusion, measured and predicted: kernels with several complex operators, and those they replace.

Both are in the tables of a measured run: a kernel of one policy that has the operators of several kernels of another is
compared with the sum of these. For machines that were not measured, the gain is predicted by their cost models.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from dsascape.fusion.ago.weights import is_complex
from dsascape.fusion.costs import KernelCosts
from dsascape.hw_models import load_hardware
from dsascape.scheduler import Placing
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.workloads import load_network
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph, WorkloadError

BASELINE = "fixed-pattern"
"""Policy whose kernels have at most one complex operator each."""
ELSEWHERE = ("kirin990", "snapdragon810", "raspberry_pi_3b_plus")
"""Presets for which the gain is also predicted: caches smaller than those of a server."""


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """A measured kernel with several complex operators, and its gain over the kernels of `BASELINE` it replaces."""

    network: str
    policy: str
    operators: tuple[str, ...]
    """Names of the kernel's complex operators."""
    measured_gain: float
    """Measured time of the replaced kernels divided by that of this kernel."""
    predicted_gain: float
    """Simulated time of the replaced kernels divided by that of this kernel, on the measured machine."""
    gain_elsewhere: Mapping[str, float]
    """Estimated time of the replaced kernels divided by that of this kernel, by preset in `ELSEWHERE`."""


def fused_kernels(kernels: pd.DataFrame, setting: str) -> list[FusedKernel]:
    """Return the measured kernels that hold several complex operators, with their gains.

    ``kernels``: one row per measured kernel. ``setting``: the column (threads or machine) that must be equal for
    kernels to be compared.
    """
    fused: list[FusedKernel] = []
    for (model, _), own in kernels.groupby(["model", setting], sort=False):
        try:
            network = _Network(str(model))
        except WorkloadError:
            continue  # of another machine's folder
        baseline = own[own["policy"] == BASELINE]
        for _, row in own[own["policy"] != BASELINE].iterrows():
            fused += network.replaced(row, baseline)
    return fused


class _Network:
    """A network, and the cost models of the other machines for it."""

    def __init__(self, model: str) -> None:
        graph = load_network(model, batch=1)
        self._graph: Graph = graph
        self._model = model
        self._place = {op.name: place for place, op in enumerate(graph.ops)}
        analysis = Analysis(graph)
        self._costs: dict[str, KernelCosts] = {
            name: Placing(
                hardware=load_hardware(name), parts=1, dtype="fp32", tuning=CpuTuning(winograd=0)
            ).costs(analysis)
            for name in ELSEWHERE
        }

    def replaced(self, row: "pd.Series[float]", baseline: pd.DataFrame) -> Iterator[FusedKernel]:
        """Yield the kernel of ``row`` if it has several complex operators and those of whole ``baseline`` kernels."""
        ops = self._ops(row)
        names = tuple(self._graph.ops[op].name for op in ops if is_complex(self._graph, op))
        if not names[1:]:
            return
        parts = [(part, other) for part, other in ((self._ops(each), each) for _, each in baseline.iterrows())
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
        """Return the positions of a kernel's operators in the graph; () if the network lacks one of them."""
        names = str(row["operators"]).split(", ")
        places = [self._place.get(name) for name in names]
        return tuple(sorted(place for place in places if place is not None)) if None not in places else ()

    def _gain(self, costs: KernelCosts, ops: Sequence[int], parts: Sequence[Sequence[int]]) -> float:
        return sum(map(costs.kernel_s, parts)) / costs.kernel_s(ops)
