"""Readings of AGO's partition (eq. 1 and Algorithm 1), each fitted to both rows of Fig. 14; prints their table.

``python -m dsascape.experiments.papers.ago_readings [OUT.md]``. The paper prints no slope, bias, base of eq. (1) or
Td, and does not say which extents and operators it weighs. Each reading is one answer; base, bias and Td are
searched over a grid, and the slope follows from the weight of the whole network, which both printed rows share.
"""

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from dsascape.experiments.papers.graphturbo_tables import markdown
from dsascape.fusion import fixed_pattern_plan
from dsascape.fusion.ago.clustering import Clustering, heavy_layers
from dsascape.fusion.fixed_pattern import fixed_pattern_layers
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.workloads import Graph, load_network
from dsascape.workloads.graph import Op
from dsascape.workloads.loopnest import LoopNest

_PAPER = Path(__file__).parent / "ago" / "paper.yaml"
TRIVIAL = 20
"""Weight below which the paper calls a sub-graph trivial."""
COUNT_WITHIN = 15 / 82
SHARE_WITHIN = 0.2
JAIN_WITHIN = 0.1
"""Deviations aimed at: of the number of sub-graphs; of mean, median and the number of trivial ones; of Jain's index."""
_PIXELS = 256
"""Side of the images of the zoo's MobileViT."""
_IMAGE_LOOPS = 4
_FEWEST_CHANNELS = 9
"""Extents from which a loop counts as channels: smaller ones are windows, heads and pixels of a patch."""
_WINDOW = 3
BASES = (1.2, 1.3, 1.35, 1.4, 1.45, 1.5, 1.625, 2.0, math.e)
BIASES = (0.0, 3.0)
THRESHOLDS = (340.0, 425.0, 500.0, 700.0, 1024.0)

Extent = Callable[[float, float], float]
"""Factor of a loop: (extent, natural logarithm of the base) -> factor."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of the weights of a partition's sub-graphs, as in Fig. 14."""

    subgraphs: int
    trivial: int
    mean: float
    median: float
    jain: float
    """Jain's fairness index: 1 if all weights are equal, towards 0 if one sub-graph has all the weight."""

    @classmethod
    def of(cls, weights: Sequence[float]) -> "Statistics":
        squares = sum(weight * weight for weight in weights)
        return cls(
            len(weights),
            sum(weight < TRIVIAL for weight in weights),
            statistics.mean(weights),
            statistics.median(weights),
            sum(weights) ** 2 / (len(weights) * squares),
        )


def _without_ones(extent: float, unit: float) -> float:
    return math.log(extent) / unit if extent > 1 else 1.0


def _one_more(extent: float, unit: float) -> float:
    return math.log(1 + extent) / unit


def _one_above(extent: float, unit: float) -> float:
    return 1 + math.log(extent) / unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One answer to what eq. (1) and Algorithm 1 leave open."""

    name: str
    network: str = "mobilevit-raw"
    simplify: bool = False
    extent: Extent = _without_ones
    weightless: Literal["none", "views", "movements", "simple"] = "movements"
    nests: Literal["sum", "largest"] = "sum"
    nodes: Literal["operators", "heavy layers", "layers"] = "heavy layers"
    bounds: Literal["the sum", "each of the two"] = "the sum"
    pixels: int = _PIXELS
    channels: float = 1.0
    """Factor of the numbers of channels, of those above 8."""
    padding: bool = False
    """Whether the padded copy of a convolution's input is weighed with it."""

    def graph(self) -> Graph:
        return _network(self.network, self.simplify)


USED = Reading(name="**in use**: log(extent), loops of one iteration and operators that only move data do not count")
READINGS = (
    USED,
    Reading(name="all operators count", weightless="none"),
    Reading(name="views (Reshape, Squeeze) alone do not count", weightless="views"),
    Reading(name="complex operators alone count", weightless="simple"),
    Reading(name="all operators count, nodes are operators", weightless="none", nodes="operators"),
    Reading(name="log(1 + extent)", extent=_one_more),
    Reading(name="log(1 + extent), all operators count", extent=_one_more, weightless="none"),
    Reading(name="1 + log(extent)", extent=_one_above),
    Reading(name="the largest nest of an operator, not their sum", nests="largest"),
    Reading(name="nodes are operators (Algorithm 1 to the letter)", nodes="operators"),
    Reading(name="nodes are Relay's layers", nodes="layers"),
    Reading(name="Td bounds each of the two, not their sum", bounds="each of the two"),
    Reading(name="padding is weighed with its convolution", padding=True),
    Reading(name="images of 224 x 224", pixels=224),
    Reading(name="channels x 0.65 (about MobileViT-XS)", channels=0.65),
    Reading(name="channels x 0.43 (about MobileViT-XXS)", channels=0.43),
    Reading(name="raw export with constants folded", simplify=True),
    Reading(name="modern export (`mobilevit`), LayerNorm one operator", network="mobilevit", weightless="none"),
    Reading(name="modern export, movements do not count", network="mobilevit"),
)


@lru_cache(maxsize=4)
def _network(name: str, simplify: bool) -> Graph:
    return load_network(name, simplify=simplify)


@lru_cache(maxsize=4)
def _relay_groups(name: str, simplify: bool) -> tuple[tuple[int, ...], ...]:
    return tuple(group.ops for group in fixed_pattern_plan(_network(name, simplify)).groups)


@dataclass(frozen=True, slots=True)
class Tabulated:
    """Weights of a graph's operators, by identity."""

    by_op: Mapping[int, float]

    def of(self, op: Op) -> float:
        return self.by_op[id(op)]


def _extents(op: Op, nest: LoopNest, reading: Reading) -> list[int]:
    """Return a nest's extents at the reading's image size and width, from those of MobileViT-S at 256 x 256.

    Four loops or more of which the first has one iteration: an image's rows, columns and channels. Otherwise: patches
    and features of a transformer, whose patches of 2 x 2 pixels cover the image; it is enlarged to an even side.
    """
    extents = [loop.extent for loop in nest.loops]
    if reading.pixels == _PIXELS and reading.channels == 1:
        return extents
    is_window = op.kind in ("Conv", "GlobalAveragePool")
    image = extents[:1] == [1] and (is_window or len(extents) == _IMAGE_LOOPS)
    patches = {side * side // 4: math.ceil(side * reading.pixels / (2 * _PIXELS)) ** 2 for side in (32, 16, 8)}
    found = []
    for place, extent in enumerate(extents):
        if image and place in (1, 2) and op.kind != "GlobalAveragePool":
            found.append(max(1, round(extent * reading.pixels / _PIXELS)))
        elif not image and extent in patches:
            found.append(patches[extent])
        else:
            found.append(max(1, round(extent * reading.channels)) if extent >= _FEWEST_CHANNELS else extent)
    return found


def _moves_only(nest: LoopNest) -> bool:
    return not (nest.per_iteration or nest.per_output or nest.has_reduction)


def _is_complex(op: Op) -> bool:
    return any(nest.has_reduction and nest.per_iteration.macs for nest in op.nests)


def _product(op: Op, reading: Reading, base: float) -> float:
    """Return the product of eq. (1) for an operator, added up over its nests."""
    if reading.weightless == "views" and op.is_view:
        return 0.0
    if reading.weightless == "simple" and not _is_complex(op):
        return 0.0
    unit = math.log(base)
    products = [
        math.prod(reading.extent(extent, unit) for extent in _extents(op, nest, reading))
        for nest in op.nests
        if not (reading.weightless == "movements" and _moves_only(nest))
    ]
    if reading.padding and op.kind == "Conv" and any(loop.extent == _WINDOW for loop in op.nests[0].loops):
        shape = op.nests[0].reads[0].shape
        padded = [size + 2 if place in (1, 2) else size for place, size in enumerate(shape)]
        products.append(math.prod(reading.extent(size, unit) for size in padded))
    return (max(products, default=0.0)) if reading.nests == "largest" else math.fsum(products)


def weighed(reading: Reading, base: float, bias: float, total: float) -> tuple[Tabulated, float]:
    """Return a reading's weights that add up to ``total`` over the network, and their slope."""
    ops = reading.graph().ops
    products = [_product(op, reading, base) for op in ops]
    slope = (total - bias * len(ops)) / math.fsum(products)
    weights = {id(op): slope * product + bias for op, product in zip(ops, products, strict=True)}
    return Tabulated(weights), slope


class _EachBelow(Clustering):
    """CLUSTER with Td as the bound of each of the two that are merged."""

    def fits(self, one: int, other: int) -> bool:
        return max(self.weight[one], self.weight[other]) < self.threshold


def relay_weights(reading: Reading, weights: Tabulated) -> list[float]:
    """Return the weight of every sub-graph of Relay's rule."""
    ops = reading.graph().ops
    groups = _relay_groups(reading.network, reading.simplify)
    return [math.fsum(weights.of(ops[op]) for op in group) for group in groups]


def ago_weights(reading: Reading, weights: Tabulated, threshold: float) -> list[float]:
    """Return the weight of every sub-graph of AGO's partition under a reading."""
    graph = reading.graph()
    layers: list[list[int]] = []
    if reading.nodes == "layers":
        layers = fixed_pattern_layers(graph, list(range(len(graph.ops))))
    elif reading.nodes == "heavy layers":
        layers = heavy_layers(graph, weights, threshold)
    clustering = _EachBelow if reading.bounds == "each of the two" else Clustering
    return [found.weight for found in clustering(graph, weights, threshold, layers=layers).run()]


def deviations(found: Statistics, printed: Mapping[str, float | None]) -> list[float]:
    """Return how far figures are from the printed ones, 1 being as far as is aimed at; none for those not printed."""
    parts = []
    for figure, printed_value in printed.items():
        if printed_value is None:
            continue
        value = getattr(found, figure)
        if figure == "jain":
            parts.append((value - printed_value) / JAIN_WITHIN)
        else:
            within = COUNT_WITHIN if figure == "subgraphs" else SHARE_WITHIN
            parts.append((value / printed_value - 1) / within)
    return parts


@dataclass(frozen=True, slots=True)
class Fit:
    """Parameters of a reading that are nearest to the printed figures, and what they give."""

    slope: float
    bias: float
    base: float
    threshold: float
    relay: Statistics
    ago: Statistics
    heaviest: float
    """Weight of the heaviest of AGO's sub-graphs."""
    squares: float
    """Sum of the squared deviations, each as a fraction of the one aimed at."""
    largest: float


Printed = Mapping[str, Mapping[str, float | None]]


def total_of(printed: Printed) -> float:
    """Return the weight of the whole network: the mean of what both rows give, number times mean."""
    return statistics.mean([(row["subgraphs"] or 0) * (row["mean"] or 0) for row in printed.values()])


def fit(
    reading: Reading,
    printed: Printed,
    bases: Sequence[float] = BASES,
    biases: Sequence[float] = BIASES,
    thresholds: Sequence[float] = THRESHOLDS,
) -> Fit:
    """Return the parameters with the smallest sum of squared deviations over both rows; among equals, the first.

    Values of base and bias with which Relay's row alone is further away than the best of both are passed over.
    """
    total = total_of(printed)
    best: Fit | None = None
    tried = []
    for base in bases:
        for bias in biases:
            weights, slope = weighed(reading, base, bias, total)
            relay = Statistics.of(relay_weights(reading, weights))
            tried.append((math.hypot(*deviations(relay, printed["relay"])) ** 2, base, bias, slope, weights, relay))
    for by_relay, base, bias, slope, weights, relay in sorted(tried, key=lambda row: row[:3]):
        for threshold in thresholds:
            if best is not None and by_relay >= best.squares:
                break
            own = ago_weights(reading, weights, threshold)
            ago = Statistics.of(own)
            parts = [*deviations(relay, printed["relay"]), *deviations(ago, printed["ago"])]
            squares = math.fsum(part * part for part in parts)
            if best is None or squares < best.squares:
                largest = max(map(abs, parts))
                best = Fit(slope, bias, base, threshold, relay, ago, max(own), squares, largest)
    assert best is not None
    return best


def table(printed: Printed, readings: Sequence[Reading] = READINGS) -> str:
    """Return a table of readings with their fits as Markdown."""
    rows: list[tuple[object, ...]] = []
    for reading in readings:
        found = fit(reading, printed)
        rows.append((
            reading.name, f"{found.base:.4g}", f"{found.bias:.0f}", f"{found.threshold:.0f}", *_row(found.relay),
            *_row(found.ago)[:1], *_row(found.ago)[2:], f"{found.heaviest:.0f}", f"{found.largest:.1f}",
        ))  # fmt: skip
    columns = (
        "reading", "base", "bias", "Td", "Relay's", "trivial", "mean", "median", "Jain", "AGO's", "mean", "median",
        "Jain", "heaviest", "largest deviation, 1 as aimed at",
    )  # fmt: skip
    relay, ago = printed["relay"], printed["ago"]
    paper = (
        "the paper", "", "", "", *[relay[key] for key in ("subgraphs", "trivial", "mean", "median", "jain")],
        *[ago[key] for key in ("subgraphs", "mean", "median", "jain")], "", "",
    )  # fmt: skip
    return markdown(columns, [paper, *rows])


def _row(found: Statistics) -> list[str]:
    return [
        str(found.subgraphs), str(found.trivial), f"{found.mean:.0f}", f"{found.median:.0f}", f"{found.jain:.2f}"
    ]  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Write the table of readings; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT.md", help="default: print")
    arguments = parser.parse_args(argv)
    text = table(read_yaml(_PAPER)["fig14"]) + "\n"
    if arguments.out is None:
        sys.stdout.write(text)
    else:
        arguments.out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
