"""Records of measurements: frozen, and serialisable to JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Budget:
    """Time limits and target precision of a measurement."""

    kernel_s: float = 0.4
    """Time for repeating one kernel, in seconds."""
    network_s: float = 4.0
    """Time for repeating the whole network, in seconds."""
    width: float = 0.01
    """Width of the median's 95 % confidence interval, as a fraction of it, at which repeating ends early."""
    limit_s: float = 120.0
    """Time limit in seconds for building, checking and repeating one kernel."""
    prepare_s: float = 900.0
    """Time limit in seconds for generating code and reference results."""


FOR_CANDIDATES = Budget(kernel_s=0.05, width=0.02, limit_s=10.0)
"""Budget of one candidate of a search, which compares many, most of them by more than a few percent."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Statistics of repeated runs of one piece of code."""

    seconds: float
    """Median of the undisturbed runs."""
    spread: float
    """Interquartile range divided by the median."""
    interval: float
    """Width of the median's 95 % confidence interval, divided by the median."""
    samples: int
    """Number of undisturbed runs, of which the figures are made."""
    disturbed: int
    """Number of runs left out because the system preempted them."""


@dataclass(frozen=True, slots=True)
class KernelMeasurement:
    """Time and correctness of one kernel of the plan, or the reason why it has neither."""

    name: str
    operators: tuple[str, ...]
    timing: Timing | None = None
    correct: bool | None = None
    """Whether its results are right; None if it did not run."""
    deviation: float | None = None
    """Largest difference from the reference, relative to the reference's largest magnitude."""
    error: str | None = None
    handed_line_s: float | None = None
    """Extra seconds of a line that one core writes and another reads, right behind the network's runs on several
    threads of this machine; None for kernels, one thread, other devices, and where caches are flushed."""
    joules: float | None = None
    """Energy of one run of the network by the processor's counters, of packages and DRAM with all that runs there; None
    for single kernels, on other devices, and where the system shows no counters."""

    def as_json(self) -> dict[str, Any]:
        """Return the kernel's entry of ``measure --json``, without a prediction."""
        timing = self.timing
        return {
            "name": self.name, "operators": list(self.operators),
            "measured_s": None if timing is None else timing.seconds,
            "spread": None if timing is None else timing.spread,
            "predicted_s": None, "correct": False if self.error else self.correct, "error": self.error,
            "samples": 0 if timing is None else timing.samples,
            "disturbed": 0 if timing is None else timing.disturbed,
            "deviation": self.deviation, "measured_j": self.joules,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Device:
    """The machine that ran the code. Values that its operating system does not report are None or empty."""

    name: str
    """``local``, or the address of the device."""
    processor: str
    architecture: str
    cores: int
    """Number of cores that this process may use."""
    clock_hz: float | None
    """Clock at the time of the measurement, as the system reports it."""
    caches: Mapping[str, int]
    """Cache sizes in bytes as one core sees them, by name: ``l1d``, ``l2``, ``l3``."""
    memory_bytes: int | None
    load: float | None
    """Number of these cores kept busy by other processes just before measuring (`interference.busy_elsewhere`)."""
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Measurement:
    """Measured times of a network under a plan on a device."""

    model: str
    policy: str
    target: str
    device: Device
    threads: int
    kernels: tuple[KernelMeasurement, ...]
    network: KernelMeasurement
    """All kernels in sequence."""
    warnings: tuple[str, ...] = ()
    """Possible disturbances of the figures."""
    flushed: bool = False
    """Whether kernels' arguments were flushed from the caches before each timed run."""
    measured_at: str = ""
    """ISO date and time in UTC; empty if nothing was run."""

    @property
    def correct(self) -> bool | None:
        """Whether network and kernels all ran with right results; None for code that was not run."""
        everything = (self.network, *self.kernels)
        if all(each.correct is None and each.error is None for each in everything):
            return None
        return all(each.correct for each in everything)

    def as_json(self) -> dict[str, Any]:
        """Return the dictionary that ``measure --json`` prints, without predictions."""
        whole = self.network.as_json()
        return {
            "model": self.model, "policy": self.policy, "target": self.target, "device": asdict(self.device),
            "threads": self.threads, "correct": self.correct, "measured_s": whole["measured_s"],
            "measured_j": whole["measured_j"], "predicted_s": None, "spread": whole["spread"],
            "error": self.network.error,
            "kernels": [kernel.as_json() for kernel in self.kernels], "mape": None, "spearman": None, "kendall": None,
            "warnings": list(self.warnings), "flushed_caches": self.flushed, "measured_at": self.measured_at or None,
        }  # fmt: skip
