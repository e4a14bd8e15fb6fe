"""Clustered scratchpad accelerator: clusters of identical cores, each core compute units and a local buffer.

The abstraction is Fig. 1 of GraphTurbo (OSDI '23): DDR behind DMA, a global buffer per cluster, a local
buffer per core, compute units of different kinds. Numbers of a real part go into YAML, with their source.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, model_validator

from dsascape.hw_models.common.spec_types import STRICT, Count, DType, Efficiency, MachineName, PerCycle
from dsascape.hw_models.common.technology import LARGEST_NM, SMALLEST_NM, sram_pj_per_byte
from dsascape.hw_models.text.quantities import (
    PS_PER_S,
    Bytes,
    BytesPerSecond,
    Hertz,
    Nanometres,
    Picojoules,
    PicojoulesPerByte,
    PicojoulesPerByteOrBySize,
    Picoseconds,
    SquareMillimetres,
    SquareMillimetresPerMib,
    Watts,
)

Extent = Annotated[int, Field(gt=0, le=2**16)]
InFlight = Annotated[int, Field(gt=0, le=256)]
RESERVED_NAMES = (
    "launch", "dma_load", "dma_store", "path_load", "path_store", "broadcast",
    "local_buffer", "global_buffer", "ddr", "space",
)  # fmt: skip
"""What figures of a run call the units and memories that every machine has, and the wait for space."""

def _not_reserved(name: str) -> str:
    if name in RESERVED_NAMES:
        raise ValueError(f"is what every machine has; needs another name than {', '.join(RESERVED_NAMES)}")
    return name


UnitName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$"), AfterValidator(_not_reserved)]


class MatrixUnit(BaseModel):
    """Multiply-accumulate array; a block that does not fill it costs what a full one costs.

    Filling and draining it is charged too (`hw_models.dsa.arrays`).
    """

    model_config = STRICT

    kind: Literal["matrix"]
    """What sort of unit it is; each has parameters of its own."""
    macs_per_cycle: dict[DType, PerCycle] = Field(min_length=1)
    """Multiply-accumulates that the whole array does per cycle, for each dtype that it computes."""
    native_tile: tuple[Extent, Extent, Extent] = Field(strict=False)
    """Rows, columns and depth of one pass of the array.

    A pass lasts rows x columns x depth / macs_per_cycle cycles.
    """
    array: Literal["outer_product", "systolic", "dot_product", "ideal"] = "outer_product"
    """How operands reach the cells and results leave them; ``ideal`` takes no time for either."""
    accumulator_sets: Literal[1, 2] = 2
    """With two, results of one block are drained while the next is computed."""
    operand_reuse: tuple[Extent, Extent] | None = Field(default=None, strict=False)
    """Rows and columns of the results that share one reading of their operands from the local buffer; more than those
    of the native tile where the array keeps operands in buffers of its own. The native tile's by default."""
    efficiency: Efficiency = 1.0
    """Share of the peak that a perfectly filling, perfectly fed instruction reaches."""

    @property
    def reuse(self) -> tuple[int, int]:
        """Rows and columns of the results that share one reading of their operands."""
        return self.operand_reuse or self.native_tile[:2]


class VectorUnit(BaseModel):
    """SIMD lanes: one multiply-accumulate, addition or comparison per lane and cycle."""

    model_config = STRICT

    kind: Literal["vector", "scalar"]
    """What sort of unit it is; vector and scalar units have the same parameters."""
    lanes: dict[DType, PerCycle] = Field(min_length=1)
    """Operations that it does per cycle, for each dtype that it computes."""
    special_cycles: Annotated[float, Field(gt=0, le=1e6)] = 4.0
    """Cycles per lane for one division, square root, exponential or the like."""
    efficiency: Efficiency = 1.0
    """Share of the peak that an instruction reaches which fills all lanes."""


ComputeUnit = Annotated[MatrixUnit | VectorUnit, Field(discriminator="kind")]


class LocalBuffer(BaseModel):
    """Software-managed scratchpad of one core. Nothing is evicted unless the program says so."""

    model_config = STRICT

    capacity_bytes: Bytes = Field(alias="capacity")
    """Of one core."""
    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """Of one core; reads and writes share it."""
    weight_window: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Share of the capacity that a schedule sets aside for weights passing through."""


class GlobalBuffer(BaseModel):
    """Scratchpad that the cores of one cluster share."""

    model_config = STRICT

    capacity_bytes: Bytes = Field(alias="capacity")
    """Of one cluster."""
    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """Of one cluster; reads and writes share it."""


class Ddr(BaseModel):
    """Off-chip memory of the chip."""

    model_config = STRICT

    capacity_bytes: Bytes = Field(alias="capacity")
    """Of the whole chip."""
    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """Peak of the whole chip; reads and writes share it."""
    efficiency: Efficiency = 1.0
    """Share of the peak that long bursts reach."""
    sharing: Literal["shared", "private"] = "shared"
    """Whether clusters share the whole, or each has an equal part to itself: then weights are there once per cluster,
    and clusters that are idle leave their bandwidth unused."""

    @property
    def sustained_bytes_per_s(self) -> int:
        return max(1, int(self.bandwidth_bytes_per_s * self.efficiency))


class Channel(BaseModel):
    """A path that moves data by itself: the data of one transfer at a time, in order, each after its start-up."""

    model_config = STRICT

    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """While data move."""
    startup_ps: Picoseconds = Field(alias="startup")
    """Latency from the descriptor's issue to the first byte."""
    in_flight: InFlight = 4
    """Descriptors outstanding: start-ups of as many transfers pass at once, while the data of earlier ones move.

    The default is assumed; with 1 a start-up keeps the channel from moving anything.
    """


class Dma(BaseModel):
    """Per cluster: channels from DDR and channels to DDR."""

    model_config = STRICT

    load: Channel
    """DDR to the global buffer (to the local buffers where there is no global one)."""
    store: Channel
    """The global buffer to DDR (the local buffers where there is no global one)."""
    load_channels: Count = 1
    """Of one cluster; each has the bandwidth stated under `load`."""
    store_channels: Count = 1
    """Of one cluster; each has the bandwidth stated under `store`."""


class OnChipPath(BaseModel):
    """Per core: the path between global and local buffer, one transfer in each direction at a time."""

    model_config = STRICT

    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """Of one core in each direction, while data move."""
    startup_ps: Picoseconds = Field(alias="startup")
    """Latency from the command's issue to the first byte."""
    in_flight: InFlight = 1
    """As for DMA; the default, one copy command at a time, is assumed."""
    broadcast: bool
    """Whether one read of the global buffer can fill the local buffers of all cores of the cluster."""


class Energy(BaseModel):
    """Energy by component."""

    model_config = STRICT

    node_nm: Annotated[Nanometres, Field(ge=SMALLEST_NM, le=LARGEST_NM)] = Field(default=12.0, alias="node")
    """Technology node, by which the energy of an SRAM follows from its size; the default is assumed."""
    mac: dict[DType, Picojoules] = Field(min_length=1)
    """Of one multiply-accumulate."""
    vector_op: Picojoules
    """Of one operation of a lane of a vector or scalar unit, special functions aside."""
    special_op: Picojoules
    """Of one division, square root, exponential or the like."""
    local_buffer: PicojoulesPerByteOrBySize = None
    """By default that of an SRAM of its size (`hw_models.common.technology`)."""
    global_buffer: PicojoulesPerByteOrBySize = None
    """As for the local buffer."""
    on_chip_path: PicojoulesPerByte = 0.0
    """Of a byte on its way between buffers, once per receiver; none where the buffers' figures include the wires."""
    ddr: PicojoulesPerByte
    """Of a byte read or written."""
    static_power_w: Watts = Field(alias="static_power")
    """Drawn for as long as the machine runs."""


class Area(BaseModel):
    """Silicon by component."""

    model_config = STRICT

    mac: SquareMillimetres
    """Of one multiply-accumulate of a matrix unit, at the dtype of which it does most per cycle, placed."""
    sram: SquareMillimetresPerMib
    """Of the local and the global buffers."""
    other: SquareMillimetres
    """Everything else: links, control, pads. Where a die's area is published it is what is left of that, so that the
    total of the unmodified machine is the published one whatever the other figures are."""


class ClusteredDsa(BaseModel):
    """A whole accelerator: clusters of cores, each with compute units and a local buffer.

    What makes no sense is refused with a ``ValueError`` (pydantic).
    """

    model_config = STRICT

    kind: Literal["clustered_dsa"]
    """Which kind of machine the file describes."""
    name: MachineName
    """What tables and reports call it; a file with a base that states none is called after the file."""
    clock_hz: Hertz = Field(alias="clock")
    """Of the compute units."""
    clusters: Count
    """That share DDR and work on parts of the batch."""
    cores_per_cluster: Count
    """That share a global buffer and work on parts of a layer; they are identical."""
    units: dict[UnitName, ComputeUnit] = Field(min_length=1, max_length=16)
    """The compute units of one core, by name."""
    local_buffer: LocalBuffer
    global_buffer: GlobalBuffer | None
    ddr: Ddr
    dma: Dma
    on_chip_path: OnChipPath
    launch_ps: Picoseconds = Field(alias="launch")
    """Start of one kernel on one cluster, synchronisation of its cores included."""
    energy: Energy
    area: Area

    @model_validator(mode="after")
    def _can_compute(self) -> "ClusteredDsa":
        if not any(unit.kind != "matrix" for unit in self.units.values()):
            raise ValueError("units has matrix units only; needs a vector or scalar unit for everything else")
        return self

    @model_validator(mode="after")
    def _has_energy_for_every_dtype(self) -> "ClusteredDsa":
        for name, unit in self.units.items():
            computed = unit.macs_per_cycle if isinstance(unit, MatrixUnit) else unit.lanes
            lacking = [dtype for dtype in computed if dtype not in self.energy.mac]
            if lacking:
                has, needs = ", ".join(self.energy.mac), ", ".join(lacking)
                raise ValueError(f"energy.mac has {has}; needs {needs} too, which units.{name} computes")
        return self

    @property
    def cores(self) -> int:
        return self.clusters * self.cores_per_cluster

    @property
    def cycle_ps(self) -> float:
        return PS_PER_S / self.clock_hz

    @property
    def area_parts_mm2(self) -> dict[str, float]:
        """Square millimetres of MAC arrays, scratchpads and the rest."""
        macs = sum(max(u.macs_per_cycle.values()) for u in self.units.values() if isinstance(u, MatrixUnit))
        sram_bytes = self.cores * self.local_buffer.capacity_bytes
        if self.global_buffer is not None:
            sram_bytes += self.clusters * self.global_buffer.capacity_bytes
        area = self.area
        return {"macs": self.cores * macs * area.mac, "sram": sram_bytes / 2**20 * area.sram, "other": area.other}

    @property
    def area_mm2(self) -> float:
        """Of the whole chip."""
        return sum(self.area_parts_mm2.values())

    @property
    def sram_pj_per_byte(self) -> dict[str, float]:
        """Picojoules per byte of the local and the global buffer: as given, or by their sizes."""
        sizes = {"local_buffer": self.local_buffer.capacity_bytes}
        if self.global_buffer is not None:
            sizes["global_buffer"] = self.global_buffer.capacity_bytes
        given = {"local_buffer": self.energy.local_buffer, "global_buffer": self.energy.global_buffer}
        by_size = {name: sram_pj_per_byte(size, self.energy.node_nm) for name, size in sizes.items()}
        return {name: by_size[name] if (value := given[name]) is None else value for name in sizes}

    def ddr_parts(self, clusters: int) -> int:
        """Return among how many clusters DDR is divided when ``clusters`` are in use."""
        return self.clusters if self.ddr.sharing == "private" else clusters

    def peak_macs_per_s(self, dtype: str) -> float:
        """Multiply-accumulates per second of all matrix units (of vector units, if no matrix unit has it)."""
        matrix = [u.macs_per_cycle for u in self.units.values() if isinstance(u, MatrixUnit)]
        vector = [u.lanes for u in self.units.values() if isinstance(u, VectorUnit)]
        per_cycle = _sum_at(dtype, matrix) or _sum_at(dtype, vector)
        return self.cores * self.clock_hz * per_cycle


def _sum_at(dtype: str, rates: Iterable[Mapping[DType, int]]) -> int:
    return sum(count for rate in rates for name, count in rate.items() if name == dtype)
