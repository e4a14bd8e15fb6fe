"""Weights of operators: a measure of how hard they are to tune (AGO, section IV-A)."""

import math
from dataclasses import dataclass

from dsascape.workloads.graph import Graph, Op
from dsascape.workloads.loopnest import LoopNest
from dsascape.workloads.mapping import mapping_of

SLOPE = 0.000344
BIAS = 0.0
BASE = 1.1905
"""c, b and the base of the logarithms of eq. (1), fitted to two figures that the paper prints of Relay's partition of
MobileViT, the mean weight of 138 and the median of 23 (`experiments.papers.ago_tables`). Among the values that meet
both, those with the smallest bias."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Eq. (1): slope times the product of the logarithms of the loops' extents, plus bias.

    Choices that the paper leaves open: a loop of one iteration does not count, or every network at batch 1 would weigh
    nothing; the products of an operator's loop nests are added. The base of the logarithms, more than 1, is no part of
    the slope: another one divides the product of n loops by the n-th power of its natural logarithm. The
    smaller it is, the more an operator of many loops weighs compared with one of few.
    """

    slope: float = SLOPE
    bias: float = BIAS
    base: float = BASE

    def of(self, op: Op) -> float:
        """Return the weight of an operator."""
        return self.slope * sum(map(self._loops, op.nests)) + self.bias

    def _loops(self, nest: LoopNest) -> float:
        unit = math.log(self.base)
        return math.prod(math.log(loop.extent) / unit for loop in nest.loops if loop.extent > 1)


def is_complex(graph: Graph, position: int) -> bool:
    """Whether an operator is a convolution, a matrix product or the like: multiplies and adds up."""
    return any(mapping_of(nest) == "contraction" for nest in graph.ops[position].nests)
