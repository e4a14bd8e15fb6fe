"""The machine model of a CPU as a runner."""

import math
from collections.abc import Iterator, Sequence

from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.cpu.cost.estimate import among_others_ps
from dsascape.scheduler.cpu.cost.issued import Code, codes_of_reads
from dsascape.scheduler.cpu.cost.split import Split
from dsascape.scheduler.cpu.cost.tiled_kernel import kernel_of_reads
from dsascape.scheduler.cpu.schedule.chunks import Chunks
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.tuner.search.runners import NO_COST, Answer
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.tasks import Task


class SimulatedRunner:
    """The machine model of a CPU: a kernel among others, whose operands are in caches as far as they fit."""

    is_repeatable = True

    def __init__(self, view: CpuView, dtype: str) -> None:
        self._view, self._dtype = view, dtype

    def answers(self, task: Task, programs: Sequence[Program]) -> Iterator[Answer]:
        """Yield the time of each program on that number of threads on which it is fastest."""
        for program in programs:
            yield self._answer(task, program)

    def _answer(self, task: Task, program: Program) -> Answer:
        dtype = self._view.dtype_of(task.naive.layer, self._dtype)
        reads = Reads(task.naive, program.loops)
        try:
            time_ps, threads = self._fastest(reads, dtype, codes_of_reads(reads, dtype, self._view.code))
        except NO_COST as error:
            return Answer(None, f"no cost: {type(error).__name__}: {error}")
        return Answer(time_ps / PS_PER_S, threads=threads)

    def _fastest(self, reads: Reads, dtype: str, codes: tuple[Code, ...]) -> tuple[float, int]:
        """Return the least time in picoseconds, and the threads that it takes.

        Numbers of threads that make the same chunks are one. Those with which the instructions of a full chunk
        take the fastest core longer than what has been found are not looked at further; slower cores may have less.
        """
        found, seen = (math.inf, 1), set[tuple[Chunks, ...]]()
        for threads in self._view.thread_counts:
            fastest = self._view.paces[0]
            chunks = Split(reads.naive.layer, reads.program, threads).of_regions
            if chunks in seen:
                continue
            seen.add(chunks)
            kernel = kernel_of_reads(reads, threads, dtype, self._view, codes)
            if kernel.chunk_cycles(fastest) * fastest.cycle_ps < found[0]:
                found = min(found, (among_others_ps(kernel), threads))
        return found

    def close(self) -> None:
        """Do nothing: it holds nothing."""
