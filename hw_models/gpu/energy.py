"""Energy of a GPU by component, and how it falls with the clock: the supply voltage falls too, down to its lowest.

Below some clock the voltage of a GPU is at its lowest, and above it rises linearly with the clock (Guerreiro et al.,
"GPGPU power modeling for multi-domain voltage-frequency scaling", HPCA 2018). Energy of what happens on the chip goes
with the square of the voltage; DRAM has a supply and a clock of its own.
"""

from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, Field

from dsascape.hw_models.common.cached_parts import LaneEnergy
from dsascape.hw_models.common.spec_types import STRICT
from dsascape.hw_models.simulation.energy import EnergyModel
from dsascape.hw_models.text.quantities import PicojoulesPerByteOrBySize, Watts

Share = Annotated[float, Field(ge=0, le=1)]


class Voltage(BaseModel):
    """Supply voltage of the SMs by their clock, both relative to those at ``sms.clock``."""

    model_config = STRICT

    lowest: Annotated[float, Field(ge=0.3, le=1)]
    """Lowest voltage, as a share of the voltage at ``sms.clock``."""
    flat_to: Annotated[float, Field(ge=0, lt=1)]
    """Share of ``sms.clock`` up to which the voltage is at its lowest; from there on it rises linearly."""

    def at(self, clock_share: float) -> float:
        """Return the voltage at a share of ``sms.clock``, as a share of the voltage there."""
        rising = (clock_share - self.flat_to) / (1 - self.flat_to)
        return self.lowest + (1 - self.lowest) * min(max(rising, 0.0), 1.0)


class GpuEnergy(LaneEnergy):
    """Energy by component, of what happens on the chip with the SMs at ``sms.clock``."""

    shared: PicojoulesPerByteOrBySize = None
    """Energy per byte read or written; by default that of an SRAM of its size (`hw_models.common.technology`)."""
    l2: PicojoulesPerByteOrBySize = None
    """Energy per byte read or written, with the way between the L2 and an SM; by default that of an SRAM of its
    size."""
    clocks_w: Watts = Field(0.0, alias="clocks")
    """Power of the clocks of a chip at work, over the whole makespan, besides the ``static_power`` that it draws when
    idle; 0 where ``static_power`` includes it."""
    voltage: Voltage | None = None
    """Voltage by clock; null where it is taken to be the same at any clock."""

    def at_clock(self, model: EnergyModel, clock_share: float, off_chip: str) -> EnergyModel:
        """Return ``model``, made for ``sms.clock``, at a share of that clock; the memory ``off_chip`` is as it was."""
        factor = 1.0 if self.voltage is None else self.voltage.at(clock_share) ** 2
        return replace(
            model,
            mac_pj={dtype: value * factor for dtype, value in model.mac_pj.items()},
            simple_pj=model.simple_pj * factor,
            special_pj=model.special_pj * factor,
            instruction_pj=model.instruction_pj * factor,
            byte_pj={name: value * (1 if name == off_chip else factor) for name, value in model.byte_pj.items()},
            static_power_w=model.static_power_w + self.clocks_w * clock_share * factor,
        )
