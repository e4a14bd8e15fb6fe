"""Comparison of ``searched`` with every other policy, on every network of the zoo and one machine of each kind.

``python -m benchmarks.searched_over_zoo [--networks NAME ...] [--hardware H ...]``. A row has, for each policy, its
simulated time by that of ``searched`` and the processor seconds that planning took, rewriting and all that is derived
from the network included; then what ``searched`` says of its plan. Small networks come first. A DSA has one image on
each of its clusters. Ends with exit code 1 if any other policy is faster.
"""

import argparse
import sys
import time
from dataclasses import dataclass

from dsascape.experiments.point.evaluate import job_of
from dsascape.experiments.question.points import Workload, policy_of
from dsascape.hw_models import AnyHardware, load_hardware
from dsascape.scheduler import (
    Placing,
    ScheduleError,
    evaluate_network,
    kind_of,
    make_network,
)
from dsascape.workloads import load_network, zoo_names
from dsascape.workloads.analysis import Analysis

MACHINES = ("kirin990", "adreno650", "stcp920")
POLICIES = ("searched", "unfused", "fixed-pattern", "dnnfusion", "ago", "astitch", "graphturbo")
_SHOWN_IN = 17


@dataclass(frozen=True, slots=True)
class Planned:
    """Result of a policy on one network."""

    makespan_ps: int
    policy_s: float
    """Processor time of planning, scheduling and simulating, in seconds."""
    origin: str


def run(analysis: Analysis, name: str, placing: Placing) -> Planned | None:
    """Return the result of a policy without any cached analyses; None if it cannot run."""
    policy = policy_of(name)
    if placing.hardware.kind not in getattr(policy, "kinds", (placing.hardware.kind,)):
        return None
    started = time.process_time()
    costs = placing.costs(make_network(policy, analysis))
    try:
        evaluated = evaluate_network(policy, placing, costs)
        taken_s = time.process_time() - started
    except ScheduleError as error:
        print(f"    {name}: {error}")
        return None
    return Planned(evaluated.result.makespan_ps, taken_s, evaluated.plan.origin)


def compare(network: str, spec: AnyHardware) -> bool:
    """Print one row; return whether ``searched`` is beaten."""
    workload = Workload(network, batch=kind_of(spec).parts(spec))
    analysis, job = job_of(workload, spec, {})
    found = {name: run(Analysis(analysis.graph), name, job.placing) for name in POLICIES}
    searched = found["searched"]
    cells, beaten = [], []
    for name, planned in found.items():
        if planned is None:
            cells.append("-")
            continue
        ratio = planned.makespan_ps / searched.makespan_ps if searched else 0.0
        beaten += [name] * (ratio < 1)
        cells.append(f"{ratio:.3f} in {planned.policy_s:.1f} s")
    row = "".join(f"{cell:>{_SHOWN_IN}}" for cell in cells)
    said = f"BEATEN by {', '.join(beaten)}" if beaten else searched.origin if searched else ""
    print(f"{network:26} {len(analysis.graph.ops):5} {spec.name:11}{row}  {said}", flush=True)
    return bool(beaten)


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=zoo_names(), metavar="NAME")
    parser.add_argument("--hardware", nargs="+", default=MACHINES, metavar="H")
    arguments = parser.parse_args()
    machines = [load_hardware(name) for name in arguments.hardware]
    heading = "".join(f"{name:>{_SHOWN_IN}}" for name in POLICIES)
    print(f"{'network':26} {'nodes':>5} {'machine':11}{heading}", flush=True)
    by_size = sorted(arguments.networks, key=lambda name: len(load_network(name).ops))
    beaten = sum([compare(network, spec) for network in by_size for spec in machines])
    print(f"rows in which searched is beaten: {beaten}")
    return 1 if beaten else 0


if __name__ == "__main__":
    sys.exit(main())
