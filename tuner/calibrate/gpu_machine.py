"""Calibrated GPUs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsascape.hw_models import Gpu, hardware_of_text
from dsascape.scheduler.gpu.kind import GPU
from dsascape.scheduler.kinds.any_kind import OpaqueKind
from dsascape.tuner.calibrate.gpu_description import gpu_yaml
from dsascape.tuner.calibrate.gpu_probing import GpuFacts, GpuFigures


@dataclass(frozen=True)
class DescribedGpu:
    """GPU that facts and figures describe."""

    facts: GpuFacts
    figures: GpuFigures
    text: str
    """Text of its file."""
    spec: Gpu

    @property
    def warnings(self) -> tuple[str, ...]:
        """None: others' use of a GPU is not known."""
        return ()

    def as_json(self) -> dict[str, Any]:
        """Return the GPU's name and its number of SMs."""
        return {"processor": self.facts.name, "sms": self.facts.sms}

    def lines(self, out: Path, took_s: float | None) -> tuple[str, ...]:
        """Return SMs, peak, bandwidth and time of a launch."""
        del took_s  # next to nothing beside the time of building the probes
        return (
            f"{self.facts.name}, {self.facts.sms} SMs: {out}",
            f"  {self.spec.peak_macs_per_s('fp32') / 1e9:.4g} GMAC/s in fp32; DRAM"
            f" {self.figures.dram_bytes_per_s / 1e9:.0f} GB/s, a launch {self.figures.launch_s * 1e6:.1f} us",
        )


@dataclass(frozen=True)
class CalibratedGpu:
    """Facts and figures of a GPU."""

    facts: GpuFacts
    figures: GpuFigures
    usual_name = "gpu"

    def described(self, name: str, day: str) -> DescribedGpu:
        """Return the GPU, measured on ``day``; raise ``HardwareError`` for figures that describe none."""
        text = gpu_yaml(self.facts, self.figures, name, day)
        spec = OpaqueKind(GPU).own_spec(hardware_of_text(text, f"{name}.yaml"))
        return DescribedGpu(self.facts, self.figures, text, spec)
