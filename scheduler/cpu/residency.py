"""What caches still have of the kernels before: which operands need not come from further out.

Tensors lie in memory that they share with others in turns (`scheduler.kernels.buffers`), as in generated code. Between
two uses of a piece of memory, what both kernels touch meanwhile passes by (half of it each, on average), and all that
is touched in between. If all that fits, the later kernel finds what it uses; else the share that a cache has left that
replaces any line (`hw_models.caches.lines.found_again`). What is found by everyone who reads it, and is still there
when the memory is written again, never leaves. Where others use the same cache, what is not used goes with time, too:
after `CacheSize.kept_ps` a share of 1/e is left. That goes slowly at first and then fast, as caches nearly give up the
oldest first: the share is e^-(time / kept)^2.

A cache of each core's own has the part of a tensor that its core has used. All cores together touch what the kernel
touches, so together they are taken to be one cache; but of what another kernel left there, a core finds only the share
that fell to it. The same kernel, run again, gives every core the same part.
"""

import math
from collections.abc import Mapping, Sequence

from hw_models.caches.lines import found_again
from scheduler.cpu.operands import Footprints
from scheduler.cpu.schedule import CpuKernel
from scheduler.cpu.view import CacheSize
from scheduler.cpu.work import Found
from scheduler.kernels.buffers import share_buffers
from workloads.graph import Graph

_Memory = str | int
"""A weight by its name, or a buffer by its number."""


def found_in_cache(
    graph: Graph,
    kernels: Sequence[CpuKernel],
    footprints: Sequence[Footprints],
    times_ps: Sequence[float],
    cache: CacheSize,
    *,
    warm: bool,
) -> list[Found]:
    """Return what each kernel finds; with ``warm`` the cache begins as such a run has left it.

    ``times_ps`` is what each kernel takes, about; it matters where others use the cache.
    """
    memories = _memories(graph, kernels, footprints)
    sizes = [_sizes(own, found) for own, found in zip(memories, footprints, strict=True)]
    threads = [kernel.chunks for kernel in kernels]
    return _Uses(memories, sizes, times_ps, threads, cache, 2 if warm else 1).found(footprints)


_LEAST_SHARE = 0.01
"""Less is not worth speaking of."""


class _Uses:
    """The uses of memory in rounds of all kernels, of which the last round counts."""

    def __init__(
        self,
        memories: Sequence[Sequence[_Memory]],
        sizes: Sequence[Mapping[_Memory, int]],
        times_ps: Sequence[float],
        threads: Sequence[int],
        cache: CacheSize,
        rounds: int,
    ) -> None:
        self._memories, self._sizes, self._times_ps, self._threads = memories, sizes, times_ps, threads
        self._cache = cache
        self._total = len(memories)
        self._first = (rounds - 1) * self._total
        self._touched = [sum(each.values()) for each in sizes]
        self._steps: dict[_Memory, list[int]] = {}
        """At which each is used."""
        self._written: set[tuple[int, _Memory]] = set()
        """By which kernels."""
        self._touched_before, self._begin_ps = [0], [0.0]
        for step in range(rounds * self._total):
            own = step % self._total
            for memory in dict.fromkeys(memories[own]):
                self._steps.setdefault(memory, []).append(step)
            self._touched_before.append(self._touched_before[-1] + self._touched[own])
            self._begin_ps.append(self._begin_ps[-1] + times_ps[own])

    def found(self, footprints: Sequence[Footprints]) -> list[Found]:
        """Return what each kernel finds in the last round."""
        for number, (memories, each) in enumerate(zip(self._memories, footprints, strict=True)):
            written = [memory for memory, operand in zip(memories, each.operands, strict=True) if operand.is_written]
            self._written.update((number, memory) for memory in written)
        return [self._of_kernel(number, each) for number, each in enumerate(footprints)]

    def _of_kernel(self, number: int, footprints: Footprints) -> Found:
        step = self._first + number
        used, kept = [], []
        for place, (memory, operand) in enumerate(zip(self._memories[number], footprints.operands, strict=True)):
            share = self._share(step, memory)
            used += [(place, share)] if share else []
            stays = self._stays(step, memory) if operand.is_written else 0.0
            kept += [(place, stays)] if stays else []
        return Found(tuple(used), tuple(kept))

    def _stays(self, step: int, memory: _Memory) -> float:
        """Return the share of what a kernel writes that is found by all who use it, and until it is written again."""
        steps = self._steps[memory]
        place = steps.index(step)
        later = []
        for use in steps[place + 1 :]:
            later.append(use)
            if (use % self._total, memory) in self._written:
                break
        else:
            if self._first:  # the next round does what this one does
                again = (use for use in steps if use >= self._first and (use - self._first, memory) in self._written)
                later.append(next(again))
        return min([self._share(use, memory) for use in later], default=0.0)

    def _share(self, step: int, memory: _Memory) -> float:
        """Return how much of the memory that a kernel uses it finds: each part as its last use has left it."""
        needed = self._sizes[step % self._total][memory]
        steps = self._steps[memory]
        covered = found = 0.0
        for last in reversed(steps[: steps.index(step)]):
            size = min(self._sizes[last % self._total][memory], needed)
            if size > covered:
                found += (size - covered) * self._left_since(last, step)
                covered = size
            if covered == needed:
                break
        share = found / needed if needed else 0.0
        return share if share > _LEAST_SHARE else 0.0

    def _left_since(self, last: int, step: int) -> float:
        """Return the share that is left at ``step`` of what a kernel has used."""
        own, other = step % self._total, last % self._total
        threads = max(self._threads[own], self._threads[other]) if self._cache.is_private else 1
        touched = (self._touched[other] + self._touched[own]) / 2
        touched += self._touched_before[step] - self._touched_before[last + 1]
        share = found_again(touched / (self._cache.capacity_bytes * threads))
        if self._cache.kept_ps is not None:
            meanwhile_ps = (self._times_ps[other] + self._times_ps[own]) / 2
            meanwhile_ps += self._begin_ps[step] - self._begin_ps[last + 1]
            share *= math.exp(-((meanwhile_ps / self._cache.kept_ps) ** 2))
        return share if own == other else share / threads


def _memories(graph: Graph, kernels: Sequence[CpuKernel], footprints: Sequence[Footprints]) -> list[list[_Memory]]:
    """Return where the operands of each kernel lie."""
    names = [_names(kernel, found) for kernel, found in zip(kernels, footprints, strict=True)]
    stored: list[tuple[list[str], list[str]]] = []
    for own, found in zip(names, footprints, strict=True):
        read, written = [
            [name for name, operand in zip(own, found.operands, strict=True) if operand.is_written is wanted]
            for wanted in (False, True)
        ]
        stored.append((read, written))
    buffer_of: Mapping[str, int] = share_buffers(graph, stored).buffer_of
    return [[buffer_of.get(name, name) for name in own] for own in names]


def _names(kernel: CpuKernel, footprints: Footprints) -> list[str]:
    """Return the stored tensors behind the operands of a kernel."""
    every = (*kernel.layer.inputs, *kernel.layer.outputs)
    storage = kernel.layer.graph.storage
    return [storage.get(every[place], every[place]) for place in footprints.places]


def _sizes(memories: Sequence[_Memory], footprints: Footprints) -> dict[_Memory, int]:
    """Return the bytes that a kernel uses of each; where it uses one in two places, of the larger part."""
    found: dict[_Memory, int] = {}
    for memory, operand in zip(memories, footprints.operands, strict=True):
        found[memory] = max(found.get(memory, 0), operand.used_bytes)
    return found
