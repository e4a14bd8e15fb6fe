"""Pieces evaluated by walks over their operators: layers, and pieces joined by several outputs of one operator.

A layer has few operators. Merged pieces need a single connecting tensor, so where an operator has several outputs, such
as Split, the whole union is walked over instead.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TypeVar

from dsascape.scheduler.graphturbo import live_bytes, numbered
from dsascape.scheduler.graphturbo.deep import Deep
from dsascape.scheduler.graphturbo.live_bytes import AtOperator, LiveBytes
from dsascape.scheduler.graphturbo.numbered import Numbered
from dsascape.scheduler.graphturbo.pieces import Alive, Counted, Cut, Piece, Span, Tensors, TileWork
from dsascape.scheduler.graphturbo.splitting import Match, Splittable, instance_bytes, instance_work, is_clean
from dsascape.workloads.graph import Graph
from dsascape.workloads.loopnest import Extents

_T = TypeVar("_T")


class WalkedPiece(Piece):
    """Piece of one or several layers, given as the bit set ``layers``."""

    def __init__(self, layers: int, sub: Splittable) -> None:
        super().__init__()
        self._sub = sub
        self.own_ops = sub.ops
        graph = sub.graph
        self.tensors = tensors = sub.analysis.of(Tensors)
        self.last, self.size, self.layers = sub.ops[-1], len(sub.ops), layers
        self.sink, self.has_single_output = sub.sink, sub.has_single_output
        self.only_last_leads_out = set(sub.escaping) <= set(graph.ops[sub.ops[-1]].outputs)
        stored_sink = graph.storage[sub.sink.name]
        self.stored_sink = tensors.number[stored_sink]
        weights = [name for name in sub.inputs if _is_weight(graph, name)]
        self.weights = _counted(tensors, weights, [name for name in weights if len(graph.consumers[name]) > 1])
        viewed = [name for name in sub.produced if tensors.number[name] in tensors.viewed]
        self.produced = _counted(tensors, sub.produced, viewed)
        self.produced_sink_bytes = graph.tensors[stored_sink].size_bytes if stored_sink in sub.produced else 0
        self.counts_inputs = sub.counts_inputs
        self._comes_in = [sub.is_from_outside(life) for life in sub.lives]
        self.spans = _map(self._spans())

    def _spans(self) -> Iterator[tuple[int, Span]]:
        ops, tensors = self._sub.ops, self.tensors
        for life, comes_in in zip(self._sub.lives, self._comes_in, strict=True):
            number = tensors.number[life.root]
            if comes_in or number == self.stored_sink or number in tensors.viewed_weights:
                yield number, Span(-1 if comes_in else ops[life.begin], ops[life.end])

    def _find_cut(self, dim: int | None) -> Deep[Cut]:
        yield from ()
        sub, tensors = self._sub, self.tensors
        matched = sub.matches(dim)
        read = ((tensors.number[name], name) for name in sub.inputs if name in matched)
        demands = _map(
            (number, matched[name])
            for number, name in read
            if number in tensors.viewed_weights or not _is_weight(sub.graph, name)
        )
        stored_dim, _ = matched.get(sub.graph.storage[sub.sink.name], (None, False))
        return Cut(dim, demands, is_clean(sub, matched), stored_dim is not None)

    def _find_alive(self, dim: int | None, factor: int) -> Deep[Alive]:
        yield from ()
        sub = self._sub
        matched: Mapping[str, Match] = {} if dim is None else sub.matches(dim)
        begins, ends = [0] * len(sub.ops), [0] * len(sub.ops)
        outside_bytes = 0
        for (root, size, begin, end), comes_in in zip(sub.lives, self._comes_in, strict=True):
            if comes_in and not self.counts_inputs:
                continue
            held = instance_bytes(size, factor) if matched.get(root, (None, False))[0] is not None else size
            begins[begin] += held
            ends[end] += held
            outside_bytes += held if comes_in else 0
        changes = zip(sub.ops, begins, ends, strict=True)
        steps: list[LiveBytes] = [AtOperator(position, begin, begin - end) for position, begin, end in changes]
        return Alive(reduce(lambda known, step: live_bytes.joined(known, 0, step, 0), steps), outside_bytes)

    def _find_split(self, dim: int, factor: int) -> Deep[int]:
        yield from ()
        return self._sub.operators_split(dim, factor)

    def _find_work(self, tile: Extents) -> Deep[TileWork]:
        yield from ()
        once, of_tile, needs = instance_work(self._sub.analysis, self._sub.ops, tile)
        producer = self._sub.graph.producer
        read = ((self.tensors.number[n], needs[n]) for n in self._sub.inputs if n in needs and n in producer)
        return TileWork(once, of_tile, _map(read))


def _is_weight(graph: Graph, name: str) -> bool:
    return graph.tensors[name].role == "weight"


def _map(items: Iterable[tuple[int, _T]]) -> Numbered[_T]:
    """Return the map of ``items``, whose numbers are distinct."""
    numbers: Numbered[_T] = None
    for number, value in items:
        numbers = numbered.joined(numbers, numbered.Entry(number, value), lambda one, _: one)
    return numbers


def _counted(tensors: Tensors, names: Sequence[str], shared: Sequence[str]) -> Counted:
    sizes = tensors.size_bytes
    total = sum(sizes[tensors.number[name]] for name in names)
    return Counted(total, _map((number := tensors.number[name], sizes[number]) for name in shared))
