"""Pieces: layers and merged sub-graphs, with the properties that Algorithm 1 needs.

A sub-graph grows by thousands of merges, and each time Algorithm 1 needs live bytes, the reach of a cut and the
recomputation of instances. A merged piece derives them from its parts (`MergedPiece`), a layer from a walk over its few
operators (`WalkedPiece`). The results equal those of `Splittable` for all operators of the piece.

Results are memoized per piece. Evaluation recurses into parts of parts, to a depth of as many levels as the piece has
grown in steps, and so uses `scheduler.graphturbo.deep`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from dsascape.scheduler.graphturbo import numbered
from dsascape.scheduler.graphturbo.deep import Deep, settle
from dsascape.scheduler.graphturbo.live_bytes import LiveBytes
from dsascape.scheduler.graphturbo.numbered import Numbered
from dsascape.scheduler.graphturbo.splitting import Match, instance_tile, repeated
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Extents

_MOST_ALIVE = 64
"""Size of a piece's memo of live bytes, in cuts."""
_MOST_TILES = 8
"""Size of a piece's memo of tile work, in tiles: as the piece grows, the tiles needed of each part keep changing."""
_Key = TypeVar("_Key")
_T = TypeVar("_T")


class Span(NamedTuple):
    """Live range of a stored tensor in operator positions; tensors from outside begin at -1."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Reach of a cut of a piece's sink along dimension ``dim``; ``dim`` None: each instance needs the whole sink."""

    dim: int | None
    demands: Numbered[Match]
    """Match of each activation from outside, by number: the dimension along which it is cut."""
    is_clean: bool
    """Whether instances do not overlap on anything computed inside; if they do, ``demands`` may not show it."""
    reaches_sink: bool
    """Whether the stored tensor behind the sink is cut too."""
    parts: "tuple[Cut | None, ...]" = ()
    """Cut of each part of a merged piece; None for a part that is not needed."""


@dataclass(frozen=True, slots=True)
class Alive:
    """Live bytes of one instance of a piece."""

    at: LiveBytes
    outside_bytes: int
    """Total bytes of tensors read from outside the piece."""


@dataclass(frozen=True, slots=True)
class TileWork:
    """Operations of a whole piece and of one tile of its sink, and the tile's needs of activations from outside."""

    once_flops: int
    tile_flops: int
    needs: Numbered[Extents]


@dataclass(frozen=True, slots=True)
class Counted:
    """Total bytes of a set of stored tensors; those that several layers may count are listed by number."""

    size_bytes: int
    shared: Numbered[int]

    def joined(self, other: "Counted") -> "Counted":
        """Return the bytes of both sets, each tensor counted once."""
        twice = sum(size for _, size in numbered.in_both(self.shared, other.shared))
        return Counted(self.size_bytes + other.size_bytes - twice, numbered.joined(self.shared, other.shared, max))


class Tensors:
    """Numbering of a graph's tensors, in the order in which its operators name them."""

    def __init__(self, analysis: Analysis) -> None:
        graph = analysis.graph
        names = (name for op in graph.ops for name in (*op.inputs, *op.outputs))
        self.number = {name: number for number, name in enumerate(dict.fromkeys(names))}
        self.size_bytes = [graph.tensors[name].size_bytes for name in self.number]
        viewed = {root for name, root in graph.storage.items() if name != root}
        self.viewed = frozenset(self.number[root] for root in viewed)
        """Numbers of the stored tensors that have views."""
        weights = (root for root in viewed if graph.tensors[root].role == "weight")
        self.viewed_weights = frozenset(self.number[root] for root in weights)


class Piece(ABC):
    """Layer, or sub-graph merged from pieces."""

    own_ops: tuple[int, ...] = ()
    """Positions of operators that are in no part."""
    parts: "tuple[Piece, ...]" = ()
    """Parts that the piece was merged from, the last one first; empty for a layer."""
    tensors: Tensors
    last: int
    """Position of the last operator."""
    size: int
    layers: int
    """Layers of the piece, as a bit set."""
    sink: Tensor
    stored_sink: int
    """Number of the stored tensor behind the sink."""
    has_single_output: bool
    counts_inputs: bool
    """Whether activations from outside count as live bytes (`Splittable.counts_inputs`)."""
    only_last_leads_out: bool
    """Whether only outputs of the last operator are read outside."""
    weights: Counted
    """Weights read by operators inside."""
    produced: Counted
    """Stored tensors that operators inside write, views included."""
    produced_sink_bytes: int
    """Bytes of the stored tensor behind the sink if it is among ``produced``, else 0."""
    spans: Numbered[Span]
    """Live ranges of stored activations shared with operators outside: inputs, and the tensor behind the sink."""

    def __init__(self) -> None:
        self._cuts: dict[int | None, Cut] = {}
        self._alive: dict[tuple[int | None, int], Alive] = {}
        self._split: dict[tuple[int, int], int] = {}
        self._works: dict[Extents, TileWork] = {}

    @property
    def sink_number(self) -> int:
        return self.tensors.number[self.sink.name]

    @property
    def inner_bytes(self) -> int:
        """Bytes of the intermediates, stored tensors written and consumed inside: grouping keeps them on chip."""
        return self.produced.size_bytes - self.produced_sink_bytes

    def alive_bytes(self, dim: int | None = None, factor: int = 1) -> int:
        return (self.cached_alive(dim, factor) or settle(self.alive(dim, factor))).at.most

    def operators_split(self, dim: int, factor: int) -> int:
        return settle(self.split(dim, factor))

    def recompute_share(self, dim: int, factor: int) -> float:
        if settle(self.cut(dim)).is_clean:
            return 0.0
        work = settle(self.work(instance_tile(self.sink.shape, dim, factor)))
        return repeated(work.once_flops, work.tile_flops, factor)

    def cut(self, dim: int | None) -> Deep[Cut]:
        """Return the reach of a cut of the sink along ``dim``."""
        if dim not in self._cuts:
            self._cuts[dim] = yield from self._find_cut(dim)
        return self._cuts[dim]

    def alive(self, dim: int | None, factor: int) -> Deep[Alive]:
        """Return the live bytes of one of ``factor`` instances along ``dim``."""
        live = self.cached_alive(dim, factor)
        if live is None:
            key = (None, 1) if dim is None or factor == 1 else (dim, factor)
            live = _remembered(self._alive, key, (yield from self._find_alive(*key)), _MOST_ALIVE)
        return live

    def cached_alive(self, dim: int | None, factor: int) -> Alive | None:
        """Return the memoized result of `alive`; None if there is none."""
        return self._alive.get((None, 1) if dim is None or factor == 1 else (dim, factor))

    def split(self, dim: int, factor: int) -> Deep[int]:
        """Return the number of operators whose outputs are cut ``factor`` times when the sink is cut along ``dim``."""
        key = dim, factor
        if key not in self._split:
            self._split[key] = yield from self._find_split(dim, factor)
        return self._split[key]

    def work(self, tile: Extents) -> Deep[TileWork]:
        """Return the work for a ``tile`` of the sink."""
        work_of_tile = self._works.get(tile)
        if work_of_tile is None:
            work_of_tile = _remembered(self._works, tile, (yield from self._find_work(tile)), _MOST_TILES)
        return work_of_tile

    @abstractmethod
    def _find_cut(self, dim: int | None) -> Deep[Cut]: ...

    @abstractmethod
    def _find_alive(self, dim: int | None, factor: int) -> Deep[Alive]: ...

    @abstractmethod
    def _find_split(self, dim: int, factor: int) -> Deep[int]: ...

    @abstractmethod
    def _find_work(self, tile: Extents) -> Deep[TileWork]: ...


def _remembered(memo: dict[_Key, _T], key: _Key, value: _T, most: int) -> _T:
    """Insert into a memo of at most ``most`` entries, first in, first out; return the value."""
    if len(memo) >= most:
        del memo[next(iter(memo))]
    memo[key] = value
    return value


def operators(piece: Piece) -> tuple[int, ...]:
    """Return the positions of the operators of a piece, ascending."""
    positions: list[int] = []
    waiting = [piece]
    while waiting:
        piece = waiting.pop()
        positions.extend(piece.own_ops)
        waiting.extend(piece.parts)
    return tuple(sorted(positions))
