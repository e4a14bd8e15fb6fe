"""Places of tensors in a memory that holds all of them: when each is taken, and when it is free again."""

from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.hw_models import Buffer
from dsascape.scheduler.kernels.layer import Layer


@dataclass(frozen=True, slots=True)
class Places:
    """A buffer for each stored tensor, and the kernels, by number, that take and free them."""

    buffers: tuple[Buffer, ...]
    taken: dict[int, list[int]]
    """By kernel: the buffers that it is the first to use; constants and inputs are there from the first kernel on."""
    freed: dict[int, list[int]]
    """By kernel: those that nobody uses after it; constants and results stay."""


def places_of(layers: Sequence[Layer], memory: str) -> Places:
    """Return the places in ``memory`` of what the kernels, run in this order, read and write."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for number, layer in enumerate(layers):
        graph = layer.graph
        for name in (*layer.inputs, *layer.outputs):
            stored = graph.storage.get(name, name)
            is_constant = graph.tensors[stored].role != "activation"
            sizes[stored] = graph.tensors[stored].size_bytes
            first.setdefault(stored, 0 if is_constant else number)
            last[stored] = len(layers) if is_constant or stored in graph.stored_outputs else number
    taken: dict[int, list[int]] = {}
    freed: dict[int, list[int]] = {}
    for place, (name, number) in enumerate(first.items()):
        taken.setdefault(number, []).append(place)
        freed.setdefault(last[name], []).append(place)
    return Places(tuple([Buffer(memory, sizes[name], label=name) for name in first]), taken, freed)
