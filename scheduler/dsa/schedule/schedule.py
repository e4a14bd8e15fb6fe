"""Schedule for a clustered DSA: all decisions about a network before lowering.

`Layout`: sub-graph instances in order, their layers bound to cores, and the memory of every tensor slice. `Schedule`
adds the execution of each layer run: its tiles, the unit of every nest, routes, halo exchange, addresses, and which
layers may still be executing when it begins. Lowering decides nothing more. All clusters run it, each on images of its
own, or each on its part of every layer.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.dsa.deciding.unit_choice import Units
from dsascape.scheduler.dsa.placing.binding import Binding
from dsascape.scheduler.dsa.tiling.tiling import Route, Tiling
from dsascape.scheduler.dsa.view import DDR, GLOBAL, LOCAL
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.pins.pins import AppliedPin, pins_text
from dsascape.wording import count
from dsascape.workloads.graph import Graph
from dsascape.workloads.loopnest import Box
from dsascape.workloads.memo import memoized_in_process

BufferScope = str
"""Name of a memory of the machine: ``local_buffer``, ``global_buffer``, a further level, ``ddr``."""
QueueOrder = Literal["by layer", "list scheduling"]
ClustersShare = Literal["batch", "kernels"]
"""Work that clusters share: the images of the batch, each cluster running the whole network on its own images; or every
kernel, each cluster computing its part of every layer's output for all images."""
Addresses = tuple[int, ...]
"""Addresses that the versions of a buffer use in rotation; empty for a buffer without fixed addresses."""


class TensorSlice(NamedTuple):
    """Stored part of an activation, as written by one layer run."""

    tensor: str
    box: Box
    memory: BufferScope
    binding: Binding
    """Distribution over the cores' local buffers (if that is its memory)."""
    size_bytes: int
    """Bytes that one cluster stores: the whole slice, or its part of a slice that is divided among clusters."""
    address: int | None = None
    """Start address in its memory, the same in every core's; None in DDR, where no addresses are assigned."""
    divided: Binding | None = None
    """Division of the box among clusters, each of which stores its part: in DDR, where all clusters read it, or in its
    global buffer, which sends it to others over their link. None: every cluster stores the whole box."""

    def at(self, memory: BufferScope, address: int | None) -> "TensorSlice":
        """Return the slice moved to ``memory`` and ``address``."""
        return self._replace(memory=memory, address=address)

    @property
    def extents(self) -> tuple[int, ...]:
        """Elements per dimension of the box."""
        return tuple([hi - lo for lo, hi in self.box])

    @property
    def is_even(self) -> bool:
        """Whether all cores hold equally large parts."""
        return self.binding.divides(self.extents)

    @property
    def core_bytes(self) -> int:
        """Bytes of one core's part, the largest where parts are uneven."""
        return _core_bytes(self.extents, self.binding, self.size_bytes)

    @property
    def held_bytes(self) -> int:
        """Bytes occupied in one instance of its memory, from its address on."""
        return self.core_bytes if self.memory == LOCAL else self.size_bytes


@memoized_in_process(4096)
def _core_bytes(extents: tuple[int, ...], binding: Binding, size_bytes: int) -> int:
    if binding.divides(extents):
        return -(-size_bytes // binding.cores)
    return -(-size_bytes * math.prod(binding.part_extents(extents)) // math.prod(extents))


@dataclass(frozen=True, slots=True)
class LayerRun:
    """Execution of one layer over one box of its output, bound to cores."""

    layer: Layer
    box: Box
    binding: Binding
    reads: Mapping[str, tuple[int, ...]]
    """Numbers of the slices that hold each activation read; network inputs and weights, all in DDR, are not listed."""
    writes: tuple[int, ...]
    """Numbers of the slices written: the layer's outputs in order."""
    divided: Binding | None = None
    """Division of the run among clusters, each of which computes one part of `whole_box`: ``box`` is the first
    cluster's, and all parts are equally large. With fewer parts than clusters, several clusters compute the same part.
    None: every cluster computes ``box``."""
    loaded_together: tuple[str, ...] = ()
    """Operands that several clusters need alike: each loads a part from DDR, and sends it to the others over their
    link."""

    @property
    def extents(self) -> tuple[int, ...]:
        """Elements per dimension of the box."""
        return tuple([hi - lo for lo, hi in self.box])

    @property
    def whole_box(self) -> Box:
        """Box that all clusters compute together."""
        if self.divided is None:
            return self.box
        sides = zip(self.box, self.divided.factors, strict=True)
        return tuple([(lo, lo + (hi - lo) * parts) for (lo, hi), parts in sides])

    def cluster_box(self, cluster: int) -> Box:
        """Return the box that ``cluster`` computes."""
        return self.box if self.divided is None else self.divided.part(self.whole_box, cluster)


@dataclass(frozen=True, slots=True)
class Instance:
    """One launch of a kernel: a sub-graph, or one part of it along a dimension of its output."""

    name: str
    group: int
    runs: tuple[LayerRun, ...]


class HaloExchange(NamedTuple):
    """Halo exchange: bytes of inputs in other cores' local buffers that a core fetches, through the global buffer."""

    core_bytes: int
    staged_bytes: int = 0
    """Bytes of global buffer for all cores; less than they fetch together where free space is short."""
    rounds: int = 1
    """Number of rounds, each of which passes up to ``staged_bytes``."""


@dataclass(frozen=True, slots=True)
class TileAddresses:
    """Addresses of the buffers of one layer run; all empty for a run whose tiles have no fixed addresses.

    Weights in the prefetch buffers have none: these are used as rings.
    """

    operands: Mapping[str, Addresses] = field(default_factory=dict)
    """Local buffer addresses of each streamed operand that is not prefetched."""
    between: Addresses = ()
    """Local buffer address of the intermediates between nests."""
    output: Addresses = ()
    halo: Addresses = ()
    """Local buffer address of the halo fetched from other cores."""
    staged: Mapping[str, Addresses] = field(default_factory=dict)
    """Global buffer addresses of operands that stay there while the layer runs."""
    passing: Addresses = ()
    """Global buffer addresses of tiles passing through from DDR."""
    storing: Addresses = ()
    """Global buffer addresses of bursts of output tiles on their way to DDR."""
    sent: Addresses = ()
    """Global buffer address of the halos that cores send each other."""

    @property
    def are_fixed(self) -> bool:
        """Whether the run's buffers have addresses; if not, all fields are empty."""
        return self != TileAddresses()

    def __str__(self) -> str:
        if not self.are_fixed:
            return "tiles lie where there is room"
        local = {**self.operands, "between nests": self.between, "output": self.output, "halo": self.halo}
        further = {**self.staged, "passing": self.passing, "storing": self.storing, "sent": self.sent}
        shown = [", ".join(f"{name}@{'/'.join(map(str, at))}" for name, at in places.items() if at)
                 for places in (local, further)]  # fmt: skip
        return f"local buffer: {shown[0]}; global buffer: {shown[1] or 'nothing'}"


@dataclass(frozen=True, slots=True)
class Execution:
    """Decisions on the execution of one layer run."""

    routes: Mapping[str, Route]
    """Route of each operand that has to be brought to the local buffers."""
    units: Units
    tiling: Tiling
    exchange: HaloExchange
    addresses: TileAddresses
    begins_after: int
    """Number of the last layer run that has ended when this one begins; later ones may still be executing."""
    from_clusters_bytes: int = 0
    """Bytes of its inputs that one cluster reads from DDR and that only other clusters have stored there: the most of
    any cluster."""

    def __str__(self) -> str:
        routes = ", ".join(f"{name} from {route}" for name, route in self.routes.items())
        halo = f"; halo {self.exchange.core_bytes} B in {self.exchange.rounds}" if self.exchange.core_bytes else ""
        others = f"; {self.from_clusters_bytes} B stored by other clusters" if self.from_clusters_bytes else ""
        return (
            f"tile {self.tiling} on {','.join(self.units)}; {routes or 'all at home'}{halo}{others};"
            f" begins after run {self.begins_after}; {self.addresses}"
        )


@dataclass(frozen=True, slots=True)
class PrefetchBuffers:
    """Prefetch buffers for weights: rings from their address to the end of the memory."""

    local_bytes: int
    """Size in every core's local buffer, in bytes."""
    global_bytes: int
    local_address: int
    global_address: int


@dataclass(frozen=True)
class Layout:
    """Layer runs in launch order, bound to cores, and the memory of every tensor slice."""

    plan: FusionPlan
    instances: tuple[Instance, ...]
    """Sub-graph instances in launch order."""
    slices: tuple[TensorSlice, ...]

    @property
    def graph(self) -> Graph:
        return self.plan.graph

    @cached_property
    def runs(self) -> tuple[LayerRun, ...]:
        """All layer runs in execution order."""
        return tuple(run for instance in self.instances for run in instance.runs)

    @property
    def placed_layers(self) -> list[tuple[int, Layer]]:
        """Group of the plan and layer of each layer run, in launch order."""
        return [(instance.group, run.layer) for instance in self.instances for run in instance.runs]

    @property
    def launches(self) -> list[tuple[str, int]]:
        """Name and group of each instance, in order."""
        return [(instance.name, instance.group) for instance in self.instances]

    @cached_property
    def kernels(self) -> int:
        """Number of launches, instances without layer runs excluded."""
        return sum(bool(instance.runs) for instance in self.instances)

    @cached_property
    def tensor_scopes(self) -> dict[str, int]:
        """Number of layer outputs (kernel outputs, where a kernel is one layer) kept in each memory."""
        counts = dict.fromkeys((LOCAL, GLOBAL, DDR), 0)
        for each in self.slices:
            counts[each.memory] = counts.get(each.memory, 0) + 1
        return counts

    @cached_property
    def live_ranges(self) -> Mapping[int, range]:
        """Live range of each slice: steps (positions in ``runs``) from its write to its last read."""
        return live_ranges(self.runs)


@dataclass(frozen=True)
class Schedule(Layout):
    """A layout with the execution of each of its runs."""

    dtype: str
    clusters: int
    """Number of clusters, all of which run this schedule."""
    executions: tuple[Execution, ...]
    """Execution of each layer run, in order."""
    prefetch: PrefetchBuffers | None
    """Prefetch buffers for weights; None: weights are loaded with the tiles that use them."""
    burst_bytes: int
    """Burst size of DMA transfers that load weights and staged operands, in bytes."""
    queue_order: QueueOrder
    """Order of instructions in the units' queues: layer by layer, or list scheduling (most urgent ready one first)."""
    policy: str = ""
    clusters_share: ClustersShare = "batch"
    pins: tuple[AppliedPin, ...] = ()
    """Decisions that the user fixed before the schedule was made."""

    @property
    def is_interleaved(self) -> bool:
        """Whether queues interleave instructions of several layers, instead of running layer by layer."""
        return self.queue_order == "list scheduling"

    def __str__(self) -> str:
        lines = [f"schedule {self.policy} of {self.graph.name}: {count(self.kernels, 'kernel')}"]
        for instance in self.instances:
            lines.append(f"  {instance.name}")
            for run in instance.runs:
                box = "x".join(f"{lo}:{hi}" for lo, hi in run.box)
                cores = "x".join(map(str, run.binding.factors))
                memories = ",".join(self.slices[number].memory for number in run.writes)
                lines.append(f"    {run.layer.sink.name}[{box}]{_divided(run)} bind={cores} -> {memories}")
        return "\n".join([*lines, *pins_text(self.pins)])

    def in_full(self) -> str:
        """Return the schedule as text with all decisions about every layer run."""
        lines = [
            f"schedule {self.policy} of {self.graph.name}: {count(self.kernels, 'kernel')}, queues {self.queue_order}"
        ]
        shared = ", which share every kernel" if self.clusters_share == "kernels" else ""
        lines.append(f"  {self.dtype} on {count(self.clusters, 'cluster')}{shared}, DMA bursts of {self.burst_bytes} B")
        if self.prefetch is not None:
            kept = self.prefetch
            lines.append(
                f"  prefetch buffers: {kept.local_bytes} B of every local buffer at {kept.local_address},"
                f" {kept.global_bytes} B of the global buffer at {kept.global_address}"
            )
        number = 0
        for instance in self.instances:
            lines.append(f"  {instance.name}")
            for run in instance.runs:
                box = "x".join(f"{lo}:{hi}" for lo, hi in run.box)
                cores = "x".join(map(str, run.binding.factors))
                written = (self.slices[place] for place in run.writes)
                where = ",".join(f"{each.memory}" + _at(each.address) for each in written)
                lines.append(f"    {number}: {run.layer.sink.name}[{box}]{_divided(run)} bind={cores} -> {where}")
                lines.append(f"       {self.executions[number]}")
                number += 1
        return "\n".join([*lines, *pins_text(self.pins)])


def _divided(run: LayerRun) -> str:
    """Return text on the division of a run among clusters; empty if every cluster computes its whole box."""
    if run.divided is None:
        return ""
    whole = "x".join(f"{lo}:{hi}" for lo, hi in run.whole_box)
    return f" of [{whole}] clusters={'x'.join(map(str, run.divided.factors))}"


def _at(address: int | None) -> str:
    return "" if address is None else f"@{address}"


def live_ranges(runs: tuple[LayerRun, ...]) -> dict[int, range]:
    """Return the live range of each slice: steps (positions in ``runs``) from its write to its last read."""
    first = {number: step for step, run in enumerate(runs) for number in run.writes}
    last = dict(first)
    for step, run in enumerate(runs):
        last.update((number, step) for held in run.reads.values() for number in held)
    return {number: range(begin, last[number] + 1) for number, begin in first.items()}
