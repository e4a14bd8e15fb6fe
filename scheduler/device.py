"""A scratchpad machine as planners see it, and which unit of a core does which loop nest."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from hw_models import ClusteredDsa, HardwareError, MatrixCompute, MatrixUnit, VectorCompute, compute_ps
from hw_models.quantities import PS_PER_S
from scheduler.work import NestWork, TileWork
from workloads.loopnest import Operations


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

    @property
    def cores_per_cluster(self) -> int:
        return self.spec.cores_per_cluster

    @property
    def local_buffer_bytes(self) -> int:
        return self.spec.local_buffer.capacity_bytes

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

    def compute_ps(self, work: TileWork, dtype: str) -> dict[str, int]:
        spent: dict[str, int] = {}
        for assigned in self.assign(work, dtype):
            spent[assigned.unit] = spent.get(assigned.unit, 0) + assigned.duration_ps
        return spent

    def assign(self, work: TileWork, dtype: str) -> list["Assignment"]:
        """Return, per nest that does something, the unit that is done with it first and the work in its terms."""
        return [found for nest in work.nests if (found := self._fastest(nest, dtype)) is not None]

    def _fastest(self, work: NestWork, dtype: str) -> "Assignment | None":
        operations = work.operations
        shape = work.matrix_shape if operations.macs else None
        best: Assignment | None = None
        refusals = []
        for name, unit in self.spec.units.items():
            job: MatrixCompute | VectorCompute
            if isinstance(unit, MatrixUnit):
                if shape is None or not any(known == dtype for known in unit.macs_per_cycle):
                    continue
                rows, columns, depth, count = shape
                job = MatrixCompute(unit=name, dtype=dtype, rows=rows, columns=columns, depth=depth, count=count)
            else:
                job = vector_job(name, dtype, work, operations)
            try:
                duration = compute_ps(self.spec, name, unit, job)
            except HardwareError as error:
                refusals.append(str(error))
                continue
            if best is None or duration < best.duration_ps:
                best = Assignment(work, name, job, duration)
        if best is None:
            raise ScheduleError("; ".join(refusals) or f"{self.spec.name}: no unit computes {dtype}")
        return best


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
