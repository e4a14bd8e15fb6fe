"""Weights of operators: how hard they are to tune (AGO, section IV-A)."""

import math
from dataclasses import dataclass

from workloads.graph import Graph, Op
from workloads.loopnest import LoopNest, mapping_of

SLOPE = 0.000255
BIAS = 1.0
BASE = 1.18
"""c and b of eq. (1) and the base of its logarithm, fitted to what the paper prints of Relay's partition of MobileViT:
its mean weight, its median, and how many sub-graphs weigh less than 20 (`experiments.papers.ago_tables.fitted`)."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Eq. (1): slope times the product of the logarithms of the loops' extents, plus bias.

    The base of the logarithm (more than 1) is a third free number: a nest of n loops weighs ``ln(base) ** -n`` times
    its weight in natural logarithms, so that a small base raises convolutions, of up to seven loops, far above what
    moves data in two or three. Open in the paper, and read so: a loop of one iteration is none, or every network at
    batch 1 would weigh nothing; an operator of several loop nests weighs what they do together.
    """

    slope: float = SLOPE
    bias: float = BIAS
    base: float = BASE

    def of(self, op: Op) -> float:
        """Return the weight of an operator."""
        return self.slope * sum(map(self._product, op.nests)) + self.bias

    def _product(self, nest: LoopNest) -> float:
        return math.prod(math.log(loop.extent, self.base) for loop in nest.loops if loop.extent > 1)


def is_complex(graph: Graph, position: int) -> bool:
    """Whether an operator is a convolution, a matrix product or the like: multiplies and adds up."""
    return any(mapping_of(nest) == "contraction" for nest in graph.ops[position].nests)
