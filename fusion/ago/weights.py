"""Weights of operators: how hard they are to tune (AGO, section IV-A)."""

import math
from dataclasses import dataclass

from workloads.graph import Graph, Op
from workloads.loopnest import LoopNest, mapping_of

SLOPE = 0.97
BIAS = 0.0
"""c and b of eq. (1), fitted to what the paper prints of Relay's partition of MobileViT: to the mean weight of 138, and
to the median of 23 as near as it comes with a bias that is not negative (`experiments.papers.ago_tables`)."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Eq. (1): slope times the product of the logarithms of the loops' extents, plus bias.

    Open in the paper, and read so: the logarithm is the natural one; a loop of one iteration is none, or every network
    at batch 1 would weigh nothing; an operator of several loop nests weighs what they do together.
    """

    slope: float = SLOPE
    bias: float = BIAS

    def of(self, op: Op) -> float:
        """Return the weight of an operator."""
        return self.slope * sum(map(_loops, op.nests)) + self.bias


def _loops(nest: LoopNest) -> float:
    return math.prod(math.log(loop.extent) for loop in nest.loops if loop.extent > 1)


def is_complex(graph: Graph, position: int) -> bool:
    """Whether an operator is a convolution, a matrix product or the like: multiplies and adds up."""
    return any(mapping_of(nest) == "contraction" for nest in graph.ops[position].nests)
