"""What caches still have of the kernels before: which operands need not come from further out.

Tensors lie in memory that they share with others in turns (`scheduler.kernels.buffers`), as in generated code. Between
two uses of a piece of memory, all that is used meanwhile passes by, each piece of memory once, and of what both kernels
use besides, half. The share of it that is left follows from that by what the cache holds
(`hw_models.caches.lines.random_placement_hit_rate`). Where others use the same cache, what they bring in passes by as
well: after `CacheSize.kept_ps` as much as it holds. What is found by everyone who reads it, and is still there when the
memory is written again, never leaves.

Some shared caches do not trust lines that are new to them: until a line is used again, it has only the part
`CacheSize.fresh_bytes` of the cache to share with others of its kind. It is settled as soon as it is found there, or
has to be fetched for a second time in the while that the cache keeps settled ones, for the same: to be read, or to be
written. (So do arrays of 1 to 12 MiB on the processor of `experiments/measured/host.yaml`.)

A cache of each core's own, or of a group of cores, has the part of a tensor that these have used. All cores together
touch what the kernel touches, so together such caches are taken to be one; but of what another kernel left there, a
core finds only the share that fell to its own. The same kernel, run again, gives every core the same part. What other
cores have used last, and still have, they must give up before it is written.
"""

import itertools
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dsascape.hw_models.caches.lines import MOST_TIMES, random_placement_hit_rate
from dsascape.scheduler.cpu.cost.tiled_kernel import SplitKernel
from dsascape.scheduler.cpu.cost.work import Found, held_by_others
from dsascape.scheduler.cpu.view import CacheSize
from dsascape.scheduler.kernels.buffers import share_buffers
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.operands import Footprints
from dsascape.workloads.graph import Graph

_Memory = str | int
"""A weight by its name, or a buffer by its number."""
_SCRATCH = -1
"""What kernels with several anchors hand on from one to the next: each uses the first bytes of one piece of memory."""


def found_in_cache(
    graph: Graph,
    layers: Sequence[Layer],
    kernels: Sequence[SplitKernel],
    footprints: Sequence[Footprints],
    times_ps: Sequence[float],
    cache: CacheSize,
    *,
    warm: bool,
) -> list[Found]:
    """Return what each kernel finds; with ``warm`` the cache begins as such a run has left it.

    ``layers``: what they compute, which says which tensors they use: equal layers may have the same kernel.
    ``times_ps`` is what each kernel takes, about; it matters where others use the cache.
    """
    memories = _memories(graph, layers, footprints)
    sizes = [_sizes(*each) for each in zip(memories, footprints, kernels, strict=True)]
    threads = [kernel.chunks.count for kernel in kernels]
    rounds = 1
    if warm:
        rounds = _ROUNDS if cache.fresh_bytes is None else _ROUNDS_TO_SETTLE
    held = [
        _in_copies(own, kernel.traffic.holders, cache.copies(kernel.chunks.count))
        for own, kernel in zip(memories, kernels, strict=True)
    ]
    return _Uses(memories, sizes, times_ps, threads, cache, held).found(footprints, rounds)


def _in_copies(memories: Sequence[_Memory], holders: Sequence[float], copies: int) -> dict[_Memory, float]:
    """Return in how many of a cache's copies a kernel uses each line of a memory; the most, where it has two places."""
    found: dict[_Memory, float] = {_SCRATCH: 1.0}
    for memory, number in zip(memories, holders, strict=True):
        found[memory] = max(found.get(memory, 1.0), min(number, copies))
    return found


_ROUNDS = 2
"""Until what a round finds does not change any more."""
_ROUNDS_TO_SETTLE = 6
"""The same where lines have to be used several times until the cache keeps them; then it changes little."""
_LEAST_SHARE = 0.01
"""Less is not worth speaking of."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """A use of the first bytes of a memory, as far as no later use has covered them."""

    step: int
    size_bytes: int
    settled: float
    """The share that the cache keeps like all that it has used again; the rest is fresh."""
    was_read: bool
    """Whether it was read, not written: if it is fetched for the same again, it is settled."""


class _Uses:
    """The uses of memory in rounds of all kernels, of which the last round counts."""

    def __init__(
        self,
        memories: Sequence[Sequence[_Memory]],
        sizes: Sequence[Mapping[_Memory, int]],
        times_ps: Sequence[float],
        threads: Sequence[int],
        cache: CacheSize,
        holders: Sequence[Mapping[_Memory, float]],
    ) -> None:
        self._cache, self._sizes, self._threads, self._holders = cache, sizes, threads, holders
        self._filled = [
            {name: size * held[name] for name, size in each.items()} for each, held in zip(sizes, holders, strict=True)
        ]
        """Per kernel, what it fills of all copies of the cache, by memory."""
        self._touched = [sum(each.values()) for each in self._filled]
        self._times_ps, self._begin_ps = times_ps, list(itertools.accumulate(times_ps, initial=0.0))
        self._memories = memories
        self._places = {name: place for place, name in enumerate(dict.fromkeys(itertools.chain(*sizes)))}
        self._last_step = np.full(len(self._places), -1)
        self._last_bytes = np.zeros(len(self._places))
        """Per memory: when it was used last, and what that filled of all copies of the cache."""
        self._layers: dict[_Memory, list[_Layer]] = {name: [] for name in self._places}
        """The last use first."""
        self._claimed_bytes = [0.0] * len(sizes)
        """Bytes that each kernel writes, in the last round, to lines that caches of other cores hold."""

    def found(self, footprints: Sequence[Footprints], rounds: int) -> list[Found]:
        """Return what each kernel finds in the last of so many rounds."""
        written = [
            {memory for memory, operand in zip(memories, each.operands, strict=True) if operand.is_written}
            | ({_SCRATCH} & sizes.keys())
            for memories, each, sizes in zip(self._memories, footprints, self._sizes, strict=True)
        ]
        shares: list[dict[_Memory, float]] = []
        for number in range(rounds):
            shares = [self._used(number * len(written) + own, own, each) for own, each in enumerate(written)]
        stays = _staying(shares, written, is_repeated=rounds > 1)
        return [
            Found(
                tuple([(place, own[name]) for place, name in enumerate(names) if own[name] > _LEAST_SHARE]),
                tuple([
                    (place, left[name])
                    for place, (name, operand) in enumerate(zip(names, each.operands, strict=True))
                    if operand.is_written and left[name] > _LEAST_SHARE
                ]),
                (own.get(_SCRATCH, 0.0), left.get(_SCRATCH, 0.0)), claimed_bytes,
            )
            for names, each, own, left, claimed_bytes in zip(
                self._memories, footprints, shares, stays, self._claimed_bytes, strict=True
            )
        ]  # fmt: skip

    def _used(self, step: int, own: int, written: Container[_Memory]) -> dict[_Memory, float]:
        """Return the shares that a kernel finds of each memory; then it has used them."""
        sizes = self._sizes[own]
        if self._cache.copies(max(self._threads)) > 1:
            self._claimed_bytes[own] = sum([
                self._claimed(step, name, size) for name, size in sizes.items() if name in written and name != _SCRATCH
            ])  # fmt: skip
        shares = {name: self._share(step, name, size, name not in written) for name, size in sizes.items()}
        for name in sizes:
            place = self._places[name]
            self._last_step[place], self._last_bytes[place] = step, self._filled[own][name]
        return shares

    def _share(self, step: int, name: _Memory, size_bytes: int, is_read: bool) -> float:
        """Return how much of a memory is found, each part as its last use has left it."""
        covered, found, settled = 0, 0.0, 0.0
        layers = self._layers[name]
        for layer in layers:
            part = min(layer.size_bytes, size_bytes) - covered
            if part <= 0:
                break
            covered += part
            old, fresh = self._left_since(layer.step, step)
            share = self._own_share(layer.step, step, name) * (layer.settled * old + (1 - layer.settled) * fresh)
            found += part * share
            again = (1 - share) * old if is_read == layer.was_read else 0.0
            settled += part * (share + again)
        now = _Layer(step, size_bytes, settled / size_bytes if size_bytes else 0.0, is_read)
        self._layers[name] = [now, *[layer for layer in layers if layer.size_bytes > size_bytes]]
        return found / size_bytes if size_bytes else 0.0

    def _claimed(self, step: int, name: _Memory, size_bytes: int) -> float:
        """Return the bytes of a memory that caches of other cores than those which write them still have."""
        covered, found = 0, 0.0
        for layer in self._layers[name]:
            part = min(layer.size_bytes, size_bytes) - covered
            if part <= 0:
                break
            covered += part
            own, other = step % len(self._sizes), layer.step % len(self._sizes)
            if own != other:
                left, _ = self._left_since(layer.step, step)
                found += part * left * held_by_others(self._holders[other][name], self._copies(own, other))
        return found

    def _own_share(self, last: int, step: int, name: _Memory) -> float:
        """Return the share of what is left of a memory that is in the copy of the core that uses it next."""
        own, other = step % len(self._sizes), last % len(self._sizes)
        return 1.0 if own == other else self._holders[other][name] / self._copies(own, other)

    def _copies(self, own: int, other: int) -> int:
        """Return the copies among which two kernels divide what they use: one where it is shared."""
        return self._cache.copies(max(self._threads[own], self._threads[other]))

    def _left_since(self, last: int, step: int) -> tuple[float, float]:
        """Return the shares that are left at ``step`` of what a kernel has used: of settled and of fresh lines."""
        cache, count = self._cache, len(self._sizes)
        own, other = step % count, last % count
        threads = self._copies(own, other)
        if self._touched[own] + self._touched[other] > 2 * MOST_TIMES * cache.capacity_bytes * threads:
            return 0.0, 0.0  # of what passed by, the half of these two alone has left nothing
        passed = self._passed_between(last, step, own, other) / threads
        times = passed / cache.capacity_bytes
        gone = 0.0
        if cache.kept_ps is not None:
            rounds = step // count - last // count
            since_ps = self._begin_ps[own] - self._begin_ps[other] + rounds * self._begin_ps[-1]
            gone = (since_ps + (self._times_ps[own] - self._times_ps[other]) / 2) / cache.kept_ps
        old = random_placement_hit_rate(times + gone)
        fresh = old if cache.fresh_bytes is None else random_placement_hit_rate(passed / cache.fresh_bytes + gone)
        return old, fresh

    def _passed_between(self, last: int, step: int, own: int, other: int) -> float:
        """Return the bytes that pass by: all used in between, and half of what either kernel uses besides."""
        between = self._last_step > last
        passed = float(self._last_bytes @ between)
        for number in (own, other):
            passed += sum([size for name, size in self._filled[number].items() if not between[self._places[name]]]) / 2
        return passed


def _staying(
    shares: Sequence[Mapping[_Memory, float]], written: Sequence[Container[_Memory]], *, is_repeated: bool
) -> list[dict[_Memory, float]]:
    """Return per kernel the share of what it writes that is found by all who use it, until it is written again."""
    stays: list[dict[_Memory, float]] = [{} for _ in shares]
    later: dict[_Memory, float] = {}
    for _ in range(2 if is_repeated else 1):  # the next round does what this one does
        for own, used in reversed(list(enumerate(shares))):
            for name, share in used.items():
                if name in written[own]:
                    stays[own][name] = later.get(name, 0.0)
                    later[name] = share
                else:
                    later[name] = min(share, later.get(name, 1.0))
    return stays


def _memories(graph: Graph, layers: Sequence[Layer], footprints: Sequence[Footprints]) -> list[list[_Memory]]:
    """Return where the operands of each kernel lie."""
    names = [_names(layer, found) for layer, found in zip(layers, footprints, strict=True)]
    stored: list[tuple[list[str], list[str]]] = []
    for own, found in zip(names, footprints, strict=True):
        read, written = [
            [name for name, operand in zip(own, found.operands, strict=True) if operand.is_written is wanted]
            for wanted in (False, True)
        ]
        stored.append((read, written))
    buffer_of: Mapping[str, int] = share_buffers(graph, stored).buffer_of
    return [[buffer_of.get(name, name) for name in own] for own in names]


def _names(layer: Layer, footprints: Footprints) -> list[str]:
    """Return the stored tensors behind the operands of a kernel."""
    every = (*layer.inputs, *layer.outputs)
    storage = layer.graph.storage
    return [storage.get(every[place], every[place]) for place in footprints.places]


def _sizes(memories: Sequence[_Memory], footprints: Footprints, kernel: SplitKernel) -> dict[_Memory, int]:
    """Return the bytes that a kernel uses of each; where it uses one in two places, of the larger part."""
    found: dict[_Memory, int] = {}
    if kernel.traffic.scratch_bytes:
        found[_SCRATCH] = kernel.traffic.scratch_bytes
    for memory, operand in zip(memories, footprints.operands, strict=True):
        found[memory] = max(found.get(memory, 0), operand.used_bytes)
    return found
