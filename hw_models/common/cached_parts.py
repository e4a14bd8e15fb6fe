"""What machines with caches have in common, whatever computes: memory outside the chip, energy by component."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from dsascape.hw_models.common.spec_types import STRICT, DType, Efficiency
from dsascape.hw_models.common.technology import LARGEST_NM, SMALLEST_NM, low_share, sram_pj_per_byte
from dsascape.hw_models.simulation.energy import EnergyModel
from dsascape.hw_models.text.quantities import (
    Bytes,
    BytesPerSecond,
    Nanometres,
    Picojoules,
    PicojoulesPerByte,
    PicojoulesPerByteOrBySize,
    Picoseconds,
    Watts,
)


class Dram(BaseModel):
    """Memory outside the chip."""

    model_config = STRICT

    capacity_bytes: Bytes = Field(alias="capacity")
    """Of the machine."""
    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """Peak for all cores or SMs; reads and writes share it."""
    efficiency: Efficiency = 1.0
    """Share of the peak that streams reach."""
    latency_ps: Picoseconds = Field(alias="latency")
    """From the request to the first bytes, for what no cache has."""

    @property
    def sustained_bytes_per_s(self) -> int:
        return max(1, int(self.bandwidth_bytes_per_s * self.efficiency))


class LaneEnergy(BaseModel):
    """Energy by component, of machines that compute in vector lanes behind caches."""

    model_config = STRICT

    node_nm: Annotated[Nanometres, Field(ge=SMALLEST_NM, le=LARGEST_NM)] = Field(alias="node")
    """Technology node, by which the energy of a memory on the chip follows from its size."""
    estimate: Literal["nominal", "low"] = "nominal"
    """How much arithmetic takes: ``nominal``, as it is stated here; or ``low``, what logic alone would by scaling from
    45 nm, which published figures of bare multiplier arrays are near (`hw_models.common.technology.low_share`)."""
    mac: dict[DType, Picojoules] = Field(min_length=1)
    """Of one multiply-accumulate with its registers, on lanes or tensor units."""
    vector_op: Picojoules
    """Of one operation of a lane, special functions aside."""
    special_op: Picojoules
    """Of one division, square root, exponential or the like."""
    dram: PicojoulesPerByte
    """Of a byte read or written."""
    static_power_w: Watts = Field(alias="static_power")
    """Drawn for as long as the machine runs: leakage, clocks, instruction fetch of what is idle."""

    def check_dtypes(self, computed: Iterable[str], where: str) -> None:
        """Raise ``ValueError`` for a dtype that the units at ``where`` compute and that has no energy."""
        lacking = [dtype for dtype in computed if dtype not in self.mac]
        if lacking:
            has, needs = ", ".join(self.mac), ", ".join(lacking)
            raise ValueError(f"energy.mac has {has}; needs {needs} too, which {where} computes")

    def sram_pj_per_byte(
        self, sizes: Mapping[str, int], given: Mapping[str, PicojoulesPerByteOrBySize]
    ) -> dict[str, float]:
        """Return picojoules per byte of memories on the chip: as ``given``, or by their ``sizes`` in bytes."""
        by_size = {name: sram_pj_per_byte(size, self.node_nm) for name, size in sizes.items()}
        return {name: by_size[name] if (value := given[name]) is None else value for name in sizes}

    def model(self, machine: str, dram: str, on_chip_pj: Mapping[str, float]) -> EnergyModel:
        """Return the energy of operations and of bytes: of memories on the chip, and of the one called ``dram``."""
        share = low_share(self.node_nm) if self.estimate == "low" else 1.0
        return EnergyModel(
            machine=machine,
            mac_pj={str(dtype): value * share for dtype, value in self.mac.items()},
            simple_pj=self.vector_op * share,
            special_pj=self.special_op * share,
            byte_pj={**on_chip_pj, dram: self.dram},
            static_power_w=self.static_power_w,
        )


class CachedMachine(BaseModel):
    """A machine of which no area is known: dies are published with all that they hold beside cores and caches."""

    model_config = STRICT

    @property
    def area_mm2(self) -> None:
        """Unknown."""

    @property
    def area_parts_mm2(self) -> dict[str, float]:
        """None is known."""
        return {}
