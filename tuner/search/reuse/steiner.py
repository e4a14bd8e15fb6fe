"""Directed Steiner trees by the greedy algorithm FLAC (Watel and Weisser, J. Comb. Optim. 32, 2016).

Every operator that the tree does not reach yet is a source of water, one unit a second. Water flows against the edges:
each edge that leads to an operator fills at the rate of that operator, an edge's cost is its volume. A full edge lets
the rates of all sources behind it through to where the edge comes from. An edge that would join two streams from one
source is left out. When an edge from the tree is full, the streams that it carries are a tree of small cost for each
operator, and become part of the whole; then the next sources flow. The result costs at most as many times the
optimum as there are operators to reach.
"""

import heapq
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from dsascape.tuner.search.reuse.choices import ROOT, Choices, Parents, arborescence


def greedy_flac(choices: Choices) -> Parents:
    """Return a tree from the root that reaches all operators that are wanted, and bridges where these make it cheap.

    Ties: what is full at the same time is taken in the order of the operators that edges lead to, edges of one
    operator in the order of where they come from.
    """
    tree: dict[int, int] = {}
    while missing := [node for node in range(choices.wanted) if node not in tree]:
        tree |= _flow(choices, missing, tree.keys())
    return tree


def improved(choices: Choices, tree: Parents) -> Parents:
    """Return a tree that costs no more: the cheapest over the same nodes, without bridges that make it dearer.

    The bridge that saves most is left out first, until none saves anything.
    """
    best = arborescence(choices, tree.keys())
    while True:
        bridges = [node for node in sorted(best) if node >= choices.wanted]
        others = [arborescence(choices, best.keys() - {bridge}) for bridge in bridges]
        cheaper = min(others, key=choices.cost, default=best)
        if choices.cost(cheaper) >= choices.cost(best):
            return best
        best = cheaper


@dataclass
class _Node:
    """Streams at one operator while water flows."""

    sources: int = 0
    """Operators whose water arrives here, as a set of bits."""
    level: float = 0.0
    """Volume of water in each of its edges at the time ``since``."""
    since: float = 0.0
    next_edge: int = 0
    """Number of its first edge, by cost, that is neither full nor left out."""
    version: int = 0
    """Number of times that its rate has changed; later times of older versions are out of date."""
    above: list[int] = field(default_factory=list)
    """Operators that its full edges come from."""
    below: list[int] = field(default_factory=list)
    """Operators that full edges lead to from here."""

    @property
    def rate(self) -> int:
        return self.sources.bit_count()


class _Water:
    """Water in a graph, with the edges that are full."""

    def __init__(self, choices: Choices) -> None:
        self._incoming = choices.incoming
        self._queue: list[tuple[float, int, int]] = []
        """Times at which the next edge of a node is full: (seconds, node, version of the node)."""
        self.nodes = [_Node() for _ in choices.operators]

    def pour(self, node: int, sources: int, time: float) -> None:
        """Let water of more sources arrive at a node from now on."""
        own = self.nodes[node]
        own.level += own.rate * (time - own.since)
        own.since, own.sources, own.version = time, own.sources | sources, own.version + 1
        self._wait(node)

    def _wait(self, node: int) -> None:
        """Note when the next edge of a node is full."""
        own = self.nodes[node]
        if own.next_edge < len(self._incoming[node]):
            cost = self._incoming[node][own.next_edge][0]
            full = own.since + max(cost - own.level, 0.0) / own.rate
            heapq.heappush(self._queue, (full, node, own.version))

    def next_full(self) -> tuple[float, int, int]:
        """Return the next edge that is full, as (seconds, where it comes from, where it leads to)."""
        while True:
            time, node, version = heapq.heappop(self._queue)
            own = self.nodes[node]
            if version == own.version:
                source = self._incoming[node][own.next_edge][1]
                own.next_edge += 1
                self._wait(node)
                return time, source, node

    def upstream(self, node: int) -> list[int]:
        """Return a node and all that its water flows on to, each once."""
        found = {node: None}
        queue = [node]
        while queue:
            for above in self.nodes[queue.pop()].above:
                if above not in found:
                    found[above] = None
                    queue.append(above)
        return list(found)


def _flow(choices: Choices, missing: list[int], reached: AbstractSet[int]) -> Parents:
    """Return the part of a tree that the first full edge from what is reached, or the root, brings."""
    water = _Water(choices)
    for bit, node in enumerate(missing):
        water.pour(node, 1 << bit, 0.0)
    while True:
        time, source, target = water.next_full()
        if source == ROOT or source in reached:
            return _streams(water, source, target)
        sources = water.nodes[target].sources
        onward = water.upstream(source)
        if any(water.nodes[node].sources & sources for node in onward):
            continue
        water.nodes[target].above.append(source)
        water.nodes[source].below.append(target)
        for node in onward:
            water.pour(node, sources, time)


def _streams(water: _Water, source: int, target: int) -> Parents:
    """Return the tree of full edges that water comes to an edge through, that edge included."""
    found = {target: source}
    queue = [target]
    while queue:
        node = queue.pop()
        for below in water.nodes[node].below:
            found[below] = node
            queue.append(below)
    return found
