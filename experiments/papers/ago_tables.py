"""AGO's partition of MobileViT and its networks, ours compared with the paper's; and what a larger Td gains.

``python -m dsascape.experiments.papers.ago_tables RESULTS [OUT.md]``: runs the experiment files of
``experiments/papers/ago`` into RESULTS, one folder each, and compares their figures with the paper's.
"""

import itertools
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from dsascape.experiments.papers import ago_thresholds
from dsascape.experiments.papers.ago_pairs import figure13
from dsascape.experiments.papers.ago_readings import Statistics
from dsascape.experiments.papers.ago_readings import table as readings_table
from dsascape.experiments.papers.ago_thresholds import table as larger_thresholds
from dsascape.experiments.papers.graphturbo_tables import Results, geometric_mean, markdown, relative
from dsascape.experiments.papers.running import run_and_write
from dsascape.fusion import fixed_pattern_plan
from dsascape.fusion.ago import BASE, BIAS, SLOPE, THRESHOLD, Tuning, Weights, sub_graphs
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.workloads import Graph, load_network

FOLDER = Path(__file__).parent / "ago"
EXPERIMENTS = ("networks",)
MACHINES = ("snapdragon810", "kirin990")
CLASSICAL = ("mobilenet-v2", "mnasnet", "squeezenet", "shufflenet-v2")
LARGEST, SMALLER = 224, (112, 56)
"""Sides of the square input images of `CLASSICAL`, in pixels."""
_NETWORK = "mobilevit-raw"
_NEWER = {"bert-tiny": ("bert-tiny-128", MACHINES), "mobilevit": ("mobilevit", ("kirin990",))}
"""Networks of Fig. 12 by the paper's name: (name in the zoo, machines that the paper ran it on)."""
_BINS = 11
"""Bins between powers of two, from [1, 2) on."""
_MS = 1e3
_WITHOUT_INTENSIVE = "ago(intensive=false)"
_READINGS = """\
What the paper leaves open, one answer a row; every other answer is that of the first row. For each, base (over nine
values), bias (0 or 3) and Td (five values) are those with the smallest sum of squared deviations from all nine printed
figures, each deviation as a fraction of the one aimed at: 15 of 82 sub-graphs (18 %), 20 % of mean, median and the
number of trivial ones, and 0.1 of Jain's index."""
_LARGER = """\
The option `threshold: any-two` is ours, not the paper's: a power of two above any two operators, with which most
networks are a few sub-graphs or one. A DSA has one image on each of its clusters; planning, which includes scheduling
and simulation, is in seconds of one processor."""


@lru_cache(maxsize=1)
def mobilevit() -> Graph:
    """Return MobileViT as a raw export, the network of Fig. 14."""
    return load_network(_NETWORK)


def relay_weights(weights: Weights) -> list[float]:
    """Return the weight of every sub-graph that Relay's fusion rule makes of MobileViT."""
    graph = mobilevit()
    return [sum(weights.of(graph.ops[op]) for op in group.ops) for group in fixed_pattern_plan(graph).groups]


def ago_weights(weights: Weights) -> list[float]:
    """Return the weight of every sub-graph of AGO's partition of MobileViT."""
    return [subgraph.weight for subgraph in sub_graphs(mobilevit(), Tuning(weights=weights))]


def by_bin(weights: Sequence[float]) -> list[int]:
    """Return the numbers of sub-graphs below 1, in each bin between powers of two, and beyond 2,048."""
    edges = [0.0, *(2.0**low for low in range(_BINS + 1)), math.inf]
    return [sum(low <= weight < high for weight in weights) for low, high in itertools.pairwise(edges)]


def figure14(paper: Mapping[str, Any]) -> str:
    """Return Fig. 14 as Markdown: statistics of Relay's and AGO's partitions, ours and printed, and a histogram."""
    weights = Weights()
    rows: list[tuple[object, ...]] = []
    bins = []
    for name, own in (("relay", relay_weights(weights)), ("ago", ago_weights(weights))):
        ours, printed = Statistics.of(own), paper["fig14"][name]
        for figure in ("subgraphs", "trivial", "mean", "median", "jain"):
            value = getattr(ours, figure)
            rows.append((name, figure, printed[figure], value, relative(value, printed[figure])))
        bins.append((name, *by_bin(own), f"{max(own):,.0f}"))
    statistics_table = markdown(("partition", "figure", "paper", "ours", "difference"), rows)
    columns = (
        "partition", "below 1", *(f"[{2**low}, {2 ** (low + 1)})" for low in range(_BINS)), f"from {2**_BINS}",
        "heaviest",
    )  # fmt: skip
    return (
        f"Slope {SLOPE}, bias {BIAS}, base {BASE} and Td {THRESHOLD:.0f}.\n\n{statistics_table}\n\n"
        f"Sub-graphs by weight:\n\n{markdown(columns, bins)}\n\n### Other readings\n\n{_READINGS}\n\n"
        f"{readings_table(paper['fig14'])}"
    )


def networks(paper: Mapping[str, Any], results: Mapping[str, Results]) -> str:
    """Return Figs. 10 to 12 as Markdown: latencies in milliseconds, and AGO's speed-ups over both baselines.

    ``results``: the stored rows by machine.
    """
    rows = []
    lines = []
    for machine, stored in results.items():
        overs: dict[str, list[float | None]] = {"torch": [], "ansor": []}
        for name in (*CLASSICAL, "bert-tiny-128", "mobilevit"):
            times = _times(stored, name, LARGEST if name in CLASSICAL else None)
            torch, ansor, ago, plain = (times.get(p) for p in ("unfused", "fixed-pattern", "ago", _WITHOUT_INTENSIVE))
            rows.append((machine, name, torch, ansor, plain, ago, _over(torch, ago), _over(ansor, ago)))
            if name in CLASSICAL:
                overs["torch"].append(_over(torch, ago))
                overs["ansor"].append(_over(ansor, ago))
        printed = paper["mean_speedup"][machine]
        means = {key: geometric_mean(values) or 0.0 for key, values in overs.items()}
        lines.append(
            f"Mean of the four classical networks on {machine}: {means['torch']:.2f} times the Torch-Mobile-like one"
            f" (paper: {printed['torch']}), {means['ansor']:.2f} times the Ansor-like one (paper: {printed['ansor']})."
        )
    columns = (
        "machine", "network", "Torch-Mobile-like [ms]", "Ansor-like [ms]", "ago without intensive [ms]", "ago [ms]",
        "over Torch-Mobile-like", "over Ansor-like",
    )  # fmt: skip
    return "\n\n".join([markdown(columns, rows), *lines, shapes(paper, results), figure12(paper, results)])


def shapes(paper: Mapping[str, Any], results: Mapping[str, Results]) -> str:
    """Return a table of AGO's mean speed-ups on the classical networks at the smaller image sizes."""
    rows = []
    for machine, stored in results.items():
        for side in SMALLER:
            printed = paper["mean_speedup_of_smaller"][machine][str(side)]
            times = [_times(stored, name, side) for name in CLASSICAL]
            torch, ansor = (
                geometric_mean([_over(each.get(policy), each.get("ago")) for each in times])
                for policy in ("unfused", "fixed-pattern")
            )
            rows.append((machine, side, printed["torch"], torch, printed["ansor"], ansor))
    columns = (
        "machine", "images", "over Torch Mobile, paper", "over Torch-Mobile-like", "over Ansor, paper",
        "over Ansor-like",
    )  # fmt: skip
    return f"Smaller images, means of the four classical networks:\n\n{markdown(columns, rows)}"


def figure12(paper: Mapping[str, Any], results: Mapping[str, Results]) -> str:
    """Return Fig. 12 as a table: AGO's gain in per cent on the two newer networks, averaged over the paper's phones."""
    rows = []
    for name, (network, machines) in _NEWER.items():
        printed = paper["fig12"][name]
        ours = {
            baseline: statistics.mean(_improvement(results[machine], network, policy) for machine in machines)
            for baseline, policy in (("torch", "unfused"), ("ansor", "fixed-pattern"))
        }
        cells = [100 * share for key in ("torch", "ansor") for share in (printed[key], ours[key])]
        rows.append((name, " and ".join(machines), *cells))
    columns = (
        "network", "machine", "over Torch Mobile, paper [%]", "over Torch-Mobile-like [%]", "over Ansor, paper [%]",
        "over Ansor-like [%]",
    )  # fmt: skip
    return f"By how much AGO is faster (Fig. 12):\n\n{markdown(columns, rows)}"


def _improvement(results: Results, name: str, policy: str) -> float:
    """Return AGO's speed-up over a baseline minus 1; NaN if one of them was not run."""
    times = _times(results, name)
    over = _over(times.get(policy), times.get("ago"))
    return math.nan if over is None else over - 1


def _times(results: Results, name: str, image: int | None = None) -> dict[str, float]:
    """Return a network's latency in milliseconds by policy, for one image size if it was run at several."""
    frame = results.frame
    rows = frame[frame["model"] == name]
    if image is not None and "image" in rows:
        rows = rows[rows["image"].astype(float) == image]
    return {str(row["policy"]): float(row["latency_s"]) * _MS for _, row in rows.iterrows()}


def _over(above: float | None, below: float | None) -> float | None:
    return above / below if above and below else None


def page(folder: Path) -> str:
    """Return the page on AGO as Markdown, from the results in ``folder`` (one folder per experiment file)."""
    paper = read_yaml(FOLDER / "paper.yaml")
    results = {machine: Results.read(folder, ["networks"], machine) for machine in MACHINES}
    parts = [
        (FOLDER / "introduction.md").read_text(encoding="utf-8").rstrip(),
        f"## Fig. 14: the partition of MobileViT\n\n{figure14(paper)}",
        f"## A larger Td\n\n{_LARGER}\n\n{larger_thresholds(ago_thresholds.rows(folder))}",
        f"## Figs. 10 to 12: networks on phones\n\n{networks(paper, results)}",
        f"## Fig. 13: pairs of convolutions, in one kernel and in two\n\n{figure13(paper, MACHINES)}",
    ]
    return "\n\n".join(parts) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the points that have no result yet, and write the page; return the exit code."""

    def whole_page(folder: Path) -> str:
        ago_thresholds.run_missing(folder)
        return page(folder)

    return run_and_write(FOLDER, EXPERIMENTS, whole_page, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
