"""Pairs of complex operators drawn at random, for `benchmarks.does_fusion_pay`: a development and a held-out set.

The kinds are those of AGO's Fig. 13 (pointwise and depthwise convolutions), convolutions of 3 x 3 beside pointwise
ones, and two products. Both sets are drawn from the same ranges of shapes.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dsascape.fusion import fixed_pattern_plan, plan_from_groups
from dsascape.fusion.plan import FusionPlan, Group
from dsascape.workloads import Graph
from tests.graphs import Net

Kind = Literal["pointwise", "depthwise", "3 x 3", "product"]
SETS = ("dev", "held-out")
KINDS: tuple[tuple[Kind, Kind], ...] = (
    ("depthwise", "pointwise"), ("pointwise", "depthwise"), ("pointwise", "pointwise"), ("depthwise", "depthwise"),
    ("3 x 3", "pointwise"), ("pointwise", "3 x 3"), ("product", "product"),
)  # fmt: skip
_CHANNELS = (16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512)
_SIDES = (7, 10, 12, 14, 20, 24, 28, 40, 48, 56, 80, 112)
_ROWS = (32, 49, 64, 100, 128, 196, 256, 384, 512)
_WIDTHS = (64, 96, 128, 192, 256, 384, 512, 768)
_FEWEST_MACS, _MOST_MACS = 2_000_000, 120_000_000
_MOST_ELEMENTS = 2_000_000
"""Elements of the largest tensor: 8 MB in single precision."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One complex operator of a pair, with a bias; its input's channels are those of the operator in front of it."""

    kind: Kind
    width: int
    """Channels, or columns of a product, of its result."""
    window: int = 1
    stride: int = 1

    def __str__(self) -> str:
        window = f" {self.window} x {self.window}" if self.kind == "depthwise" else ""
        return f"{self.kind}{window} to {self.width}" + (f", stride {self.stride}" if self.stride > 1 else "")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two complex operators, one behind the other, with what follows each of them element by element."""

    shape: tuple[int, ...]
    """Channels, height and width of the first operator's input; rows and columns of a product's."""
    first: Operator
    second: Operator
    has_relu: bool
    """Whether the second ends with a Relu; the first always does."""

    @property
    def kind(self) -> str:
        """Kinds of both operators."""
        return f"{self.first.kind}, {self.second.kind}"

    def __str__(self) -> str:
        return f"{' x '.join(map(str, self.shape))}: {self.first}; {self.second}{'; Relu' if self.has_relu else ''}"

    @property
    def macs(self) -> int:
        """Multiply-accumulates of both."""
        return sum([macs for macs, _ in self._sizes()])

    @property
    def largest(self) -> int:
        """Elements of its largest tensor."""
        product = math.prod(self.shape[:3])
        return max([product, *[elements for _, elements in self._sizes()]])

    def _sizes(self) -> list[tuple[int, int]]:
        """Return multiply-accumulates and elements of the result, of each operator."""
        is_product = self.first.kind == "product"
        width, places = (self.shape[1], self.shape[0]) if is_product else (self.shape[0], self.shape[1] ** 2)
        found = []
        for each in (self.first, self.second):
            side = -(-round(places**0.5) // each.stride)
            places = places if is_product else side * side
            reads = each.window**2 * (1 if each.kind == "depthwise" else width)
            found.append((places * each.width * reads, places * each.width))
            width = each.width
        return found

    def graph(self) -> Graph:
        """Return the pair between two layers of its own kind, so that its data lies as inside of a network."""
        net, rows = Net("pair"), self.shape
        if self.first.kind == "product":
            x = net.relu(net.dense(net.input(1, rows[0], 8), rows[1]))
        else:
            x = net.relu(net.conv(net.input(1, 8, *rows[1:]), rows[0], 1))
        x = net.relu(_added(net, x, self.first))
        x = _added(net, x, self.second)
        x = net.relu(x) if self.has_relu else x
        return net.graph(net.dense(x, 4) if self.first.kind == "product" else net.conv(x, 4, 1), dtype="fp32")


def _added(net: Net, x: str, operator: Operator) -> str:
    if operator.kind == "product":
        return net.bias(net.dense(x, operator.width))
    if operator.kind == "depthwise":
        return net.bias(net.depthwise(x, operator.window, operator.stride))
    return net.bias(net.conv(x, operator.width, operator.window, operator.stride))


def in_two_kernels(graph: Graph) -> FusionPlan:
    """Return the plan of a pair's network in which each operator is a kernel, with what follows it."""
    return fixed_pattern_plan(graph)


def in_one_kernel(graph: Graph) -> FusionPlan:
    """Return the plan of a pair's network in which both operators are one kernel; the layers around are their own."""
    first, *pair, last = [group.ops for group in fixed_pattern_plan(graph).groups]
    return plan_from_groups(graph, [Group(first), Group(tuple([op for ops in pair for op in ops])), Group(last)])


def drawn(which: str, per_kind: int, seed: int) -> Sequence[Pair]:
    """Return ``per_kind`` pairs of each kind of one of `SETS`, the kinds by turns; no pair is in both sets."""
    by_kind = []
    for kinds in KINDS:
        rng = random.Random(f"{seed} {kinds}")
        pairs: dict[Pair, None] = {}
        while len(pairs) < len(SETS) * per_kind:
            pair = _drawn(kinds, rng)
            if _FEWEST_MACS <= pair.macs <= _MOST_MACS and pair.largest <= _MOST_ELEMENTS:
                pairs[pair] = None
        by_kind.append(list(pairs)[SETS.index(which) :: len(SETS)])
    return [pair for turn in zip(*by_kind, strict=True) for pair in turn]


def _drawn(kinds: tuple[Kind, Kind], rng: random.Random) -> Pair:
    has_relu = rng.random() < 1 / 2
    if kinds[0] == "product":
        shape: tuple[int, ...] = (rng.choice(_ROWS), rng.choice(_WIDTHS))
        first, second = [Operator("product", rng.choice(_WIDTHS)) for _ in kinds]
        return Pair(shape, first, second, has_relu)
    side = rng.choice(_SIDES)
    shape = (rng.choice(_CHANNELS), side, side)
    first = _operator(kinds[0], shape[0], rng)
    return Pair(shape, first, _operator(kinds[1], first.width, rng), has_relu)


def _operator(kind: Kind, channels: int, rng: random.Random) -> Operator:
    stride = rng.choice((1, 1, 1, 2))
    if kind == "depthwise":
        return Operator(kind, channels, rng.choice((3, 3, 5)), stride)
    if kind == "pointwise":
        return Operator(kind, rng.choice(_CHANNELS))
    return Operator(kind, rng.choice(_CHANNELS), 3, stride)
