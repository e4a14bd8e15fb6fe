"""Buffers of tensors in a memory that holds all of them, with the kernels that allocate and free each."""

from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.hw_models import Buffer
from dsascape.hw_models.text.quantities import format_bytes
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.layer import Layer


@dataclass(frozen=True, slots=True)
class Places:
    """Buffers, one per stored tensor, and the kernels, by number, that allocate and free them."""

    buffers: tuple[Buffer, ...]
    taken: dict[int, list[int]]
    """Buffers that each kernel is the first to use; constants and inputs are allocated by the first kernel."""
    freed: dict[int, list[int]]
    """Buffers that each kernel is the last to use; constants and results are never freed."""


def check_kept(network: str, buffers: Sequence[Buffer], capacity_bytes: int) -> None:
    """Raise ``ScheduleError`` if the buffers that are never freed exceed their memory's capacity."""
    kept = sum([buffer.size_bytes for buffer in buffers])
    if kept > capacity_bytes:
        memory = buffers[0].memory
        raise ScheduleError(
            f"{network}: weights, inputs and results need {format_bytes(kept)} of {memory};"
            f" {memory}.capacity is {format_bytes(capacity_bytes)}: lower batch, sequence or context, or raise it"
        )


def places_of(layers: Sequence[Layer], memory: str) -> Places:
    """Return the buffers in ``memory`` of the tensors that the kernels, run in this order, read and write."""
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
