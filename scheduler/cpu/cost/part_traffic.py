"""What each part of a kernel with several anchors moves.

Parts run one after the other, so nothing of one hides behind another. What a part makes for the next one stays in a
buffer of the tile's size. A cache that holds all that a part touches for a tile has the buffer when the next part reads
it; else its lines go further out and come back to be read. One that holds all that all parts touch has the buffer when
it is overwritten for the next tile; else its lines are fetched to be written. Before the first tile another kernel has
used its memory (`with_first_use`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from dsascape.hw_models.caches.lines import CacheShape, random_placement_hit_rate
from dsascape.hw_models.caches.nests import Nest
from dsascape.hw_models.caches.passing import Passed, passed_on
from dsascape.scheduler.cpu.cost.chunk_nests import nest_in_front
from dsascape.scheduler.cpu.structure.chains import Made
from dsascape.scheduler.kernels.footprints import footprints_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.operands import Footprints

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
        return self.scratch_lines_of(1.0)

    def scratch_lines_of(self, threads: float) -> float:
        """Return what each of ``threads`` writes that share what is handed on, and have copies of their own."""
        behind = len(footprints_of(self.made.layer).operands)
        return self.handed_lines / threads + sum([lines.count for lines in self.nest.touched[0][behind:]])


def lost_share(lines: float, cache: CacheShape) -> float:
    """Return the share of a buffer that ``cache`` loses while so many lines are used by turns."""
    times = lines / cache.lines
    return 1 - random_placement_hit_rate(times) if cache.is_randomly_placed else float(times > 1)


def lost_of_scratch(nest: Nest, cache: CacheShape, found: Footprints) -> float:
    """Return the share of a tile's copies that a cache loses before they are used: none, if all of a tile stays."""
    return lost_share(lines_of_tile(nest, found), cache) if found.own_arrays else 0.0


def lines_of_tile(nest: Nest, found: Footprints) -> float:
    """Return the lines that ``nest`` touches where it makes copies, or computes what its anchor reads."""
    own = [
        depth
        for depth, each in zip(nest.innermost, found.operands, strict=False)
        if each.is_copied or each.is_in_front or found.passes
    ]  # fmt: skip
    return nest.body_lines[min(own, default=0)]


class _Moving:
    """Lines that each part moves of each array, being added up."""

    def __init__(self, parts: int, arrays: int) -> None:
        self._fetched, self._written = ([[0.0] * arrays for _ in range(parts)] for _ in range(2))

    def add(self, part: int, array: int, *, fetched: float = 0.0, written: float = 0.0) -> None:
        """Let ``part`` fetch and write back so many lines of ``array`` more."""
        self._fetched[part][array] += fetched
        self._written[part][array] += written

    def passed(self) -> tuple[Passed, ...]:
        """Return what each part moves."""
        return tuple([Passed(tuple(a), tuple(b)) for a, b in zip(self._fetched, self._written, strict=True)])


def in_parts(
    whole: Passed, layer: Layer, in_front: Sequence[PartInFront], cache: CacheShape, tile_lines: float,
    chunk_lines: float, *, write_allocate: bool,
) -> tuple[Passed, ...]:  # fmt: skip
    """Return what each part moves, the last one behind those ``in_front``.

    ``whole`` is what the kernel moves of its operands, fetched once for each tile, and of copies; to that comes what
    parts fetch again while they work on one tile, and what they hand on. ``cache`` is what one core has of it; of a
    tile the last part touches ``tile_lines``, of all its tiles ``chunk_lines``, which pass by before what all threads
    have made together is read to its end. Buffers are taken to be there before the first tile.
    """
    found, last, count = footprints_of(layer), len(in_front), len(whole.fetched)
    made, handed, own = len(found.operands), count, count + 1
    is_copied = len(found.buffers) > 1  # what has been made is read once, to be copied
    moving = _Moving(last + 1, count + FURTHER_ARRAYS)
    for array, (fetched, written) in enumerate(zip(whole.fetched, whole.written, strict=True)):
        part = found.operands[array].part if array < made else last
        if array != made or not is_copied:
            moving.add(part, array, fetched=fetched, written=written)
    overwritten = lost_share(tile_lines + sum([front.scratch_lines for front in in_front[:-1]]), cache)
    for part, front in enumerate(in_front):
        for array, lines in _fetched_again(front, layer, cache, own):
            moving.add(part, array, fetched=front.times * lines)
        behind_lines = chunk_lines if front.made.is_shared else tile_lines
        if part + 1 < last:
            behind_lines = in_front[part + 1].nest.body_lines[0]
        lost = lost_share(behind_lines, cache)
        lines = front.times * max(lost, overwritten) * front.scratch_lines
        moving.add(part, handed, fetched=lines if write_allocate else 0.0, written=lines)
        if part + 1 < last or is_copied:
            moving.add(part + 1, own if part + 1 < last else made, fetched=front.times * lost * front.handed_lines)
    return moving.passed()


def _fetched_again(
    front: PartInFront, layer: Layer, cache: CacheShape, own: int
) -> Iterator[tuple[int, float]]:
    """Yield arrays of the kernel and the lines that a part fetches of each for one tile, the first time left out.

    ``own`` stands for copies, and for what the part in front has made.
    """
    found, kernel = footprints_of(front.made.layer), footprints_of(layer)
    passed = passed_on(front.nest, cache, write_allocate=True)  # of copies: what is read of them
    array_of = {layer.inputs[place]: array for array, place in enumerate(kernel.places) if place < len(layer.inputs)}
    for place, operand, once, fetched in zip(
        found.places, found.operands, front.nest.touched[0], passed.fetched, strict=False
    ):
        if not operand.is_written:
            yield array_of.get(front.made.layer.inputs[place], own), max(fetched - once.count, 0.0)
    yield own, lost_of_scratch(front.nest, cache, found) * sum(passed.fetched[len(found.operands) :])


def with_first_use(passed: Passed, scratch_lines: float, *, write_allocate: bool) -> Passed:
    """Return what a part moves where nothing of its buffers is in the cache, and nothing of them stays there."""
    if not scratch_lines:
        return passed
    fetched, written = list(passed.fetched), list(passed.written)
    if write_allocate:
        fetched[-FURTHER_ARRAYS] = max(fetched[-FURTHER_ARRAYS], scratch_lines)
    written[-FURTHER_ARRAYS] = max(written[-FURTHER_ARRAYS], scratch_lines)
    return Passed(tuple(fetched), tuple(written))
