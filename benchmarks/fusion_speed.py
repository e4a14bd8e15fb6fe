"""Seconds that a policy takes to plan the networks of the zoo: ``python -m benchmarks.fusion_speed``.

``[--policy P] [--hardware H ...] [--networks NAME ...]``. Processor seconds of planning a network at its own batch,
without cached analyses; the import is not included, rewriting is. Small networks come first. Ends with exit code 1 if
any takes longer than the target.
"""

import argparse
import sys
import time

from dsascape.experiments.point.evaluate import job_of
from dsascape.experiments.question.points import Workload, policy_of
from dsascape.hw_models import AnyHardware, load_hardware
from dsascape.scheduler import Policy, make_network, make_plan
from dsascape.workloads import load_network, zoo_names
from dsascape.workloads.analysis import Analysis

MACHINES = ("snapdragon865", "adreno650", "stcp920")
AIM_S = 2.0


def time_plan(network: str, policy: Policy, spec: AnyHardware) -> float:
    """Print one row; return the seconds of planning."""
    analysis, job = job_of(Workload(network), spec, {})
    unknown = Analysis(analysis.graph)
    started = time.process_time()
    plan = make_plan(policy, job.placing, job.placing.costs(make_network(policy, unknown)))
    seconds = time.process_time() - started
    print(f"{network:26} {len(analysis.graph.ops):5} {spec.name:14} {plan.kernels:7} {seconds:7.2f} s", flush=True)
    return seconds


def main() -> int:
    """Print the table, and how many of its rows miss the aim; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", default="dnnfusion", metavar="P")
    parser.add_argument("--networks", nargs="+", default=zoo_names(), metavar="NAME")
    parser.add_argument("--hardware", nargs="+", default=MACHINES, metavar="H")
    arguments = parser.parse_args()
    policy = policy_of(arguments.policy)
    machines = [load_hardware(name) for name in arguments.hardware]
    print(f"{'network':26} {'nodes':>5} {'machine':14} {'kernels':>7} {'planning':>9}")
    by_size = sorted(arguments.networks, key=lambda name: len(load_network(name).ops))
    late = [seconds for name in by_size for spec in machines if (seconds := time_plan(name, policy, spec)) > AIM_S]
    print(f"above {AIM_S} s: {len(late)}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
