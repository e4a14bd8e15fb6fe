"""What is known of measured code: frozen, and ready to be written as JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Budget:
    """How long measuring may take, and how sure it has to be."""

    kernel_s: float = 0.4
    """Of repeating one kernel."""
    network_s: float = 4.0
    """Of repeating the whole network."""
    width: float = 0.01
    """Repeating ends when the 95 % confidence interval of the median is no wider than this share of it."""
    limit_s: float = 120.0
    """After which a kernel that has not answered is stopped: building, checking and repeating it."""
    prepare_s: float = 900.0
    """After which code that is not yet generated, and results to compare with, are given up."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Repeated runs of one piece of code."""

    seconds: float
    """Median of the undisturbed runs."""
    spread: float
    """Interquartile range by the median."""
    interval: float
    """Width of the 95 % confidence interval of the median, by the median."""
    samples: int
    """Undisturbed runs that the figures are made of."""
    disturbed: int
    """Runs that were left out: the system took a processor away meanwhile."""


@dataclass(frozen=True, slots=True)
class KernelMeasurement:
    """One kernel of the plan: its time and whether it computes what it should, or why it has neither."""

    name: str
    operators: tuple[str, ...]
    timing: Timing | None = None
    correct: bool | None = None
    """None where it did not run."""
    deviation: float | None = None
    """Largest difference from the reference, by the largest value of the reference."""
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the entry of ``kernels``, without a prediction."""
        timing = self.timing
        return {
            "name": self.name, "operators": list(self.operators),
            "measured_s": None if timing is None else timing.seconds,
            "spread": None if timing is None else timing.spread,
            "predicted_s": None, "correct": False if self.error else self.correct, "error": self.error,
            "samples": 0 if timing is None else timing.samples,
            "disturbed": 0 if timing is None else timing.disturbed,
            "deviation": self.deviation,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Device:
    """The machine that ran the code. What the system does not tell is None, or empty."""

    name: str
    """``local``, or the address that it was reached at."""
    processor: str
    architecture: str
    cores: int
    """That this process may use."""
    clock_hz: float | None
    """As the system reports it at the time."""
    caches: Mapping[str, int]
    """Bytes of each kind of cache as one core sees it: ``l1d``, ``l2``, ``l3``."""
    memory_bytes: int | None
    load: float | None
    """Of these cores, how many other processes kept busy just before measuring (`interference.busy_elsewhere`)."""
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Measurement:
    """A network under a plan on a device."""

    model: str
    policy: str
    target: str
    device: Device
    threads: int
    kernels: tuple[KernelMeasurement, ...]
    network: KernelMeasurement
    """All kernels in a row."""
    warnings: tuple[str, ...] = ()
    """What may have disturbed the figures."""
    flushed: bool = False
    """Whether all that kernels are given was taken out of the caches before each timed run."""
    measured_at: str = ""
    """ISO date and time, UTC; empty where nothing was run."""

    @property
    def correct(self) -> bool | None:
        """Whether the network and every kernel ran and computed what they should; None for code that was not run."""
        everything = (self.network, *self.kernels)
        if all(each.correct is None and each.error is None for each in everything):
            return None
        return all(each.correct for each in everything)

    def as_json(self) -> dict[str, Any]:
        """Return what ``measure --json`` prints, without predictions."""
        whole = self.network.as_json()
        return {
            "model": self.model, "policy": self.policy, "target": self.target, "device": asdict(self.device),
            "threads": self.threads, "correct": self.correct, "measured_s": whole["measured_s"],
            "predicted_s": None, "spread": whole["spread"], "error": self.network.error,
            "kernels": [kernel.as_json() for kernel in self.kernels], "mape": None, "spearman": None, "kendall": None,
            "warnings": list(self.warnings), "flushed_caches": self.flushed, "measured_at": self.measured_at or None,
        }  # fmt: skip
