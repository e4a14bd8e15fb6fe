"""What one anchor of a kernel computes for the next: for each tile of the sink, in a buffer of the tile's own.

Such a buffer has the numbers of the tile in front of its dimensions, and its elements count from where the tile's
begin. So all tiles have boxes of one size in it, and the schedule shrinks it to that of one tile. Boxes may reach
beyond the tensor: what is computed there is made of the nearest element inside, and not used.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import te, tirx

from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.structure.chains import Made, Span, Spans, made_in_front, parts_of, sink_spans, tile_counts
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.loopnest import Extents


@dataclass(frozen=True)
class Place:
    """An element in a tile: the tile's number along dimensions of the sink, and what the first tile has there."""

    numbers: Mapping[int, Any]
    local: Sequence[Any]


@dataclass(frozen=True)
class TileBuffer:
    """A box of a tensor for each tile."""

    stage: Any
    dims: tuple[int, ...]
    """Dimensions of the sink whose tile numbers stand in front."""
    order: tuple[int, ...]
    spans: Spans

    def at(self, place: Place) -> Any:
        """Return the element at ``place``, whose tile numbers may be more than these."""
        inner = [place.local[dim] - self.spans[dim].first for dim in self.order]
        return self.stage(*[place.numbers[dim] for dim in self.dims], *inner)


@dataclass(frozen=True)
class TileCopy:
    """A stage that copies what an anchor reads, with padding."""

    name: str
    loops: int
    """How many loops it is inside of: those over tiles, then the reader's over register tiles, outermost first.

    Of an anchor in front of the last, only the latter count.
    """


@dataclass(frozen=True)
class UpstreamStages:
    """The stages of one anchor in front of the last, by name."""

    total: str
    """The sums, in registers."""
    result: str
    """What the next anchor reads."""
    order: tuple[int, ...]
    """The dimensions of both as they lie in memory; those of a tile's number are in front of them."""
    made: Made
    copies: tuple[TileCopy, ...]
    """Of what the anchor reads with padding."""


@dataclass
class Chain:
    """The anchors of a kernel in front of its last one, as far as their stages are there."""

    parts: tuple[Layer, ...]
    tiles: LoopTiles
    """Of the sink."""
    made: Mapping[str, Made]
    """By the tensor that the next anchor reads."""
    buffers: dict[str, TileBuffer] = field(default_factory=dict)
    stages: list[UpstreamStages] = field(default_factory=list)
    copies: list[TileCopy] = field(default_factory=list)
    """Of what the last anchor reads, or the one whose stages are being made."""

    @property
    def counts(self) -> tuple[int, ...]:
        """Tiles along each dimension of the sink."""
        return tile_counts(self.parts[-1].sink.shape, self.tiles)

    @property
    def sink_spans(self) -> Spans:
        """Elements of the sink that belong to each tile."""
        return sink_spans(self.parts[-1].sink.shape, self.tiles)

    def place(self, element: Sequence[Any]) -> Place:
        """Return the place of an element of the sink."""
        numbers, local = {}, list(element)
        for dim, (count, size) in enumerate(zip(self.counts, self.tiles.whole_registers, strict=True)):
            if count > 1:
                numbers[dim] = tirx.floordiv(element[dim], size)
                local[dim] = tirx.floormod(element[dim], size)
        return Place(numbers, local)

    def element(self, place: Place, spans: Spans) -> list[Any]:
        """Return which element of a tensor with boxes ``spans`` lies at ``place``."""
        return [
            local + sum(place.numbers[dim] * step for dim, step in span.steps)
            for local, span in zip(place.local, spans, strict=True)
        ]

    def reach(self, span: Span) -> tuple[int, int]:
        """Return the first element of all tiles' boxes, and the one behind the last."""
        return span.first, span.first + span.extent + sum(step * (self.counts[dim] - 1) for dim, step in span.steps)

    def nearest(self, element: Sequence[Any], spans: Spans, shape: Extents) -> list[Any]:
        """Return ``element``, or the nearest one inside the tensor where boxes reach beyond it."""
        found = []
        for each, span, size in zip(element, spans, shape, strict=True):
            lo, hi = self.reach(span)
            value = te.min(each, size - 1) if hi > size else each
            found.append(te.max(value, 0) if lo < 0 else value)
        return found

    def buffer(
        self, name: str, order: Sequence[int], spans: Spans, value: Callable[[Place, tuple[Any, ...]], Any]
    ) -> TileBuffer:
        """Return the buffer of ``value`` at each place, which is also told the indices that it is stored under."""
        dims = tuple(sorted({dim for span in spans for dim, _ in span.steps}))
        shape = [*(self.counts[dim] for dim in dims), *(spans[dim].extent for dim in order)]

        def body(*indices: Any) -> Any:
            local: list[Any] = [0] * len(order)
            for index, dim in zip(indices[len(dims) :], order, strict=True):
                local[dim] = index + spans[dim].first
            return value(Place(dict(zip(dims, indices, strict=False)), local), indices)

        return TileBuffer(te.compute(shape, body, name=name), dims, tuple(order), spans)


def chain_of(layer: Layer, tiles: LoopTiles) -> Chain | None:
    """Return the chain of ``layer`` in ``tiles``; None where they have no anchors but one."""
    made = made_in_front(layer, tiles)
    return Chain(parts_of(layer), tiles, {each.layer.sink.name: each for each in made}) if made else None
