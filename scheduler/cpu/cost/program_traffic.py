"""What each cache passes on while the cores of a machine run the chunks of a loop program."""

import math
from functools import cached_property

from dsascape.hw_models.caches.lines import PAGE_LINES, CacheShape
from dsascape.hw_models.caches.passing import Passed
from dsascape.hw_models.caches.trees import ArrayPassed, Body, Together, passed_by
from dsascape.scheduler.cpu.cost.split import Split
from dsascape.scheduler.cpu.schedule.chunks import Chunks
from dsascape.scheduler.kernels.cost.memory import Arrays, Memory, memory_of
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.footprints import footprints_of
from dsascape.scheduler.kernels.recurrences import waiting_steps


class ProgramTraffic:
    """Lines that caches pass on for a program's chunks.

    Arrays are the layer's operands, in the order of its footprints, and behind them the buffers of its own.
    """

    def __init__(self, reads: Reads, threads: int, line_bytes: int, *, write_allocate: bool) -> None:
        layer, program = reads.naive.layer, reads.program
        found = footprints_of(layer)
        names = (*layer.inputs, *layer.outputs)
        self._operands = found.operands
        self._line_bytes, self._write_allocate = line_bytes, write_allocate
        self._split = Split(layer, program, threads)
        outside = [names[place] for place in found.places]
        self._arrays = Arrays.of(program, [*outside, *[name for name in names if name not in outside]])
        self._count = len(found.operands)
        self._every = len(self._arrays.number)
        self._reads = reads
        self.regions = waiting_steps(layer) + self._split.waits
        """Parallel loops, one after the other."""
        self._passed: dict[tuple[CacheShape, int], dict[int, ArrayPassed]] = {}

    @property
    def chunks(self) -> Chunks:
        """The chunks of the last part."""
        return self._split.main.chunks

    @cached_property
    def of_parts(self) -> tuple[Chunks, ...]:
        """The chunks of each part."""
        return tuple([region.chunks for region in self._split.of_parts])

    @cached_property
    def memory(self) -> Memory:
        """What a full chunk touches."""
        counts = {name: count for region in self._split.regions for name, count in region.counts.items()}
        return memory_of(self._reads, self._arrays, self._line_bytes, self._split.part_of, counts)

    @cached_property
    def scratch_bytes(self) -> int:
        """What all threads need for buffers of the program's own: each has those that a loop makes anew."""
        return sum([each.size_bytes * (self.chunks.count if each.inside else 1) for each in self._arrays.buffers])

    @cached_property
    def is_split(self) -> tuple[bool, ...]:
        """By array, whether chunks use different parts of it."""
        return tuple([array >= self._count or self._apart(array) > 1 for array in range(self._every)])

    @cached_property
    def last_shares(self) -> tuple[float, ...]:
        """What the last chunk moves by what a full one does, per array: less only of what is split over chunks."""
        return tuple([self.chunks.last_share if each else 1.0 for each in self.is_split])

    @cached_property
    def is_result(self) -> tuple[bool, ...]:
        """Whether each array is written for others."""
        own = [operand.is_written for operand in self._operands]
        return (*own, *[False] * (self._every - self._count))

    @cached_property
    def scattered(self) -> tuple[float, ...]:
        """Per array the share of its lines that do not follow another one."""
        return tuple([_scattered(self.memory.body, array) for array in range(self._every)])

    @cached_property
    def holders(self) -> tuple[float, ...]:
        """Per operand, the number of cores that use each line of it, in the mean."""
        cores = self.chunks.count
        if cores == 1:
            return (1.0,) * self._count
        together, found = self._together(cores), []
        for array in range(self._count):
            one = self._lines(array)
            found.append(min(cores * one / max(together.lines(array, one), 1.0), cores))
        return tuple(found)

    def touched_lines(self, array: int, cores: int) -> float:
        """Return the lines of an array that full chunks of ``cores`` cores touch together."""
        return self._together(cores).lines(array, self._lines(array))

    def passed(self, cache: CacheShape, cores: int) -> tuple[Passed, ...]:
        """Return what passes a cache that ``cores`` share, for one full chunk: for each part of the kernel."""
        found = self._of_arrays(cache, cores)
        parts = []
        for part in range(self._split.part_count):
            fetched, written = [0.0] * self._every, [0.0] * self._every
            for array, own in found.items():
                fetched[array], written[array] = own.fetched[part] / cores, own.written[part] / cores
            parts.append(Passed(tuple(fetched), tuple(written)))
        return tuple(parts)

    def shares_of_iterations(self, cache: CacheShape) -> tuple[float, ...]:
        """Return for each part the share of a full chunk's iterations in which a cache of one core fetches."""
        found, shares = self._of_arrays(cache, 1), []
        for part in range(self._split.part_count):
            moved = [own.fetched[part] + own.written[part] for own in found.values()]
            weighted = [lines * own.at_work[part] for lines, own in zip(moved, found.values(), strict=True)]
            shares.append(sum(weighted) / sum(moved) if any(moved) else 1.0)
        return tuple(shares)

    def first_lines(self, passed: Passed, cores: int) -> tuple[float, ...]:
        """Return by operand what a part fetches of it because nobody has used it before, for one full chunk."""
        return tuple([
            min(self.touched_lines(array, cores) / cores, passed.fetched[array])
            if self._write_allocate or array not in self.memory.body.stored else 0.0
            for array in range(self._count)
        ])  # fmt: skip

    def scratch_lines(self, part: int, passed: Passed, cores: int) -> tuple[float, float]:
        """Return what a part fetches of buffers to write them first, and writes back of them last, in a full chunk."""
        first = last = 0.0
        for array in range(self._count, self._every):
            once = self.touched_lines(array, cores) / cores
            if passed.written[array]:
                first += min(once, passed.fetched[array]) if self._write_allocate else 0.0
                last += min(once, passed.written[array])
        return first, last

    def _lines(self, array: int) -> float:
        lines = self.memory.body.whole.get(array)
        return 0.0 if lines is None else lines.count

    def _apart(self, array: int) -> int:
        """Return how many parts of an array chunks use."""
        moving = self.memory.moving.get(array, frozenset())
        parts = [(name, number) for region in self._split.regions for name, number in region.parts.items()]
        return math.prod([number for name, number in parts if name in moving])

    def _together(self, cores: int) -> Together:
        if cores == 1:
            return Together()
        chunks, bounds = self.chunks, dict[int, tuple[float, float]]()
        inside = {each.name for each in self._arrays.buffers if each.inside}
        sizes = {self._arrays.number[each.name]: each.size_bytes for each in self._arrays.buffers}
        sizes |= {array: operand.size_bytes for array, operand in enumerate(self._operands)}
        of_cores = {self._arrays.number[name] for name in inside}
        for array in range(self._every):
            if array in of_cores:
                bounds[array] = float(cores), math.inf
                continue
            full = chunks.count / chunks.in_all if self.is_split[array] else 1.0
            most = math.ceil(sizes[array] / self._line_bytes) * full if array in sizes else math.inf
            bounds[array] = min(cores, self._apart(array) * full), most
        return Together(cores, bounds)

    def _of_arrays(self, cache: CacheShape, cores: int) -> dict[int, ArrayPassed]:
        by_array = self._passed.get((cache, cores))
        if by_array is None:
            by_array = self._passed[cache, cores] = passed_by(self.memory.body, cache, self._together(cores))
            if not self._write_allocate:
                for array, own in by_array.items():
                    if array in self.memory.body.stored:
                        _spare(own, self.touched_lines(array, cores))
        return by_array


def _spare(passed: ArrayPassed, lines: float) -> None:
    """Take off what parts need not fetch of lines that they write."""
    written = sum(passed.written)
    for part, own in enumerate(passed.written if written else ()):
        passed.fetched[part] = max(passed.fetched[part] - lines * own / written, 0.0)


def _scattered(body: Body, array: int) -> float:
    """Return the share of lines that do not follow another one, in the order of their first touch.

    Taken from the innermost loops that touch at least a page: prefetchers do not look further ahead.
    """
    while True:
        inner = [child for child in body.children
                 if array in child.whole and child.whole[array].count >= PAGE_LINES]  # fmt: skip
        if not inner:
            break
        body = inner[0]
    lines = body.whole.get(array)
    if lines is None or not lines.count:
        return 0.0
    once = body.once[array]
    lines = once if once.count >= PAGE_LINES else lines
    return min(lines.jumps / lines.count, 1.0)

