"""Convolutions of 3x3 beside onnxruntime, direct and by Winograd's algorithm: ``python -m benchmarks.convolutions``.

Each is between two activations, behind a pointwise convolution that is not counted, so that its data is laid out as
inside a network. One thread, batch 1, fp32, the caches warm from the previous run. Prints for every way of computing it
the measured and the predicted time, and the largest difference from onnxruntime by the largest result.
"""

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import replace

import onnxruntime

from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import Cpu, load_hardware
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.repeated import repeated_kernels
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule, kernel_by_kernel
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.cut import layers_in_order
from dsascape.tuner.late import late
from dsascape.tuner.measure import Budget, job_of_schedule
from dsascape.tuner.measure.timing import measured
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.executable import drawn_inputs, executable
from dsascape.workloads.nest_by_nest import Winograd
from tests.graphs import Net

SHAPES = ("64x56", "128x28", "256x14", "512x7")
SIZES = (0, 2, 4, 6)
_SECONDS = 2.0
_WIDTH = 0.01
"""Width of the median's confidence interval, as a share of it, at which repeating ends."""
_POSITION = 2
"""Position of the convolution of 3x3 among the operators."""


def network(channels: int, side: int) -> Graph:
    """Return the pointwise convolution and the one of 3x3, with their activations."""
    net = Net(f"conv{channels}x{side}")
    before = net.relu(net.conv(net.input(1, channels, side, side), channels, 1))
    return net.graph(net.relu(net.conv(before, channels)), dtype="fp32")


def in_tiles(schedule: CpuSchedule, costs: CpuCosts, size: int) -> CpuSchedule:
    """Return a schedule of direct convolutions with the last one in tiles of ``size``; 0: as it is."""
    if not size:
        return schedule
    winograd: Winograd = frozenset({(_POSITION, size)})
    groups, runs = schedule.plan.groups, []
    for kernel in schedule.runs:
        (layer,) = layers_in_order(costs.analysis, groups[kernel.group].ops, costs.transposed, winograd)
        tiling, own = costs.tiling_of(layer), size if kernel is schedule.runs[-1] else 0
        runs.append(replace(kernel, layer=layer, tiles=replace(tiling.tiles, winograd=own), threads=tiling.threads))
    return replace(schedule, runs=tuple(runs))


def onnxruntime_s(channels: int, side: int, seconds: float) -> float:
    """Return the seconds of the convolution and its activation in onnxruntime, optimised: the median of many runs."""
    net = Net()
    graph = net.graph(net.relu(net.conv(net.input(1, channels, side, side), channels)), dtype="fp32")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = executable(graph).model().SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    given = drawn_inputs(graph)

    def run() -> float:
        begin = time.perf_counter()
        session.run(None, given)
        return time.perf_counter() - begin

    return measured(run, seconds, _WIDTH).seconds


def main(argv: Sequence[str] | None = None) -> None:
    """Measure every shape in every tile, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", default=SHAPES, metavar="CHANNELSxSIDE")
    parser.add_argument("--hardware", default="epyc", help="preset, or a file such as calibrate writes")
    asked = parser.parse_args(argv)
    os.environ["TVM_NUM_THREADS"] = "1"
    view = CpuView(load_hardware(asked.hardware, Cpu), CpuTuning(threads=1, warm_caches=True, winograd=0))
    print("| shape | computed | measured [ms] | predicted [ms] | of onnxruntime's | difference |")
    print("|---|---|---|---|---|---|")
    for shape in asked.shapes:
        channels, side = map(int, shape.split("x"))
        graph = network(channels, side)
        costs = CpuCosts(view, Analysis(graph), "fp32")
        direct = kernel_by_kernel(fixed_pattern_plan(graph), costs)
        ours = onnxruntime_s(channels, side, _SECONDS)
        print(f"| {shape} | onnxruntime | {ours * 1e3:.2f} | | 1.00 | |", flush=True)
        for size in SIZES:
            schedule = in_tiles(direct, costs, size)
            session = late("session").Session(job_of_schedule(schedule, view, "llvm", Budget(kernel_s=_SECONDS)))
            made = session.kernel(1)
            predicted = repeated_kernels(schedule, costs)[1].seconds
            name = f"F({size}, 3)" if size else "direct"
            took = float("nan") if made.timing is None else made.timing.seconds
            print(
                f"| {shape} | {name} | {took * 1e3:.2f} | {predicted * 1e3:.2f} | {took / ours:.2f} |"
                f" {made.deviation:.0e} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
