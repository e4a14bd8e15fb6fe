"""A scratchpad machine as planners see it, and which unit of a core does which loop nest."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from hw_models import ClusteredDsa, HardwareError, MatrixCompute, MatrixUnit, VectorCompute, compute_ps
from hw_models.quantities import PS_PER_S
from scheduler.work import NestWork, TileWork
from workloads.loopnest import LoopNest, Operations


class ScheduleError(ValueError):
    """A network that cannot be scheduled on the machine as it is; the message says what to change."""


class ScratchpadDevice(Protocol):
    """What tiling and placement ask a machine for; rates are per cluster, all clusters running."""

    @property
    def cores_per_cluster(self) -> int:
        """Cores that share a global buffer."""

    @property
    def local_buffer_bytes(self) -> int:
        """Of one core."""

    @property
    def global_buffer_bytes(self) -> int:
        """Of one cluster; zero where there is none."""

    @property
    def ddr_bytes_per_ps(self) -> float:
        """A cluster's share of DDR, or of its DMA if that is less."""

    @property
    def path_bytes_per_ps(self) -> float:
        """Between the global buffer and all local buffers of the cluster."""

    @property
    def broadcasts(self) -> bool:
        """Whether one read of the global buffer can fill several local buffers."""

    @property
    def broadcast_bytes_per_ps(self) -> float:
        """Of one broadcast."""

    @property
    def dma_startup_ps(self) -> int:
        """Of one transfer."""

    @property
    def path_startup_ps(self) -> int:
        """Of one transfer."""

    def compute_ps(self, work: TileWork, dtype: str) -> Mapping[str, int]:
        """Return the time that each unit of a core needs for its share of a tile."""


@dataclass(frozen=True)
class DsaDevice:
    """The planner's view of a clustered DSA of which ``clusters`` are in use."""

    spec: ClusteredDsa
    clusters: int
    _chosen: dict[int, tuple[LoopNest, str]] = field(default_factory=dict, compare=False, repr=False)
    """The unit of each nest seen so far, by identity: chosen on its first tile, kept for the others."""
    _spent: dict[tuple[int, str], tuple[TileWork, dict[str, int]]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """The time per unit of each tile seen so far, by identity."""

    @property
    def cores_per_cluster(self) -> int:
        return self.spec.cores_per_cluster

    @property
    def local_buffer_bytes(self) -> int:
        return self.spec.local_buffer.capacity_bytes

    @property
    def path_startup_bytes(self) -> int:
        """What a core's on-chip path would move while it starts up: smaller transfers mostly start up."""
        path = self.spec.on_chip_path
        return int(path.startup_ps * path.bandwidth_bytes_per_s // PS_PER_S)

    @property
    def weight_window_bytes(self) -> int:
        """Local buffer set aside for weights and tiles passing through."""
        return int(self.spec.local_buffer.capacity_bytes * self.spec.local_buffer.weight_window)

    @cached_property
    def global_buffer_bytes(self) -> int:
        return 0 if self.spec.global_buffer is None else self.spec.global_buffer.capacity_bytes

    @cached_property
    def ddr_bytes_per_ps(self) -> float:
        share = self.spec.ddr.sustained_bytes_per_s / self.clusters
        return min(share, self.spec.dma.load.bandwidth_bytes_per_s * self.spec.dma.load_channels) / PS_PER_S

    @cached_property
    def path_bytes_per_ps(self) -> float:
        paths = self.spec.on_chip_path.bandwidth_bytes_per_s * self.spec.cores_per_cluster
        if self.spec.global_buffer is not None:
            paths = min(paths, self.spec.global_buffer.bandwidth_bytes_per_s)
        return paths / PS_PER_S

    @property
    def broadcasts(self) -> bool:
        return self.spec.on_chip_path.broadcast

    @cached_property
    def broadcast_bytes_per_ps(self) -> float:
        return min(self.spec.on_chip_path.bandwidth_bytes_per_s / PS_PER_S, self.path_bytes_per_ps)

    @property
    def dma_startup_ps(self) -> int:
        return self.spec.dma.load.startup_ps

    @property
    def path_startup_ps(self) -> int:
        return self.spec.on_chip_path.startup_ps

    @cached_property
    def _channels(self) -> dict[str, tuple[int, float]]:
        """Per unit that moves data: its start-up, and the bytes per picosecond when all clusters load."""
        dma, path = self.spec.dma, self.spec.on_chip_path
        on_chip = path.startup_ps, path.bandwidth_bytes_per_s / PS_PER_S
        return {
            "dma_load": (dma.load.startup_ps, self.ddr_bytes_per_ps),
            "dma_store": (dma.store.startup_ps, self.ddr_bytes_per_ps),
            "path_load": on_chip, "path_store": on_chip, "broadcast": on_chip,
        }  # fmt: skip

    def transfer_ps(self, unit: str, size_bytes: int) -> int:
        """Return the time of one transfer on ``unit`` when nothing else is in its way."""
        startup_ps, bytes_per_ps = self._channels[unit]
        return startup_ps + int(size_bytes / bytes_per_ps)

    def compute_ps(self, work: TileWork, dtype: str) -> dict[str, int]:
        known = self._spent.get((id(work), dtype))
        if known is not None:
            return known[1]
        spent: dict[str, int] = {}
        for assigned in self.assign(work, dtype):
            spent[assigned.unit] = spent.get(assigned.unit, 0) + assigned.duration_ps
        self._spent[id(work), dtype] = work, spent
        return spent

    def assign(self, work: TileWork, dtype: str) -> list["Assignment"]:
        """Return, per nest that does something, the unit that is done with it first and the work in its terms."""
        return [self._fastest(nest, dtype) for nest in work.nests]

    def _fastest(self, work: NestWork, dtype: str) -> "Assignment":
        chosen = self._chosen.get(id(work.nest))
        if chosen is not None:
            return self._assignment(work, chosen[1], dtype)
        found: list[Assignment] = []
        refusals = []
        for name, unit in self.spec.units.items():
            if isinstance(unit, MatrixUnit) and (not work.is_product or dtype not in map(str, unit.macs_per_cycle)):
                continue
            try:
                found.append(self._assignment(work, name, dtype))
            except HardwareError as error:
                refusals.append(str(error))
        if not found:
            raise ScheduleError("; ".join(refusals) or f"{self.spec.name}: no unit computes {dtype}")
        best = min(found, key=lambda assigned: assigned.duration_ps)
        self._chosen[id(work.nest)] = work.nest, best.unit
        return best

    def _assignment(self, work: NestWork, name: str, dtype: str) -> "Assignment":
        """Return the nest's tile on the unit ``name``."""
        unit = self.spec.units[name]
        job: MatrixCompute | VectorCompute
        if isinstance(unit, MatrixUnit):
            assert work.matrix_shape is not None
            rows, columns, depth, count = work.matrix_shape
            job = MatrixCompute(unit=name, dtype=dtype, rows=rows, columns=columns, depth=depth, count=count)
        else:
            job = vector_job(name, dtype, work, work.operations)
        return Assignment(work, name, job, compute_ps(self.spec, name, unit, job))


@dataclass(frozen=True, slots=True)
class Assignment:
    """A nest's tile on a unit. A bias costs a matrix unit nothing: its accumulators start from it."""

    work: NestWork
    unit: str
    job: MatrixCompute | VectorCompute
    duration_ps: int


def vector_job(unit: str, dtype: str, work: NestWork, operations: Operations) -> VectorCompute:
    """Return a nest as element operations; elements that are only moved pass the lanes once."""
    moved = 0
    if not operations:
        moved = _volume(work)
    return VectorCompute(
        unit=unit, dtype=dtype, macs=operations.macs, simple=operations.simple + moved, special=operations.special
    )


def _volume(work: NestWork) -> int:
    return math.prod(work.extents)
