"""How fast design points are computed: milliseconds and instructions per second, per network and policy.

Run ``make bench``; ``--points N`` also times a sweep of N points of ResNet-50 over two processes. Every figure is the
median processor time of five runs of a network that is loaded already, nothing cached between them; the sweep is
wall time.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from pathlib import Path

from experiments.points import DesignPoint, Workload
from experiments.run import run_points
from hw_models import load_hardware, simulate, with_values
from scheduler import lower, make_policy
from workloads import load_network

NETWORKS = (("resnet50", 4), ("resnet50", 16), ("mobilenet-v2", 4), ("bert-base-128", 4), ("conformer", 3))
"""With the images that one cluster takes at once."""
POLICIES = ("unfused", "fixed-pattern", "graphturbo")
REPEATS = 5


def time_point(network: str, images: int, policy_name: str) -> tuple[float, float, float, int]:
    """Return median milliseconds of planning, lowering and simulating, and the instructions simulated."""
    spec = load_hardware("stcp920")
    policy = make_policy(policy_name)
    spent: list[tuple[float, float, float]] = []
    instructions = 0
    for _ in range(REPEATS):
        graph = load_network(network, batch=images).with_dtype("fp16")
        times = [time.process_time()]
        schedule = policy.schedule(graph, spec, "fp16")
        times.append(time.process_time())
        program = lower(schedule, spec, spec.clusters)
        times.append(time.process_time())
        simulate(program, spec)
        times.append(time.process_time())
        plan, lowering, simulation = (1e3 * (b - a) for a, b in itertools.pairwise(times))
        spent.append((plan, lowering, simulation))
        instructions = len(program.instructions)
    plan, lowering, simulation = (statistics.median(column) for column in zip(*spent, strict=True))
    return plan, lowering, simulation, instructions


def time_sweep(points: int, workers: int) -> float:
    """Return the seconds that ``points`` points of ResNet-50 under graphturbo take, results stored one by one."""
    base = load_hardware("stcp920")
    policy = make_policy("graphturbo")
    side = max(int(points**0.5), 1)
    tried = []
    for number in range(points):
        values = {
            "local_buffer.capacity": f"{640 + 64 * (number % side)} KiB",
            "ddr.bandwidth": f"{60 + 5 * (number // side)} GB/s",
        }
        tried.append(DesignPoint(Workload("resnet50", 16), with_values(base, values), policy, values))
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        run_points(tried, Path(folder), workers)
        return time.perf_counter() - started


def main() -> None:
    """Print the table, and the sweep if asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=0, metavar="N")
    parser.add_argument("--workers", type=int, default=2, metavar="N")
    arguments = parser.parse_args()
    print(
        f"{'network':14} {'images':>6} {'policy':14} {'plan':>8} {'lower':>8} {'simulate':>9} {'total':>8} {'instr':>7}"
        f" {'instr/s':>9}"
    )
    for network, images in NETWORKS:
        for policy in POLICIES:
            plan, lowering, simulation, count = time_point(network, images, policy)
            total = plan + lowering + simulation
            rate = count / simulation * 1e3
            print(
                f"{network:14} {images:6d} {policy:14} {plan:6.1f}ms {lowering:6.1f}ms {simulation:7.1f}ms"
                f" {total:6.1f}ms {count:7d} {rate:9.0f}"
            )
    if arguments.points:
        seconds = time_sweep(arguments.points, arguments.workers)
        rate = arguments.points / seconds
        print(
            f"sweep: {arguments.points} points of resnet50 in {seconds:.1f} s, {rate:.1f}/s,"
            f" {arguments.workers} processes"
        )


if __name__ == "__main__":
    main()
