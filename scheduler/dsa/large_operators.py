"""Decomposition of operators that no good tile fits into their loop nests, one after the other through memory.

A softmax, a normalisation or a recurrence passes internal tensors from nest to nest. As one layer these stay in the
local buffer, as far as one tile needs them: whole lines. Where a line is too long, each nest becomes an operator of its
own, whose reduction can be accumulated piece by piece. So does each nest of a recurrence where that is clearly faster:
tiles that only just fit have few results, and all of them compute what the steps begin with.
"""

from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.split_operators import with_operators_split


def with_large_operators_split(costs: DsaCosts) -> DsaCosts:
    """Return the cost model of the network in which operators that fit no tile are decomposed into their nests."""
    analysis = costs.analysis
    ops = analysis.of(_of_several_nests)
    large = tuple([position for position in ops if not costs.fits((position,)) or _is_faster_split(costs, position)])
    return costs.with_network(analysis.of(with_operators_split, large)) if large else costs


def _of_several_nests(analysis: Analysis) -> tuple[int, ...]:
    """Return the positions of operators with several nests of which at least one is a reduction."""
    return tuple([
        position for position, op in enumerate(analysis.graph.ops)
        if op.nests[1:] and any(nest.has_reduction for nest in op.nests)
    ])  # fmt: skip


_CLEARLY_FASTER = 2
"""Speed-up, by estimate, from which a recurrence is decomposed although it fits."""


def _is_faster_split(costs: DsaCosts, op: int) -> bool:
    """Whether the nests of a recurrence take far less time one after the other than as one layer, by estimate."""
    analysis = costs.analysis
    if not any(nest.ordered for nest in analysis.graph.ops[op].nests):
        return False
    apart = costs.with_network(analysis.of(with_operators_split, (op,)))
    further = len(apart.analysis.graph.ops) - len(analysis.graph.ops)
    parts = sum([apart.kernel_s((part,)) for part in range(op, op + further + 1)])
    return further > 0 and _CLEARLY_FASTER * parts < costs.kernel_s((op,))
