"""One kernel in tiles, split over the threads of a machine: its instructions, and what its caches pass on."""

from collections.abc import Iterator
from functools import cached_property
from itertools import compress
from operator import mul

from hw_models.caches.passing import Passed
from hw_models.cpu.cores import issue_cycles
from hw_models.cpu.machine import CorePace, Moved
from scheduler.cpu.chunk_traffic import traffic_of
from scheduler.cpu.code import known_code
from scheduler.cpu.tiles import LoopTiles
from scheduler.cpu.view import CpuView
from scheduler.kernels.layer import Layer


class TiledKernel:
    """A kernel whose tiles and threads are given."""

    def __init__(self, layer: Layer, tiles: LoopTiles, threads: int, dtype: str, view: CpuView) -> None:
        spec = view.spec
        self.tiles, self.view = tiles, view
        self.code = known_code(layer, tiles, dtype, spec.simd, view.tuning, view.code_key)
        self.traffic = traffic_of(layer, tiles, threads, spec.line_bytes, write_allocate=spec.write_allocate)
        self.chunks = self.traffic.chunks

    def chunk_cycles(self, pace: CorePace) -> float:
        """Return the cycles in which a core issues the instructions of a full chunk."""
        return issue_cycles(pace.core, self.code.issued) / self.chunks.in_all

    @property
    def chunk_register_bytes(self) -> float:
        """What a full chunk moves between registers and the first cache."""
        return self.code.register_bytes / self.chunks.in_all

    def levels(self, pace: CorePace, used: int) -> Iterator[Passed]:
        """Yield what each cache passes on for a full chunk, where ``used`` such cores work; innermost first."""
        for shape, shared_by in pace.caches:
            passed = self.traffic.passed(shape, min(shared_by, used))
            yield passed
        shared = self.view.shared_shape
        if shared is not None:
            yield _at_most(self.traffic.passed(shared, self.chunks.count), passed)

    def moved(self, name: str, passed: Passed) -> Moved:
        """Return what ``passed`` to the memory ``name`` for a full chunk."""
        total = passed.total
        if not total:
            return Moved(name, 0.0)
        nest = self.traffic.nest_of(1)
        written, apart = sum(passed.written), sum(map(mul, passed.fetched, nest.scattered))
        stored = written + sum(compress(passed.fetched, self.traffic.is_result))
        return Moved(name, total * self.view.spec.line_bytes, written / total, apart / total, stored / total)

    def sharing(self, pace: CorePace, used: int) -> list[int]:
        """Return how many cores share each cache, of ``used`` ones of a kind."""
        private = [min(shared_by, used) for _, shared_by in pace.caches]
        return private if self.view.shared_shape is None else [*private, self.chunks.count]

    @cached_property
    def meanwhile(self) -> tuple[tuple[str, float], ...]:
        """The share of instructions during which each memory behind a cache moves its bytes."""
        shared = self.view.shared_shape
        shapes = [shape for shape, _ in self.view.paces[0].caches] + ([] if shared is None else [shared])
        return tuple(zip(self.view.caches, map(self.traffic.share_of_iterations, shapes), strict=True))


def _at_most(passed: Passed, inner: Passed) -> Passed:
    """Return what passes a cache to which ``inner`` comes: no more than that, per array."""
    return Passed(tuple(map(min, passed.fetched, inner.fetched)), tuple(map(min, passed.written, inner.written)))
