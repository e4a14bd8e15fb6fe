"""Placement (section 4.3): where every tensor slice lives, at which address, and what is spilled.

A slice takes its place when it is written and keeps it until its last reader has run. Where the local buffers do not
hold all that is alive, the slice with the longest live range is spilled to the global buffer, and from there to DDR
(Fig. 12); so is what finds no gap, since buffers lie in one place for all their live range. A slice is spilled for all
of it, not from then on: the plan is made before anything runs, and what is written further out at once costs one store,
not a load and a store more.

The local buffers' weight window stays free for weights and tiles passing through. A slice that the cores would have to
exchange for the most part, because its readers are bound to them differently, goes to the global buffer, as Algorithm 4
does with mismatches. On a machine without one, whose cores reach each other directly, it is exchanged: DDR is slower.
"""

import functools
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.dsa.allocation import LiveBuffer, addresses, without_spilled
from scheduler.dsa.needs import lacking, looked_at
from scheduler.dsa.schedule import LayerRun, TensorSlice, live_ranges


@dataclass(frozen=True, slots=True)
class Capacity:
    """Bytes that slices may take: per core in the local buffer, per cluster in the global one."""

    local_bytes: int
    global_bytes: int
    uses_local: bool = True
    """False keeps everything out of the local buffers, as the ablation's first variant does."""
    spills_longest: bool = True
    """False spills the slice that comes last, not the one that lives longest."""
    most_exchanged: float = 0.5
    """Share of what a core needs of a slice that may come from other cores' local buffers; 1 where there is no global
    buffer that it could come from instead."""
    apart_steps: int = 0
    """Layers that may be at work when the next one begins: slices avoid their addresses, where there is room."""


def place_slices(
    runs: Sequence[LayerRun], slices: Sequence[TensorSlice], capacity: Capacity, mismatched: Container[int] = ()
) -> tuple[TensorSlice, ...]:
    """Return the slices with their memories and addresses. ``runs`` in the order in which they will run.

    ``mismatched`` slices go to the global buffer if they fit there (Algorithm 4, l. 12), where there is one.

    A slice in the local buffers takes its part of each core's, and at its readers also room for what cores fetch from
    each other.
    """
    lives = live_ranges(tuple(runs))
    readers: dict[int, list[tuple[LayerRun, int, str]]] = {}
    for step, run in enumerate(runs):
        for name, held in run.reads.items():
            for number in held:
                readers.setdefault(number, []).append((run, step, name))
    results = {run.layer.graph.storage[name] for run in runs[:1] for name in run.layer.graph.outputs}
    staying = [p for p in lives if p in readers and slices[p].tensor not in results]  # results leave, even if read
    near = []
    by_step = functools.cache(lambda step: looked_at(runs[step], slices))
    for number in staying if capacity.uses_local else ():
        halos = None
        if number not in mismatched or not capacity.global_bytes:
            halos = _exchanged(slices[number], readers[number], by_step, capacity.most_exchanged)
        if halos is not None:
            near.append(LiveBuffer(number, slices[number].core_bytes, lives[number], halos))
    near = without_spilled(near, capacity.local_bytes, longest=capacity.spills_longest)
    local = addresses(near, capacity.local_bytes, capacity.apart_steps)
    far = [LiveBuffer(number, slices[number].size_bytes, lives[number]) for number in staying if number not in local]
    far = without_spilled(far, capacity.global_bytes, longest=capacity.spills_longest)
    further = addresses(far, capacity.global_bytes)
    return tuple(_placed(each, local.get(number), further.get(number)) for number, each in enumerate(slices))


def _placed(each: TensorSlice, local: int | None, further: int | None) -> TensorSlice:
    if local is not None:
        return replace(each, memory="local_buffer", address=local)
    if further is not None:
        return replace(each, memory="global_buffer", address=further)
    return replace(each, memory="ddr", address=None)


def _exchanged(
    each: TensorSlice,
    readers: Sequence[tuple[LayerRun, int, str]],
    cores: Callable[[int], tuple[int, ...]],
    most_exchanged: float,
) -> Mapping[int, int] | None:
    """Return by step the bytes of a slice that cores fetch from each other; None where a core lacks too much of it.

    ``cores``: which are looked at, by step.
    """
    found: dict[int, int] = {}
    for run, step, name in readers:
        missing = lacking(run, name, (each,), cores(step))
        if missing.share > most_exchanged:
            return None
        if missing.elements:
            size_bytes = missing.elements * run.layer.graph.tensors[name].element_bytes
            found[step] = found.get(step, 0) + size_bytes
    return found
