"""Chains of convolutions and products in one kernel and in several: ``python -m benchmarks.fused_chains --hardware H``.

Measures the gain of kernels with several anchors, and how well it is predicted. No network of the zoo has these shapes,
so that networks remain an independent check. Each chain is placed between two pointwise convolutions, or products, that
are not counted, so that its data is laid out as inside a network. One thread, with the caches warm from the previous
run. Needs a machine file from ``dsascape calibrate``.
"""

import argparse
import os
from collections.abc import Callable, Sequence

from dsascape.fusion import fixed_pattern_plan, plan_from_groups
from dsascape.fusion.plan import FusionPlan, Group
from dsascape.hw_models import Cpu, load_hardware
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.repeated import repeated_kernels
from dsascape.scheduler.cpu.schedule.schedule import kernel_by_kernel
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.tuner.late import late
from dsascape.tuner.measure import Budget, job_of_schedule
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net

IMAGE_RANK = 4


def _pointwise(net: Net, x: str, channels: int) -> str:
    return net.relu(net.bias(net.conv(x, channels, 1)))


def _depthwise(net: Net, x: str, kernel: int = 3, stride: int = 1) -> str:
    return net.relu(net.bias(net.depthwise(x, kernel, stride)))


def _gated(net: Net, x: str) -> str:
    return net.binary("Mul", x, net.unary("Sigmoid", x))


Chain = tuple[tuple[int, ...], Callable[[Net, str], str]]
CHAINS: dict[str, Chain] = {
    "pointwise, depthwise": ((24, 28, 28), lambda n, x: _depthwise(n, _pointwise(n, x, 144))),
    "pointwise, depthwise with stride": ((24, 40, 40), lambda n, x: _depthwise(n, _pointwise(n, x, 144), 3, 2)),
    "pointwise, depthwise, large": ((16, 96, 96), lambda n, x: _depthwise(n, _pointwise(n, x, 64))),
    "pointwise, depthwise 5 x 5": ((48, 20, 20), lambda n, x: _depthwise(n, _pointwise(n, x, 288), 5)),
    "pointwise, depthwise, small": ((128, 10, 10), lambda n, x: _depthwise(n, _pointwise(n, x, 512))),
    "pointwise, depthwise, 72 channels": ((24, 44, 44), lambda n, x: _depthwise(n, _pointwise(n, x, 72))),
    "pointwise, depthwise, gated": ((24, 44, 44), lambda n, x: _gated(n, n.depthwise(_gated(n, n.conv(x, 64, 1))))),
    "depthwise, pointwise": ((96, 48, 48), lambda n, x: n.conv(_depthwise(n, x), 24, 1)),
    "depthwise, pointwise, small": ((240, 20, 20), lambda n, x: n.conv(_depthwise(n, x), 48, 1)),
    "depthwise, pointwise, large": ((32, 80, 80), lambda n, x: n.conv(_depthwise(n, x), 16, 1)),
    "depthwise, pointwise, 72 channels": ((72, 32, 32), lambda n, x: n.conv(_depthwise(n, x), 32, 1)),
    "depthwise 5 x 5, pointwise": ((96, 32, 32), lambda n, x: n.conv(_depthwise(n, x, 5), 32, 1)),
    "depthwise, pointwise, gated": ((64, 44, 44), lambda n, x: n.conv(_gated(n, n.depthwise(x)), 32, 1)),
    "three of them": ((24, 28, 28), lambda n, x: n.conv(_depthwise(n, _pointwise(n, x, 144)), 24, 1)),
    "three, with stride": ((24, 40, 40), lambda n, x: n.conv(_depthwise(n, _pointwise(n, x, 144), 3, 2), 40, 1)),
    "three of them, small": ((80, 12, 12), lambda n, x: n.conv(_depthwise(n, _pointwise(n, x, 480)), 80, 1)),
    "3 x 3, pointwise": ((32, 56, 56), lambda n, x: n.conv(n.relu(n.conv(x, 64)), 32, 1)),
    "3 x 3, pointwise, gated": ((32, 32, 32), lambda n, x: _gated(n, n.conv(_gated(n, n.conv(x, 64)), 32, 1))),
    "3 x 3, 3 x 3": ((16, 48, 48), lambda n, x: n.conv(n.relu(n.conv(x, 32)), 16)),
    "pointwise, pointwise": ((48, 32, 32), lambda n, x: n.conv(_pointwise(n, x, 192), 48, 1)),
    "product, product": ((128, 192), lambda n, x: n.dense(n.relu(n.dense(x, 384)), 192)),
    "product, product, small": ((64, 96), lambda n, x: n.dense(n.relu(n.dense(x, 128)), 64)),
}  # fmt: skip


def network_of(chain: Chain) -> Graph:
    """Return ``chain`` between two layers of its own kind."""
    shape, make = chain
    net = Net("chain")
    if len(shape) + 1 == IMAGE_RANK:
        y = make(net, net.relu(net.conv(net.input(1, 8, *shape[1:]), shape[0], 1)))
        return net.graph(net.conv(y, 4, 1), dtype="fp32")
    y = make(net, net.relu(net.dense(net.input(1, shape[0], 8), shape[1])))
    return net.graph(net.dense(y, 4), dtype="fp32")


def in_one_kernel(graph: Graph) -> FusionPlan:
    """Return the plan with all but the first layer and the last operator in one kernel."""
    last = len(graph.ops) - 1
    return plan_from_groups(graph, [Group((0, 1)), Group(tuple(range(2, last))), Group((last,))])


def times_s(plan: FusionPlan, view: CpuView) -> tuple[float, float]:
    """Return the seconds, measured and predicted, of all kernels but the first and the last."""
    costs = CpuCosts(view, Analysis(plan.graph), "fp32")
    schedule = kernel_by_kernel(plan, costs)
    predicted = repeated_kernels(schedule, costs)
    session = late("session").Session(job_of_schedule(schedule, view, "llvm", Budget()))
    measured = [session.kernel(place) for place in range(len(schedule.runs))][1:-1]
    taken = [each.timing.seconds if each.timing is not None else float("nan") for each in measured]
    return sum(taken), sum([predicted[kernel.group].seconds for kernel in schedule.runs[1:-1]])


def main(asked: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hardware", required=True)
    os.environ["TVM_NUM_THREADS"] = "1"  # read when TVM is imported
    spec = load_hardware(parser.parse_args(asked).hardware, Cpu)
    view = CpuView(spec, CpuTuning(threads=1, winograd=0))
    print("| chain | apart [µs] | predicted | error | in one kernel [µs] | predicted | error | gain | predicted |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, chain in CHAINS.items():
        graph = network_of(chain)
        apart, one = (times_s(plan, view) for plan in (fixed_pattern_plan(graph), in_one_kernel(graph)))
        figures = [f"{found * 1e6:.1f} | {said * 1e6:.1f} | {said / found - 1:+.0%}" for found, said in (apart, one)]
        gains = f"{apart[0] / one[0]:.2f} | {apart[1] / one[1]:.2f}"
        print(f"| {name} | {figures[0]} | {figures[1]} | {gains} |", flush=True)


if __name__ == "__main__":
    main()
