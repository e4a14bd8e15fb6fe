"""Optimal grouping among those whose kernels are contiguous intervals of the operators' order (dynamic programming).

Dividing a topological order never makes kernels depend on each other cyclically. Kernels of operators that are not
neighbours in the order, such as the arms of a branch, are not considered. `improved` starts from this grouping as well
as from other plans.
"""

import math
from operator import itemgetter

from dsascape.fusion.searched.grouping import BudgetedCosts, Grouping
from dsascape.workloads.graph import Graph


def best_intervals(graph: Graph, costs: BudgetedCosts, most_ops: int) -> Grouping:
    """Return the intervals of at most ``most_ops`` operators, in the graph's order, with the smallest sum of seconds.

    An operator that no feasible interval contains is an interval by itself.
    """
    least_s, begin_of = [0.0], [0]
    for end in range(1, len(graph.ops) + 1):
        totals = (
            (least_s[begin] + costs.seconds(tuple(range(begin, end))), begin)
            for begin in range(end - 1, max(end - most_ops, 0) - 1, -1)
        )
        total_s, begin = min(totals, key=itemgetter(0))
        is_feasible = total_s < math.inf
        least_s.append(total_s if is_feasible else least_s[-1])
        begin_of.append(begin if is_feasible else end - 1)
    parts = []
    end = len(graph.ops)
    while end:
        parts.append(tuple(range(begin_of[end], end)))
        end = begin_of[end]
    return frozenset(parts)
