"""Optimization-choice graph: what each operator can be tuned from, and what that costs (ETO, section 6).

Operators are nodes; an edge leads to an operator from each one whose program it can reuse, and from a root, which
stands for tuning from nothing. Costs are trials. A set of reuse pairs is a tree from the root.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from dsascape.tuner.search.reuse.operators import Operator, ReuseError, reuse_pairs
from dsascape.wording import count

ROOT = -1
"""The root's number; operators are numbered from 0."""
FROM_NOTHING = 1000.0
"""Trials of a tuning from nothing (the paper's)."""
ReuseCost = Callable[[Operator, Operator], float]
"""Trials that an operator, the first, takes to be tuned from the second's program."""
Parents = Mapping[int, int]
"""A tree: for each operator in it what it is tuned from, an operator or the root."""


@dataclass(frozen=True)
class Choices:
    """The graph: operators that are wanted, bridges behind them, and the cost of each edge."""

    operators: tuple[Operator, ...]
    wanted: int
    """How many operators, the first ones, are to be tuned; the others are bridges."""
    costs: Mapping[tuple[int, int], float]
    """Trials of each edge (tuned from, operator), those of the root among them, in a fixed order."""

    def __post_init__(self) -> None:
        if not 0 <= self.wanted <= len(self.operators):
            raise ReuseError(f"{count(self.wanted, 'operator')} of {len(self.operators)} wanted")
        for (source, target), cost in self.costs.items():
            if not (source == ROOT or 0 <= source < len(self.operators)) or not 0 <= target < len(self.operators):
                raise ReuseError(f"an edge leads from {source} to {target} of {count(len(self.operators), 'operator')}")
            if not 0 < cost < math.inf:
                name = self._name(source)
                raise ReuseError(f"tuning {self.operators[target]} from {name} has the cost {cost}; needs one above 0")
        for target in range(len(self.operators)):
            if (ROOT, target) not in self.costs:
                raise ReuseError(f"{self.operators[target]} cannot be tuned from nothing")

    def _name(self, node: int) -> str:
        return "nothing" if node == ROOT else str(self.operators[node])

    @cached_property
    def incoming(self) -> Sequence[Sequence[tuple[float, int]]]:
        """For each operator the edges that lead to it, (trials, tuned from), the cheapest first."""
        found: list[list[tuple[float, int]]] = [[] for _ in self.operators]
        for (source, target), cost in self.costs.items():
            found[target].append((cost, source))
        return [sorted(each) for each in found]

    def cost(self, parents: Parents) -> float:
        """Return the trials of a tree."""
        return sum([self.costs[source, target] for target, source in sorted(parents.items())])


def choices_of(
    operators: Sequence[Operator],
    reuse_cost: ReuseCost,
    bridges: Sequence[Operator] = (),
    from_nothing: float = FROM_NOTHING,
) -> Choices:
    """Return the graph of operators and bridges; raise ``ReuseError`` for costs that are not positive numbers.

    ``reuse_cost`` is asked once for each ordered reuse pair.
    """
    everything = (*operators, *bridges)
    costs: dict[tuple[int, int], float] = {(ROOT, target): from_nothing for target in range(len(everything))}
    for target, source in reuse_pairs(everything):
        costs[source, target] = float(reuse_cost(everything[target], everything[source]))
    return Choices(everything, len(operators), costs)


def arborescence(choices: Choices, among: Collection[int]) -> Parents:
    """Return the tree of least cost that reaches all of some operators, and no others (Edmonds' algorithm).

    Equal costs are told apart by the order of the operators.
    """
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from([ROOT, *sorted(among)])
    for target in sorted(among):
        for cost, source in choices.incoming[target]:
            if source == ROOT or source in among:
                graph.add_edge(source, target, weight=cost)
            if source == ROOT:
                break  # What costs more than a tuning from nothing is in no tree of least cost.
    tree = nx.minimum_spanning_arborescence(graph)
    return {target: source for source, target in sorted(tree.edges, key=lambda edge: edge[1])}
