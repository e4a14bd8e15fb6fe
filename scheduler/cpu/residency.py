"""What caches still have of the kernels before: which operands need not come from further out.

Between the use of an element in one kernel and in a later one, the rest of what the kernel uses of its tensor passes
by, what both kernels touch meanwhile (half of it each, on average), and all that is touched in between. If all that
fits, the later kernel finds the tensor; else the share that a cache still has which replaces any line
(`hw_models.caches.lines.found_again`). What is written and found by everyone who reads it, and then overwritten by
later tensors in the same place, never leaves.

A cache of each core's own has the part of a tensor that its core has used. All cores together touch what the kernel
touches, so together they are taken to be one cache; but of what another kernel left there, a core finds only the share
that fell to it. The same kernel, run again, gives every core the same part.
"""

from collections.abc import Mapping, Sequence

from hw_models.caches.lines import found_again
from scheduler.cpu.operands import Footprints
from scheduler.cpu.schedule import CpuKernel
from scheduler.cpu.view import CacheSize
from scheduler.cpu.work import Found
from workloads.graph import Graph


def found_in_cache(
    graph: Graph, kernels: Sequence[CpuKernel], footprints: Sequence[Footprints], cache: CacheSize, *, warm: bool
) -> list[Found]:
    """Return what each kernel finds; with ``warm`` the cache begins as such a run has left it."""
    names = [_names(kernel, found) for kernel, found in zip(kernels, footprints, strict=True)]
    sizes = [_sizes(own, found) for own, found in zip(names, footprints, strict=True)]
    return _Uses(graph, names, sizes, [kernel.chunks for kernel in kernels], cache, 2 if warm else 1).found(footprints)


_LEAST_SHARE = 0.01
"""Less is not worth speaking of."""


class _Uses:
    """The uses of stored tensors in rounds of all kernels, of which the last round counts."""

    def __init__(
        self,
        graph: Graph,
        names: Sequence[Sequence[str]],
        sizes: Sequence[Mapping[str, int]],
        threads: Sequence[int],
        cache: CacheSize,
        rounds: int,
    ) -> None:
        self._graph, self._names, self._sizes, self._threads, self._cache = graph, names, sizes, threads, cache
        self._total = len(names)
        self._first = (rounds - 1) * self._total
        self._touched = [sum(each.values()) for each in sizes]
        self._steps: dict[str, list[int]] = {}
        self._before: dict[tuple[int, str], int] = {}
        self._sums = [0]
        for step in range(rounds * self._total):
            for name in dict.fromkeys(names[step % self._total]):
                uses = self._steps.setdefault(name, [])
                if uses:
                    self._before[step, name] = uses[-1]
                uses.append(step)
            self._sums.append(self._sums[-1] + self._touched[step % self._total])

    def found(self, footprints: Sequence[Footprints]) -> list[Found]:
        """Return what each kernel finds in the last round."""
        stays = {name: self._stays(name) for name in self._steps}
        return [self._of_kernel(number, each, stays) for number, each in enumerate(footprints)]

    def _of_kernel(self, number: int, footprints: Footprints, stays: Mapping[str, float]) -> Found:
        read, written = [], []
        for place, (name, operand) in enumerate(zip(self._names[number], footprints.operands, strict=True)):
            if operand.is_written:
                written += [(place, stays[name])] if stays[name] else []
            else:
                share = self._share(self._first + number, name)
                read += [(place, share)] if share else []
        return Found(tuple(read), tuple(written))

    def _stays(self, name: str) -> float:
        """Return the share of a tensor that is found by all who use it after it is written."""
        if name in self._graph.stored_outputs and not self._first:
            return 0.0  # nobody overwrites the results of a single run
        steps = [step for step in self._steps[name] if step >= self._first]
        return min([self._share(step, name) for step in steps[1:] or steps])

    def _share(self, step: int, name: str) -> float:
        """Return how much of a tensor a kernel finds."""
        last = self._before.get((step, name))
        if last is None:
            return 0.0
        own, other = step % self._total, last % self._total
        threads = max(self._threads[own], self._threads[other]) if self._cache.is_private else 1
        between = (self._touched[other] + self._touched[own]) / 2 + self._sums[step] - self._sums[last + 1]
        share = found_again(between / (self._cache.capacity_bytes * threads))
        share = share if share > _LEAST_SHARE else 0.0
        return share if own == other else share / threads


def _names(kernel: CpuKernel, footprints: Footprints) -> list[str]:
    """Return the stored tensors behind the operands of a kernel."""
    every = (*kernel.layer.inputs, *kernel.layer.outputs)
    storage = kernel.layer.graph.storage
    return [storage.get(every[place], every[place]) for place in footprints.places]


def _sizes(names: Sequence[str], footprints: Footprints) -> dict[str, int]:
    """Return the bytes that a kernel uses of each tensor; of one that it uses in two places, the larger part."""
    found: dict[str, int] = {}
    for name, operand in zip(names, footprints.operands, strict=True):
        found[name] = max(found.get(name, 0), operand.used_bytes)
    return found
