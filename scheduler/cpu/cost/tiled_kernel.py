"""One kernel, split over the threads of a machine: its instructions, and what its caches pass on.

A kernel with several anchors has several parts, which a core does one after the other; any other kernel is one part.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import compress
from operator import mul

from dsascape.hw_models.caches.passing import Passed
from dsascape.hw_models.cpu.cores import issue_cycles
from dsascape.hw_models.cpu.machine import L1, CorePace, Moved, Step
from dsascape.scheduler.cpu.cost.issued import Code, codes_of_reads
from dsascape.scheduler.cpu.cost.program_traffic import ProgramTraffic
from dsascape.scheduler.cpu.schedule.steps import steps_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.view import CodeView, CpuView
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.workloads.memo import memoized


class SplitKernel:
    """A kernel whose loops and threads are given."""

    def __init__(
        self, layer: Layer, traffic: ProgramTraffic, codes: tuple[Code, ...], dtype: str, view: CpuView
    ) -> None:
        self.layer, self.view, self.dtype = layer, view, dtype
        self.codes, self.traffic = codes, traffic
        """Instructions of each part, and what caches pass on for it."""
        self.chunks = traffic.chunks
        self.of_parts = traffic.of_parts
        """Chunks of each part."""
        self.threads = max([each.count for each in self.of_parts])
        """Threads that have something to do."""
        self.regions = traffic.regions
        """Parallel loops, one after the other."""

    def chunk_cycles(self, pace: CorePace) -> float:
        """Return the cycles in which a core issues the instructions of a full chunk, the one with most of them."""
        return sum([
            issue_cycles(pace.core, code.issued, self.dtype) / each.in_all * each.heaviest
            for code, each in zip(self.codes, self.of_parts, strict=True)
        ])  # fmt: skip

    @property
    def chunk_register_bytes(self) -> float:
        """What a full chunk moves between registers and the first cache."""
        return sum([
            code.register_bytes / each.in_all * each.heaviest
            for code, each in zip(self.codes, self.of_parts, strict=True)
        ])  # fmt: skip

    def levels(self, pace: CorePace, used: int) -> Iterator[tuple[Passed, ...]]:
        """Yield what each cache passes on for a full chunk, part by part, where ``used`` such cores work.

        The innermost comes first.
        """
        passing = self.traffic.passed
        for shape, shared_by in pace.caches:
            passed = passing(shape, min(shared_by, used))
            yield passed
        shared = self.view.shared_shape
        if shared is not None:
            further = passing(shared, self.view.sharing_last(self.threads))
            yield tuple(map(_at_most, further, passed))

    def moved(self, name: str, passed: Passed) -> Moved:
        """Return what ``passed`` to the memory ``name`` for a part of a full chunk."""
        total = passed.total
        if not total:
            return Moved(name, 0.0)
        written, apart = sum(passed.written), sum(map(mul, passed.fetched, self.traffic.scattered))
        stored = written + sum(compress(passed.fetched, self.traffic.is_result))
        return Moved(name, total * self.view.spec.line_bytes, written / total, apart / total, stored / total)

    def steps(self, pace: CorePace, used: int) -> list[Step]:
        """Return what a core does for each part of the heaviest chunk, where ``used`` such cores work."""
        levels = list(self.levels(pace, used))
        found: list[Step] = []
        for part, (code, meanwhile, own) in enumerate(zip(self.codes, self.meanwhile, self.of_parts, strict=True)):
            moved = [
                self.moved(name, passed[part]) for name, passed in zip(self.view.caches, levels, strict=True)
            ]
            if own.densities:
                moved = [replace(each, size_bytes=each.size_bytes * own.heaviest) for each in moved]
            registers = Moved(L1, code.register_bytes / own.in_all * own.heaviest)
            cycles = issue_cycles(pace.core, code.issued, self.dtype) / own.in_all * own.heaviest
            found.append((cycles, [registers, *moved], dict(meanwhile), 0.0))
        return found

    def sharing(self, pace: CorePace, used: int) -> list[int]:
        """Return how many cores share each cache, of ``used`` ones of a kind."""
        private = [min(shared_by, used) for _, shared_by in pace.caches]
        return private if self.view.shared_shape is None else [*private, self.view.sharing_last(self.threads)]

    @cached_property
    def meanwhile(self) -> tuple[tuple[tuple[str, float], ...], ...]:
        """By part, the share of instructions during which each memory behind a cache moves its bytes."""
        shared = self.view.shared_shape
        shapes = [shape for shape, _ in self.view.paces[0].caches] + ([] if shared is None else [shared])
        by_part = zip(*map(self.traffic.shares_of_iterations, shapes), strict=True)
        return tuple([tuple(zip(self.view.caches, shares, strict=True)) for shares in by_part])


def _at_most(passed: Passed, inner: Passed) -> Passed:
    """Return what passes a cache to which ``inner`` comes: no more than that, per array."""
    return Passed(tuple(map(min, passed.fetched, inner.fetched)), tuple(map(min, passed.written, inner.written)))


def kernel_of_program(layer: Layer, program: LoopProgram, threads: int, dtype: str, view: CpuView) -> SplitKernel:
    """Return the kernel of a loop program."""
    reads = Reads(NaiveProgram(layer), program)
    return kernel_of_reads(reads, threads, dtype, view, codes_of_reads(reads, dtype, view.code))


def kernel_of_reads(
    reads: Reads, threads: int, dtype: str, view: CpuView, codes: tuple[Code, ...]
) -> SplitKernel:
    """Return the kernel of a program of which is known what it loads and stores, and what it issues."""
    spec = view.spec
    traffic = ProgramTraffic(reads, threads, spec.line_bytes, write_allocate=spec.write_allocate)
    return SplitKernel(reads.naive.layer, traffic, codes, dtype, view)


def kernel_of(layer: Layer, decided: LoopTiles | Steps, threads: int, dtype: str, view: CpuView) -> SplitKernel:
    """Return the kernel of the loop program that tiles or steps make.

    Raises ``StepError`` for steps that do not fit the layer.
    """
    steps = _steps_of(layer, decided, view.lanes(dtype)) if isinstance(decided, LoopTiles) else decided
    return _kernel_of(layer, steps, threads, dtype, view.timing)


@memoized
def _steps_of(layer: Layer, tiles: LoopTiles, lanes: int) -> Steps:
    return steps_of(layer, tiles, lanes)


@memoized
def _kernel_of(layer: Layer, steps: Steps, threads: int, dtype: str, view: CpuView) -> SplitKernel:
    spec = view.spec
    traffic = _traffic_of(layer, steps, threads, spec.line_bytes, spec.write_allocate)
    return SplitKernel(layer, traffic, _codes_of(layer, steps, dtype, view.code), dtype, view)


@memoized
def _traffic_of(
    layer: Layer, steps: Steps, threads: int, line_bytes: int, write_allocate: bool
) -> ProgramTraffic:
    """Return the traffic of a kernel's chunks; machines share it where lines and stores of their caches are alike."""
    return ProgramTraffic(_reads_of(layer, steps), threads, line_bytes, write_allocate=write_allocate)


@memoized
def _codes_of(layer: Layer, steps: Steps, dtype: str, view: CodeView) -> tuple[Code, ...]:
    return codes_of_reads(_reads_of(layer, steps), dtype, view)


@memoized
def _reads_of(layer: Layer, steps: Steps) -> Reads:
    naive = NaiveProgram(layer)
    return Reads(naive, loop_program(naive, steps))
