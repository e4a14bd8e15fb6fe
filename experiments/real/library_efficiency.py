"""Efficiency of onnxruntime on this processor by kind of kernel: the simulated bound of a few networks by its time.

Each network is one kind of kernel, three in a row where the library would otherwise mostly change layouts. They run on
one thread. What comes of it is ``library_efficiency`` of the machine's file, from which expected latencies follow.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from dsascape.experiments.point.job import Job, run_graph
from dsascape.hw_models import Cpu
from dsascape.scheduler import Placing, make_policy, make_tuning
from dsascape.tuner.calibrate import CalibratedHost, DescribedHost, host_spec
from dsascape.tuner.calibrate.rounds import ROUNDS, Times
from dsascape.tuner.late import late
from dsascape.tuner.measure.timing import measured
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.single_operators import Attribute, Beside, SingleOperator, single_operator

_SECONDS = 1.0
"""Time for repeating one network, in seconds."""
_WIDTH = 0.01
_LEAST = 0.001
"""Least efficiency that a machine file may state."""
_PADS = [1, 1, 1, 1]


@dataclass(frozen=True, slots=True)
class Sample:
    """A network of one kind of kernel."""

    kind: str
    """Key of ``library_efficiency``."""
    operator: SingleOperator

    @property
    def graph(self) -> Graph:
        """The network in fp32."""
        return single_operator(self.operator).with_dtype("fp32")


def _three(kind: str, op: str, data: tuple[int, ...], weights: tuple[int, ...], **attributes: Attribute) -> Sample:
    again = Beside(op, attributes, (weights,))
    return Sample(kind, SingleOperator(kind, op, (data,), (weights,), attributes, then=(again, again)))


SAMPLES = (
    _three("product", "MatMul", (512, 512), (512, 512)),
    _three("convolution", "Conv", (1, 64, 56, 56), (64, 64, 3, 3), pads=_PADS),
    _three("depthwise", "Conv", (1, 128, 56, 56), (128, 1, 3, 3), group=128, pads=_PADS),
    Sample("other", SingleOperator("other", "Softmax", ((256, 1024),))),
    Sample("memory", SingleOperator("memory", "Relu", ((64, 1024, 1024),))),
)
"""Networks that are timed: products whose operands fit a second cache, an array that fits no cache."""


def library_s(graph: Graph, seconds: float = _SECONDS) -> float:
    """Return the median seconds of a run of ``graph`` by onnxruntime, on one thread, repeated for about ``seconds``."""
    return measured(late("library").library_run(graph), seconds, _WIDTH).seconds


def libraries_s(graphs: Mapping[str, Graph], seconds: float = _SECONDS) -> dict[str, float]:
    """Return the seconds of a run of each network by onnxruntime, by its name, estimated from rounds of all of them.

    Each is repeated for about ``seconds``.
    """
    times = Times()

    def once(name: str) -> float:
        return times.of(name, lambda: library_s(graphs[name], seconds / ROUNDS))

    times.sample([partial(once, name) for name in graphs])
    return {name: once(name) for name in graphs}


def bound_s(graph: Graph, machine: Cpu) -> float:
    """Return the simulated seconds of ``graph`` on one thread of ``machine``, caches as the run before left them."""
    tuning = make_tuning(machine, {"threads": 1, "warm_caches": True})
    placing = Placing(hardware=machine, parts=1, dtype="fp32", tuning=tuning)
    job = Job(graph.name, graph.batch, placing)
    return run_graph(Analysis(graph), make_policy("fixed-pattern"), job).record.latency_s


def efficiencies(bounds_s: Mapping[str, float], taken_s: Mapping[str, float]) -> dict[str, float]:
    """Return by kind the share of the bound's speed that the library reaches, from 0.001 to 1, to three digits.

    A library that is faster than the bound of its kind counts as 1: the bound is one of our loops.
    """
    return {kind: round(min(max(bounds_s[kind] / taken_s[kind], _LEAST), 1.0), 3) for kind in taken_s}


def measured_efficiencies(machine: Cpu) -> dict[str, float]:
    """Return the efficiency of onnxruntime on this processor by kind of kernel; ``machine`` describes the processor."""
    graphs = {sample.kind: sample.graph for sample in SAMPLES}
    return efficiencies({kind: bound_s(graph, machine) for kind, graph in graphs.items()}, libraries_s(graphs))


def with_efficiencies(text: str, shares: Mapping[str, float]) -> str:
    """Return the text of a machine file with ``shares`` in front of its energies, and how they were measured."""
    day = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    stated = ", ".join(f"{kind}: {share:g}" for kind, share in shares.items())
    line = f"library_efficiency: {{{stated}}}  # measured: onnxruntime {late('library').VERSION} on one thread, {day}\n"
    before, energy, after = text.partition("energy:\n")
    return before + line + energy + after


@dataclass(frozen=True)
class _WithLibraries(CalibratedHost):
    """Facts and figures of a processor, with the efficiency of onnxruntime there by kind of kernel."""

    shares: Mapping[str, float]

    def described(self, name: str, day: str) -> DescribedHost:
        """Return the processor, measured on ``day``; raise ``HardwareError`` for figures that describe none."""
        found = super().described(name, day)
        spec = found.spec.model_copy(update={"library_efficiency": self.shares})
        return replace(found, text=with_efficiencies(found.text, self.shares), spec=spec)


def with_libraries(machine: CalibratedHost) -> CalibratedHost:
    """Return this processor with the efficiency of onnxruntime, which is measured."""
    shares = measured_efficiencies(host_spec(machine.facts, machine.figures))
    return _WithLibraries(machine.facts, machine.figures, shares)
