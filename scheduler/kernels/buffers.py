"""Memory sharing between tensors: a buffer is reused once no later kernel reads its tensor."""

from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.workloads.graph import Graph


@dataclass(frozen=True, slots=True)
class SharedBuffers:
    """Buffers of fixed sizes in bytes, and the buffer that holds each stored tensor, from its first byte."""

    sizes_bytes: tuple[int, ...]
    buffer_of: dict[str, int]


def share_buffers(graph: Graph, kernels: Sequence[tuple[Sequence[str], Sequence[str]]]) -> SharedBuffers:
    """Return shared buffers for all tensors except weights; the network's inputs and results keep their own.

    ``kernels`` has, in order, the stored tensors that each reads and writes.

    Sharing keeps the working set of repeated runs small, so that more of it and of the weights stays in a cache.
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
    chosen = min(fitting, key=sizes.__getitem__) if fitting else max(free, key=sizes.__getitem__)
    free.remove(chosen)
    sizes[chosen] = max(sizes[chosen], needed)
    return chosen
