"""What each part of a kernel with several anchors moves.

Parts run one after the other, so nothing of one hides behind another. What a part makes for the next one stays in a
buffer of the tile's size. A cache that holds all that a part touches for a tile has the buffer when the next part reads
it; else its lines go further out and come back to be read. One that holds all that all parts touch has the buffer when
it is overwritten for the next tile; else its lines are fetched to be written. Before the first tile another kernel has
used its memory (`with_first_use`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hw_models.caches.lines import CacheShape, found_again
from hw_models.caches.nests import Nest
from hw_models.caches.passing import Passed, passed_on
from scheduler.cpu.chains import Made
from scheduler.cpu.chunk_nests import nest_in_front
from scheduler.cpu.footprints import footprints_of
from scheduler.cpu.operands import Footprints
from scheduler.kernels.layer import Layer

FURTHER_ARRAYS = 2
"""Behind the operands of a kernel with several anchors and their copies: what a part hands on, and what it reads of the
one in front of it, with its own copies."""


@dataclass(frozen=True)
class PartInFront:
    """A part in front of the last, and how often a chunk, or as many as share a cache, computes it."""

    made: Made
    times: float
    line_bytes: int

    @cached_property
    def nest(self) -> Nest:
        """Its loops for one tile."""
        return nest_in_front(self.made, self.line_bytes)

    @cached_property
    def handed_lines(self) -> float:
        """Of what it makes for one tile."""
        operands = footprints_of(self.made.layer).operands
        return sum([
            lines.count
            for lines, operand in zip(self.nest.touched[0], operands, strict=False)
            if operand.is_written
        ])  # fmt: skip

    @cached_property
    def scratch_lines(self) -> float:
        """Of what it writes for one tile, its own copies with padding among it."""
        behind = len(footprints_of(self.made.layer).operands)
        return self.handed_lines + sum([lines.count for lines in self.nest.touched[0][behind:]])


def lost_share(lines: float, cache: CacheShape) -> float:
    """Return the share of a buffer that ``cache`` loses while so many lines are used by turns."""
    times = lines / cache.lines
    return 1 - found_again(times) if cache.by_chance else float(times > 1)


def lost_of_scratch(nest: Nest, cache: CacheShape, found: Footprints) -> float:
    """Return the share of a tile's copies that a cache loses before they are used: none, if all of a tile stays."""
    return lost_share(lines_of_tile(nest, found), cache) if found.copied else 0.0


def lines_of_tile(nest: Nest, found: Footprints) -> float:
    """Return the lines that ``nest`` touches where it makes copies, or computes what its anchor reads."""
    own = [
        depth
        for depth, each in zip(nest.innermost, found.operands, strict=False)
        if each.is_copied or each.is_in_front
    ]  # fmt: skip
    return nest.body_lines[min(own)]


def in_parts(
    whole: Passed, layer: Layer, in_front: Sequence[PartInFront], cache: CacheShape, tile_lines: float, *,
    write_allocate: bool,
) -> tuple[Passed, ...]:  # fmt: skip
    """Return what each part moves, the last one behind those ``in_front``.

    ``whole`` is what the kernel moves of its operands, fetched once for each tile, and of copies; to that comes what
    parts fetch again while they work on one tile, and what they hand on. ``cache`` is what one core has of it; of a
    tile the last part touches ``tile_lines``. Buffers are taken to be there before the first tile.
    """
    found, last = footprints_of(layer), len(in_front)
    lost = lost_share(tile_lines, cache)
    overwritten = lost_share(tile_lines + sum([front.scratch_lines for front in in_front[:-1]]), cache)
    count, kept = len(whole.fetched), len(found.operands)
    handed, own = count, count + 1
    fetched, written = ([[0.0] * (count + FURTHER_ARRAYS) for _ in range(last + 1)] for _ in range(2))
    for place in range(count):
        part = found.operands[place].part if place < kept else last
        fetched[part][place] = whole.fetched[place]
        written[part][place] = whole.written[place]
    operand_at = {place: number for number, place in enumerate(found.places)}
    for part, front in enumerate(in_front):
        inputs = front.made.layer.inputs
        own_found = footprints_of(front.made.layer)
        passed = passed_on(front.nest, cache, write_allocate=write_allocate)
        for place, operand in enumerate(own_found.operands):
            again = front.times * max(passed.fetched[place] - front.nest.touched[0][place].count, 0)
            if operand.is_written:
                continue
            name = inputs[own_found.places[place]]
            at = operand_at[layer.inputs.index(name)] if name in layer.inputs else own
            fetched[part][at] += again
        behind = len(own_found.operands)
        copies = front.times * lost_of_scratch(front.nest, cache, own_found)
        fetched[part][own] += copies * sum(passed.fetched[behind:])
        gone = lost if part + 1 == last else lost_share(in_front[part + 1].nest.body_lines[0], cache)
        lines = front.times * max(gone, overwritten) * front.scratch_lines
        fetched[part][handed] += lines if write_allocate else 0.0
        written[part][handed] += lines
        read = front.times * gone * front.handed_lines
        if part + 1 < last:
            fetched[part + 1][own] += read
        elif len(found.buffers) > 1:  # the last anchor reads a copy, which is made of it once
            fetched[last][kept] = read
    return tuple([Passed(tuple(a), tuple(b)) for a, b in zip(fetched, written, strict=True)])


def with_first_use(passed: Passed, scratch_lines: float, *, write_allocate: bool) -> Passed:
    """Return what a part moves where nothing of its buffers is in the cache, and nothing of them stays there."""
    if not scratch_lines:
        return passed
    fetched, written = list(passed.fetched), list(passed.written)
    if write_allocate:
        fetched[-FURTHER_ARRAYS] = max(fetched[-FURTHER_ARRAYS], scratch_lines)
    written[-FURTHER_ARRAYS] = max(written[-FURTHER_ARRAYS], scratch_lines)
    return Passed(tuple(fetched), tuple(written))
