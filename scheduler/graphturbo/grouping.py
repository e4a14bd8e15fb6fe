"""Algorithm 2: growing sub-graphs along straight, diamond and branch patterns, as far as the local buffers allow.

The paper starts from single operators; here it starts from layers (an operator with its fused followers), because
loops are fused within layers in any case (section 4.1), and tensors inside a fused loop nest take no space. A diamond's
paths may have several sub-graphs each, where the figure draws one; rule (ii) then looks at all of them. A merge that
would load more bytes of weights again, once per instance, than it keeps on chip between layers is refused: the paper
assumes that the weights are small, which holds for its convolutions and not for its matrix products. A producer whose
last operator has several outputs, such as Split, counts as one with a unique consumer where all of them go to the same
sub-graph; the paper shows none.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from dsascape.fusion.fixed_pattern import fixed_pattern_of
from dsascape.fusion.plan import FusionPlan, Group
from dsascape.scheduler.graphturbo.layer_piece import WalkedPiece
from dsascape.scheduler.graphturbo.local_capacity import LocalCapacity
from dsascape.scheduler.graphturbo.merging import merged
from dsascape.scheduler.graphturbo.pieces import Piece, operators
from dsascape.scheduler.graphturbo.splitting import SplitChoice, Splittable, best_split, fitting_splits, repeats_little
from dsascape.scheduler.kernels.cut import layers_by_pattern
from dsascape.wording import count
from dsascape.workloads.analysis import Analysis, Table

_MOST_WALKED = 2048
"""Maximum number of operators of a sub-graph joined through several outputs of one operator: each step of its growth
walks over all of them."""
_MOST_GROUPINGS = 512
"""Size of the cache of groupings per network; each may have hundreds of sub-graphs."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """Sub-graph made by Algorithm 2, with its best split (None: no split fits) and the reason why growth ended."""

    sub: Splittable
    split: SplitChoice | None
    reason: str

    def group(self, *, cut: bool) -> Group:
        """Return the plan's group of this sub-graph, with its split if it is to be ``cut`` into instances.

        A single layer is one instance: its tiles serve the same purpose as instances.
        """
        several = len(layers_by_pattern(self.sub.analysis, self.sub.ops)) > 1
        uses_split = cut and several and self.split is not None and self.split.factor > 1
        return Group(self.sub.ops, self.reason, self.split.split if uses_split and self.split is not None else None)


@dataclass(frozen=True, slots=True)
class Grouping:
    """The sub-graphs of a network, in the topological order of their last operators."""

    subgraphs: tuple[Grouped, ...] = field(hash=False)
    fitted_bytes: int
    """Largest footprint tried that fits, in bytes; distinct for each grouping of the network."""
    refused_bytes: int | None
    """Smallest footprint tried that does not fit, in bytes; None if all fit."""

    def is_for(self, local_bytes: int) -> bool:
        """Return whether the grouping is valid for ``local_bytes`` of local buffers."""
        return self.fitted_bytes <= local_bytes and (self.refused_bytes is None or local_bytes < self.refused_bytes)


@dataclass(slots=True)
class _Node:
    piece: Piece
    split: SplitChoice | None
    reason: str = "nothing follows"


class Grouper:
    """Merges sub-graphs until no pattern applies. Deterministic: patterns are tried in topological order."""

    def __init__(
        self, analysis: Analysis, local_bytes: int, most_recompute: float, *, counts_inputs: bool = True
    ) -> None:
        graph = self._graph = analysis.graph
        self._analysis = analysis
        self._room = LocalCapacity(local_bytes)
        self._most_recompute = most_recompute
        self._counts_inputs = counts_inputs
        self._refused: set[int] = set()
        """Unions of layers, as bit sets, that were refused as sub-graphs."""
        self._nodes: dict[int, _Node] = {}
        self._next: dict[int, dict[int, None]] = {}
        self._previous: dict[int, dict[int, None]] = {}
        layers = analysis.of(fixed_pattern_of)
        self._fused = analysis.of(_tensors_inside_layers)
        for number in range(len(layers.groups)):  # l. 1-4
            piece = analysis.of(layer_piece, number, counts_inputs)
            self._nodes[number] = _Node(piece, self._best(piece))
            self._next[number] = {}
            self._previous[number] = {}
        for position, op in enumerate(graph.ops):
            number = layers.group_of[position]
            for name in op.inputs:
                producer = graph.producer.get(name)
                before = number if producer is None else layers.group_of[producer]
                if before != number:
                    self._next[before][number] = None
                    self._previous[number][before] = None

    def _best(self, piece: Piece) -> SplitChoice | None:
        def allowed(split: SplitChoice) -> bool:
            return _pays(piece, split) and repeats_little(piece, split, self._most_recompute)

        return best_split(fitting_splits(piece, self._room), allowed)

    def run(self) -> Grouping:
        """Merge sub-graphs until no pattern applies; return the grouping."""
        while True:  # l. 5-15
            before = len(self._nodes)
            self._straight()
            self._diamonds()
            self._branches()
            if len(self._nodes) == before:
                break
        nodes = sorted(self._nodes.values(), key=lambda node: node.piece.last)
        grouped = [
            Grouped(
                self._analysis.of(_splittable, operators(node.piece), self._fused, self._counts_inputs),
                node.split, node.reason,
            )
            for node in nodes
        ]
        return Grouping(tuple(grouped), self._room.fitted_bytes, self._room.refused_bytes)

    def _straight(self) -> None:
        """Fig. 4a: a unique producer and its unique consumer."""
        for start in list(self._nodes):
            first = start
            while first in self._nodes and len(self._next[first]) == 1 and self._is_inner(first):
                second = next(iter(self._next[first]))
                if len(self._previous[second]) != 1 or not self._merge_pair(first, second):
                    break
                first = second

    def _branches(self) -> None:
        """Fig. 4c: an exit that several paths lead to takes the producers that lead to nothing else."""
        for exit_ in list(self._nodes):
            if exit_ not in self._nodes or len(self._previous[exit_]) < 2:  # noqa: PLR2004 - several paths
                continue
            for producer in sorted(self._previous[exit_], reverse=True):
                if producer in self._nodes and len(self._next[producer]) == 1 and self._is_inner(producer):
                    self._merge_pair(producer, exit_)

    def _diamonds(self) -> None:
        """Fig. 4b: between one entry and one exit, the paths' sub-graphs and the exit become one."""
        for entry in list(self._nodes):
            if entry not in self._nodes or len(self._next[entry]) < 2:  # noqa: PLR2004 - several paths
                continue
            by_exit: dict[int, list[list[int]]] = {}
            for first in self._next[entry]:
                path, exit_ = self._path(first)
                if path:
                    by_exit.setdefault(exit_, []).append(path)
            for exit_, paths in by_exit.items():
                enters_elsewhere = set(self._previous[exit_]) - {path[-1] for path in paths} - {entry}
                if len(paths) > 1 and not enters_elsewhere:
                    self._merge_diamond([node for path in paths for node in path], exit_)

    def _path(self, first: int) -> tuple[list[int], int]:
        """Return the chain of sub-graphs from ``first`` with one producer and one consumer each, and its successor."""
        path: list[int] = []
        while len(self._previous[first]) == 1 and len(self._next[first]) == 1 and self._is_inner(first):
            path.append(first)
            first = next(iter(self._next[first]))
        return path, first

    def _is_inner(self, node: int) -> bool:
        """Return whether only outputs of the node's last operator leave it, none of them a result of the network."""
        piece = self._nodes[node].piece
        return piece.only_last_leads_out and self._graph.results.isdisjoint(self._graph.ops[piece.last].outputs)

    def _merge_pair(self, first: int, second: int) -> bool:
        """Rule (i): SG2 is split at least as often as SG1, and the union no more often than SG2."""
        one, two = self._nodes[first], self._nodes[second]
        if one.split is None or two.split is None:
            one.reason = "no dimension can be split so that it fits the local buffers"
            return False
        if two.split.factor < one.split.factor:
            one.reason = f"its splitting factor {one.split.factor} exceeds its follower's {two.split.factor}"
            return False
        return self._merge((first,), second, two.split.factor)

    def _merge_diamond(self, middles: list[int], exit_: int) -> bool:
        """Rule (ii): the union is split no more often than the part that is split most."""
        splits = [self._nodes[node].split for node in (*middles, exit_)]
        factors = [split.factor for split in splits if split is not None]
        if len(factors) < len(splits):
            return False
        return self._merge(middles, exit_, max(factors))

    def _merge(self, sources: Iterable[int], target: int, most_factor: int) -> bool:
        sources = tuple(sources)
        pieces = tuple(self._nodes[source].piece for source in sources)
        layers = self._nodes[target].piece.layers
        for piece in pieces:
            layers |= piece.layers
        if layers in self._refused:
            return False
        union = self._union(pieces, self._nodes[target].piece, layers)
        if union is None:
            for source in sources:
                self._nodes[source].reason = f"together with its follower it has more than {_MOST_WALKED} operators"
            return False
        split = self._best(union)
        if split is None or split.factor > most_factor:
            self._refused.add(layers)
            instances = "" if split is None else f"{count(split.factor, 'instance')} instead of {most_factor}"
            needs = f"needs {instances}" if instances else "cannot be split"
            for source in sources:
                self._nodes[source].reason = f"together with its follower it {needs}: the local buffers are full"
            return False
        self._nodes[target] = _Node(union, split, self._nodes[target].reason)
        for source in sources:
            for before in self._previous.pop(source):
                if before in self._next:
                    del self._next[before][source]
                    if before != target and before not in sources:
                        self._next[before][target] = None
                        self._previous[target][before] = None
            for after in self._next.pop(source):
                if after in self._previous:
                    self._previous[after].pop(source, None)
            del self._nodes[source]
        return True

    def _union(self, sources: tuple[Piece, ...], target: Piece, layers: int) -> Piece | None:
        """Return the union of pieces; None if it would need a walk over more than ``_MOST_WALKED`` operators."""
        if all(source.has_single_output for source in sources):
            return self._analysis.of(merged, sources, target)
        ops = sorted(op for piece in (*sources, target) for op in operators(piece))
        if len(ops) > _MOST_WALKED:
            return None
        return self._analysis.of(walked, tuple(ops), layers, self._counts_inputs)


def tensors_inside(layers: FusionPlan) -> frozenset[str]:
    """Return the stored tensors whose producer and consumers are all in one layer."""
    return frozenset(name for subgraph in layers.subgraphs for name in subgraph.inner)


def _tensors_inside_layers(analysis: Analysis) -> frozenset[str]:
    return tensors_inside(analysis.of(fixed_pattern_of))


def _pays(piece: Piece, split: SplitChoice) -> bool:
    """Return whether the instances save more traffic between layers than reloading weights costs."""
    is_layer = not piece.layers & piece.layers - 1
    if split.factor == 1 or is_layer:
        return True
    return (split.factor - 1) * piece.weights.size_bytes <= 2 * piece.inner_bytes


def layer_piece(analysis: Analysis, number: int, counts_inputs: bool = True) -> WalkedPiece:
    """Return layer ``number`` of the network as a piece."""
    return walked(analysis, analysis.of(fixed_pattern_of).groups[number].ops, 1 << number, counts_inputs)


def walked(analysis: Analysis, ops: tuple[int, ...], layers: int, counts_inputs: bool = True) -> WalkedPiece:
    """Return the piece of ``ops``, which make up the bit set ``layers``, evaluated by walks over its operators."""
    return WalkedPiece(layers, analysis.of(_splittable, ops, analysis.of(_tensors_inside_layers), counts_inputs))


def _splittable(
    analysis: Analysis, ops: tuple[int, ...], fused: frozenset[str], counts_inputs: bool = True
) -> Splittable:
    return Splittable(analysis.graph, ops, analysis, fused, counts_inputs)


def group_subgraphs(
    analysis: Analysis, local_bytes: int, most_recompute: float, *, counts_inputs: bool = True
) -> Grouping:
    """Return GraphTurbo's sub-graphs of a network for ``local_bytes`` of local buffers in a cluster.

    ``counts_inputs``: whether inputs from other sub-graphs count in an instance's footprint. A cached result is reused
    for every buffer size between the largest footprint that fitted and the smallest that did not.
    """
    cache = analysis.of(_known_groupings, most_recompute, counts_inputs)
    grouping = next((each for each in cache.values() if each.is_for(local_bytes)), None)
    if grouping is None:
        grouping = Grouper(analysis, local_bytes, most_recompute, counts_inputs=counts_inputs).run()
        cache.get(grouping.fitted_bytes, lambda: grouping)
    return grouping


def _known_groupings(analysis: Analysis, most_recompute: float, counts_inputs: bool) -> Table[Grouping]:
    """Return the cache of a network's groupings, keyed by the largest footprint that fitted."""
    del analysis, most_recompute, counts_inputs  # whose table it is
    return Table(_MOST_GROUPINGS)
