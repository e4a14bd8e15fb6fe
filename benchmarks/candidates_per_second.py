"""How many candidates of a kernel are built, checked and timed: ``python -m benchmarks.candidates_per_second``.

The candidates are programs of two kernels of a network, the first pointwise convolution and the first depthwise one,
drawn as in `benchmarks.random_programs`: they differ in the sizes and orders of their tiles. The machine is to be idle.
"""

import argparse
import itertools
import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks.random_programs import drawn
from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import Cpu, load_hardware
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.schedule import CpuKernel, kernel_by_kernel
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.tuner.measure import LOCAL, CandidateResult, CandidateRunner, KernelTask, usable_cores
from dsascape.workloads import load_network
from dsascape.workloads.analysis import Analysis

AIM = 8.0
"""Candidates a second, without the time in which they run."""


def kernels(network: str, view: CpuView) -> Iterator[tuple[str, CpuKernel]]:
    """Yield the first pointwise and the first depthwise convolution of a network, and which it is."""
    graph = load_network(network).with_dtype("fp32")
    wanted = {"pointwise", "depthwise"}
    for kernel in kernel_by_kernel(fixed_pattern_plan(graph), CpuCosts(view, Analysis(graph), "fp32")).runs:
        for kind in {_kind(kernel, op) for op in kernel.layer.ops} & wanted:
            wanted.remove(kind)
            yield kind, kernel


def _kind(kernel: CpuKernel, position: int) -> str:
    op = kernel.layer.graph.ops[position]
    if op.kind != "Conv":
        return ""
    _, channels, *window = kernel.layer.graph.tensors[op.inputs[1]].shape
    if channels == 1:
        return "depthwise"
    return "pointwise" if max(window) == 1 else ""


def report(kind: str, results: Sequence[CandidateResult], wall_s: float) -> None:
    """Print one row."""
    timed = [each.seconds for each in results if each.seconds is not None]
    spent = [each.spent for each in results if each.spent is not None]
    running_s = sum(each.running_s for each in spent)
    parts = [
        1e3 * statistics.fmean(figure)
        for figure in (
            [each.code_s for each in spent], [each.build_s for each in spent], [each.check_s for each in spent],
            [each.timing_s for each in spent], [each.running_s for each in spent],
        )
    ]  # fmt: skip
    cells = [
        kind, f"{len(timed)} of {len(results)}", f"{1e3 * min(timed):.3f} to {1e3 * max(timed):.3f}",
        f"{len(results) / wall_s:.1f}", f"{len(results) / (wall_s - running_s):.1f}",
        *[f"{each:.1f}" for each in parts],
    ]  # fmt: skip
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", nargs="?", default="mobilenet-v2")
    parser.add_argument("--hardware", default="epyc")
    parser.add_argument("--candidates", type=int, default=40)
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--device", default=LOCAL)
    asked = parser.parse_args()
    view = CpuView(load_hardware(asked.hardware, Cpu), CpuTuning(threads=asked.threads, winograd=0))
    found = dict(kernels(asked.network, view))
    tasks = [
        KernelTask(kernel.layer.graph, kernel.layer.ops, asked.threads, device=asked.device)
        for kernel in found.values()
    ]
    with CandidateRunner() as runner:
        begin = time.perf_counter()
        prepared = runner.prepare(tasks)
        print(f"process, weights and reference results: {time.perf_counter() - begin:.1f} s\n")
        print(f"| kernel | timed | ms | a second | without running (aim: {AIM:g}) | code ms | build | check | timing |"
              " of both, running |")  # fmt: skip
        print(f"|{'---|' * 10}")
        for (kind, kernel), task in zip(found.items(), prepared, strict=True):
            candidates = list(itertools.islice(drawn(kernel, view, random.Random(0)), asked.candidates))
            begin = time.perf_counter()
            results = list(runner.results(task, candidates))
            report(kind, results, time.perf_counter() - begin)
            for reason, number in Counter(each.reason for each in results if each.reason).items():
                print(f"  {number}: {reason}")


if __name__ == "__main__":
    main()
