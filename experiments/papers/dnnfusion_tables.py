"""DNNFusion's evaluation, ours compared with the paper's.

``python -m dsascape.experiments.papers.dnnfusion_tables RESULTS [OUT.md]``: runs the experiment files of
``experiments/papers/dnnfusion`` into RESULTS, one folder each, and compares their figures with the paper's. Layer
counts and intermediate results before fusion are computed from the networks, without running them.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from dsascape.experiments.papers.dnnfusion_figures import (
    ALWAYS_REWRITTEN,
    DEVICES,
    EITHER_ORDER,
    OLDER,
    WHOLE,
    WITHOUT_REWRITING,
    figure,
    figure7,
    figure8,
    figure9,
    figure10,
    gained,
    ratio,
)
from dsascape.experiments.papers.dnnfusion_times import explained
from dsascape.experiments.papers.graphturbo_tables import Results, markdown, relative
from dsascape.experiments.papers.running import run_and_write
from dsascape.experiments.point.pipeline import plan_of
from dsascape.experiments.question.points import policy_of
from dsascape.fusion import FusionPlan, unfused_intermediate_bytes
from dsascape.hw_models import load_hardware
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.scheduler import Placing
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis

FOLDER = Path(__file__).parent / "dnnfusion"
EXPERIMENTS = ("table6", "fig7", "fig10")
MACHINE = "snapdragon865"
_DTYPE = "fp32"
_MEGA, _GIGA, _MS = 1e6, 1e9, 1e3


@lru_cache(maxsize=64)
def network(name: str) -> Graph:
    """Return the raw export ("NAME-raw" in the zoo) of a network."""
    return load_network(f"{name}-raw")


@lru_cache(maxsize=256)
def plan(name: str, policy: str) -> FusionPlan:
    """Return the fusion plan of a policy with its default options for the CPU of the paper's phone.

    Convolutions are direct, as the paper's are.
    """
    placing = Placing(hardware=load_hardware(MACHINE), parts=1, dtype=_DTYPE, tuning=CpuTuning(winograd=0))
    return plan_of(Analysis(network(name)), policy_of(policy), placing)


def table5_counts(paper: Mapping[str, Any]) -> str:
    """Return the layer counts of Table 5 as a table: before fusion, under TVM's rule and under DNNFusion."""
    rows = []
    for name, printed in paper["networks"].items():
        before, tvm = len(network(name).ops), plan(name, "fixed-pattern").kernels
        ours = plan(name, "dnnfusion").kernels
        rows.append(
            (
                name, printed["layers"], before, relative(before, printed["layers"]),
                printed["tvm"], tvm, relative(tvm, printed["tvm"]),
                printed["dnnf"], ours, relative(ours, printed["dnnf"]),
            )
        )  # fmt: skip
    columns = (
        "network", "layers, paper", "ours", "difference", "TVM, paper", "fixed-pattern", "difference",
        "DNNF, paper", "dnnfusion", "difference",
    )  # fmt: skip
    return markdown(columns, rows)


def table5_sizes(paper: Mapping[str, Any]) -> str:
    """Return the intermediate results of Table 5 as a table, before and after fusion, in megabytes."""
    rows = []
    for name, printed in paper["networks"].items():
        before = unfused_intermediate_bytes(network(name)) / _MEGA
        after = plan(name, "dnnfusion").intermediate_bytes / _MEGA
        tvm = plan(name, "fixed-pattern").intermediate_bytes / _MEGA
        rows.append(
            (
                name, printed["irs_mb"], before, relative(before, printed["irs_mb"]), tvm,
                printed["irs_after_mb"], after, relative(after, printed["irs_after_mb"]),
            )
        )  # fmt: skip
    columns = (
        "network", "before, paper [MB]", "ours [MB]", "difference", "fixed-pattern [MB]", "DNNF, paper [MB]",
        "dnnfusion [MB]", "difference",
    )  # fmt: skip
    return markdown(columns, rows)


def table6_sizes(paper: Mapping[str, Any]) -> str:
    """Return Table 6's parameters and FLOPs as a table, with the FLOPs and operators left after rewriting."""
    rows = []
    for name, printed in paper["networks"].items():
        graph, rewritten = network(name), plan(name, "dnnfusion")
        params, gflop = graph.parameters / _MEGA, graph.operations.flops / _GIGA
        rows.append(
            (
                name, printed["params_m"], params, relative(params, printed["params_m"]), printed["gflop"], gflop,
                relative(gflop, printed["gflop"]), rewritten.graph.operations.flops / _GIGA,
                len(graph.ops) - len(rewritten.graph.ops),
            )
        )  # fmt: skip
    columns = (
        "network", "parameters, paper [M]", "ours [M]", "difference", "FLOPs, paper [G]", "ours [G]", "difference",
        "after rewriting [G]", "operators fewer",
    )  # fmt: skip
    return markdown(columns, rows)


def table6_times(paper: Mapping[str, Any], results: Results, device: str = "cpu") -> str:
    """Return Table 6's latencies on the phone's ``device`` ("cpu" or "gpu") in milliseconds, and fusion's speed-up."""
    keys = [f"{'gpu_' if device == 'gpu' else ''}{key}" for key in ("ourb_ms", "ourb_plus_ms", "dnnf_ms")]
    rows = []
    gains: list[float | None] = []
    for name, printed in paper["networks"].items():
        policies = ("unfused", "fixed-pattern", WHOLE)
        times = [figure(results, "latency_s", f"{name}-raw", policy, _MS) for policy in policies]
        gains.append(ratio(times[1], times[2]))
        paper_ms = [printed[key] for key in keys]
        pairs = [cell for pair in zip(paper_ms, times, strict=True) for cell in pair]
        either = figure(results, "latency_s", f"{name}-raw", EITHER_ORDER, _MS)
        rows.append((name, *pairs, ratio(paper_ms[1], paper_ms[2]), gains[-1], either))
    columns = (
        "network", "OurB, paper [ms]", "unfused [ms]", "OurB+, paper [ms]", "fixed-pattern [ms]", "DNNF, paper [ms]",
        "dnnfusion [ms]", "OurB+ ÷ DNNF, paper", "ours", "with first: faster [ms]",
    )  # fmt: skip
    return f"{markdown(columns, rows)}\n\n{gained(gains, paper['over_ourb_plus'][device])}"


def rewriting(paper: Mapping[str, Any], results: Results) -> str:
    """Return a table of kernels, DRAM traffic and time per network without rewriting, with it, and if profitable."""
    shown = (("kernels", 1.0), ("traffic_bytes.dram", 1 / _MEGA), ("latency_s", _MS))
    rows = [
        (
            name,
            *(
                figure(results, column, f"{name}-raw", policy, scale)
                for policy in (WITHOUT_REWRITING, ALWAYS_REWRITTEN, WHOLE)
                for column, scale in shown
            ),
        )
        for name in paper["networks"]
    ]
    columns = (
        "network", "kernels without", "DRAM [MB]", "time [ms]", "kernels with", "DRAM [MB]", "time [ms]",
        "kernels where it gains", "DRAM [MB]", "time [ms]",
    )  # fmt: skip
    return markdown(columns, rows)


def page(folder: Path) -> str:
    """Return the page on DNNFusion as Markdown, from the results in ``folder`` (one folder per experiment file)."""
    paper = read_yaml(FOLDER / "paper.yaml")
    latencies = {machine: Results.read(folder, ["table6"], machine) for machine in DEVICES}
    steps = {machine: Results.read(folder, ["fig7"], machine) for machine in DEVICES}
    older = {machine: Results.read(folder, ["fig10"], machine) for machine in OLDER}
    parts = [
        (FOLDER / "introduction.md").read_text(encoding="utf-8").rstrip(),
        f"## Table 5: layers\n\n{table5_counts(paper)}",
        f"## Table 5: intermediate results\n\n{table5_sizes(paper)}",
        f"## Table 6: parameters and operations\n\n{table6_sizes(paper)}",
        *(
            f"## Table 6: time on {machine}, the phone's {device.upper()}\n\n"
            f"{table6_times(paper, latencies[machine], device)}"
            for machine, device in DEVICES.items()
        ),
        f"## Table 6: what the paper's times of unfused networks grow with\n\n{explained(paper)}",
        f"## Fig. 7: what each step gains over the one before\n\n{figure7(paper, steps)}",
        "## Rewriting, never, always and where the plan gains, in every network (CPU)\n\n"
        f"{rewriting(paper, latencies[MACHINE])}",
        f"## Fig. 8: bytes through each level, YOLO-V4, by those of dnnfusion\n\n{figure8(latencies)}",
        f"## Fig. 9 (a): cores busy, YOLO-V4\n\n{figure9(latencies)}",
        f"## Fig. 10: older phones\n\n{figure10(older)}",
    ]
    return "\n\n".join(parts) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the points that have no result yet, and write the page; return the exit code."""
    return run_and_write(FOLDER, EXPERIMENTS, page, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
