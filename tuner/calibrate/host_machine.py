"""Calibrated processors."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic

from dsascape.hw_models import Cpu, HardwareError
from dsascape.hw_models.text.messages import explain
from dsascape.hw_models.text.quantities import format_bytes
from dsascape.tuner.calibrate.description import host_spec, host_yaml
from dsascape.tuner.calibrate.facts import HostFacts
from dsascape.tuner.calibrate.figures import Figures
from dsascape.wording import count


@dataclass(frozen=True)
class DescribedHost:
    """Processor that facts and figures describe."""

    facts: HostFacts
    figures: Figures
    text: str
    """Text of its file."""
    spec: Cpu

    @property
    def warnings(self) -> tuple[str, ...]:
        """What could not be measured and is assumed, and what disturbed the rest."""
        return self.figures.warnings

    def as_json(self) -> dict[str, Any]:
        """Return the processor's name, its cores, and what is assumed of it."""
        return {"processor": self.facts.processor, "cores": self.facts.cores, "assumed": list(self.facts.assumed)}

    def lines(self, out: Path, took_s: float | None) -> tuple[str, ...]:
        """Return cores, vectors, peak and bandwidths."""
        reads = [f"{level.name} {1e-9 / level.byte_s:.1f} GB/s" for level in self.figures.levels]
        took = "" if took_s is None else f", in {took_s:.0f} s"
        return (
            f"{self.facts.processor}, {count(self.facts.cores, 'core')} with"
            f" {format_bytes(self.spec.simd.register_bytes)} vectors{took}: {out}",
            f"  {self.spec.peak_macs_per_s('fp32') / 1e9:.4g} GMAC/s in all; one thread reads {', '.join(reads)}",
        )


@dataclass(frozen=True)
class CalibratedHost:
    """Facts and figures of a processor."""

    facts: HostFacts
    figures: Figures
    usual_name = "host"

    def described(self, name: str, day: str) -> DescribedHost:
        """Return the processor, measured on ``day``; raise ``HardwareError`` for figures that describe none."""
        text = host_yaml(self.facts, self.figures, name, day)
        try:
            return DescribedHost(self.facts, self.figures, text, host_spec(self.facts, self.figures))
        except pydantic.ValidationError as error:
            raise HardwareError(explain(error, "its file", model=Cpu)) from error
