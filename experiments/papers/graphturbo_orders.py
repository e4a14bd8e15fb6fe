"""Breadth-first and depth-first instance orders compared with the order that keeps the fewest bytes alive.

``python -m dsascape.experiments.papers.graphturbo_orders [OUT.md]`` splits each network into its instances, orders
them by every method, and writes a table. Needs OR-Tools: ``python -m pip install 'dsascape[exact]'``.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from dsascape.experiments.papers.graphturbo_tables import markdown
from dsascape.experiments.point.pipeline import plan_of, run_stages
from dsascape.hw_models import ClusteredDsa, load_hardware
from dsascape.hw_models.text.quantities import PICOSECONDS
from dsascape.scheduler import Placing, ScheduleError
from dsascape.scheduler.graphturbo.exact_order import exact_order
from dsascape.scheduler.graphturbo.instances import split_into_instances
from dsascape.scheduler.graphturbo.ordering import breadth_first, depth_first, heaviest_first, peak_live_bytes
from dsascape.scheduler.policies.graphturbo import GraphTurbo
from dsascape.workloads import load_network
from dsascape.workloads.analysis import Analysis

MACHINES = ("stcp920",)
NETWORKS = (("resnet50", 16), ("resnet50", 64), ("mobilenet-v2", 16), ("mobilenet-v2", 64), ("conformer", 4),
            ("unet", 4), ("densenet121", 8))  # fmt: skip
"""Networks of the study, each with its batch per cluster."""
EFFORT_S = 10.0
_MIB, _DTYPE = 2**20, "fp16"
_COLUMNS = (
    "Machine",
    "Network",
    "Images per cluster",
    "Instances",
    "Breadth-first [MiB]",
    "Depth-first [MiB]",
    "Heaviest first [MiB]",
    "Exact [MiB]",
    "No order needs less than [MiB]",
    "Better of BFS and DFS above exact",
    "Latency, better of both [ms]",
    "Latency, exact [ms]",
)


def orders(machines: Sequence[str], networks: Sequence[tuple[str, int]]) -> Iterator[tuple[object, ...]]:
    """Yield one row of the table (its columns: ``_COLUMNS``) per machine and network."""
    for machine in machines:
        spec = load_hardware(machine, ClusteredDsa)
        for model, batch in networks:
            analysis = Analysis(load_network(model, batch=batch).with_dtype(_DTYPE))
            placing = Placing(hardware=spec, parts=spec.clusters, dtype=_DTYPE)
            parts = split_into_instances(analysis, plan_of(analysis, GraphTurbo(), placing))
            producers, output_bytes = parts.producers, parts.output_bytes
            wide = breadth_first(range(len(parts.instances)), producers)
            deep = depth_first(wide, producers)
            heavy = heaviest_first(wide, producers, output_bytes)
            peaks = [peak_live_bytes(order, producers, output_bytes) for order in (wide, deep, heavy)]
            best = wide if peaks[0] < peaks[1] else deep
            exact = exact_order(best, producers, output_bytes, EFFORT_S)
            all_bytes = (*peaks, exact.peak_bytes, exact.least_bytes)
            above = f"{(min(peaks[:2]) / exact.peak_bytes - 1) * 100:+.0f} %" if exact.peak_bytes else "n/a"
            latencies = (_latency_ms(policy, analysis, placing) for policy in (GraphTurbo(), GraphTurbo(order="exact")))
            sizes = (size / _MIB for size in all_bytes)
            yield (machine, model, batch, len(parts.instances), *sizes, above, *latencies)


def _latency_ms(policy: GraphTurbo, analysis: Analysis, placing: Placing) -> float:
    return run_stages(analysis, policy, placing).result.makespan_ps / PICOSECONDS["ms"]


def page() -> str:
    """Return the page on instance orders as Markdown: how to read the table, and the table."""
    return (
        "# Orders of sub-graph instances\n\n"
        "Most bytes of instance outputs alive at once, by the order of the instances (GraphTurbo, section 3.3 and "
        "section 6). *Exact* is what CP-SAT finds within "
        f"{EFFORT_S:g} deterministic seconds; it is proved where it equals the bound beside it. The latencies are "
        "those of the whole policy, where fewer live bytes need not mean less time. Written by "
        "`python -m dsascape.experiments.papers.graphturbo_orders docs/graphturbo-orders.md`.\n\n"
        f"{markdown(_COLUMNS, orders(MACHINES, NETWORKS))}\n"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page; return the exit code."""
    parser = argparse.ArgumentParser(prog="graphturbo_orders", description="orders of sub-graph instances compared")
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT.md", help="default: print")
    out: Path | None = parser.parse_args(argv).out
    try:
        text = page()
    except ScheduleError as error:
        print(f"graphturbo_orders: {error}", file=sys.stderr)  # noqa: T201
        return 2
    if out is None:
        print(text, end="")  # noqa: T201
    else:
        out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
