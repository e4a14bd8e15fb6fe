"""Operators and optimization-choice graphs to test with, and the least tree of a small graph by going through all."""

import math
import random
from collections.abc import Iterator, Mapping
from itertools import chain, combinations, product

from hypothesis import strategies as st

from dsascape.tuner.search.reuse.choices import ROOT, Choices
from dsascape.tuner.search.reuse.operators import IterationSpace, Operator, OperatorKind
from dsascape.tuner.search.reuse.sketch_sets import with_sketches

PRODUCT = OperatorKind("BMM")


def product_of(batch: int, rows: int, columns: int, depth: int, name: str = "") -> Operator:
    return with_sketches(Operator(PRODUCT, IterationSpace((batch, rows, columns), (depth,)), name=name))


products = st.builds(
    product_of, *[st.sampled_from(sizes) for sizes in ((1, 2, 12), (8, 16, 64), (8, 16, 64), (2, 4, 8, 512))]
)
sets_of_products = st.lists(products, min_size=1, max_size=6, unique=True)


def graph(costs: Mapping[tuple[int, int], float], wanted: int) -> Choices:
    """Return a graph of operators that are all alike but for their size."""
    nodes = max(target for _, target in costs) + 1
    return Choices(tuple([product_of(1, 1 + node, 1, 1) for node in range(nodes)]), wanted, dict(costs))


@st.composite
def graphs(draw: st.DrawFn, bridges: int, wanted: int = 3) -> Choices:
    """Draw a graph of at most so many operators and bridges, with small whole costs so that many are equal."""
    wanted = draw(st.integers(1, wanted))
    nodes = wanted + draw(st.integers(0, bridges))
    edges = [(source, target) for source in (ROOT, *range(nodes)) for target in range(nodes) if source != target]
    costs = {edge: float(draw(st.integers(1, 9))) for edge in edges if edge[0] == ROOT or draw(st.booleans())}
    return graph(costs, wanted)


def random_graph(wanted: int, bridges: int, density: float, seed: int) -> Choices:
    """Return a graph whose root edges cost 1,000, and others from 20 to 600."""
    rng, nodes = random.Random(seed), wanted + bridges
    costs = {(ROOT, node): 1000.0 for node in range(nodes)}
    for source in range(nodes):
        for target in range(nodes):
            if source != target and rng.random() < density:
                costs[source, target] = rng.uniform(20, 600)
    return graph(costs, wanted)


def trees(choices: Choices) -> Iterator[Mapping[int, int]]:
    """Yield every tree from the root that reaches all that is wanted, with any bridges."""
    bridges = range(choices.wanted, len(choices.operators))
    for extra in chain.from_iterable(combinations(bridges, size) for size in range(len(bridges) + 1)):
        among = (*range(choices.wanted), *extra)
        sources = [[source for _, source in choices.incoming[node] if source in (ROOT, *among)] for node in among]
        for chosen in product(*sources):
            parents = dict(zip(among, chosen, strict=True))
            if is_tree(parents):
                yield parents


def is_tree(parents: Mapping[int, int]) -> bool:
    """Whether one comes to the root from everywhere."""
    for start in parents:
        node = start
        for _ in parents:
            node = parents.get(node, ROOT) if node != ROOT else ROOT
        if node != ROOT:
            return False
    return all(source == ROOT or source in parents for source in parents.values())


def least_cost(choices: Choices) -> float:
    """Return the cost of the least tree that reaches all that is wanted (Dreyfus and Wagner's recursion, directed).

    The least tree from a node to a set of operators is a path to where it splits, and two trees to parts of the set.
    """
    nodes = (ROOT, *range(len(choices.operators)))
    least: dict[tuple[int, int], float] = {}
    for sources in range(1, 1 << choices.wanted):
        at = dict.fromkeys(nodes, math.inf)
        for node in nodes:
            if node != ROOT and sources == 1 << node:
                at[node] = 0.0
            part = (sources - 1) & sources
            while part:
                at[node] = min(at[node], least[part, node] + least[sources ^ part, node])
                part = (part - 1) & sources
        for _ in nodes:
            for (source, target), cost in choices.costs.items():
                at[source] = min(at[source], cost + at[target])
        least |= {(sources, node): cost for node, cost in at.items()}
    return least[(1 << choices.wanted) - 1, ROOT]
