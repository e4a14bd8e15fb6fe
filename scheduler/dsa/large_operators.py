"""Decomposition of operators that no tile fits into their loop nests, which run one after the other through memory.

A softmax, a normalisation or a recurrence passes internal tensors from nest to nest. As one layer these stay in the
local buffer, as far as one tile needs them: whole lines. Where a line is too long, each nest becomes an operator of its
own, whose reduction can be accumulated piece by piece.
"""

from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.split_operators import with_operators_split


def with_large_operators_split(costs: DsaCosts) -> DsaCosts:
    """Return the cost model of the network in which operators that fit no tile are decomposed into their nests."""
    analysis = costs.analysis
    ops = analysis.of(_of_several_nests)
    large = tuple([position for position in ops if not costs.fits((position,))])
    return costs.with_network(analysis.of(with_operators_split, large)) if large else costs


def _of_several_nests(analysis: Analysis) -> tuple[int, ...]:
    """Return the positions of operators with several nests of which at least one is a reduction."""
    return tuple([
        position for position, op in enumerate(analysis.graph.ops)
        if op.nests[1:] and any(nest.has_reduction for nest in op.nests)
    ])  # fmt: skip
