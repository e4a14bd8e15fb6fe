"""Weights of operators: a measure of how hard they are to tune (AGO, section IV-A)."""

import math
from dataclasses import dataclass
from typing import Protocol

from dsascape.workloads.graph import Graph, Op
from dsascape.workloads.loopnest import LoopNest
from dsascape.workloads.mapping import mapping_of

SLOPE = 0.01173
BIAS = 0.0
BASE = 1.4
"""c, b and the base of the logarithms of eq. (1), fitted with `clustering.THRESHOLD` to the figures that the paper
prints of Relay's and of AGO's partitions of MobileViT (`experiments.papers.ago_readings`)."""


class OperatorWeights(Protocol):
    """A weight function of operators."""

    def of(self, op: Op) -> float:
        """Return the weight of an operator, not negative."""
        ...


@dataclass(frozen=True, slots=True)
class Weights:
    """Eq. (1): slope times the product of the logarithms of the loops' extents, plus bias.

    Choices that the paper leaves open: a loop of one iteration does not count, or every network at batch 1 would weigh
    nothing; the products of an operator's loop nests are added; a nest that only moves data, as a Reshape's, a
    Transpose's or a Concat's, has no product. The base of the logarithms, more than 1, is no part of the slope: another
    one divides the product of n loops by the n-th power of its natural logarithm. The smaller it is, the more an
    operator of many loops weighs compared with one of few.
    """

    slope: float = SLOPE
    bias: float = BIAS
    base: float = BASE

    def of(self, op: Op) -> float:
        """Return the weight of an operator."""
        return self.slope * sum(map(self._loops, op.nests)) + self.bias

    def _loops(self, nest: LoopNest) -> float:
        if not (nest.per_iteration or nest.per_output or nest.has_reduction):
            return 0.0
        unit = math.log(self.base)
        return math.prod(math.log(loop.extent) / unit for loop in nest.loops if loop.extent > 1)


def is_complex(graph: Graph, position: int) -> bool:
    """Whether an operator is a convolution, a matrix product or the like: multiplies and adds up."""
    return any(mapping_of(nest) == "contraction" for nest in graph.ops[position].nests)
