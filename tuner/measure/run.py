"""Measuring a plan: a process does the work, this one waits for it no longer than it may take.

A kernel that crashes its process, or never ends, is recorded with the reason; a fresh process goes on behind it.
"""

import importlib.util
import multiprocessing
import platform
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path

from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.tuner.codegen.names import kernel_name
from dsascape.tuner.late import late
from dsascape.tuner.measure.address import remote_address
from dsascape.tuner.measure.cores import usable_cores
from dsascape.tuner.measure.device import local_device, now, remote_device
from dsascape.tuner.measure.interference import busy_elsewhere, disturbances
from dsascape.tuner.measure.job import Job
from dsascape.tuner.measure.records import Device, KernelMeasurement, Measurement
from dsascape.tuner.measure.targets import check_target, cuda_architecture, runs_here
from dsascape.tuner.measure.worker import NETWORK, PREPARATION, UNPREPARED, work

_END_S = 5.0

Work = Callable[[Connection, Job], None]


class MeasureError(ValueError):
    """Code that cannot be measured here; the message says what is missing."""


def check_installed() -> None:
    """Raise ``MeasureError`` where what generates and checks code is not installed."""
    lacking = [name for name in ("tvm", "onnxruntime") if importlib.util.find_spec(name) is None]
    if lacking:
        raise MeasureError(f"measuring needs {' and '.join(lacking)}: pip install 'dsascape[tvm]'")


def compile_for(job: Job, policy: str, path: Path) -> Measurement:
    """Write the code of ``job``, which does not run here, to the object file ``path``; return it without times."""
    check_installed()
    found: Measurement = late("cross").compile_job(job, policy, path)
    return found


def compile_for_gpu(schedule: GpuSchedule, warp: int, target: str, path: Path) -> Measurement:
    """Write the code of ``schedule`` for a GPU with warps of ``warp`` threads; return it without times.

    What each file holds is in `tuner.on_device.cross_gpu`. Raises ``MeasureError`` where nvcc is missing or refuses.
    """
    check_installed()
    with nvcc_for(target):
        found: Measurement = late("cross_gpu").compile_schedule(schedule, warp, target, path)
    return found


@contextmanager
def nvcc_for(target: str) -> Iterator[None]:
    """Compile code for a GPU meanwhile; raise ``MeasureError`` where nvcc is missing or refuses."""
    if cuda_architecture(target) is not None and shutil.which("nvcc") is None:
        raise MeasureError(f"target has {target!r}, which takes nvcc of the CUDA toolkit on the path")
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
    """Return the measurement of a plan of ``policy`` on this machine; ``on_kernel`` hears of each kernel.

    Raises ``MeasureError`` for what is not installed, and for more threads than there are cores; ``TargetError`` for
    code that does not run here; ``AddressError`` for a device that is none.
    """
    check_installed()
    device = _device(job)
    waiting = _Waiting(job, on_kernel or (lambda _: None))
    while waiting.open:
        waiting.run(work)
    found = waiting.found
    network = found.pop(NETWORK)
    kernels = tuple(found.values())
    device = waiting.told or device
    timings = [kernel.timing for kernel in (*kernels, network) if kernel.timing is not None]
    return Measurement(
        job.plan.graph.name, policy, job.target, device, job.threads, kernels, network,
        tuple(disturbances(device, timings, job.budget.width)), job.flush_caches, now(),
    )  # fmt: skip


def _device(job: Job) -> Device:
    """Return what is known of the device of ``job``; of a remote one that is its address and what code it runs."""
    if remote_address(job.device) is not None:
        architecture = platform.machine() if runs_here(job.target) else job.target
        return remote_device(job.device, architecture, job.threads)
    check_target(job.target)
    cores = usable_cores()
    if not 1 <= job.threads <= cores:
        raise MeasureError(f"threads has {job.threads}; this process may use {cores} cores")
    return local_device(busy_elsewhere())


@dataclass
class _Waiting:
    """What is still to come from processes that may end at any time."""

    job: Job
    on_kernel: Callable[[KernelMeasurement], None]
    found: dict[str, KernelMeasurement] = field(default_factory=dict)
    open: bool = True
    told: Device | None = None
    """What the device says of itself, if it is elsewhere."""

    def run(self, work: Work) -> None:
        """Start a process and take what it sends until it is done, or one kernel has ended it."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(theirs, self._rest()), daemon=True)
        process.start()
        theirs.close()
        under_way = PREPARATION
        try:
            while self.open:
                limit_s = self.job.budget.prepare_s if under_way == PREPARATION else self.job.budget.limit_s
                if not ours.poll(limit_s):
                    self._ended(under_way, f"took longer than {limit_s:.0f} s")
                    return
                try:
                    message = ours.recv()
                except EOFError:
                    process.join(_END_S)
                    self._ended(under_way, _ending(process.exitcode))
                    return
                if isinstance(message, Device):
                    self.told = message
                elif isinstance(message, KernelMeasurement) and message.name == PREPARATION:
                    self._note(PREPARATION, message.error or "")
                elif isinstance(message, KernelMeasurement):
                    self.found[message.name] = message
                    self.on_kernel(message)
                    self.open = message.name != NETWORK
                elif isinstance(message, str):
                    under_way = message
        finally:
            with suppress(OSError):
                process.kill()
            process.join(_END_S)
            ours.close()

    def _rest(self) -> Job:
        failed = tuple(name for name, kernel in self.found.items() if not kernel.correct)
        return replace(self.job, done=frozenset(self.found), failed=failed)

    def _ended(self, name: str, reason: str) -> None:
        """Record that the process ended, or was ended, while it worked on ``name``."""
        self._note(name, f"{UNPREPARED}: {reason}" if name == PREPARATION else reason)

    def _note(self, name: str, reason: str) -> None:
        """Record what ended the process; without code or a network there is nothing to go on with."""
        if name == PREPARATION and not self.found:
            raise MeasureError(f"{self.job.plan.graph.name}: {reason}")
        if name == PREPARATION:  # it worked before: a device that can no longer be reached
            for position in range(len(self.job.plan.groups)):
                left = kernel_name(self.job.plan, position)
                if self.job.plan.is_kernel(position) and left not in self.found:
                    self._note(left, reason)
            name = NETWORK
        failed = KernelMeasurement(name, self._operators(name), error=reason)
        self.found[name] = failed
        self.on_kernel(failed)
        self.open = name != NETWORK

    def _operators(self, name: str) -> tuple[str, ...]:
        plan = self.job.plan
        if name == NETWORK:
            return tuple(op.name for op in plan.graph.ops)
        digits = name.removeprefix("kernel").partition("_")[0]
        return tuple(plan.graph.ops[op].name for op in plan.groups[int(digits)].ops)


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with code {code}"
