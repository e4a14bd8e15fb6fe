"""Selective tuning, the paper's baseline: groups of similar operators, of which one each is tuned from nothing.

Similarity is the overlap of two operators' tilings, over their union. A group is a maximal clique of operators that
are similar in pairs; an operator in several goes where it is most similar (TVM's issue 4188; ETO, sections 1 and 7.2).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from dsascape.tuner.search.reuse.operators import Operator, ReuseError
from dsascape.tuner.search.reuse.sketch_sets import (
    APART,
    CROSS_THREAD,
    FUSED,
    MULTI_LEVEL,
    PARTIAL_SUMS,
    PLAIN,
    TENSOR,
    TWO_LEVEL,
)

SIMILAR = 0.01
"""Similarity from which on two operators may be in one group (the paper's)."""
_MULTI = ("SSSRRSRS".count("S"), "SSSRRSRS".count("R"))
_CPU = ("SSRSRS".count("S"), "SSRSRS".count("R"))
_TILES: Mapping[str, tuple[int, int]] = {
    MULTI_LEVEL: _MULTI, TENSOR: _MULTI, TWO_LEVEL: (2, 1), FUSED: _CPU, APART: _CPU, PLAIN: (1, 1),
}  # fmt: skip
"""Levels of tiles of each space loop and each reduction loop, by the kind of a sketch."""
_OF_REDUCTION = frozenset({CROSS_THREAD, PARTIAL_SUMS})
"""Sketches of which only the reduction is cut."""
_MOST_ROUNDS = 1000


@dataclass(frozen=True, slots=True)
class Group:
    """Operators of which one is tuned; the others try its fastest programs."""

    tuned: int
    """Number of the one that is most similar to the others."""
    members: tuple[int, ...]
    """Numbers of all, that one among them."""


def tilings(extent: int, levels: int) -> int:
    """Return in how many ways a loop can be cut into so many levels of tiles, all sizes whole."""
    ways, prime, left = 1, 2, extent
    while left > 1:
        if prime * prime > left:
            prime = left
        power = 0
        while left % prime == 0:
            left, power = left // prime, power + 1
        ways *= math.comb(power + levels - 1, levels - 1)
        prime += 1
    return ways


def similarity(one: Operator, other: Operator) -> float:
    """Return the similarity of two operators, from 0 to 1; 0 for other kinds or other sketches.

    A tiling is the sizes of all levels but the outermost, so that loops of 8 and of 16 iterations share those of 8.
    The paper does not say how overlap and union are counted: here loop by loop and multiplied, as in the authors'
    released code, by which ResNet-50's convolutions are the paper's seven groups. The overlap of whole spaces over
    their union is larger, and makes them three.
    """
    if one.family != other.family or not one.loops.has_loops_of(other.loops):
        return 0.0
    overlap = union = 0
    for kind in one.sketches:
        shared, either = _counted(one, other, kind)
        overlap, union = overlap + shared, union + either
    return overlap / union


def _counted(one: Operator, other: Operator, kind: str) -> tuple[int, int]:
    """Return the overlap and the union of the tilings of one sketch."""
    own, theirs = one.loops, other.loops
    if kind in _OF_REDUCTION:
        cut = [(own.reduction_size, theirs.reduction_size, 2)]
    elif kind in _TILES:
        space, reduction = _TILES[kind]
        cut = [(*pair, space) for pair in zip(own.space, theirs.space, strict=True)]
        cut += [(*pair, reduction) for pair in zip(own.reduction, theirs.reduction, strict=True)]
    else:
        raise ReuseError(f"{one}: tilings of the sketch {kind!r} are not known; known: {', '.join(_TILES)}")
    overlap = union = 1
    for left, right, levels in cut:
        shared = tilings(math.gcd(left, right), levels)
        overlap *= shared
        union *= tilings(left, levels) + tilings(right, levels) - shared
    return overlap, union


def groups(
    operators: Sequence[Operator],
    similar: float = SIMILAR,
    similarity_of: Callable[[Operator, Operator], float] = similarity,
) -> tuple[Group, ...]:
    """Return the groups of operators, in the order of their first members; each operator is in one.

    Operators of a single maximal clique are in its group. Each other one goes to that of its cliques in whose group
    its similarities add up to most, the first of several, until none moves any more.
    """
    everything = range(len(operators))
    alike = [[similarity_of(operators[one], operators[other]) for other in everything] for one in everything]
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(everything)
    graph.add_edges_from([(a, b) for a in everything for b in range(a + 1, len(operators)) if alike[a][b] >= similar])
    cliques = sorted([sorted(clique) for clique in nx.find_cliques(graph)])
    own = [[number for number, clique in enumerate(cliques) if node in clique] for node in everything]
    place = {node: cliques_of[0] for node, cliques_of in enumerate(own) if len(cliques_of) == 1}
    for _ in range(_MOST_ROUNDS):
        before = dict(place)
        for node in everything:
            if len(own[node]) > 1:
                place[node] = max(own[node], key=lambda clique: _sum(alike[node], clique, place))
        if place == before:
            break
    members: dict[int, list[int]] = {}
    for node in everything:
        members.setdefault(place[node], []).append(node)
    return tuple([_group(each, alike) for each in sorted(members.values())])


def _sum(alike: Sequence[float], clique: int, place: Mapping[int, int]) -> float:
    """Return the sum of similarities to what is in a clique's group, the operator itself included if it is there."""
    return sum([alike[node] for node, at in sorted(place.items()) if at == clique])


def _group(members: Sequence[int], alike: Sequence[Sequence[float]]) -> Group:
    tuned = max(members, key=lambda node: sum([alike[node][other] for other in members]))
    return Group(tuned, tuple(members))
