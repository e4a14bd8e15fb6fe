"""The best grouping among those whose kernels are stretches of the operators' order, by dynamic programming.

Cutting an order in which every operator comes behind those that it reads never makes kernels wait in a circle. What is
lost: kernels whose operators do not stand beside each other, such as the arms of a branch. `improved` starts from here
as well as from plans of others.
"""

import math
from operator import itemgetter

from dsascape.fusion.searched.grouping import Asked, Grouping
from dsascape.workloads.graph import Graph


def best_intervals(graph: Graph, asked: Asked, most_ops: int) -> Grouping:
    """Return the stretches of at most ``most_ops`` operators, in the graph's order, whose seconds sum to the least.

    An operator that is not to be had in any of them is one by itself.
    """
    least_s, begin_of = [0.0], [0]
    for end in range(1, len(graph.ops) + 1):
        totals = (
            (least_s[begin] + asked.seconds(tuple(range(begin, end))), begin)
            for begin in range(end - 1, max(end - most_ops, 0) - 1, -1)
        )
        total_s, begin = min(totals, key=itemgetter(0))
        known = total_s < math.inf
        least_s.append(total_s if known else least_s[-1])
        begin_of.append(begin if known else end - 1)
    parts = []
    end = len(graph.ops)
    while end:
        parts.append(tuple(range(begin_of[end], end)))
        end = begin_of[end]
    return frozenset(parts)
