"""Operators that no tile fits, taken apart into their loop nests: these run one after the other, through memory.

A softmax, a normalisation or a recurrence passes tensors of its own from nest to nest. As one layer they stay in the
local buffer, for as much as one tile needs: whole lines. Where a line is too long, each nest becomes an operator of its
own, whose reduction can be added up piece by piece.
"""

from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.nests_apart import nests_apart


def with_large_operators_apart(costs: DsaCosts) -> DsaCosts:
    """Return ``costs`` of the network in which the operators that fit no tile are taken apart."""
    analysis = costs.analysis
    ops = analysis.of(_of_several_nests)
    large = tuple([position for position in ops if not costs.fits((position,))])
    return costs.with_network(analysis.of(nests_apart, large)) if large else costs


def _of_several_nests(analysis: Analysis) -> tuple[int, ...]:
    """Return the positions of the operators that have several nests, a reduction among them."""
    return tuple([
        position for position, op in enumerate(analysis.graph.ops)
        if op.nests[1:] and any(nest.has_reduction for nest in op.nests)
    ])  # fmt: skip
