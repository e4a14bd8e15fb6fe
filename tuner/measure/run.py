"""Measuring a plan in a child process with time limits.

A kernel that crashes its process or does not end is recorded with the reason; a new process continues after it.
"""

import importlib.util
import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path

from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.tuner.codegen.names import kernel_name
from dsascape.tuner.late import late
from dsascape.tuner.measure.address import remote_address
from dsascape.tuner.measure.child import Child, ChildEndedError
from dsascape.tuner.measure.cores import usable_cores
from dsascape.tuner.measure.device import local_device, now, remote_device
from dsascape.tuner.measure.interference import busy_elsewhere, disturbances
from dsascape.tuner.measure.job import Job
from dsascape.tuner.measure.records import Device, KernelMeasurement, Measurement
from dsascape.tuner.measure.targets import check_target, cuda_architecture, runs_here
from dsascape.tuner.measure.worker import NETWORK, PREPARATION, UNPREPARED, work
from dsascape.wording import count

Work = Callable[[Connection, Job], None]


class MeasureError(ValueError):
    """A measurement that is impossible here; the message says what is missing."""


def check_installed() -> None:
    """Raise ``MeasureError`` where TVM or onnxruntime is not installed."""
    lacking = [name for name in ("tvm", "onnxruntime") if importlib.util.find_spec(name) is None]
    if lacking:
        raise MeasureError(f"measuring needs {' and '.join(lacking)}: pip install 'dsascape[tvm]'")


def compile_for(job: Job, policy: str, path: Path) -> Measurement:
    """Compile ``job`` to the object file ``path`` for another machine; return its kernels without times."""
    check_installed()
    measurement: Measurement = late("cross").compile_job(job, policy, path)
    return measurement


def compile_for_gpu(schedule: GpuSchedule, warp: int, target: str, path: Path) -> Measurement:
    """Compile ``schedule`` for a GPU with warps of ``warp`` threads; return its kernels without times.

    `tuner.on_device.cross_gpu` lists the files. Raises ``MeasureError`` where nvcc is missing or rejects the code.
    """
    check_installed()
    with nvcc_for(target):
        measurement: Measurement = late("cross_gpu").compile_schedule(schedule, warp, target, path)
    return measurement


@contextmanager
def nvcc_for(target: str) -> Iterator[None]:
    """Guard a block that compiles for a GPU; raises ``MeasureError`` where nvcc is missing or rejects the code."""
    if cuda_architecture(target) is not None and shutil.which("nvcc") is None:
        raise MeasureError(f"target has {target!r}, which needs nvcc of the CUDA toolkit on the path")
    try:
        yield
    except RuntimeError as error:
        raise MeasureError(f"target has {target!r}: {error}") from error


def measure_plan(
    job: Job,
    policy: str,
    *,
    on_kernel: Callable[[KernelMeasurement], None] | None = None,
    work: Work = work,
) -> Measurement:
    """Measure a policy's plan on the job's device; ``on_kernel`` is called with each kernel's measurement.

    Raises ``MeasureError`` for missing packages and for more threads than cores, ``TargetError`` for code that does not
    run here, and ``AddressError`` for a malformed device address.
    """
    check_installed()
    device = _device(job)
    waiting = _Waiting(job, on_kernel or (lambda _: None))
    while waiting.open:
        waiting.run(work)
    measurements = waiting.measured
    network = measurements.pop(NETWORK)
    kernels = tuple(measurements.values())
    device = waiting.told or device
    timings = [kernel.timing for kernel in (*kernels, network) if kernel.timing is not None]
    return Measurement(
        job.plan.graph.name, policy, job.target, device, job.threads, kernels, network,
        tuple(disturbances(device, timings, job.budget.width)), job.flush_caches, now(),
    )  # fmt: skip


def _device(job: Job) -> Device:
    """Describe the job's device: this machine, or a remote one as far as its address and target tell."""
    if not check_device(job.device, job.target, job.threads):
        architecture = platform.machine() if runs_here(job.target) else job.target
        return remote_device(job.device, architecture, job.threads)
    return local_device(busy_elsewhere())


def check_device(device: str, target: str, threads: int) -> bool:
    """Return whether ``device`` is this machine.

    Raises ``MeasureError`` for more threads than its cores, ``TargetError`` for code that does not run here, and
    ``AddressError`` for a malformed address.
    """
    if remote_address(device) is not None:
        return False
    check_target(target)
    cores = usable_cores()
    if not 1 <= threads <= cores:
        raise MeasureError(f"threads has {threads}; this process may use {count(cores, 'core')}")
    return True


@dataclass
class _Waiting:
    """Measurements collected from processes that may crash or hang, and what is left to do."""

    job: Job
    on_kernel: Callable[[KernelMeasurement], None]
    measured: dict[str, KernelMeasurement] = field(default_factory=dict)
    open: bool = True
    told: Device | None = None
    """Description of a remote device, from its system."""

    def run(self, work: Work) -> None:
        """Run a process and collect its messages until it is done or a kernel has ended it."""
        child = Child(work, self._rest())
        under_way = PREPARATION
        try:
            while self.open:
                message = child.receive(
                    self.job.budget.prepare_s if under_way == PREPARATION else self.job.budget.limit_s
                )
                if isinstance(message, Device):
                    self.told = message
                elif isinstance(message, KernelMeasurement) and message.name == PREPARATION:
                    self._note(PREPARATION, message.error or "")
                elif isinstance(message, KernelMeasurement):
                    self.measured[message.name] = message
                    self.on_kernel(message)
                    self.open = message.name != NETWORK
                elif isinstance(message, str):
                    under_way = message
        except ChildEndedError as ended:
            where = "" if remote_address(self.job.device) is None else f" ({self.job.device})"
            self._ended(under_way, f"{ended}{where}")
        finally:
            child.end()

    def _rest(self) -> Job:
        failed = tuple(name for name, kernel in self.measured.items() if not kernel.correct)
        return replace(self.job, done=frozenset(self.measured), failed=failed)

    def _ended(self, name: str, reason: str) -> None:
        """Record that the process ended, or was killed, while it worked on ``name``."""
        self._note(name, f"{UNPREPARED}: {reason}" if name == PREPARATION else reason)

    def _note(self, name: str, reason: str) -> None:
        """Record a failure; raise ``MeasureError`` if preparation failed before any kernel was measured."""
        if name == PREPARATION and not self.measured:
            raise MeasureError(f"{self.job.plan.graph.name}: {reason}")
        if name == PREPARATION:  # it worked before: a device that can no longer be reached
            for position in range(len(self.job.plan.groups)):
                left = kernel_name(self.job.plan, position)
                if self.job.plan.is_kernel(position) and left not in self.measured:
                    self._note(left, reason)
            name = NETWORK
        failed = KernelMeasurement(name, self._operators(name), error=reason)
        self.measured[name] = failed
        self.on_kernel(failed)
        self.open = name != NETWORK

    def _operators(self, name: str) -> tuple[str, ...]:
        plan = self.job.plan
        if name == NETWORK:
            return tuple(op.name for op in plan.graph.ops)
        digits = name.removeprefix("kernel").partition("_")[0]
        return tuple(plan.graph.ops[op].name for op in plan.groups[int(digits)].ops)
