"""Merged pieces: the properties of a sub-graph that Algorithm 1 needs, derived from those of its parts.

The parts are sources, pieces with one output each, and the target that consumes these. A cut propagates from the
target's sink to the target's inputs, and from there into the sources that produce them; tensors that several parts read
are cut along a dimension only if all agree.

Live bytes at an operator are the sum over all parts, waiting inputs included. Tensors shared by several parts are first
subtracted from every part, then added for their new live range.
"""

from collections.abc import Sequence
from functools import reduce

from dsascape.scheduler.graphturbo import live_bytes, numbered
from dsascape.scheduler.graphturbo.deep import Deep
from dsascape.scheduler.graphturbo.live_bytes import LiveBytes
from dsascape.scheduler.graphturbo.numbered import Numbered
from dsascape.scheduler.graphturbo.pieces import Alive, Counted, Cut, Piece, Span, TileWork
from dsascape.scheduler.graphturbo.splitting import Match, both_matches, instance_bytes
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.loopnest import widest


class MergedPiece(Piece):
    """Piece merged from ``sources``, each with one output read only by other parts, and their consumer ``target``."""

    def __init__(self, sources: Sequence[Piece], target: Piece) -> None:
        super().__init__()
        self.parts = parts = (target, *sorted(sources, key=lambda part: -part.last))
        self.tensors = target.tensors
        self.last = target.last
        self.size = sum(part.size for part in parts)
        self.layers = reduce(lambda known, part: known | part.layers, parts, 0)
        self.sink, self.stored_sink = target.sink, target.stored_sink
        self.has_single_output, self.produced_sink_bytes = target.has_single_output, target.produced_sink_bytes
        self.only_last_leads_out, self.counts_inputs = target.only_last_leads_out, target.counts_inputs
        self.weights = reduce(Counted.joined, [part.weights for part in parts])
        self.produced = reduce(Counted.joined, [part.produced for part in parts])
        self._uncut = Cut(None, None, is_clean=True, reaches_sink=False, parts=(None,) * len(parts))
        self._meet_spans()

    def _meet_spans(self) -> None:
        """Compute the live ranges of tensors that several parts share."""
        spans: Numbered[Span] = None
        touched: dict[int, None] = {}
        for part in self.parts:
            touched.update((number, None) for number, _ in numbered.in_both(spans, part.spans))
            spans = numbered.joined(spans, part.spans, _both_spans)
        met: Numbered[Span] = None
        for number in touched:
            span = numbered.value_of(spans, number)
            assert span is not None
            met = numbered.joined(met, numbered.Entry(number, span), _both_spans)
        self._met = list(numbered.entries(met))
        self._met_in = [list(numbered.in_both(part.spans, met)) for part in self.parts]
        self._maker = {
            number: place
            for place, in_part in enumerate(self._met_in)
            for number, span in in_part
            if self._is_made(number, span)
        }
        """Index of the part that produces each shared tensor, if one does."""
        for number, span in self._met:
            if self._is_made(number, span) and number != self.stored_sink:
                spans = numbered.without(spans, number)
        self.spans = spans

    def _is_made(self, number: int, span: Span) -> bool:
        """Return whether a tensor with this span is computed inside; weights with views do not count."""
        return span.begin >= 0 and number not in self.tensors.viewed_weights

    def _find_cut(self, dim: int | None) -> Deep[Cut]:
        target, *sources = self.parts
        cut: Cut = yield target.cut(dim)
        demands, is_clean = cut.demands, cut.is_clean
        cuts: list[Cut | None] = [cut]
        for source in sources:
            match = numbered.value_of(demands, source.sink_number)
            if match is None:
                cuts.append(None)
                continue
            cut = yield source.cut(match[0])
            cuts.append(cut)
            is_clean = is_clean and match[1] and cut.is_clean
            demands = numbered.joined(numbered.without(demands, source.sink_number), cut.demands, both_matches)
        in_maker = cuts[self._maker.get(self.stored_sink, 0)]
        reaches_sink = _demands(demands, self.stored_sink) or (in_maker is not None and in_maker.reaches_sink)
        return Cut(dim, demands, is_clean, reaches_sink, tuple(cuts))

    def _find_alive(self, dim: int | None, factor: int) -> Deep[Alive]:
        cut: Cut = self._uncut if dim is None else (yield self.cut(dim))
        at: LiveBytes | None = None
        outside_bytes = 0
        for part, part_cut, met in zip(self.parts, cut.parts, self._met_in, strict=True):
            part_dim = None if part_cut is None else part_cut.dim
            alive: Alive = part.cached_alive(part_dim, factor) or (yield part.alive(part_dim, factor))
            there, from_outside = alive.at, alive.outside_bytes
            for number, span in self._counted(met):
                held = self._held_bytes(number, factor if self._is_cut(number, span, part_cut) else 1)
                there = live_bytes.raised(there, span.begin, span.end, -held)
                from_outside -= held if span.begin < 0 else 0
            at = there if at is None else live_bytes.joined(at, outside_bytes, there, from_outside)
            outside_bytes += from_outside
        assert at is not None
        for number, span in self._counted(self._met):
            held = self._held_bytes(number, factor if self._reaches(cut, number) else 1)
            at = live_bytes.raised(at, span.begin, span.end, held)
            outside_bytes += held if span.begin < 0 else 0
        return Alive(at, outside_bytes)

    def _counted(self, spans: Sequence[tuple[int, Span]]) -> Sequence[tuple[int, Span]]:
        """Return those of ``spans`` that count as live bytes."""
        return spans if self.counts_inputs else [entry for entry in spans if entry[1].begin >= 0]

    def _is_cut(self, number: int, span: Span, part_cut: Cut | None) -> bool:
        """Return whether a part's cut reaches a shared tensor; of shared tensors a part produces only its sink."""
        if part_cut is None:
            return False
        return part_cut.reaches_sink if self._is_made(number, span) else _demands(part_cut.demands, number)

    def _reaches(self, cut: Cut, number: int) -> bool:
        """Return whether a cut of this piece reaches a shared tensor."""
        maker = self._maker.get(number)
        if maker is None:
            return _demands(cut.demands, number)
        in_maker = cut.parts[maker]
        return in_maker is not None and in_maker.reaches_sink

    def _held_bytes(self, number: int, factor: int) -> int:
        return instance_bytes(self.tensors.size_bytes[number], factor)

    def _find_split(self, dim: int, factor: int) -> Deep[int]:
        cut: Cut = yield self.cut(dim)
        count = 0
        for part, part_cut in zip(self.parts, cut.parts, strict=True):
            if part_cut is not None and part_cut.dim is not None:
                count += yield part.split(part_cut.dim, factor)
        return count

    def _find_work(self, tile: tuple[int, ...]) -> Deep[TileWork]:
        target, *sources = self.parts
        work: TileWork = yield target.work(tile)
        once, of_tile, needs = work.once_flops, work.tile_flops, work.needs
        for source in sources:
            need = numbered.value_of(needs, source.sink_number)
            if need is not None:
                work = yield source.work(need)
                once, of_tile = once + work.once_flops, of_tile + work.tile_flops
                needs = numbered.joined(numbered.without(needs, source.sink_number), work.needs, widest)
        return TileWork(once, of_tile, needs)


def merged(analysis: Analysis, sources: tuple[Piece, ...], target: Piece) -> MergedPiece:
    """Return the piece merged from ``sources`` and ``target``."""
    del analysis  # it caches the piece
    return MergedPiece(sources, target)


def _demands(demands: Numbered[Match], number: int) -> bool:
    """Return whether a tensor from outside is cut."""
    match = numbered.value_of(demands, number)
    return match is not None and match[0] is not None


def _both_spans(one: Span, other: Span) -> Span:
    """Return the live range of a tensor shared by two parts; it comes from outside only if neither produces it."""
    begins = [span.begin for span in (one, other) if span.begin >= 0]
    return Span(min(begins, default=-1), max(one.end, other.end))

