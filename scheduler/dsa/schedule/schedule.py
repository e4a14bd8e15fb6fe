"""A schedule for a clustered DSA: all that is decided about a network on one cluster before a program is written.

`Layout`: sub-graph instances in order, the layers of each bound to cores, and where every tensor slice lives.
`Schedule` adds how each layer run is executed: its tiles, the unit of every nest, routes, halo exchange, addresses,
and which layers may still be at work when it begins. Lowering only emits what stands here.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.dsa.deciding.unit_choice import Units
from dsascape.scheduler.dsa.placing.binding import Binding
from dsascape.scheduler.dsa.tiling.tiling import Route, Tiling
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.graph import Graph
from dsascape.workloads.loopnest import Box

BufferScope = Literal["local_buffer", "global_buffer", "ddr"]
QueueOrder = Literal["by layer", "list scheduling"]
Addresses = tuple[int, ...]
"""Where the versions of a buffer lie in turn; empty where it has no fixed place."""


class TensorSlice(NamedTuple):
    """A stored part of an activation, as one layer run writes it."""

    tensor: str
    box: Box
    memory: BufferScope
    binding: Binding
    """How it is spread over the cores' local buffers (if that is its memory)."""
    size_bytes: int
    """Of the whole slice, on one cluster."""
    address: int | None = None
    """Where it begins in its memory, the same in every core's; None in DDR, which is large."""

    def at(self, memory: BufferScope, address: int | None) -> "TensorSlice":
        """Return the slice in another place."""
        return TensorSlice(self.tensor, self.box, memory, self.binding, self.size_bytes, address)

    @property
    def extents(self) -> tuple[int, ...]:
        """Elements per dimension of the box."""
        return tuple([hi - lo for lo, hi in self.box])

    @property
    def is_even(self) -> bool:
        """Whether all cores hold as much."""
        return self.binding.divides(self.extents)

    @property
    def core_bytes(self) -> int:
        """Of one core's part, the largest where they are uneven."""
        return _core_bytes(self.extents, self.binding, self.size_bytes)

    @property
    def held_bytes(self) -> int:
        """What it takes of one copy of its memory, from its address on."""
        return self.core_bytes if self.memory == "local_buffer" else self.size_bytes


@lru_cache(maxsize=4096)
def _core_bytes(extents: tuple[int, ...], binding: Binding, size_bytes: int) -> int:
    if binding.divides(extents):
        return -(-size_bytes // binding.cores)
    return -(-size_bytes * math.prod(binding.part_extents(extents)) // math.prod(extents))


@dataclass(frozen=True, slots=True)
class LayerRun:
    """One layer over one box of its output, bound to cores."""

    layer: Layer
    box: Box
    binding: Binding
    reads: Mapping[str, tuple[int, ...]]
    """Slices that hold what is read of each activation; network inputs and weights are not listed, they are in DDR."""
    writes: tuple[int, ...]
    """Slices written: the layer's outputs in order."""

    @property
    def extents(self) -> tuple[int, ...]:
        """Elements per dimension of the box."""
        return tuple([hi - lo for lo, hi in self.box])


@dataclass(frozen=True, slots=True)
class Instance:
    """One launch of a kernel: a sub-graph, or one part of it along a dimension of its output."""

    name: str
    group: int
    runs: tuple[LayerRun, ...]


class HaloExchange(NamedTuple):
    """Inputs that lie in other cores' local buffers: bytes that a core fetches, through the global buffer."""

    core_bytes: int
    staged_bytes: int = 0
    """Of the global buffer, for all cores: less than they fetch together where there is little room."""
    rounds: int = 1
    """How often as much goes through it."""


@dataclass(frozen=True, slots=True)
class TileAddresses:
    """Where the buffers of one layer run lie; all empty for a run whose tiles have no fixed place.

    Weights that pass through the prefetch buffers have none: they go round in them.
    """

    operands: Mapping[str, Addresses] = field(default_factory=dict)
    """In the local buffer, per streamed operand that is not prefetched."""
    between: Addresses = ()
    """What nests hand to each other."""
    output: Addresses = ()
    halo: Addresses = ()
    """What is fetched from other cores."""
    staged: Mapping[str, Addresses] = field(default_factory=dict)
    """In the global buffer: operands that stay there while the layer runs."""
    passing: Addresses = ()
    """Tiles on their way from DDR."""
    storing: Addresses = ()
    """Bursts of output tiles on their way to DDR."""
    sent: Addresses = ()
    """What cores send each other."""

    @property
    def are_fixed(self) -> bool:
        """Whether the run's buffers have places; if not, all are empty."""
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
    """How one layer run is executed."""

    routes: Mapping[str, Route]
    """Per operand that has to be brought to the local buffers."""
    units: Units
    tiling: Tiling
    exchange: HaloExchange
    addresses: TileAddresses
    begins_after: int
    """Number of the last layer run that has ended when this one begins; the later ones may still be at work."""

    def __str__(self) -> str:
        routes = ", ".join(f"{name} from {route}" for name, route in self.routes.items())
        halo = f"; halo {self.exchange.core_bytes} B in {self.exchange.rounds}" if self.exchange.core_bytes else ""
        return (
            f"tile {self.tiling} on {','.join(self.units)}; {routes or 'all at home'}{halo};"
            f" begins after run {self.begins_after}; {self.addresses}"
        )


@dataclass(frozen=True, slots=True)
class PrefetchBuffers:
    """Where weights are fetched ahead: used in turn, from their address to the end of the memory."""

    local_bytes: int
    """Of every core's local buffer."""
    global_bytes: int
    local_address: int
    global_address: int


@dataclass(frozen=True)
class Layout:
    """Which layer runs are launched in which order, on which cores, and where every tensor slice lives."""

    plan: FusionPlan
    instances: tuple[Instance, ...]
    """In the order in which they are launched."""
    slices: tuple[TensorSlice, ...]

    @property
    def graph(self) -> Graph:
        return self.plan.graph

    @cached_property
    def runs(self) -> tuple[LayerRun, ...]:
        """All layer runs in the order in which they execute."""
        return tuple(run for instance in self.instances for run in instance.runs)

    @cached_property
    def kernels(self) -> int:
        """Launches that do anything."""
        return sum(bool(instance.runs) for instance in self.instances)

    @cached_property
    def tensor_scopes(self) -> dict[str, int]:
        """Per memory: how many outputs of layers (of kernels, where a kernel is one layer) are kept there."""
        counts: dict[str, int] = {"local_buffer": 0, "global_buffer": 0, "ddr": 0}
        for each in self.slices:
            counts[each.memory] += 1
        return counts

    @cached_property
    def live_ranges(self) -> Mapping[int, range]:
        """For each slice the steps, positions in ``runs``, from where it is written to where it is last read."""
        return live_ranges(self.runs)


@dataclass(frozen=True)
class Schedule(Layout):
    """A layout, and how each of its runs is executed."""

    dtype: str
    clusters: int
    """Clusters that all do this."""
    executions: tuple[Execution, ...]
    """One per layer run, in their order."""
    prefetch: PrefetchBuffers | None
    """None: weights are loaded with the tiles that use them."""
    burst_bytes: int
    """Of the DMA transfers that bring weights and staged operands."""
    queue_order: QueueOrder
    """In which order units get their instructions: layer by layer, or what is ready and most urgent first."""
    policy: str = ""

    @property
    def is_interleaved(self) -> bool:
        """Whether units get instructions of several layers as these become ready, not layer by layer."""
        return self.queue_order == "list scheduling"

    def __str__(self) -> str:
        lines = [f"schedule {self.policy} of {self.graph.name}: {self.kernels} kernels"]
        for instance in self.instances:
            lines.append(f"  {instance.name}")
            for run in instance.runs:
                box = "x".join(f"{lo}:{hi}" for lo, hi in run.box)
                cores = "x".join(map(str, run.binding.factors))
                memories = ",".join(self.slices[number].memory for number in run.writes)
                lines.append(f"    {run.layer.sink.name}[{box}] bind={cores} -> {memories}")
        return "\n".join(lines)

    def in_full(self) -> str:
        """Return the schedule as text with all that is decided about every layer run."""
        lines = [f"schedule {self.policy} of {self.graph.name}: {self.kernels} kernels, queues {self.queue_order}"]
        lines.append(f"  {self.dtype} on {self.clusters} clusters, DMA bursts of {self.burst_bytes} B")
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
                lines.append(f"    {number}: {run.layer.sink.name}[{box}] bind={cores} -> {where}")
                lines.append(f"       {self.executions[number]}")
                number += 1
        return "\n".join(lines)


def _at(address: int | None) -> str:
    return "" if address is None else f"@{address}"


def live_ranges(runs: tuple[LayerRun, ...]) -> dict[int, range]:
    """Return for each slice the steps, positions in ``runs``, from where it is written to where it is last read."""
    first = {number: step for step, run in enumerate(runs) for number in run.writes}
    last = dict(first)
    for step, run in enumerate(runs):
        last.update((number, step) for held in run.reads.values() for number in held)
    return {number: range(begin, last[number] + 1) for number, begin in first.items()}
