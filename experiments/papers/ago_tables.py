"""AGO's partition of MobileViT and its networks, ours beside the paper's; and the fit of its three numbers.

``python -m dsascape.experiments.papers.ago_tables RESULTS [OUT.md]``: runs the experiment files of
``experiments/papers/ago`` into RESULTS, one folder each, and puts their figures beside the paper's.
"""

import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dsascape.experiments.papers.ago_pairs import figure13
from dsascape.experiments.papers.graphturbo_tables import Results, geometric_mean, markdown, relative
from dsascape.experiments.papers.running import run_and_write
from dsascape.fusion import fixed_pattern_plan
from dsascape.fusion.ago import BASE, BIAS, SLOPE, Weights, cluster
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.workloads import Graph, load_network

FOLDER = Path(__file__).parent / "ago"
EXPERIMENTS = ("networks",)
MACHINES = ("snapdragon810", "kirin990")
CLASSICAL = ("mobilenet-v2", "mnasnet", "squeezenet", "shufflenet-v2")
LARGEST, SMALLER = 224, (112, 56)
"""Pixels along each side of the images that these read."""
_NETWORK = "mobilevit-raw"
_NEWER = {"bert-tiny": ("bert-tiny-128", MACHINES), "mobilevit": ("mobilevit", ("kirin990",))}
"""The networks of Fig. 12: what they are called here, and the machines that the paper ran them on."""
_TRIVIAL = 20
_BINS = 10
_MS = 1e3
_HALVINGS = 30
_MET = 0.01
"""How near a median of the fit comes to the printed one, to have met it."""
_WITHOUT_INTENSIVE = "ago(intensive=false)"


@dataclass(frozen=True, slots=True)
class Statistics:
    """How the weights of sub-graphs are spread."""

    subgraphs: int
    trivial: int
    mean: float
    median: float
    jain: float
    """Jain's index: one where all weigh the same, near nothing where one has all the weight."""

    @classmethod
    def of(cls, weights: Sequence[float]) -> "Statistics":
        squares = sum(weight * weight for weight in weights)
        return cls(
            len(weights),
            sum(weight < _TRIVIAL for weight in weights),
            statistics.mean(weights),
            statistics.median(weights),
            sum(weights) ** 2 / (len(weights) * squares),
        )


@lru_cache(maxsize=1)
def mobilevit() -> Graph:
    """Return the network of Fig. 14."""
    return load_network(_NETWORK)


def relay_weights(weights: Weights) -> list[float]:
    """Return what the sub-graphs of Relay's rule weigh."""
    graph = mobilevit()
    return [sum(weights.of(graph.ops[op]) for op in group.ops) for group in fixed_pattern_plan(graph).groups]


def ago_weights(weights: Weights) -> list[float]:
    """Return what AGO's sub-graphs weigh."""
    return [found.weight for found in cluster(mobilevit(), weights)]


def fitted(mean: float, median: float) -> Weights:
    """Return the weights at which Relay's sub-graphs have that mean and median, those with the smallest bias.

    The bias is not negative, the base is from 1.01 to e; where no bias meets the median, the nearest is taken.
    """
    most = mean / statistics.mean(relay_weights(Weights(0.0, 1.0)))
    best: tuple[float, Weights] | None = None
    for share in range(100):
        low, high = 1.01, math.e
        for _ in range(_HALVINGS):
            found = _with_mean(mean, most * share / 100, (low + high) / 2)
            reached = statistics.median(relay_weights(found))
            low, high = (low, found.base) if reached > median else (found.base, high)
        if best is None or abs(reached - median) < best[0]:
            best = abs(reached - median), found
        if best[0] < _MET:
            break
    assert best is not None
    return best[1]


def _with_mean(mean: float, bias: float, base: float) -> Weights:
    """Return the weights of that bias and base at which Relay's sub-graphs have the mean."""
    by_bias = statistics.mean(relay_weights(Weights(0.0, bias, base)))
    return Weights((mean - by_bias) / statistics.mean(relay_weights(Weights(1.0, 0.0, base))), bias, base)


def figure14(paper: Mapping[str, Any]) -> str:
    """Return the statistics of both partitions, ours and the paper's, and the distribution over the figure's bins."""
    weights = Weights()
    rows: list[tuple[object, ...]] = []
    bins = []
    for name, found in (("relay", relay_weights(weights)), ("ago", ago_weights(weights))):
        ours, printed = Statistics.of(found), paper["fig14"][name]
        for figure in ("subgraphs", "trivial", "mean", "median", "jain"):
            value = getattr(ours, figure)
            rows.append((name, figure, printed[figure], value, relative(value, printed[figure])))
        counts = [sum(2**low <= weight < 2 ** (low + 1) for weight in found) for low in range(_BINS)]
        beyond = sum(weight >= 2**_BINS for weight in found)
        bins.append((name, sum(weight < 1 for weight in found), *counts, beyond))
    best = fitted(paper["fig14"]["relay"]["mean"], paper["fig14"]["relay"]["median"])
    fit = (
        f"The fit gives slope {best.slope:.3g}, bias {best.bias:.2f} and base {best.base:.4f}; in use are {SLOPE},"
        f" {BIAS} and {BASE}."
    )
    statistics_table = markdown(("partition", "figure", "paper", "ours", "difference"), rows)
    columns = ("partition", "below 1", *(f"[{2**low}, {2 ** (low + 1)})" for low in range(_BINS)), f"from {2**_BINS}")
    return f"{fit}\n\n{statistics_table}\n\nSub-graphs by weight:\n\n{markdown(columns, bins)}"


def networks(paper: Mapping[str, Any], results: Mapping[str, Results]) -> str:
    """Return times, and speed-ups over the two baselines and over AGO without intensive fusion."""
    rows = []
    lines = []
    for machine, found in results.items():
        overs: dict[str, list[float | None]] = {"torch": [], "ansor": []}
        for name in (*CLASSICAL, "bert-tiny-128", "mobilevit"):
            times = _times(found, name, LARGEST if name in CLASSICAL else None)
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
    """Return the mean speed-ups of the four classical networks at the other two sizes of the images."""
    rows = []
    for machine, found in results.items():
        for side in SMALLER:
            printed = paper["mean_speedup_of_smaller"][machine][str(side)]
            times = [_times(found, name, side) for name in CLASSICAL]
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
    """Return by how much AGO is faster on the two newer networks, a mean of the phones that the paper ran them on."""
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
    """Return by what share AGO is faster than a baseline, not a number where one of them was not run."""
    times = _times(results, name)
    over = _over(times.get(policy), times.get("ago"))
    return math.nan if over is None else over - 1


def _times(results: Results, name: str, image: int | None = None) -> dict[str, float]:
    """Return the milliseconds of a network by policy, at that size of its images if it was run at several."""
    frame = results.frame
    rows = frame[frame["model"] == name]
    if image is not None and "image" in rows:
        rows = rows[rows["image"].astype(float) == image]
    return {str(row["policy"]): float(row["latency_s"]) * _MS for _, row in rows.iterrows()}


def _over(above: float | None, below: float | None) -> float | None:
    return above / below if above and below else None


def page(folder: Path) -> str:
    """Return the whole page as Markdown."""
    paper = read_yaml(FOLDER / "paper.yaml")
    results = {machine: Results.read(folder, ["networks"], machine) for machine in MACHINES}
    parts = [
        (FOLDER / "introduction.md").read_text(encoding="utf-8").rstrip(),
        f"## Fig. 14: the partition of MobileViT\n\n{figure14(paper)}",
        f"## Figs. 10 to 12: networks on phones\n\n{networks(paper, results)}",
        f"## Fig. 13: pairs of convolutions, in one kernel and in two\n\n{figure13(paper, MACHINES)}",
    ]
    return "\n\n".join(parts) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run what has not been run, and write the page."""
    return run_and_write(FOLDER, EXPERIMENTS, page, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
