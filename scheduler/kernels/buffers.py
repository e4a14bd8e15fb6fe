"""Which tensors share memory: what no kernel will read any more makes room for what is written next."""

from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.workloads.graph import Graph


@dataclass(frozen=True, slots=True)
class SharedBuffers:
    """Buffers of fixed sizes, and the one that each stored tensor lies in, from its first byte."""

    sizes_bytes: tuple[int, ...]
    buffer_of: dict[str, int]


def share_buffers(graph: Graph, kernels: Sequence[tuple[Sequence[str], Sequence[str]]]) -> SharedBuffers:
    """Return the buffers of all tensors that are no weights; the network's inputs and results keep their own.

    ``kernels`` has, in order, the stored tensors that each reads and writes.

    A network that runs again and again goes through all of them every time: the less they are in all, the more of them
    and of the weights stays in a cache.
    """
    last: dict[str, int] = {}
    for step, (read, written) in enumerate(kernels):
        last.update(dict.fromkeys((*read, *written), step))
    ends: dict[int, list[str]] = {}
    for name, step in last.items():
        if graph.tensors[name].role == "activation" and name not in graph.stored_outputs:
            ends.setdefault(step, []).append(name)
    sizes: list[int] = []
    free: list[int] = []
    buffer_of: dict[str, int] = {}
    for step, (read, written) in enumerate(kernels):
        for name in (*read, *written):
            if name in buffer_of or graph.tensors[name].role == "weight":
                continue
            needed = graph.tensors[name].size_bytes
            buffer_of[name] = _taken(free, sizes, needed, name in graph.stored_outputs or name in graph.inputs)
        free += [buffer_of[name] for name in ends.get(step, ())]
    return SharedBuffers(tuple(sizes), buffer_of)


def _taken(free: list[int], sizes: list[int], needed: int, own: bool) -> int:
    """Return a buffer of at least ``needed`` bytes: the smallest free one, the largest made larger, or a new one."""
    if own or not free:
        sizes.append(needed)
        return len(sizes) - 1
    fitting = [buffer for buffer in free if sizes[buffer] >= needed]
    found = min(fitting, key=sizes.__getitem__) if fitting else max(free, key=sizes.__getitem__)
    free.remove(found)
    sizes[found] = max(sizes[found], needed)
    return found
