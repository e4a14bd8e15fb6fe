"""Bundles: kernels for a machine that no network reaches, built here, run there, their times brought back."""

import subprocess
import sys
from pathlib import Path
from typing import cast

from scheduler.gpu.schedule import GpuSchedule
from tuner.bundle.archive import unpacked
from tuner.bundle.contents import START, BundleError, Manifest
from tuner.bundle.results import (
    BundleResults,
    CalibrationResults,
    GpuCalibrationResults,
    is_calibration,
    read_calibration,
    read_results,
)
from tuner.calibrate.plan import ProbeShape
from tuner.late import late
from tuner.measure.address import remote_address
from tuner.measure.job import Job
from tuner.measure.run import MeasureError, nvcc_for
from tuner.measure.targets import cuda_architecture
from tuner.measure.worker import FAILURES, reason

__all__ = [
    "START", "BundleError", "BundleResults", "CalibrationResults", "GpuCalibrationResults", "Manifest",
    "build_bundle", "build_gpu_bundle", "build_gpu_probes", "build_probes", "is_calibration", "read_calibration",
    "read_results", "run_sent", "run_unpacked", "unpacked",
]  # fmt: skip


def run_unpacked(folder: Path, results: Path, *options: str) -> tuple[int, str]:
    """Run the bundle in ``folder`` with the rights of whoever calls this; ``results`` is what it writes.

    Return its exit code, and what it complains of. Nothing but Python's own library is there for it.
    """
    command = [sys.executable, "-I", "-S", str(folder / START), "--out", str(results.resolve()), *options]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr.strip()


def run_sent(device: str, bundle: Path, results: Path, *options: str) -> tuple[int, str]:
    """Run the file ``bundle`` on ``device``, behind TVM's RPC (`tuner.on_device.sent_bundle`).

    Return its exit code, and what it complains of. Raises ``AddressError`` for a device that is none, ``MeasureError``
    where its server is not reached, or goes.
    """
    address = remote_address(device)
    if address is None:
        raise MeasureError(f"device has {device!r}; needs one behind RPC")
    try:
        return cast(tuple[int, str], late("sent_bundle").run_sent(address, bundle, results, options))
    except FAILURES as error:
        raise MeasureError(f"{device}: {reason(error)}") from error


def build_bundle(
    job: Job, model: str, policy: str, path: Path, runtime: Path | None = None, origin: str = ""
) -> Manifest:
    """Write the bundle of ``job`` to ``path`` (`tuner.on_device.bundling`, which needs TVM)."""
    return cast(Manifest, late("bundling").build_bundle(job, model, policy, path, runtime, origin))


def build_gpu_bundle(
    schedule: GpuSchedule, warp: int, target: str, names: tuple[str, str], path: Path, origin: str = ""
) -> Manifest:
    """Write the bundle of ``schedule``, on a GPU with warps of ``warp`` threads, to ``path``.

    ``names``: of model and policy. ``origin`` is brought back with the results (`tuner.on_device.gpu_bundling`).
    Raises ``MeasureError`` where nvcc is missing or refuses the code, ``BundleError`` for a target that is not CUDA.
    """
    if cuda_architecture(target) is None:
        raise BundleError(f"target has {target!r}; bundles for GPUs hold CUDA code")
    with nvcc_for(target):
        return cast(Manifest, late("gpu_bundling").build_gpu_bundle(schedule, warp, target, names, path, origin))


def build_gpu_probes(target: str, path: Path) -> Manifest:
    """Write a bundle that calibrates a GPU to ``path`` (`tuner.on_device.gpu_bundling`).

    Raises what `build_gpu_bundle` raises.
    """
    if cuda_architecture(target) is None:
        raise BundleError(f"target has {target!r}; GPUs are calibrated by CUDA code")
    with nvcc_for(target):
        return cast(Manifest, late("gpu_bundling").build_gpu_probes(target, path))


def build_probes(target: str, shape: ProbeShape, path: Path, runtime: Path | None = None) -> Manifest:
    """Write a bundle that calibrates a machine to ``path`` (`tuner.on_device.bundling`, which needs TVM)."""
    return cast(Manifest, late("bundling").build_probes(target, shape, path, runtime))
