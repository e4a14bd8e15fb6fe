"""What the shared cache still has of the kernels before: which operands need not come from DRAM.

The cache forgets what was used longest ago. Between the use of an element in one kernel and in a later one, the rest of
its tensor passes by, what both kernels touch meanwhile (half of it each, on average), and all that is touched in
between. If all that fits, the later kernel finds the tensor; a tensor is found as a whole or not at all. What is
written and found by everyone who reads it, and then overwritten by later tensors in the same place, never leaves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.cpu.footprints import Footprints
from scheduler.cpu.schedule import CpuKernel
from workloads.graph import Graph


@dataclass(frozen=True, slots=True)
class Found:
    """Of one kernel: operands, by their place in its footprints, that pass the shared cache only."""

    read: frozenset[int]
    written: frozenset[int]


def found_in_cache(
    graph: Graph, kernels: Sequence[CpuKernel], footprints: Sequence[Footprints], cache_bytes: int, *, warm: bool
) -> list[Found]:
    """Return what each kernel finds; with ``warm`` the cache begins as such a run has left it."""
    names = [_names(kernel, found) for kernel, found in zip(kernels, footprints, strict=True)]
    touched = [sum([graph.tensors[name].size_bytes for name in dict.fromkeys(each)]) for each in names]
    uses: dict[str, list[int]] = {}
    before: dict[tuple[int, str], int] = {}
    rounds = 2 if warm else 1
    total = len(kernels)
    for step in range(rounds * total):
        for name in dict.fromkeys(names[step % total]):
            uses.setdefault(name, []).append(step)
            if len(uses[name]) > 1:
                before[step, name] = uses[name][-2]
    sums = [0]
    for step in range(rounds * total):
        sums.append(sums[-1] + touched[step % total])

    def is_found(step: int, name: str) -> bool:
        last = before.get((step, name))
        if last is None:
            return False
        size = graph.tensors[name].size_bytes
        around = (touched[last % total] + touched[step % total]) / 2 - size
        return size + around + sums[step] - sums[last + 1] <= cache_bytes

    first = (rounds - 1) * total
    results = graph.stored_outputs
    stays = {name: name not in results for name in uses}
    for name, steps in uses.items():
        readers = [step for step in steps if step >= first][1:]
        stays[name] = stays[name] and all(is_found(step, name) for step in readers)
    return [_found(names[step], found, [is_found(first + step, name) for name in names[step]], stays)
            for step, found in enumerate(footprints)]  # fmt: skip


def _names(kernel: CpuKernel, footprints: Footprints) -> list[str]:
    """Return the stored tensors behind the operands of a kernel."""
    every = (*kernel.layer.inputs, *kernel.layer.outputs)
    storage = kernel.layer.graph.storage
    return [storage.get(every[place], every[place]) for place in footprints.places]


def _found(names: Sequence[str], footprints: Footprints, is_found: Sequence[bool], stays: Mapping[str, bool]) -> Found:
    written = [operand.is_written for operand in footprints.operands]
    return Found(
        frozenset(place for place, found in enumerate(is_found) if found and not written[place]),
        frozenset(place for place, name in enumerate(names) if written[place] and stays[name]),
    )
