"""Placement (section 4.3): memory and address of every tensor slice, with spilling.

A slice occupies its address from its write to its last read. Where the local buffers do not hold all live slices, the
one with the longest live range is spilled to the global buffer, and from there to DDR (Fig. 12); so are slices that fit
no gap, since addresses are fixed for the whole live range. A slice is spilled for its whole live range, not from the
overflow on: placement is static, and writing further out at once costs one store instead of an additional load and
store.

The local buffers' weight window stays free for weights and tiles passing through. A slice that the cores would mostly
have to exchange, because its readers are bound differently, goes to the global buffer, as mismatches do in Algorithm 4.
On a machine without one, whose cores reach each other directly, it is exchanged, as DDR is slower.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial

from dsascape.scheduler.dsa.placing.allocation import LiveBuffer, addresses, without_spilled
from dsascape.scheduler.dsa.placing.needs import evaluated_cores, lacking
from dsascape.scheduler.dsa.schedule.schedule import BufferScope, LayerRun, TensorSlice, live_ranges
from dsascape.scheduler.errors import PinError
from dsascape.workloads.analysis import Table

_MOST_EXCHANGED = 10_000
"""Size of the cache of exchanged bytes per placement."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Capacity for slices: bytes per core in the local buffer, per cluster in the global one; and placement options."""

    local_bytes: int
    global_bytes: int
    uses_local: bool = True
    """Whether slices may be in the local buffers; False: none are, as in the ablation's first variant."""
    spills_longest: bool = True
    """Whether the slice with the longest live range is spilled first; False: the one written last."""
    most_exchanged: float = 0.5
    """Maximum share of a core's part of a slice that may come from other cores' local buffers; 1 without a global
    buffer."""
    apart_steps: int = 0
    """Number of layers that may still be executing when the next one begins: slices avoid their addresses."""


@dataclass(frozen=True, slots=True)
class PinnedMemory:
    """Memory of a slice that the user fixes, and where the file says so."""

    memory: BufferScope
    where: str


class Placement:
    """Placement problem: slices to be placed, with derived data that does not depend on capacities.

    ``runs`` are in execution order. ``mismatched`` slices go to the global buffer, if there is one and they fit
    (Algorithm 4, l. 12). ``pinned``: memories that the user fixes, by slice; these slices are not spilled.
    """

    def __init__(
        self, runs: Sequence[LayerRun], slices: tuple[TensorSlice, ...], mismatched: Container[int] = (),
        pinned: Mapping[int, PinnedMemory] | None = None,
    ) -> None:  # fmt: skip
        self._runs = tuple(runs)
        self._pinned = pinned or {}
        self._slices = slices
        self._mismatched = mismatched
        self._exchanged: Table[Mapping[int, int] | None] = Table(_MOST_EXCHANGED)
        """Cached `_exchanged` by (slice, maximum exchanged share)."""

    def within(self, capacity: Capacity) -> tuple[TensorSlice, ...]:
        """Return the slices with their memories and addresses.

        A slice in the local buffers occupies one part in each core's, and at its readers additionally the halo that
        cores fetch from each other. Raises ``PinError`` for a pinned slice that has no place in its memory.
        """
        near: list[LiveBuffer] = []
        kept = {memory: self._pinned_to(memory) for memory in ("local_buffer", "global_buffer", "ddr")}
        if capacity.uses_local or kept["local_buffer"]:
            may_be = self._may_be_near(capacity)
            near = without_spilled(
                may_be, capacity.local_bytes, longest=capacity.spills_longest, kept=kept["local_buffer"]
            )
        local = addresses(near, capacity.local_bytes, capacity.apart_steps)
        elsewhere = {*local, *kept["local_buffer"], *kept["ddr"]}
        far = [buffer for buffer in self._far if buffer.owner not in elsewhere]
        far = without_spilled(
            far, capacity.global_bytes, longest=capacity.spills_longest, kept=kept["global_buffer"]
        )
        further = addresses(far, capacity.global_bytes)
        self._check_pinned(local, further, capacity)
        return tuple(
            [_placed(each, local.get(number), further.get(number)) for number, each in enumerate(self._slices)]
        )

    def _pinned_to(self, memory: str) -> frozenset[int]:
        """Return the slices that the user fixes to ``memory``."""
        return frozenset([number for number, pin in self._pinned.items() if pin.memory == memory])

    def _check_pinned(self, local: Container[int], further: Container[int], capacity: Capacity) -> None:
        """Raise ``PinError`` for a pinned slice without an address in its memory."""
        found = {"local_buffer": (local, capacity.local_bytes), "global_buffer": (further, capacity.global_bytes)}
        staying = {buffer.owner for buffer in self._far}
        for number, pin in self._pinned.items():
            if pin.memory == "ddr" or number in found[pin.memory][0]:
                continue
            each = self._slices[number]
            if number not in staying:
                raise PinError(
                    f"{pin.where}: output: {each.tensor!r} is a result of the network, or nothing reads it; needs ddr"
                )
            size_bytes = each.core_bytes if pin.memory == "local_buffer" else each.size_bytes
            raise PinError(
                f"{pin.where}: output: {each.tensor!r} needs {size_bytes} B of {pin.memory} from its write to its last"
                f" read; {found[pin.memory][1]} B are for outputs, what lives beside it included"
            )

    @cached_property
    def _readers(self) -> Mapping[int, Sequence[tuple[LayerRun, int, str]]]:
        """Readers of each slice: (run, step, tensor name)."""
        readers: dict[int, list[tuple[LayerRun, int, str]]] = {}
        for step, run in enumerate(self._runs):
            for name, held in run.reads.items():
                for number in held:
                    readers.setdefault(number, []).append((run, step, name))
        return readers

    @cached_property
    def _far(self) -> Sequence[LiveBuffer]:
        """Slices that may stay on chip, with their sizes and live ranges in the global buffer."""
        lives, readers, slices = live_ranges(self._runs), self._readers, self._slices
        # results leave, even if read
        results = {run.layer.graph.storage[name] for run in self._runs[:1] for name in run.layer.graph.outputs}
        staying = [number for number in lives if number in readers and slices[number].tensor not in results]
        return [LiveBuffer(number, slices[number].size_bytes, lives[number]) for number in staying]

    @cached_property
    def _looked_at(self) -> Callable[[int], tuple[int, ...]]:
        """Cached function from a step to the cores whose needs are evaluated."""
        return cache(lambda step: evaluated_cores(self._runs[step], self._slices))

    def _may_be_near(self, capacity: Capacity) -> Iterator[LiveBuffer]:
        """Yield the slices eligible for the local buffers: those that fit and are not mostly exchanged."""
        most_exchanged, has_global_buffer = capacity.most_exchanged, capacity.global_bytes > 0
        for buffer in self._far:
            number, each = buffer.owner, self._slices[buffer.owner]
            size_bytes, pin = each.core_bytes, self._pinned.get(buffer.owner)
            if pin is not None:
                if pin.memory == "local_buffer":
                    halos = _exchanged(each, self._readers[number], self._looked_at, 1.0)
                    yield LiveBuffer(number, size_bytes, buffer.live, halos or {})
                continue
            if not capacity.uses_local:
                continue
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
    """Return, by step, the bytes of a slice that a core fetches from others; None if one lacks ``most_exchanged``.

    ``cores``: the cores to evaluate, by step.
    """
    halo_bytes: dict[int, int] = {}
    for run, step, name in readers:
        missing = lacking(run, name, (each,), cores(step))
        if missing.share > most_exchanged:
            return None
        if missing.elements:
            size_bytes = run.layer.graph.tensors[name].bytes_of(missing.elements)
            halo_bytes[step] = halo_bytes.get(step, 0) + size_bytes
    return halo_bytes
