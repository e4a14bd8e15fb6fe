"""Speed of design points: milliseconds and simulated instructions per second, per network and policy.

Run ``make bench``. Every figure is the median processor time of five runs of a network that is loaded already, nothing
cached between them.
"""

import itertools
import statistics
import time
from dataclasses import dataclass

from dsascape.hw_models import ClusteredDsa, load_hardware, simulate
from dsascape.scheduler import Placing, make_plan, make_policy, make_schedule
from dsascape.workloads import load_network
from dsascape.workloads.analysis import Analysis

NETWORKS = (("resnet50", 4), ("resnet50", 16), ("mobilenet-v2", 4), ("bert-base-128", 4), ("conformer", 3))
"""Networks of the benchmark, each with its batch per cluster."""
POLICIES = ("unfused", "fixed-pattern", "graphturbo")
REPEATS = 5


@dataclass(frozen=True)
class Spent:
    """Median milliseconds of each stage, and the instructions simulated."""

    plan: float
    schedule: float
    lower: float
    simulate: float
    instructions: int

    @property
    def total(self) -> float:
        return self.plan + self.schedule + self.lower + self.simulate

    @property
    def instructions_per_s(self) -> float:
        return self.instructions / self.simulate * 1e3


def time_point(network: str, images: int, policy_name: str) -> Spent:
    """Return the time of each stage of a design point."""
    spec, policy = load_hardware("stcp920", ClusteredDsa), make_policy(policy_name)
    placing = Placing(hardware=spec, parts=spec.clusters, dtype="fp16")
    machine, energy = placing.kind.machine(spec), placing.kind.energy(spec)
    taken: list[list[float]] = []
    instructions = 0
    for _ in range(REPEATS):
        analysis = Analysis(load_network(network, batch=images).with_dtype("fp16"))
        times = [time.process_time()]
        costs = placing.costs(analysis)
        plan = make_plan(policy, placing, costs)
        times.append(time.process_time())
        schedule = make_schedule(policy, plan, placing, costs)
        times.append(time.process_time())
        program = placing.kind.lower(schedule, costs)
        times.append(time.process_time())
        simulate(program, machine, energy)
        times.append(time.process_time())
        taken.append([1e3 * (after - before) for before, after in itertools.pairwise(times)])
        instructions = len(program.instructions)
    planning, scheduling, lowering, simulating = (statistics.median(column) for column in zip(*taken, strict=True))
    return Spent(planning, scheduling, lowering, simulating, instructions)


def main() -> None:
    """Print the table."""
    print(
        f"{'network':14} {'images':>6} {'policy':14} {'plan':>9} {'schedule':>9} {'lower':>9} {'simulate':>9}"
        f" {'total':>9} {'instr':>7} {'instr/s':>8}"
    )
    for network, images in NETWORKS:
        for policy in POLICIES:
            spent = time_point(network, images, policy)
            stages = (spent.plan, spent.schedule, spent.lower, spent.simulate, spent.total)
            print(
                f"{network:14} {images:6d} {policy:14} {' '.join(f'{each:7.1f}ms' for each in stages)}"
                f" {spent.instructions:7d} {spent.instructions_per_s:8.0f}"
            )


if __name__ == "__main__":
    main()
