"""Predictions compared with measurements: one network under one policy on one machine, kernel by kernel."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from dsascape.experiments.question.points import Figure
from dsascape.experiments.real.accuracy import kendall, mape, spearman
from dsascape.scheduler.kernels.repeated import RepeatedKernel
from dsascape.tuner.measure import KernelMeasurement, Measurement

WITH_LOOPS = 3
"""Kernels, of the largest differences, whose loops are printed."""


@dataclass(frozen=True)
class Comparison:
    """A measurement with its predictions."""

    measurement: Measurement
    hardware: str
    """Name of the machine that was simulated."""
    network_s: float | None
    """Predicted time of the network; None where the run was not simulated as measured, such as on other threads."""
    kernels: Mapping[str, RepeatedKernel]
    """Predictions by kernel name."""
    layers: Mapping[str, str] = field(default_factory=dict)
    """Name of each kernel's layer in its plan, by kernel name."""

    def layer(self, kernel: KernelMeasurement) -> str:
        """Return the name of a kernel's layer, or its own where no layers are named."""
        return self.layers.get(kernel.name, kernel.name)

    @property
    def pairs(self) -> list[tuple[KernelMeasurement, RepeatedKernel]]:
        """Kernels that have both a time and a prediction."""
        return [
            (kernel, self.kernels[kernel.name])
            for kernel in self.measurement.kernels
            if kernel.timing is not None and kernel.name in self.kernels
        ]

    def figures(self) -> dict[str, float | None]:
        """Return the accuracy of the kernels' predictions: mean error and rank correlations."""
        measured = [kernel.timing.seconds for kernel, _ in self.pairs if kernel.timing is not None]
        predicted = [simulated.seconds for _, simulated in self.pairs]
        return {
            "mape": mape(predicted, measured), "spearman": spearman(predicted, measured),
            "kendall": kendall(predicted, measured),
        }  # fmt: skip

    def row(self) -> dict[str, Figure]:
        """Return the columns of a measured point beyond those of a simulated one."""
        measurement = self.measurement
        timing = measurement.network.timing
        return {
            "measured_s": None if timing is None else timing.seconds,
            "measured_spread": None if timing is None else timing.spread,
            "measured_j": measurement.network.joules,
            "measured_threads": measurement.threads, "is_correct": int(bool(measurement.correct)), **self.figures(),
            "target": measurement.target, "device": measurement.device.processor,
            "device_facts": json.dumps(asdict(measurement.device), sort_keys=True),
            "measured_at": measurement.measured_at, "warnings": "; ".join(measurement.warnings),
            "flushed_caches": int(measurement.flushed),
            "error": measurement.network.error,
        }  # fmt: skip

    def kernel_rows(self) -> Iterator[dict[str, Figure]]:
        """Yield one row per kernel."""
        for kernel in self.measurement.kernels:
            simulated = self.kernels.get(kernel.name)
            parts = {} if simulated is None else simulated.parts_s
            yield {
                "kernel": kernel.name, "layer": self.layer(kernel), "operators": ", ".join(kernel.operators),
                "measured_s": None if kernel.timing is None else kernel.timing.seconds,
                "spread": None if kernel.timing is None else kernel.timing.spread,
                "predicted_s": None if simulated is None else simulated.seconds,
                "threads": None if simulated is None else simulated.threads,
                "flushed_caches": int(self.measurement.flushed), "kernel_error": kernel.error,
                **{f"predicted_parts_s.{name}": seconds for name, seconds in parts.items()},
            }  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        """Return the dictionary that ``measure --json`` prints."""
        data = with_layers(self.measurement.as_json(), self.layers)
        for entry in data["kernels"]:
            simulated = self.kernels.get(entry["name"])
            if simulated is not None:
                entry |= {"predicted_s": simulated.seconds, "predicted_parts_s": dict(simulated.parts_s)}
        loops = {kernel.name: simulated.loops for kernel, simulated in worst(self.pairs)[:WITH_LOOPS]}
        for entry in data["kernels"]:
            if loops.get(entry["name"]):
                entry["loops"] = loops[entry["name"]]
        return data | {"hardware": self.hardware, "predicted_s": self.network_s, **self.figures()}


def with_layers(data: dict[str, Any], layers: Mapping[str, str]) -> dict[str, Any]:
    """Return the data of a measurement with the name of each kernel's layer, as ``layer``."""
    named = [{**entry, "layer": layers.get(entry["name"], entry["name"])} for entry in data["kernels"]]
    return {**data, "kernels": named}


def worst(pairs: Sequence[tuple[KernelMeasurement, RepeatedKernel]]) -> list[tuple[KernelMeasurement, RepeatedKernel]]:
    """Return the kernels by absolute prediction error in seconds, largest first."""

    def missed_s(pair: tuple[KernelMeasurement, RepeatedKernel]) -> float:
        kernel, simulated = pair
        return -abs(simulated.seconds - kernel.timing.seconds) if kernel.timing is not None else 0.0

    return sorted(pairs, key=missed_s)
