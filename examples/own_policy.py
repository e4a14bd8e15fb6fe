"""A compiler engineer's own fusion policy, up to measured code.

    python examples/own_policy.py

The policy below joins each operator to the kernel before it where the machine says that one kernel is faster than two.
It is compared with two built-in policies on a simulated CPU; then TVM generates code for its plan, the results of every
kernel are compared with onnxruntime's, and its time on this machine is printed. Where TVM is not installed
(``pip install 'dsascape[tvm]'``) the last part is left out, and says so.

This file is all that a policy takes: ``dsascape simulate resnet18 --policy examples/own_policy.py`` runs it too.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from pydantic.dataclasses import dataclass

import dsascape
from dsascape.fusion import FusionPlan, Group, KernelCosts, plan_from_groups
from dsascape.workloads import Graph

NETWORK, MACHINE = "bert-tiny", "kirin990"


@dataclass(frozen=True, kw_only=True)
class Greedy:
    """Joins each operator to the kernel that makes its input, while that gains at least ``least_gain`` of the time."""

    name: ClassVar[str] = "greedy"
    least_gain: float = 0.0
    """Share of the separate kernels' time; 0.1 joins only what is a tenth faster together."""

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
        """Return the groups: operators in order, each asked once."""
        groups: list[list[int]] = []
        for op in range(len(graph.ops)):
            last = groups[-1] if groups else []
            reads_last = any(graph.producer.get(name) in last for name in graph.ops[op].inputs)
            if reads_last and self._gains([*last, op], [last, [op]], costs):
                last.append(op)
            else:
                groups.append([op])
        return plan_from_groups(graph, [Group(tuple(ops), "the next operator gains nothing here") for ops in groups])

    def _gains(self, together: list[int], apart: list[list[int]], costs: KernelCosts) -> bool:
        separate_s = sum(costs.kernel_s(ops) for ops in apart)
        return costs.kernel_s(together) <= separate_s * (1 - self.least_gain)


def compare() -> None:
    """Print the simulated times of three policies."""
    print(f"{NETWORK} on {MACHINE}, simulated")
    for policy in ("unfused", "fixed-pattern", Greedy()):
        record = dsascape.simulate(NETWORK, MACHINE, policy, batch=1).record
        print(f"  {record.policy:<14} {record.kernels:>3} kernels {record.latency_s * 1e3:7.3f} ms")


def measure() -> None:
    """Generate code for the plan, measure it on one core of this machine, and print the slowest kernels."""
    if importlib.util.find_spec("tvm") is None or importlib.util.find_spec("onnxruntime") is None:
        print("TVM or onnxruntime is not installed, so nothing is measured: pip install 'dsascape[tvm]'")
        return
    command = [sys.executable, "-m", "dsascape", "measure", NETWORK, "--dtype", "fp32"]
    command += ["--policy", str(Path(__file__).resolve()), "--threads", "1", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if not ran.stdout:
        sys.exit(ran.stderr)
    measurement = json.loads(ran.stdout)
    verdict = "all results as onnxruntime's" if measurement["correct"] else "some results are wrong or missing"
    print(f"{NETWORK}, measured on one core of this machine")
    print(f"  {measurement['measured_s'] * 1e3:.3f} ms, {verdict}; the slowest kernels:")
    for kernel in sorted(measurement["kernels"], key=lambda each: -each["measured_s"])[:3]:
        print(f"  {kernel['measured_s'] * 1e6:7.1f} us  {' + '.join(kernel['operators'])[:90]}")


if __name__ == "__main__":
    compare()
    measure()
