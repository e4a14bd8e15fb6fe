"""Machine view of a clustered DSA for its scheduler: sizes, rates of one cluster when all run, start-up times."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from dsascape.hw_models import ClusteredDsa
from dsascape.hw_models.dsa.levels import CHIP, CORE, MemoryLevel
from dsascape.hw_models.dsa.spec import CLUSTER_EXCHANGE
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.dsa.tuning import DsaTuning
from dsascape.scheduler.kernels.machine_part import MachinePart, Unread, left_out, only, without

LOCAL, GLOBAL, DDR = "local_buffer", "global_buffer", "ddr"
"""Names of the memories that data of every machine pass through, innermost first; further levels have names of their
own (`DsaView.levels`)."""
_UNTIMED: Unread = {"library_efficiency": True, "library_efficiency_of": True, "energy": True, "area": True}
_CAPACITY: Unread = {"capacity_bytes": True}
_APART_FROM_DDR: Unread = {**_UNTIMED, "ddr": True, "dma": True}
_OFF_CHIP: Unread = {**_APART_FROM_DDR, "local_buffer": _CAPACITY, "global_buffer": _CAPACITY}
_OF_ONE_CORE = {"clusters": left_out("clusters"), "tuning": left_out("tuning")}


class LevelTiming(NamedTuple):
    """Timing of one cluster's transfers to and from a memory beyond the global buffer, when all clusters load."""

    bytes_per_ps: float
    burst_bytes: int
    """Size of a burst long enough to make its start-up negligible."""
    startup_ps: int
    at_once: int
    """Concurrent transfers: at most two, as buffers are doubled, and no more than the channel has in flight."""

    def moving_ps(self, size_bytes: float, transfers: float) -> float:
        """Return the time in ps of ``transfers`` transfers of ``size_bytes`` in total."""
        bytes_per_ps, _, startup_ps, at_once = self
        alone_ps = size_bytes / bytes_per_ps
        shared_ps = (alone_ps + transfers * startup_ps) / at_once
        return alone_ps if alone_ps > shared_ps else shared_ps


class MemoryPath(NamedTuple):
    """Units that move data of one memory: ``load`` brings it inwards, ``store`` brings it there from the next one."""

    name: str
    load: str
    store: str


class Paths(NamedTuple):
    """Memories and the units between them, without any rate or size."""

    memories: tuple[MemoryPath, ...]
    """All memories, innermost first; the last one is DDR."""
    of_cores: frozenset[str]
    """Data-moving units that exist once per core."""

    def to(self, memory: str) -> MemoryPath:
        """Return the units that move data of ``memory``."""
        return next(each for each in self.memories if each.name == memory)

    @property
    def outer(self) -> tuple[MemoryPath, ...]:
        """Memories whose data pass through the global buffer, if there is one: further levels and DDR."""
        return self.memories[2:] if self.memories[1].name == GLOBAL else self.memories[1:]


@dataclass(frozen=True, eq=False)
class DsaView(MachinePart):
    """Machine view: a clustered DSA with ``clusters`` in use, and the tuning parameters of its scheduler.

    Functions whose results are stored take a part of it as their argument, which is their key: `timing`, `arithmetic`,
    `computing`, `apart_from_ddr`, `cores_alone` and `on_chip_rates` leave fields out, and reading one of those raises
    ``AttributeError``.
    """

    spec: ClusteredDsa
    clusters: int
    tuning: DsaTuning = field(default_factory=DsaTuning)

    @cached_property
    def timing(self) -> "DsaView":
        """The part that a run's time depends on."""
        return replace(self, spec=without(self.spec, _UNTIMED))

    @cached_property
    def arithmetic(self) -> "DsaView":
        """The part that the time of a computation depends on: compute units and their clock, no memory."""
        return replace(self, spec=only(self.spec, "name", "clock_hz", "units"), **_OF_ONE_CORE)

    @cached_property
    def computing(self) -> "DsaView":
        """The part that the time of a tile's computation depends on: compute units, clock, local buffer bandwidth."""
        read = "name", "clock_hz", "units", "local_buffer.bandwidth_bytes_per_s"
        return replace(self, spec=only(self.spec, *read), **_OF_ONE_CORE)

    @cached_property
    def apart_from_ddr(self) -> "DsaView":
        """The part that schedules depend on, except DDR and DMA."""
        return replace(self, spec=without(self.spec, _APART_FROM_DDR))

    @cached_property
    def cores_alone(self) -> "DsaView":
        """The part that bindings to cores depend on: the number of cores, and tuning."""
        return replace(self, spec=only(self.spec, "cores_per_cluster"), clusters=left_out("clusters"))

    @cached_property
    def on_chip_rates(self) -> "DsaView":
        """The part that on-chip times depend on, without buffer capacities."""
        return replace(self, spec=without(self.spec, _OFF_CHIP), **_OF_ONE_CORE)

    @cached_property
    def levels(self) -> tuple[MemoryLevel, ...]:
        """Memories of the machine, innermost first; the last one is DDR."""
        return self.spec.levels

    @cached_property
    def level(self) -> Mapping[str, MemoryLevel]:
        """Memories of the machine by name."""
        return {level.name: level for level in self.levels}

    @cached_property
    def outer(self) -> tuple[MemoryLevel, ...]:
        """Memories whose data pass through the global buffer, if there is one: further levels and DDR."""
        return self.levels[2:] if self.has_global_buffer else self.levels[1:]

    @cached_property
    def paths(self) -> Paths:
        """Memories and the units between them."""
        memories = tuple([MemoryPath(each.name, each.load.unit, each.store.unit) for each in self.levels])
        return Paths(memories, frozenset([mover.unit for mover in self.spec.movers if mover.of == CORE]))

    @cached_property
    def room_bytes(self) -> Mapping[str, int]:
        """Bytes that one cluster has of each on-chip memory, by name: of local buffers those of one core."""
        own = {LOCAL: self.local_buffer_bytes} | ({GLOBAL: self.global_buffer_bytes} if self.has_global_buffer else {})
        return own | {
            name: level.capacity_bytes // (self.clusters if level.of == CHIP else 1)
            for name, level in self.spec.further_levels.items()
        }

    @property
    def divides_kernels(self) -> bool:
        """Whether the clusters in use share every kernel, instead of the images of the batch."""
        return self.tuning.kernels_divided == "always" and self.clusters > 1

    @property
    def single_buffers(self) -> bool:
        """Whether what passes through the global buffer once has one buffer there, as in the local buffers, not two.

        So where clusters share kernels, whose parts of a layer are large. Schedules of images keep two for all tiles.
        """
        return self.divides_kernels

    @property
    def exchanges_over_link(self) -> bool:
        """Whether clusters that share every kernel have a link over which they may exchange operands."""
        return self.divides_kernels and self.spec.cluster_link is not None

    @property
    def cores_per_cluster(self) -> int:
        return self.spec.cores_per_cluster

    @property
    def local_buffer_bytes(self) -> int:
        """Capacity of one core's local buffer, in bytes."""
        return self.spec.local_buffer.capacity_bytes

    @cached_property
    def global_buffer_bytes(self) -> int:
        """Capacity of one cluster's global buffer, in bytes; zero if there is none."""
        return 0 if self.spec.global_buffer is None else self.spec.global_buffer.capacity_bytes

    @property
    def ddr_bytes(self) -> int:
        """Capacity of the whole machine's DDR, in bytes."""
        return self.spec.ddr.capacity_bytes

    @property
    def has_global_buffer(self) -> bool:
        return self.spec.global_buffer is not None

    @property
    def weight_window_bytes(self) -> int:
        """Bytes of a local buffer reserved for weights and tiles passing through."""
        return int(self.spec.local_buffer.capacity_bytes * self.spec.local_buffer.weight_window)

    @property
    def path_startup_bytes(self) -> int:
        """Bytes that a core's on-chip path could move during its start-up: start-up dominates smaller transfers."""
        path = self.spec.on_chip_path
        return int(path.startup_ps * path.bandwidth_bytes_per_s // PS_PER_S)

    @cached_property
    def ddr_bytes_per_ps(self) -> float:
        """Off-chip load bandwidth of one cluster, in bytes per ps: its share of DDR, or its DMA's if that is less."""
        share = self.spec.ddr.sustained_bytes_per_s / self.spec.ddr_parts(self.clusters)
        return min(share, self.spec.dma.load.bandwidth_bytes_per_s * self.spec.dma.load_channels) / PS_PER_S

    @cached_property
    def path_bytes_per_ps(self) -> float:
        """Bandwidth between the global buffer and all local buffers of a cluster, in bytes per ps."""
        paths = self.spec.on_chip_path.bandwidth_bytes_per_s * self.spec.cores_per_cluster
        if self.spec.global_buffer is not None:
            paths = min(paths, self.spec.global_buffer.bandwidth_bytes_per_s)
        return paths / PS_PER_S

    @property
    def broadcasts(self) -> bool:
        """Whether one read of the global buffer can fill several local buffers."""
        return self.spec.on_chip_path.broadcast

    @cached_property
    def broadcast_bytes_per_ps(self) -> float:
        """Bandwidth of one broadcast, in bytes per ps."""
        return min(self.spec.on_chip_path.bandwidth_bytes_per_s / PS_PER_S, self.path_bytes_per_ps)

    def exchange_ps(self, received_bytes: float, receivers: int) -> float:
        """Return the time in ps in which each cluster receives so many bytes over the link, start-ups aside.

        ``receivers``: number of clusters that receive each byte sent. All clusters exchange at the same time.
        """
        link = self.spec.cluster_link
        if link is None or not received_bytes:
            return 0.0
        crossing = self.spec.clusters / receivers if link.topology == "bus" else 1.0
        return received_bytes * (crossing * PS_PER_S / link.bandwidth_bytes_per_s)

    @property
    def exchange_startup_ps(self) -> float:
        """Start-up time of an exchange over the link as far as those in flight do not hide it, in ps."""
        link = self.spec.cluster_link
        return 0.0 if link is None else link.startup_ps / link.in_flight

    @property
    def dma_startup_ps(self) -> int:
        """Start-up time of one DMA load, in ps."""
        return self.spec.dma.load.startup_ps

    @property
    def path_startup_ps(self) -> int:
        """Start-up time of one transfer on the on-chip path, in ps."""
        return self.spec.on_chip_path.startup_ps

    @property
    def burst_bytes(self) -> int:
        """Size in bytes of a DMA burst long enough to make its start-up negligible."""
        return self.outer_timing[-1].burst_bytes

    @cached_property
    def outer_timing(self) -> tuple[LevelTiming, ...]:
        """Timing of a cluster's transfers to and from each of the `outer` memories."""
        return tuple([self._timing(level) for level in self.outer])

    def _timing(self, level: MemoryLevel) -> LevelTiming:
        channel, bytes_per_ps = level.load.channel, self.bytes_per_ps(level)
        burst_bytes = int(self.tuning.burst_startups * (channel.startup_ps / channel.in_flight) * bytes_per_ps)
        return LevelTiming(bytes_per_ps, max(burst_bytes, 1), channel.startup_ps, min(channel.in_flight, 2))

    @cached_property
    def outer_number(self) -> Mapping[str, int]:
        """Places of the `outer` memories in their list, by name; it needs nothing else of them."""
        return {name: number for number, name in enumerate((*self.spec.further_levels, DDR))}

    @cached_property
    def _channels(self) -> Mapping[str, tuple[int, int, float]]:
        """Start-up in ps, transfers in flight, and bytes per ps when all clusters load, per unit that moves data."""
        limits = {
            mover.unit: self.bytes_per_ps(level)
            for level in self.outer for mover in (level.load, level.store)
        }  # fmt: skip
        if self.spec.cluster_link is not None:  # a cluster sends once what all others receive
            others = max(self.spec.clusters - 1, 1)
            limits[CLUSTER_EXCHANGE] = 1 / self.exchange_ps(others, others)
        return {
            unit: (
                channel.startup_ps, channel.in_flight, limits.get(unit, channel.bandwidth_bytes_per_s / PS_PER_S)
            )
            for unit, _, channel, _ in self.spec.movers
        }  # fmt: skip

    def bytes_per_ps(self, level: MemoryLevel) -> float:
        """Return the bandwidth between one cluster and an outer level when all clusters load, in bytes per ps."""
        if level.name == DDR:
            return self.ddr_bytes_per_ps
        share = level.bandwidth_bytes_per_s / (self.clusters if level.of == CHIP else 1)
        return min(share, level.load.channel.bandwidth_bytes_per_s) / PS_PER_S

    def transfer_ps(self, unit: str, size_bytes: int) -> tuple[int, int]:
        """Return (time it occupies ``unit``, latency from issue to end) in ps of one uncontended transfer."""
        startup_ps, in_flight, bytes_per_ps = self._channels[unit]
        moving_ps = int(size_bytes / bytes_per_ps)
        whole_ps = startup_ps + moving_ps
        return max(moving_ps, whole_ps // in_flight), whole_ps

