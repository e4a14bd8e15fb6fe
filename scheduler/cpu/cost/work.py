"""What each core is given of a kernel: chunks of its parallel loop, with their instructions and traffic."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dsascape.hw_models import Compute, Issued
from dsascape.hw_models.caches.passing import Passed
from dsascape.hw_models.cpu.machine import L1, Moved
from dsascape.scheduler.cpu.cost.tiled_kernel import SplitKernel


@dataclass(frozen=True, slots=True)
class ChunkWork:
    """Chunks that cores of one kind do, all alike."""

    count: int
    payload: Compute

    @property
    def parts(self) -> tuple[Compute, ...]:
        """What a chunk does for each part of the kernel."""
        return self.payload.steps or (self.payload,)


@dataclass(frozen=True, slots=True)
class Found:
    """Of one kernel and cache: operands, by their place in its footprints, and the share of each that is there."""

    used: tuple[tuple[int, float], ...] = ()
    """When the kernel first uses it: reads it, or fetches its lines to write them."""
    kept: tuple[tuple[int, float], ...] = ()
    """Of what the kernel writes, and never leaves the cache."""
    scratch: tuple[float, float] = (0.0, 0.0)
    """The same two shares of the buffers that anchors in front of the last write."""
    claimed_bytes: float = 0.0
    """Bytes that the kernel writes to lines in such caches of other cores, which have to give them up first."""


@dataclass(frozen=True, slots=True)
class Compulsory:
    """What a kernel moves behind one cache however large that is, per operand of the layer's footprints."""

    first_bytes: tuple[float, ...]
    """Fetched because nothing has used it before."""
    written_bytes: tuple[float, ...]
    """Written back."""
    scratch_bytes: tuple[float, float] = (0.0, 0.0)
    """Of what a part hands on: fetched to be written first, and written back last."""

    def spared_bytes(self, found: Found) -> tuple[float, float]:
        """Return what is not moved where the cache has, or keeps, so much: for reads, and for stores."""
        reads = [share * self.first_bytes[place] for place, share in found.used if not self.written_bytes[place]]
        stores = [share * self.first_bytes[place] for place, share in found.used if self.written_bytes[place]]
        stores += [share * self.written_bytes[place] for place, share in found.kept]
        stores += [share * size for share, size in zip(found.scratch, self.scratch_bytes, strict=True)]
        return sum(reads), sum(stores)


@dataclass(frozen=True, slots=True)
class KernelWork:
    """A whole kernel with caches that begin empty."""

    chunks: tuple[ChunkWork, ...]
    """In the order in which they are handed out: those of the fastest cores first."""
    threads: int
    """That have something to do."""
    compulsory: tuple[Mapping[str, Compulsory], ...]
    """By part, by the memory behind a cache."""
    regions: int = 1
    """Parallel loops, one after the other: steps that wait for each other."""

    def with_found(self, found: Mapping[str, Found]) -> "KernelWork":
        """Return the same where caches have something, by the memory behind each.

        What is found in one cache does not pass those further out. Results are written by the last part, to lines that
        the largest cache of another core may hold.
        """
        by_part = [self._left(part, found) for part in range(len(self.compulsory))]
        claimed_bytes = max([each.claimed_bytes for each in found.values()], default=0.0)
        of_chunk = math.ceil(claimed_bytes / sum([each.count for each in self.chunks]))
        chunks = []
        for each in self.chunks:
            parts = [_left_of(part, left) for part, left in zip(each.parts, by_part, strict=True)]
            parts[-1] = _claiming(parts[-1], of_chunk)
            chunks.append(replace(each, payload=_one_after_the_other(parts)))
        return replace(self, chunks=tuple(chunks))

    def _left(self, part: int, found: Mapping[str, Found]) -> dict[str, tuple[float, float]]:
        """Return by memory the share of a part's traffic that is left, and that of stores that is gone."""
        left: dict[str, tuple[float, float]] = {}
        most_reads = most_stores = 0.0
        for name, behind in self.compulsory[part].items():
            traffic = [(each.count, each.parts[part].traffic) for each in self.chunks]
            moved = sum([count * size for count, sizes in traffic for at, size in sizes if at == name])
            reads, stores = behind.spared_bytes(found.get(name, Found()))
            most_reads, most_stores = max(most_reads, reads), max(most_stores, stores)
            if moved:
                left[name] = max(1 - (most_reads + most_stores) / moved, 0.0), most_stores / moved
        return left


def _one_after_the_other(parts: Sequence[Compute]) -> Compute:
    """Return ``parts`` as the steps of one payload; one part is that itself."""
    if len(parts) == 1:
        return parts[0]
    traffic = [(name, sum([dict(part.traffic)[name] for part in parts])) for name, _ in parts[0].traffic]
    return Compute(
        dtype=parts[0].dtype, macs=sum([part.macs for part in parts]), simple=sum([part.simple for part in parts]),
        special=sum([part.special for part in parts]), traffic=tuple(traffic), at_work=parts[0].at_work,
        steps=tuple(parts),
    )  # fmt: skip


def _left_of(payload: Compute, left: Mapping[str, tuple[float, float]]) -> Compute:
    """Return ``payload`` with so much of its traffic, by memory: the share that is left, and that of stores gone."""
    assert payload.issued is not None
    traffic = [(name, math.ceil(size * left.get(name, (1.0,))[0])) for name, size in payload.traffic]
    stored = []
    for name, share in payload.issued.stored:
        still, gone = left.get(name, (1.0, 0.0))
        if still and share > gone:
            stored.append((name, min((share - gone) / still, 1.0)))
    return replace(payload, traffic=tuple(traffic), issued=replace(payload.issued, stored=tuple(stored)))


def _claiming(payload: Compute, claimed_bytes: int) -> Compute:
    """Return ``payload`` that writes so many bytes to lines which other cores hold."""
    assert payload.issued is not None
    return replace(payload, issued=replace(payload.issued, claimed_bytes=claimed_bytes))


def held_by_others(holders: float, threads: int) -> float:
    """Return the probability that a line which ``holders`` of so many cores have used is in a cache of another core.

    The core that writes it is as likely as any other to be the holder, where there is one.
    """
    return 1 - max(2 - holders, 0.0) / threads


def kernel_work(kernel: SplitKernel) -> KernelWork:
    """Return the work of a kernel on the machine's cores."""
    found: list[ChunkWork] = []
    compulsory: tuple[Mapping[str, Compulsory], ...] = ()
    given = 0
    for pace, used in kernel.view.on_cores(kernel.threads):
        levels = list(kernel.levels(pace, used))
        if not compulsory:
            sharing = kernel.sharing(pace, used)
            first = [
                [_compulsory(kernel, number, part, cores) for number, part in enumerate(passed)]
                for passed, cores in zip(levels, sharing, strict=True)
            ]
            compulsory = tuple([dict(zip(kernel.view.caches, part, strict=True)) for part in zip(*first, strict=True)])
        for begin, end in itertools.pairwise(_alike(kernel, given, given + used)):
            found.append(ChunkWork(end - begin, _payload(kernel, levels, begin)))
        given += used
    return KernelWork(tuple(found), kernel.threads, compulsory, kernel.regions)


def _alike(kernel: SplitKernel, begin: int, end: int) -> list[int]:
    """Return the chunks from ``begin`` at which another amount of work begins for some part, and ``end`` last."""
    edges = {edge for each in kernel.of_parts for edge in (each.count - 1, each.count)}
    edges |= {
        edge for each in kernel.of_parts for edge in range(1, len(each.densities))
        if each.densities[edge] != each.densities[edge - 1]
    }  # fmt: skip
    return sorted({begin, end, *[edge for edge in edges if begin < edge < end]})


def _compulsory(kernel: SplitKernel, part: int, passed: Passed, cores: int) -> Compulsory:
    """Return what has to pass a cache that ``cores`` share for a part, for all chunks together."""
    line_bytes = kernel.view.spec.line_bytes
    times = [line_bytes * (kernel.chunks.count - 1 + share) for share in kernel.traffic.last_shares]
    of_scratch = line_bytes * kernel.of_parts[part].in_all
    once = kernel.traffic.first_lines(passed, cores)
    first, last = kernel.traffic.scratch_lines(part, passed, cores)
    return Compulsory(
        tuple([lines * of_all for lines, of_all in zip(once, times, strict=False)]),
        tuple([lines * of_all for lines, of_all in zip(passed.written, times, strict=True)]),
        (first * of_scratch, last * of_scratch),
    )  # fmt: skip


def _payload(kernel: SplitKernel, levels: Sequence[Sequence[Passed]], number: int) -> Compute:
    """Return what chunk ``number`` does: all that a full one has, or what is left."""
    parts = range(len(kernel.codes))
    return _one_after_the_other([
        _part(kernel, part, [passed[part] for passed in levels], number) for part in parts
    ])


def _part(kernel: SplitKernel, part: int, levels: Sequence[Passed], number: int) -> Compute:
    """Return what chunk ``number`` does for one part of its kernel."""
    code, chunks = kernel.codes[part], kernel.of_parts[part]
    share, of_all = chunks.share(number), 1 / chunks.in_all
    last = chunks.count - 1
    own_last = kernel.traffic.last_shares if chunks is kernel.chunks else (share,) * len(kernel.traffic.last_shares)
    shares = own_last if number == last else (share,) * len(own_last)

    def counted(whole: int) -> int:
        full = [int(whole * of_all * chunks.density(each)) for each in range(last if chunks.densities else 1)]
        others = sum(full) if chunks.densities else last * full[0]
        return whole - others if number == last else full[min(number, len(full) - 1)] if share else 0

    def issued(whole: int) -> int:
        return math.ceil(whole * of_all * share * chunks.density(number) - 1e-6)

    line_bytes, at_work = kernel.view.spec.line_bytes, kernel.threads
    moved = [kernel.moved(name, passed) for name, passed in zip(kernel.view.caches, levels, strict=True)]
    sizes = [math.ceil(passed.total_of(shares) * line_bytes * chunks.density(number)) for passed in levels]
    of_code, made = code.issued, code.operations
    return Compute(
        dtype=kernel.dtype, macs=counted(made.macs), simple=counted(made.simple), special=counted(made.special),
        traffic=((L1, issued(code.register_bytes)), *zip(kernel.view.caches, sizes, strict=True)), at_work=at_work,
        issued=Issued(
            fma=issued(of_code.fma), arithmetic=issued(of_code.arithmetic), special=issued(of_code.special),
            load=issued(of_code.load), store=issued(of_code.store), scalar=issued(of_code.scalar),
            accumulators=of_code.accumulators, loops=issued(of_code.loops),
            spared=tuple([(name, issued(number)) for name, number in of_code.spared]),
            meanwhile=kernel.meanwhile[part], written=_shares(moved, "written"),
            scattered=_shares(moved, "scattered"), stored=_shares(moved, "stored"),
        ),
    )  # fmt: skip


def _shares(moved: Iterable[Moved], kind: Literal["written", "scattered", "stored"]) -> tuple[tuple[str, float], ...]:
    """Return shares of one kind by memory, of those that there are."""
    return tuple([(each.memory, share) for each in moved if (share := getattr(each, kind))])
