"""What a larger Td than the paper's gains and costs: networks on a machine of each kind, simulated.

``python -m dsascape.experiments.papers.ago_thresholds RESULTS``: times what has no row in RESULTS yet, and prints the
table. Planning is timed in processor seconds, without analyses that an earlier run has left.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dsascape.experiments.papers.graphturbo_tables import geometric_mean, markdown
from dsascape.experiments.point.evaluate import job_of
from dsascape.experiments.question.points import Workload, policy_of
from dsascape.hw_models import load_hardware
from dsascape.scheduler import evaluate_network, kind_of, make_network
from dsascape.workloads.analysis import Analysis

NETWORKS = ("squeezenet", "bert-tiny", "mobilenet-v2", "resnet18", "shufflenet-v2")
MACHINES = ("kirin990", "adreno650", "stcp920")
POLICIES: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "fixed-pattern": ("fixed-pattern", {}),
    "ago": ("ago", {}),
    "any two": ("ago", {"threshold": "any-two"}),
}
"""Policies by their name in the table: (name, options)."""
_ROWS = "thresholds.jsonl"
_MICRO = 1e6

Row = Mapping[str, str | float]
"""Network, machine and policy; ``latency_s``, simulated; ``planning_s``, of the processor; ``kernels``."""


def measured(network: str, machine: str, policy: str) -> Row:
    """Return one row: a DSA has one image on each of its clusters."""
    spec, chosen = load_hardware(machine), policy_of(*POLICIES[policy])
    analysis, job = job_of(Workload(network, batch=kind_of(spec).parts(spec)), spec, {})
    unknown = Analysis(analysis.graph)
    started = time.process_time()
    found = evaluate_network(chosen, job.placing, job.placing.costs(make_network(chosen, unknown)))
    planning_s = time.process_time() - started
    return {
        "network": network, "machine": machine, "policy": policy, "latency_s": found.result.makespan_ps * 1e-12,
        "planning_s": planning_s, "kernels": found.plan.kernels,
    }  # fmt: skip


def rows(folder: Path) -> list[Row]:
    """Return the rows in ``folder``."""
    path = folder / _ROWS
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def run_missing(folder: Path) -> None:
    """Measure what has no row in ``folder``, small networks first."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {(row["network"], row["machine"], row["policy"]) for row in rows(folder)}
    for network in NETWORKS:
        for machine in MACHINES:
            for policy in POLICIES:
                if (network, machine, policy) not in known:
                    line = json.dumps(measured(network, machine, policy))
                    with (folder / _ROWS).open("a", encoding="utf-8") as file:
                        file.write(f"{line}\n")


def table(measured_rows: Iterable[Row]) -> str:
    """Return a table of times and planning times under both thresholds, with geometric means by machine."""
    by = {(row["machine"], row["network"], row["policy"]): row for row in measured_rows}
    lines: list[Sequence[object]] = []
    said = []
    for machine in MACHINES:
        ratios: list[tuple[float, float]] = []
        for network in NETWORKS:
            found = [by.get((machine, network, policy)) for policy in POLICIES]
            relay, paper, larger = found
            if relay is None or paper is None or larger is None:
                continue
            times_s, plannings_s = (
                [float(row[key]) for row in (relay, paper, larger)] for key in ("latency_s", "planning_s")
            )
            ratios.append((times_s[2] / times_s[1], plannings_s[2] / plannings_s[1]))
            lines.append((
                machine, network, *[_MICRO * each for each in times_s], 100 * (1 - ratios[-1][0]), plannings_s[1],
                plannings_s[2], ratios[-1][1],
            ))  # fmt: skip
        if ratios:
            time_ratio, planning_ratio = (geometric_mean(list(column)) or 0.0 for column in zip(*ratios, strict=True))
            said.append(
                f"On `{machine}` the larger Td takes {time_ratio:.3f} times as long as the fitted one in the mean, and"
                f" {planning_ratio:.1f} times as long to plan."
            )
    columns = (
        "machine", "network", "fixed-pattern [us]", "ago [us]", "any two [us]", "gain of any two [%]",
        "planning, ago [s]", "planning, any two [s]", "times as long to plan",
    )  # fmt: skip
    return "\n\n".join([markdown(columns, lines), *said])


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is missing, and print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, metavar="RESULTS")
    folder = parser.parse_args(argv).results
    run_missing(folder)
    sys.stdout.write(f"{table(rows(folder))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
