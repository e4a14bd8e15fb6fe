"""Clustered scratchpad accelerator: clusters of identical cores, each core compute units and a local buffer.

The abstraction is Fig. 1 of GraphTurbo (OSDI '23): DDR behind DMA, a global buffer per cluster, a local
buffer per core, compute units of different kinds. Figures of a real part belong in its YAML file, with their source.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, model_validator

from dsascape.hw_models.common.interface import DDR_STATIC_W_PER_GB_PER_S, interface_mm2, interface_w
from dsascape.hw_models.common.machine_spec import MachineSpec
from dsascape.hw_models.common.product_types import BITS, operands_of
from dsascape.hw_models.common.silicon import IDLE_W_PER_MM2
from dsascape.hw_models.common.spec_types import STRICT, Count, DType
from dsascape.hw_models.common.technology import (
    LARGEST_NM,
    SMALLEST_NM,
    WIDEST_ACCESS_BYTES,
    register_bit_pj,
    sram_pj_per_byte,
    wire_pj_per_byte_mm,
)
from dsascape.hw_models.dsa.levels import CHIP, CLUSTER, CORE, MemoryLevel, Mover
from dsascape.hw_models.dsa.memories import (
    ClusterLink,
    Ddr,
    Dma,
    FurtherLevel,
    GlobalBuffer,
    LevelName,
    LocalBuffer,
    OnChipPath,
    not_reserved,
)
from dsascape.hw_models.dsa.units import ComputeUnit, MatrixUnit, VectorUnit
from dsascape.hw_models.simulation.energy import STATIC_CORES, STATIC_INTERFACE
from dsascape.hw_models.text.quantities import (
    PS_PER_S,
    Hertz,
    Nanometres,
    Picojoules,
    PicojoulesOrByCore,
    PicojoulesPerByte,
    PicojoulesPerByteOrBySize,
    Picoseconds,
    SquareMillimetres,
    SquareMillimetresPerGbPerSOrByNode,
    SquareMillimetresPerMib,
    Watts,
    WattsOrByArea,
    WattsPerGbPerS,
)

CLUSTER_EXCHANGE = "cluster_exchange"
"""Unit of each cluster that exchanges data with the others over their link."""
ON_CHIP_PATHS = ("path_load", "path_store", "broadcast")
"""Units that move data between global and local buffers: into those of one core, out of them, and into all."""
_SUM_BITS = 32
"""Bits of a sum in an array."""
UnitName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$"), AfterValidator(not_reserved)]


class Energy(BaseModel):
    """Energy by component."""

    model_config = STRICT

    node_nm: Annotated[Nanometres, Field(ge=SMALLEST_NM, le=LARGEST_NM)] = Field(default=12.0, alias="node")
    """Technology node, from which with its size the energy of an SRAM follows; the default is an assumption. A change
    of the node scales all energies on the chip, areas and static power that the change does not state."""
    mac: dict[DType, Picojoules] = Field(min_length=1)
    """Energy of one multiply-accumulate, by dtype."""
    vector_op: Picojoules
    """Energy of one operation of a lane of a vector or scalar unit, except special functions."""
    special_op: Picojoules
    """Energy of one division, square root, exponential or the like."""
    local_buffer: PicojoulesPerByteOrBySize = None
    """Energy per byte read or written; by default that of an SRAM of its size (`hw_models.common.technology`)."""
    global_buffer: PicojoulesPerByteOrBySize = None
    """Energy per byte read or written; by default that of an SRAM of its size."""
    array_registers: PicojoulesOrByCore = None
    """Energy of the registers of one cell of an array, or of one lane, for one multiply-accumulate; by default from the
    width of two operands and a sum of 32 bits, and the node (`hw_models.common.technology.register_bit_pj`)."""
    on_chip_path: PicojoulesPerByteOrBySize = None
    """Energy per byte moved between buffers, once per receiver; by default that of wires over half the edge of a
    cluster's part of the die."""
    dma_path: PicojoulesPerByteOrBySize = None
    """Energy per byte moved over the chip between memories beyond the global buffer and the clusters; by default that
    of wires over half the edge of the die."""
    ddr: PicojoulesPerByte
    """Energy per byte read or written: of the DRAM, and of its interface on both sides."""
    static_power_w: WattsOrByArea = Field(default=None, alias="static_power")
    """Static power without that of the interface to DDR and ``core_static``, drawn over the whole makespan: leakage and
    clocks. By default the die's area times the idle power of data centre parts (`hw_models.common.silicon`), less the
    other two; parts for edge devices draw less by area, and state it."""
    core_static_w: Watts = Field(default=0.0, alias="core_static")
    """Static power of one core: leakage and clock of a core under power, whether it computes or not. All cores of the
    machine draw it over the whole makespan; 0 where ``static_power`` includes it."""
    ddr_static: WattsPerGbPerS = DDR_STATIC_W_PER_GB_PER_S
    """Static power of the interface to DDR, by its peak bandwidth: clocks, receivers, delay lines. The default is an
    assumption (`hw_models.common.interface`)."""


class Area(BaseModel):
    """Silicon by component."""

    model_config = STRICT

    mac: SquareMillimetres
    """Placed area of one multiply-accumulate of a matrix unit, for the dtype with the most of them per cycle."""
    sram: SquareMillimetresPerMib
    """Area of local and global buffers and of further levels, per MiB."""
    ddr: SquareMillimetresPerGbPerSOrByNode = None
    """Area of the interface to DDR (PHY and controller) by its peak bandwidth; by default that of DDR at 4 GT/s
    (`hw_models.common.silicon`)."""
    other: SquareMillimetres
    """Area of everything else: links, control, pads. Where the die's area is published, this is the remainder, so that
    the total of the unmodified machine is the published one whatever the other figures are."""


class ClusteredDsa(MachineSpec):
    """A whole accelerator: clusters of cores, each with compute units and a local buffer.

    Raises ``ValueError`` (pydantic) for values that are inconsistent.
    """

    kind: Literal["clustered_dsa"]
    """Kind of machine that the file describes."""
    clock_hz: Hertz = Field(alias="clock")
    """Clock of the compute units."""
    clusters: Count
    """Number of clusters; they share DDR, and split the batch or every kernel."""
    cores_per_cluster: Count
    """Number of identical cores per cluster; they share a global buffer and split a layer."""
    units: dict[UnitName, ComputeUnit] = Field(min_length=1, max_length=16)
    """The compute units of one core, by name."""
    local_buffer: LocalBuffer
    global_buffer: GlobalBuffer | None
    further_levels: dict[LevelName, FurtherLevel] = Field(default_factory=dict, max_length=4)
    """Memories between the global buffer and DDR, by name, innermost first: a tensor that one does not hold goes to the
    next. Tensors in them pass through the global buffer on their way to and from the cores."""
    ddr: Ddr
    dma: Dma
    on_chip_path: OnChipPath
    cluster_link: ClusterLink | None = None
    launch_ps: Picoseconds = Field(alias="launch")
    """Start of one kernel on one cluster, including synchronisation of its cores."""
    energy: Energy
    area: Area

    @model_validator(mode="after")
    def _can_compute(self) -> "ClusteredDsa":
        if not any(unit.kind != "matrix" for unit in self.units.values()):
            raise ValueError("units has matrix units only; needs a vector or scalar unit for everything else")
        return self

    @model_validator(mode="after")
    def _has_levels_of_their_own_names(self) -> "ClusteredDsa":
        if self.further_levels and self.global_buffer is None:
            names = ", ".join(self.further_levels)
            raise ValueError(f"further_levels has {names}; needs a global_buffer, through which their data pass")
        for name in self.further_levels:
            own = (name, f"{name}_load", f"{name}_store")
            taken = [each for each in own if each in self.units or (each != name and each in self.further_levels)]
            if taken:
                raise ValueError(
                    f"further_levels.{name}: {taken[0]} is the name of another part; the level and its paths are called"
                    f" {', '.join(own)}: needs another name"
                )
        return self

    @model_validator(mode="after")
    def _links_global_buffers(self) -> "ClusteredDsa":
        if self.cluster_link is not None and self.global_buffer is None:
            raise ValueError("cluster_link links global buffers; needs a global_buffer, or cluster_link: null")
        return self

    @model_validator(mode="after")
    def _requests_rows_of_tiles(self) -> "ClusteredDsa":
        for name, channel in (("load", self.dma.load), ("store", self.dma.store)):
            if channel.request_bytes is not None and self.global_buffer is not None:
                raise ValueError(
                    f"dma.{name}.request divides what DMA moves between DDR and local buffers; needs global_buffer:"
                    " null, or no request"
                )
        return self

    @model_validator(mode="after")
    def _has_energy_for_every_dtype(self) -> "ClusteredDsa":
        for name, unit in self.units.items():
            computed = dict.fromkeys([operands_of(product)[0] for product in unit.rates])
            lacking = [dtype for dtype in computed if dtype not in self.energy.mac]
            if lacking:
                has, needs = ", ".join(self.energy.mac), ", ".join(lacking)
                raise ValueError(f"energy.mac has {has}; needs {needs} too, which units.{name} computes")
        return self

    @property
    def cores(self) -> int:
        """Number of cores of the machine."""
        return self.clusters * self.cores_per_cluster

    @property
    def cycle_ps(self) -> float:
        """Length of a clock cycle in picoseconds."""
        return PS_PER_S / self.clock_hz

    def vector_ops_per_s(self, dtype: str) -> float:
        """Return operations per second of all vector and scalar units; 0 for a dtype that they lack."""
        lanes = _sum_at(dtype, [u.rates for u in self.units.values() if isinstance(u, VectorUnit)])
        return self.cores * self.clock_hz * lanes

    @property
    def layer_start_ps(self) -> int:
        """Picoseconds of a layer that computes nothing: start-ups of transfers from DDR to the cores, and back.

        Launches lie between layers.
        """
        on_chip_ps = 2 * self.on_chip_path.startup_ps if self.global_buffer else 0
        return self.dma.load.startup_ps + self.dma.store.startup_ps + on_chip_ps

    @property
    def area_parts_mm2(self) -> dict[str, float]:
        """Square millimetres of MAC arrays (``macs``), scratchpads (``sram``), interface to DDR and the rest."""
        macs = sum(max(u.rates.values()) for u in self.units.values() if isinstance(u, MatrixUnit))
        sram_bytes = sum(level.copies * level.capacity_bytes for level in self.levels[:-1])
        area = self.area
        return {
            "macs": self.cores * macs * area.mac,
            "sram": sram_bytes / 2**20 * area.sram,
            "ddr": interface_mm2(self.ddr.bandwidth_bytes_per_s, area.ddr, self.energy.node_nm),
            "other": area.other,
        }

    @property
    def area_mm2(self) -> float:
        """Area of the whole chip."""
        return sum(self.area_parts_mm2.values())

    @property
    def static_power_w(self) -> float:
        """Static power of the whole chip and the interface to its DDR."""
        parts_w = sum(self.static_parts_w.values())
        stated = self.energy.static_power_w
        return max(IDLE_W_PER_MM2 * self.area_mm2, parts_w) if stated is None else stated + parts_w

    @property
    def static_parts_w(self) -> dict[str, float]:
        """Static power of the cores, where it is stated apart, and of the interface to DDR, by energy component."""
        energy = self.energy
        parts_w = {
            STATIC_CORES: self.cores * energy.core_static_w,
            STATIC_INTERFACE: interface_w(self.ddr.bandwidth_bytes_per_s, energy.ddr_static),
        }
        return {name: watts for name, watts in parts_w.items() if watts}

    @property
    def link_pj(self) -> dict[str, float]:
        """Energy per byte that each unit moves besides that of the memories at both ends, in picojoules: wires."""
        cluster_mm, die_mm = [math.sqrt(self.area_mm2 / parts) / 2 for parts in (self.clusters, 1)]
        per_mm = wire_pj_per_byte_mm(self.energy.node_nm)
        path, dma = self.energy.on_chip_path, self.energy.dma_path
        near = per_mm * cluster_mm if path is None else path
        far = per_mm * die_mm if dma is None else dma
        return {
            mover.unit: near if mover.unit in ON_CHIP_PATHS else far
            for mover in self.movers if mover.unit != CLUSTER_EXCHANGE
        }  # fmt: skip

    def register_mac_pj(self, dtype: DType) -> float:
        """Return picojoules of an array's registers for one multiply-accumulate of ``dtype``."""
        stated = self.energy.array_registers
        bits = 2 * BITS[dtype] + _SUM_BITS
        return bits * register_bit_pj(self.energy.node_nm) if stated is None else stated

    @property
    def levels(self) -> tuple[MemoryLevel, ...]:
        """Memories of the machine, innermost first; the last one is DDR, the only one that is not on chip."""
        local, shared = self.local_buffer, self.global_buffer
        of_core = Mover(ON_CHIP_PATHS[0], CORE, self.on_chip_path), Mover(ON_CHIP_PATHS[1], CORE, self.on_chip_path)
        levels = [
            MemoryLevel(
                "local_buffer", CORE, self.cores, local.capacity_bytes, local.bandwidth_bytes_per_s, *of_core,
            )
        ]  # fmt: skip
        if shared is not None:
            levels.append(MemoryLevel(
                "global_buffer", CLUSTER, self.clusters, shared.capacity_bytes, shared.bandwidth_bytes_per_s,
                *of_core,
            ))  # fmt: skip
        for name, level in self.further_levels.items():
            levels.append(MemoryLevel(
                name, level.of, 1 if level.of == CHIP else self.clusters, level.capacity_bytes,
                level.bandwidth_bytes_per_s,
                Mover(f"{name}_load", CLUSTER, level.path), Mover(f"{name}_store", CLUSTER, level.path),
            ))  # fmt: skip
        ddr, dma = self.ddr, self.dma
        of, parts = (CHIP, 1) if ddr.sharing == "shared" else (CLUSTER, self.clusters)
        bandwidth = ddr.sustained_bytes_per_s if parts == 1 else ddr.sustained_bytes_per_s / parts
        load = Mover("dma_load", CLUSTER, dma.load, dma.load_channels)
        store = Mover("dma_store", CLUSTER, dma.store, dma.store_channels)
        off_chip = MemoryLevel("ddr", of, parts, ddr.capacity_bytes // parts, bandwidth, load, store)
        return (*levels, off_chip)

    @property
    def byte_pj(self) -> dict[str, float]:
        """Energy per byte read from or written to each of the `levels`, in picojoules, by name."""
        energy = self.energy
        memories: dict[str, tuple[float | None, LocalBuffer | GlobalBuffer | FurtherLevel]]
        memories = {"local_buffer": (energy.local_buffer, self.local_buffer)}
        if self.global_buffer is not None:
            memories["global_buffer"] = energy.global_buffer, self.global_buffer
        memories |= {name: (level.energy, level) for name, level in self.further_levels.items()}
        return {name: self._sram_pj(*memory) for name, memory in memories.items()} | {"ddr": self.energy.ddr}

    @property
    def movers(self) -> tuple[Mover, ...]:
        """Units that move data, those of the innermost memories first."""
        local, *others = self.levels
        broadcast = (Mover(ON_CHIP_PATHS[2], CLUSTER, self.on_chip_path),) if self.on_chip_path.broadcast else ()
        beyond = [mover for level in others for mover in (level.load, level.store)]
        link = self.cluster_link
        exchange = () if link is None else (Mover(CLUSTER_EXCHANGE, CLUSTER, link),)
        return tuple(dict.fromkeys([local.load, local.store, *broadcast, *exchange, *beyond]))

    def _sram_pj(self, given: float | None, memory: LocalBuffer | GlobalBuffer | FurtherLevel) -> float:
        """Return picojoules per byte of an SRAM: as given, or derived from its size and the width of its accesses."""
        cycle_bytes = min(max(int(memory.bandwidth_bytes_per_s / self.clock_hz), 8), WIDEST_ACCESS_BYTES)
        access_bytes = memory.access_bytes or 1 << cycle_bytes.bit_length() - 1
        return sram_pj_per_byte(memory.capacity_bytes, self.energy.node_nm, access_bytes) if given is None else given

    def ddr_parts(self, clusters: int) -> int:
        """Return the number of clusters that DDR is divided among when ``clusters`` are in use."""
        return self.clusters if self.ddr.sharing == "private" else clusters

    @property
    def unit_kinds(self) -> dict[str, str]:
        """Kind of each compute unit of a core, by its name."""
        return {name: unit.kind for name, unit in self.units.items()}

    @property
    def activities(self) -> dict[str, str]:
        """Launches, loads from the outermost memory inwards, compute units by kind, stores outwards."""
        stores = dict.fromkeys([level.store.unit for level in self.levels], "store")
        loads = dict.fromkeys([mover.unit for mover in reversed(self.movers) if mover.unit not in stores], "load")
        return {**super().activities, **loads, **self.unit_kinds, **stores}

    @property
    def product_types(self) -> frozenset[str]:
        """Dtypes, and pairs of dtypes, in which matrix units multiply, or vector units where there are none."""
        matrix = [unit.rates for unit in self.units.values() if isinstance(unit, MatrixUnit)]
        vector = [unit.rates for unit in self.units.values() if isinstance(unit, VectorUnit)]
        return frozenset(product for rates in matrix or vector for product in rates)

    def peak_macs_per_s(self, product: str) -> float:
        """Return multiply-accumulates per second of all matrix units, or of vector units if no matrix unit has it."""
        matrix = [u.rates for u in self.units.values() if isinstance(u, MatrixUnit)]
        vector = [u.rates for u in self.units.values() if isinstance(u, VectorUnit)]
        per_cycle = _sum_at(product, matrix) or _sum_at(product, vector)
        return self.cores * self.clock_hz * per_cycle


def _sum_at(product: str, rates: Iterable[Mapping[str, int]]) -> int:
    return sum(count for rate in rates for name, count in rate.items() if name == product)
