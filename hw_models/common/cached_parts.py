"""Spec parts shared by machines with caches (CPU, GPU): off-chip memory, energy by component."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from dsascape.hw_models.common.interface import DDR_STATIC_W_PER_GB_PER_S, interface_w
from dsascape.hw_models.common.spec_types import STRICT, DType, Efficiency
from dsascape.hw_models.common.technology import LARGEST_NM, SMALLEST_NM, low_share, sram_pj_per_byte
from dsascape.hw_models.simulation.energy import EnergyModel
from dsascape.hw_models.text.quantities import (
    Bytes,
    BytesPerSecond,
    Nanometres,
    Picojoules,
    PicojoulesOrByCore,
    PicojoulesPerByte,
    PicojoulesPerByteOrBySize,
    Picoseconds,
    SquareMillimetres,
    SquareMillimetresPerGbPerSOrByNode,
    SquareMillimetresPerMibOrByNode,
    Watts,
    WattsPerGbPerS,
)


class Dram(BaseModel):
    """Off-chip memory."""

    model_config = STRICT

    capacity_bytes: Bytes = Field(alias="capacity")
    """Capacity of the whole machine."""
    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """Peak bandwidth for all cores or SMs together, shared by reads and writes."""
    efficiency: Efficiency = 1.0
    """Share of the peak bandwidth that streams reach."""
    latency_ps: Picoseconds = Field(alias="latency")
    """Latency from the request to the first bytes, for data in no cache."""

    @property
    def sustained_bytes_per_s(self) -> int:
        """Bandwidth that streams reach."""
        return max(1, int(self.bandwidth_bytes_per_s * self.efficiency))


class LaneEnergy(BaseModel):
    """Energy by component, for machines that compute in vector lanes behind caches."""

    model_config = STRICT

    node_nm: Annotated[Nanometres, Field(ge=SMALLEST_NM, le=LARGEST_NM)] = Field(alias="node")
    """Technology node, from which with its size the energy of an on-chip memory follows. A change of the node scales
    all energies on the chip, areas and static power that the change does not state."""
    estimate: Literal["nominal", "low"] = "nominal"
    """Estimate of the energy of operations and instructions: ``nominal``, as stated here; or ``low``, scaled from 45 nm
    as logic scales, which is near published figures of bare multiplier arrays
    (`hw_models.common.technology.low_share`)."""
    mac: dict[DType, Picojoules] = Field(min_length=1)
    """Energy of one multiply-accumulate including registers, on lanes or tensor units, by dtype."""
    vector_op: Picojoules
    """Energy of one operation of a lane, except special functions."""
    special_op: Picojoules
    """Energy of one division, square root, exponential or the like."""
    instruction: PicojoulesOrByCore = 0.0
    """Energy of executing one instruction besides its arithmetic, whatever it computes: fetch, decode, rename,
    registers, control. On GPUs of one instruction of a warp; a file without it, or with ``by core``, leaves it out."""
    dram: PicojoulesPerByte
    """Energy per byte read or written: of the DRAM, and of its interface on both sides."""
    static_power_w: Watts = Field(alias="static_power")
    """Static power without that of the interface to DRAM and ``core_static``, drawn over the whole makespan: leakage,
    clocks, instruction fetch of idle parts."""
    core_static_w: Watts = Field(default=0.0, alias="core_static")
    """Static power of one core, or SM: leakage and clock of a core under power, whether it computes or not. All cores
    of the machine draw it over the whole makespan; 0 where ``static_power`` includes it."""
    dram_static: WattsPerGbPerS = DDR_STATIC_W_PER_GB_PER_S
    """Static power of the interface to DRAM, by its peak bandwidth: clocks, receivers, delay lines. The default is an
    assumption (`hw_models.common.interface`)."""

    def check_dtypes(self, computed: Iterable[str], where: str) -> None:
        """Raise ``ValueError`` for a dtype that the units at ``where`` compute but ``mac`` lacks."""
        lacking = [dtype for dtype in computed if dtype not in self.mac]
        if lacking:
            has, needs = ", ".join(self.mac), ", ".join(lacking)
            raise ValueError(f"energy.mac has {has}; needs {needs} too, which {where} computes")

    @property
    def estimate_share(self) -> float:
        """Factor of ``estimate`` on the energy of operations and instructions."""
        return low_share(self.node_nm) if self.estimate == "low" else 1.0

    def sram_pj_per_byte(
        self, sizes: Mapping[str, int], given: Mapping[str, PicojoulesPerByteOrBySize]
    ) -> dict[str, float]:
        """Return picojoules per byte of on-chip memories: as ``given``, or derived from their ``sizes`` in bytes."""
        by_size = {name: sram_pj_per_byte(size, self.node_nm) for name, size in sizes.items()}
        return {name: by_size[name] if (value := given[name]) is None else value for name in sizes}

    def model(
        self, machine: str, dram: str, on_chip_pj: Mapping[str, float], dram_bytes_per_s: int, cores: int
    ) -> EnergyModel:
        """Return the energy model; ``on_chip_pj`` is per byte of each on-chip memory, ``dram`` names the off-chip.

        An instruction whose energy is not stated takes none; a CPU's is derived (`hw_models.cpu.energy`).
        """
        of_interface = interface_w(dram_bytes_per_s, self.dram_static)
        share = self.estimate_share
        return EnergyModel(
            machine=machine,
            mac_pj={str(dtype): value * share for dtype, value in self.mac.items()},
            simple_pj=self.vector_op * share,
            special_pj=self.special_op * share,
            instruction_pj=(self.instruction or 0.0) * share,
            byte_pj={**on_chip_pj, dram: self.dram},
            static_power_w=self.static_power_w + of_interface + cores * self.core_static_w,
        )


class CachedArea(BaseModel):
    """Silicon by component, for machines with caches; what is not stated follows from the node.

    The area is that of what the file describes: no spare cores, video codecs or modems.
    """

    model_config = STRICT

    sram: SquareMillimetresPerMibOrByNode = None
    """Area of caches with their tags and control, per MiB; by default `hw_models.common.silicon` for the node."""
    dram: SquareMillimetresPerGbPerSOrByNode = None
    """Area of the interface to DRAM (PHY and controller) by its peak bandwidth; by default that of DDR at 4 GT/s."""
    other: SquareMillimetres = 0.0
    """Area of everything else: links to other chips, pads, management."""
