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

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial

from dsascape.scheduler.dsa.placing.allocation import LiveBuffer, addresses, without_spilled
from dsascape.scheduler.dsa.placing.needs import lacking, looked_at
from dsascape.scheduler.dsa.schedule.schedule import LayerRun, TensorSlice, live_ranges
from dsascape.workloads.analysis import Table

_MOST_EXCHANGED = 10_000
"""Of one placement."""


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


class Placement:
    """Slices to be placed, and all that their places depend on but the room there is, worked out once.

    ``runs`` in the order in which they will run. ``mismatched`` slices go to the global buffer if they fit there
    (Algorithm 4, l. 12), where there is one.
    """

    def __init__(
        self, runs: Sequence[LayerRun], slices: tuple[TensorSlice, ...], mismatched: Container[int] = ()
    ) -> None:
        self._runs = tuple(runs)
        self._slices = slices
        self._mismatched = mismatched
        self._exchanged: Table[Mapping[int, int] | None] = Table(_MOST_EXCHANGED)
        """By slice and share that may be exchanged: see `_exchanged`."""

    def within(self, capacity: Capacity) -> tuple[TensorSlice, ...]:
        """Return the slices with their memories and addresses.

        A slice in the local buffers takes its part of each core's, and at its readers also room for what cores fetch
        from each other.
        """
        near: list[LiveBuffer] = []
        if capacity.uses_local:
            may_be = self._may_be_near(capacity)
            near = without_spilled(may_be, capacity.local_bytes, longest=capacity.spills_longest)
        local = addresses(near, capacity.local_bytes, capacity.apart_steps)
        far = [buffer for buffer in self._far if buffer.owner not in local]
        far = without_spilled(far, capacity.global_bytes, longest=capacity.spills_longest)
        further = addresses(far, capacity.global_bytes)
        return tuple(
            [_placed(each, local.get(number), further.get(number)) for number, each in enumerate(self._slices)]
        )

    @cached_property
    def _readers(self) -> Mapping[int, Sequence[tuple[LayerRun, int, str]]]:
        """By slice: the runs that read it, with their steps, and as which tensor."""
        readers: dict[int, list[tuple[LayerRun, int, str]]] = {}
        for step, run in enumerate(self._runs):
            for name, held in run.reads.items():
                for number in held:
                    readers.setdefault(number, []).append((run, step, name))
        return readers

    @cached_property
    def _far(self) -> Sequence[LiveBuffer]:
        """All that may stay on the chip, as it lies in the global buffer."""
        lives, readers, slices = live_ranges(self._runs), self._readers, self._slices
        # results leave, even if read
        results = {run.layer.graph.storage[name] for run in self._runs[:1] for name in run.layer.graph.outputs}
        staying = [number for number in lives if number in readers and slices[number].tensor not in results]
        return [LiveBuffer(number, slices[number].size_bytes, lives[number]) for number in staying]

    @cached_property
    def _looked_at(self) -> Callable[[int], tuple[int, ...]]:
        """By step: the cores whose needs are looked at."""
        return cache(lambda step: looked_at(self._runs[step], self._slices))

    def _may_be_near(self, capacity: Capacity) -> Iterator[LiveBuffer]:
        """Yield what may lie in the local buffers: what fits, and is not mostly exchanged."""
        most_exchanged, has_global_buffer = capacity.most_exchanged, capacity.global_bytes > 0
        for buffer in self._far:
            number, each = buffer.owner, self._slices[buffer.owner]
            size_bytes = each.core_bytes
            never_fits = size_bytes > capacity.local_bytes  # and is spilled whatever cores would exchange of it
            if never_fits or (number in self._mismatched and has_global_buffer):
                continue
            work_out = partial(_exchanged, each, self._readers[number], self._looked_at, most_exchanged)
            halos = self._exchanged.get((number, most_exchanged), work_out)
            if halos is not None:
                yield LiveBuffer(number, size_bytes, buffer.live, halos)


def _placed(each: TensorSlice, local: int | None, further: int | None) -> TensorSlice:
    if local is not None:
        return each.at("local_buffer", local)
    if further is not None:
        return each.at("global_buffer", further)
    return each if each.memory == "ddr" else each.at("ddr", None)


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
