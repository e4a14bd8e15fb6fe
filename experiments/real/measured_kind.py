"""What differs between kinds of machines when code is measured: a protocol, with one implementation for each kind.

`experiments.real.measured_kinds` finds the kind of a machine, or of a target.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dsascape.experiments.point.job import Outcome
from dsascape.experiments.question.points import DesignPoint, MeasuredOn
from dsascape.experiments.real.compared import Comparison
from dsascape.hw_models import AnyHardware, HardwareError, MachineSpec, load_hardware
from dsascape.tuner.bundle import Manifest
from dsascape.tuner.calibrate import Calibrated
from dsascape.tuner.measure import Budget, MeasureError, Measurement, is_gpu_target

MEASURED_DTYPE = "fp32"
SpecT = TypeVar("SpecT", bound=MachineSpec)


@dataclass(frozen=True)
class Asked:
    """Machine, target and device that a user asks for."""

    hardware: str | None
    """Machine that tiles are chosen for; None: the usual one of the target."""
    target: str
    device: str
    threads: int | None = None
    """Number of threads; None: one per core."""
    flush_caches: bool = False


@dataclass(frozen=True)
class Setting:
    """Machine that tiles are chosen for, its scheduler's tuning, and the device that measures."""

    hardware: AnyHardware
    measured_on: MeasuredOn | None
    """Device that measures; None: code is only written."""
    tuning: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Written:
    """Code that is written to files and not run, as a measurement without times."""

    measurement: Measurement
    data: dict[str, Any]
    """Dictionary that ``measure --json`` prints."""


@dataclass(frozen=True)
class ProbesBundle:
    """Bundle of probes that calibrate the machine they run on."""

    manifest: Manifest
    architecture: str | None
    shape: Mapping[str, int]
    """Figures of the machine that the probes are made for, by name."""
    text: str
    """Description of what they are for, for messages."""


class MeasuredKind(Protocol):
    """Kind of machine that code is generated and measured for."""

    @property
    def has_libraries(self) -> bool:
        """Whether the efficiency of libraries can be measured on machines of this kind."""

    def setting(self, asked: Asked) -> Setting:
        """Return what a user asks for; raise ``HardwareError`` or ``MeasureError`` for what does not fit the kind."""

    def tuning(self, machine: AnyHardware, threads: int | None, device: str, named: str) -> dict[str, object]:
        """Return the scheduler tuning for ``threads`` on ``device``; None: one per core.

        Raises ``MeasureError``, which begins with ``named``, for more threads than there are cores.
        """

    def of_code(self, machine: AnyHardware) -> dict[str, object]:
        """Return the scheduler tuning with which generated code on ``machine`` is simulated."""

    def is_only_written(self, point: DesignPoint, target: str, device: str, out: Path | None) -> bool:
        """Return whether the code of a point is written to the folder ``out`` and not run.

        Raises ``TargetError`` where it cannot be run and there is no such folder.
        """

    def written(self, point: DesignPoint, target: str, path: Path) -> Written:
        """Write the code of a point to files whose names begin with ``path``; the object file ends with ``.o``."""

    def bundle(self, point: DesignPoint, out: Path, runtime: Path | None) -> Manifest:
        """Write the bundle of a point to the file ``out``; ``runtime`` is TVM's runtime for the device, if given."""

    def measured(self, point: DesignPoint, budget: Budget) -> tuple[Outcome, Comparison]:
        """Simulate a point and measure it on its device; return both results."""

    def probes(self, hardware: str | None, target: str, out: Path, runtime: Path | None) -> ProbesBundle:
        """Write a bundle of probes, which calibrate the machine they run on, to the file ``out``."""

    def calibrated(self, device: str, target: str, *, libraries: bool) -> Calibrated:
        """Return the facts and figures of a device; ``libraries``: with what onnxruntime reaches there."""


def requested(machine: str, spec: type[SpecT], otherwise: str) -> SpecT:
    """Return the machine to tile for, given its name or path.

    Raises ``HardwareError`` for one of another class than ``spec``; the message is the machine's name and
    ``otherwise``.
    """
    found = load_hardware(machine)
    if not isinstance(found, spec):
        raise HardwareError(f"{found.name}: {otherwise}")
    return found


def as_measured(point: DesignPoint, tuning: Mapping[str, object], *, on_gpu: bool) -> DesignPoint:
    """Return ``point`` in the dtype of measured code, with ``tuning`` besides its own.

    Raises ``HardwareError`` for a target of other machines, and ``MeasureError`` for another dtype.
    """
    on, workload = point.measured_on, point.workload
    if on is not None and is_gpu_target(on.target) != on_gpu:
        is_and_needs = ("is a GPU", "is for processors") if on_gpu else ("is not a GPU", "needs one")
        raise HardwareError(f"{point.hardware.name}: {is_and_needs[0]}; target {on.target!r} {is_and_needs[1]}")
    if workload.dtype not in (None, MEASURED_DTYPE):
        raise MeasureError(f"dtype has {workload.dtype!r}; code is measured in {MEASURED_DTYPE}")
    return replace(point, workload=replace(workload, dtype=MEASURED_DTYPE), tuning={**point.tuning, **tuning})


def check_whole_batch(outcome: Outcome) -> None:
    """Raise ``MeasureError`` for a schedule that takes several iterations: code is measured for the whole batch."""
    record = outcome.record
    if record.iterations > 1:
        raise MeasureError(
            f"the schedule takes {record.batch_at_once} of batch {record.batch} at once; code is measured for the whole"
            f" batch: --batch {record.batch_at_once}"
        )
