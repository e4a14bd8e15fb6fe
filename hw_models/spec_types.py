"""What the specs of all kinds of machines are made of, quantities aside."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from hw_models.quantities import Bytes, BytesPerSecond, Picoseconds

DType = Literal["fp32", "fp16", "bf16", "int8"]
Efficiency = Annotated[float, Field(ge=0.001, le=1)]
PerCycle = Annotated[int, Field(gt=0, le=2**24)]
Count = Annotated[int, Field(gt=0, le=4096)]
STRICT = ConfigDict(
    frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True,
    validate_by_name=False, validate_by_alias=True, serialize_by_alias=True,
)  # fmt: skip


class Dram(BaseModel):
    """Memory outside the chip, behind caches."""

    model_config = STRICT

    capacity_bytes: Bytes = Field(alias="capacity")
    """Of the machine."""
    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """Peak for all cores; reads and writes share it."""
    efficiency: Efficiency = 1.0
    """Share of the peak that streams reach."""
    latency_ps: Picoseconds = Field(alias="latency")
    """From the request to the first bytes, for what no cache has."""

    @property
    def sustained_bytes_per_s(self) -> int:
        return max(1, int(self.bandwidth_bytes_per_s * self.efficiency))
