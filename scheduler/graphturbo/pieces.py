"""Pieces: layers and what they have merged into, with what Algorithm 1 asks of them.

A sub-graph grows by thousands of merges, and each time Algorithm 1 asks again what is alive, what a cut reaches and
what instances repeat. A piece that was merged answers from the answers of its parts (`MergedPiece`), a layer from a
walk over its few operators (`WalkedPiece`). The answers are those of `Splittable` for all operators of the piece.

Each question is answered once for every piece. Questions lead to others about parts of parts, as many levels deep as
the piece has grown in steps, so that they are asked by way of `scheduler.graphturbo.deep`.
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
"""Cuts for which a piece remembers what is alive."""
_MOST_TILES = 8
"""Tiles that a piece remembers: as it goes on growing, those asked for of one part go on changing."""
_Key = TypeVar("_Key")
_T = TypeVar("_T")


class Span(NamedTuple):
    """The operators at which a stored tensor is alive; what comes from outside is from -1 on."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Cut:
    """What a cut of a piece's sink along one dimension reaches; None: each instance needs the whole sink."""

    dim: int | None
    demands: Numbered[Match]
    """Activations from outside, by number: along which dimension they are cut."""
    is_clean: bool
    """Whether instances overlap on nothing that is computed inside. Where they do, ``demands`` may not say so."""
    reaches_sink: bool
    """Whether the stored tensor behind the sink is cut as well."""
    parts: "tuple[Cut | None, ...]" = ()
    """How the cut goes on in each part of a merged piece; None: nothing there is needed."""


@dataclass(frozen=True, slots=True)
class Alive:
    """What one instance of a piece has alive."""

    at: LiveBytes
    outside_bytes: int
    """Of all tensors that come from outside."""


@dataclass(frozen=True, slots=True)
class TileWork:
    """Operations of a whole piece and of one tile of its sink, and what the tile needs of activations from outside."""

    once_flops: int
    tile_flops: int
    needs: Numbered[Extents]


@dataclass(frozen=True, slots=True)
class Counted:
    """Bytes of a set of stored tensors. Those that several layers may count are listed by number."""

    size_bytes: int
    shared: Numbered[int]

    def joined(self, other: "Counted") -> "Counted":
        """Return the bytes of both sets, each tensor counted once."""
        twice = sum(size for _, size in numbered.in_both(self.shared, other.shared))
        return Counted(self.size_bytes + other.size_bytes - twice, numbered.joined(self.shared, other.shared, max))


class Tensors:
    """Numbers for the tensors of a graph, in the order in which its operators name them."""

    def __init__(self, analysis: Analysis) -> None:
        graph = analysis.graph
        names = (name for op in graph.ops for name in (*op.inputs, *op.outputs))
        self.number = {name: number for number, name in enumerate(dict.fromkeys(names))}
        self.size_bytes = [graph.tensors[name].size_bytes for name in self.number]
        viewed = {root for name, root in graph.storage.items() if name != root}
        self.viewed = frozenset(self.number[root] for root in viewed)
        """Those that there are views of."""
        weights = (root for root in viewed if graph.tensors[root].role == "weight")
        self.viewed_weights = frozenset(self.number[root] for root in weights)


class Piece(ABC):
    """A layer, or a sub-graph that pieces were merged into."""

    own_ops: tuple[int, ...] = ()
    """Operators that are in no part."""
    parts: "tuple[Piece, ...]" = ()
    """What the piece was merged from, the last part first; nothing if it is a layer."""
    tensors: Tensors
    last: int
    """Position of the last operator."""
    size: int
    layers: int
    """Its layers as a set of bits."""
    sink: Tensor
    stored_sink: int
    """Number of the stored tensor behind the sink."""
    has_single_output: bool
    counts_inputs: bool
    """Whether activations from outside count among what is alive (`Splittable.counts_inputs`)."""
    only_last_leads_out: bool
    """Whether nothing but outputs of the last operator is read outside."""
    weights: Counted
    """Read by operators inside."""
    made: Counted
    """Stored tensors that operators inside write, if only as views."""
    made_sink_bytes: int
    """Of the stored tensor behind the sink, if it is among ``made``."""
    spans: Numbered[Span]
    """Stored activations that operators outside touch as well: what comes from there, and what is behind the sink."""

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
        """Bytes of the stored tensors that are made and used up inside: what stays on chip thanks to the grouping."""
        return self.made.size_bytes - self.made_sink_bytes

    def alive_bytes(self, dim: int | None = None, factor: int = 1) -> int:
        return (self.known_alive(dim, factor) or settle(self.alive(dim, factor))).at.most

    def operators_split(self, dim: int, factor: int) -> int:
        return settle(self.split(dim, factor))

    def recompute_share(self, dim: int, factor: int) -> float:
        if settle(self.cut(dim)).is_clean:
            return 0.0
        work = settle(self.work(instance_tile(self.sink.shape, dim, factor)))
        return repeated(work.once_flops, work.tile_flops, factor)

    def cut(self, dim: int | None) -> Deep[Cut]:
        """Return what a cut of the sink along ``dim`` reaches."""
        if dim not in self._cuts:
            self._cuts[dim] = yield from self._find_cut(dim)
        return self._cuts[dim]

    def alive(self, dim: int | None, factor: int) -> Deep[Alive]:
        """Return what one of ``factor`` instances along ``dim`` has alive."""
        found = self.known_alive(dim, factor)
        if found is None:
            key = (None, 1) if dim is None or factor == 1 else (dim, factor)
            found = _remembered(self._alive, key, (yield from self._find_alive(*key)), _MOST_ALIVE)
        return found

    def known_alive(self, dim: int | None, factor: int) -> Alive | None:
        """Return the same if it has been asked for before."""
        return self._alive.get((None, 1) if dim is None or factor == 1 else (dim, factor))

    def split(self, dim: int, factor: int) -> Deep[int]:
        """Return the operators whose outputs are cut ``factor`` times when the sink is cut along ``dim``."""
        key = dim, factor
        if key not in self._split:
            self._split[key] = yield from self._find_split(dim, factor)
        return self._split[key]

    def work(self, tile: Extents) -> Deep[TileWork]:
        """Return the operations for a ``tile`` of the sink."""
        found = self._works.get(tile)
        if found is None:
            found = _remembered(self._works, tile, (yield from self._find_work(tile)), _MOST_TILES)
        return found

    @abstractmethod
    def _find_cut(self, dim: int | None) -> Deep[Cut]: ...

    @abstractmethod
    def _find_alive(self, dim: int | None, factor: int) -> Deep[Alive]: ...

    @abstractmethod
    def _find_split(self, dim: int, factor: int) -> Deep[int]: ...

    @abstractmethod
    def _find_work(self, tile: Extents) -> Deep[TileWork]: ...


def _remembered(answers: dict[_Key, _T], key: _Key, answer: _T, most: int) -> _T:
    """Return ``answer``, which stands among the latest ``most`` from now on."""
    if len(answers) >= most:
        del answers[next(iter(answers))]
    answers[key] = answer
    return answer


def operators(piece: Piece) -> tuple[int, ...]:
    """Return the positions of the operators of a piece, ascending."""
    found: list[int] = []
    waiting = [piece]
    while waiting:
        piece = waiting.pop()
        found.extend(piece.own_ops)
        waiting.extend(piece.parts)
    return tuple(sorted(found))
