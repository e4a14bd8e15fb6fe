"""Convolutions beside onnxruntime, by every algorithm that computes them: ``python -m benchmarks.convolutions``.

Each is between two activations, behind a pointwise convolution that is not counted, so that its data is laid out as
inside a network. One thread, batch 1, fp32, the caches warm from the previous run; all ways of computing it take turns.
Prints for each of them the measured and the predicted time, and the largest difference from onnxruntime by the largest
result. ``chosen`` is what a schedule takes by itself.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import onnxruntime

from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import Cpu, load_hardware
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.repeated import repeated_kernels
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule, kernel_by_kernel
from dsascape.scheduler.cpu.schedule.steps import steps_of
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.cut import layers_in_order
from dsascape.tuner.late import late
from dsascape.tuner.measure import Budget, job_of_schedule
from dsascape.tuner.measure.timing import measured
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.executable import drawn_inputs, executable
from dsascape.workloads.nest_by_nest import PATCHES, Algorithms, algorithms_of
from tests.graphs import Net

SHAPES = ("64x56", "128x28", "256x14", "512x7")
_LARGEST = 6
_SECONDS = 0.3
_ROUNDS = 5
_WIDTH = 0.01
"""Width of the median's confidence interval, as a share of it, at which repeating ends."""
_POSITION = 2
"""Position of the convolution among the operators."""


Way = tuple[int, bool]
"""Algorithm of a convolution, and whether it is computed in phases."""


class Shape(NamedTuple):
    """One convolution of a square image."""

    channels: int
    results: int
    side: int
    kernel: int = 3
    stride: int = 1

    @classmethod
    def read(cls, text: str) -> "Shape":
        """Return the shape written as CHANNELSxSIDE or CHANNELSxRESULTSxSIDExKERNELxSTRIDE."""
        channels, *rest = map(int, text.split("x"))
        return cls(channels, channels, *rest) if len(rest) == 1 else cls(channels, *rest)


def network(shape: Shape, *, is_alone: bool = False) -> Graph:
    """Return the convolution and its activation, behind a pointwise one unless ``is_alone``."""
    net = Net("conv")
    before = net.input(1, shape.channels, shape.side, shape.side)
    if not is_alone:
        before = net.relu(net.conv(before, shape.channels, 1))
    return net.graph(net.relu(net.conv(before, shape.results, shape.kernel, shape.stride)), dtype="fp32")


def by(schedule: CpuSchedule, costs: CpuCosts, algorithm: int, *, in_phases: bool) -> CpuSchedule:
    """Return a schedule of direct convolutions with the last one computed by ``algorithm``; 0: as it is."""
    if not algorithm:
        return schedule
    algorithms: Algorithms = frozenset({(_POSITION, algorithm)})
    phased = frozenset({_POSITION} if in_phases else ())
    groups, runs = schedule.plan.groups, []
    for kernel in schedule.runs:
        own = algorithm if kernel is schedule.runs[-1] else 0
        for layer in layers_in_order(costs.analysis, groups[kernel.group].ops, costs.transposed, algorithms, phased):
            tiling = costs.tiling_of(layer)
            steps = steps_of(layer, tiling.tiles, costs.view.lanes("fp32"))
            runs.append(replace(kernel, layer=layer, steps=steps, algorithm=own, threads=tiling.threads))
    return replace(schedule, runs=tuple(runs))


def of_onnxruntime(shape: Shape) -> Callable[[], float]:
    """Return what times the convolution and its activation in onnxruntime, optimised: the median of many runs."""
    graph = network(shape, is_alone=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = executable(graph).model().SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    given = drawn_inputs(graph)

    def run() -> float:
        begin = time.perf_counter()
        session.run(None, given)
        return time.perf_counter() - begin

    return lambda: measured(run, _SECONDS, _WIDTH).seconds


def compare(shape: Shape, hardware: Cpu) -> None:
    """Print a row for every way of computing ``shape``."""
    graph = network(shape)
    view, chosen = [
        CpuView(hardware, CpuTuning(threads=1, warm_caches=True, winograd=most)) for most in (0, 4)
    ]
    costs = CpuCosts(view, Analysis(graph), "fp32")
    direct = kernel_by_kernel(fixed_pattern_plan(graph), costs)
    by_itself = kernel_by_kernel(fixed_pattern_plan(graph), CpuCosts(chosen, costs.analysis, "fp32"))
    own = by_itself.runs[-1].algorithm, len(by_itself.runs) > len(direct.runs)
    predicted: dict[Way, float] = {}
    sessions: dict[Way, Any] = {}
    differences: dict[Way, float] = {}
    algorithms = algorithms_of(graph.ops[_POSITION], graph.tensors, "fp32", _LARGEST)
    ways = [(each, False) for each in (0, *algorithms)] + [(each, True) for each in algorithms if each > PATCHES]
    for way in ways:
        schedule = by(direct, costs, way[0], in_phases=way[1])
        sessions[way] = late("session").Session(
            job_of_schedule(schedule, view, "llvm", Budget(kernel_s=_SECONDS))
        )  # fmt: skip
        predicted[way] = repeated_kernels(schedule, costs)[1].seconds
    theirs = of_onnxruntime(shape)
    took: dict[Way, list[float]] = {way: [] for way in sessions}
    ours = []
    for _ in range(_ROUNDS):
        ours.append(theirs())
        for way, session in sessions.items():
            made = session.kernel(1)
            differences[way] = made.deviation
            took[way].append(float("nan") if made.timing is None else made.timing.seconds)
    name = "x".join(map(str, shape))
    print(f"| {name} | onnxruntime | {statistics.median(ours) * 1e3:.3f} | | 1.00 | |")
    for way, times in took.items():
        how = {0: "direct", PATCHES: "patches"}.get(way[0], f"F({way[0]}, 3){', in phases' if way[1] else ''}")
        seconds = statistics.median(times)
        print(
            f"| {name} | {how}{', chosen' if way == own else ''} | {seconds * 1e3:.3f} |"
            f" {predicted[way] * 1e3:.3f} | {seconds / statistics.median(ours):.2f} |"
            f" {differences[way]:.0e} |",
            flush=True,
        )


def main(argv: Sequence[str] | None = None) -> None:
    """Measure every shape by every algorithm, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "shapes", nargs="*", default=SHAPES, metavar="SHAPE",
        help="CHANNELSxSIDE, of a convolution of 3x3, or CHANNELSxRESULTSxSIDExKERNELxSTRIDE",
    )  # fmt: skip
    parser.add_argument("--hardware", default="epyc", help="preset, or a file such as calibrate writes")
    asked = parser.parse_args(argv)
    os.environ["TVM_NUM_THREADS"] = "1"
    hardware = load_hardware(asked.hardware, Cpu)
    print("| shape | computed | measured [ms] | predicted [ms] | of onnxruntime's | difference |")
    print("|---|---|---|---|---|---|")
    for text in asked.shapes:
        compare(Shape.read(text), hardware)


if __name__ == "__main__":
    main()
