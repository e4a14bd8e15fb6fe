"""Bundles: kernels built here for a device without a network, run there, and their results imported."""

import itertools
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.tuner.bundle.archive import unpacked
from dsascape.tuner.bundle.batch import BatchLabels, CandidateGroup, build_candidates, check_runtime, compiled
from dsascape.tuner.bundle.contents import MANIFEST, START, BundleError, Manifest
from dsascape.tuner.bundle.foreign_json import validated
from dsascape.tuner.bundle.results import (
    BundleResults,
    CalibrationResults,
    GpuCalibrationResults,
    is_calibration,
    is_of_candidates,
    read_calibration,
    read_candidates,
    read_results,
)
from dsascape.tuner.calibrate.plan import ProbeShape
from dsascape.tuner.late import late
from dsascape.tuner.measure.address import remote_address
from dsascape.tuner.measure.job import Job
from dsascape.tuner.measure.records import Budget
from dsascape.tuner.measure.run import MeasureError, nvcc_for
from dsascape.tuner.measure.targets import cuda_architecture
from dsascape.tuner.measure.worker import FAILURES, reason

__all__ = [
    "START", "BatchLabels", "BundleError", "BundleResults", "CalibrationResults", "CandidateGroup",
    "GpuCalibrationResults", "Manifest", "RunnerError", "build_bundle", "build_candidates", "build_gpu_bundle",
    "build_gpu_probes", "build_probes", "check_runtime", "compiled", "is_calibration", "is_of_candidates",
    "read_calibration", "read_candidates", "read_results", "run_sent", "run_unpacked", "unpacked", "validated",
]  # fmt: skip


_WRITTEN, _SAID = "results.json", "said.txt"
_KERNEL_LIMIT = "--kernel-timeout"
_PROBES_S = 3600.0
_MOST_SAID_BYTES = 2**16
_DONE = (0, 1)
"""Exit codes of a runner that wrote its results; 1 if a kernel has none."""
_REFUSED = 2
"""Exit code of a runner that refused to run; its message says what the user can change."""
_MOST_CHARACTERS = 300


class RunnerError(BundleError):
    """A bundle's runner ended without results; the message is its complaint."""

    exit_code = 1


def run_unpacked(folder: Path, results: Path, *options: str) -> None:
    """Run the bundle in ``folder`` with the caller's rights and write its results to ``results``.

    The runner uses the standard library only. ``results`` is replaced only by new figures: a failed run leaves an
    earlier run's file unchanged. Raises ``RunnerError`` where there are no results, and ``BundleError`` where the
    runner refuses to run, such as for code of another machine.
    """
    try:
        with tempfile.TemporaryDirectory(dir=results.parent, prefix=f".{results.name[:100]}.") as fresh:
            written = Path(fresh) / _WRITTEN
            command = [sys.executable, "-I", "-S", str(folder / START), "--out", str(written.resolve()), *options]
            code, complaint = _ended(command, Path(fresh) / _SAID, _longest_s(folder, options))
            _check_written(written, code, complaint)
            written.replace(results)
    except OSError as error:
        raise RunnerError(f"{results} cannot be written: {error.strerror or error}") from error


def _longest_s(folder: Path, options: Sequence[str]) -> float:
    """Return the seconds after which a bundle's runner, which has time limits of its own, is taken to hang."""
    kernels = len(Manifest.from_trusted((folder / MANIFEST).read_text(encoding="utf-8")).kernels)
    given = [float(value) for flag, value in itertools.pairwise(options) if flag == _KERNEL_LIMIT]
    budget = Budget()
    return _PROBES_S + budget.prepare_s + 2 * (kernels + 1) * (given[0] if given else budget.limit_s)


def _ended(command: Sequence[str], said: Path, limit_s: float) -> tuple[int, str]:
    """Run a bundle's runner to its end; return its exit code and what it complains about.

    Raises ``RunnerError`` for one that takes longer than ``limit_s``, which is killed with all that it has started.
    """
    with said.open("wb") as file:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file, start_new_session=True)
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise RunnerError(f"the bundle's runner has not ended within {limit_s:.0f} s, and was killed") from None
        finally:
            if process.poll() is None:
                with suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    with said.open("rb") as file:
        file.seek(max(said.stat().st_size - _MOST_SAID_BYTES, 0))
        return code, file.read().decode("utf-8", "replace")


def run_sent(device: str, bundle: Path, results: Path, *options: str) -> None:
    """Send the file ``bundle`` to ``device`` by TVM's RPC and run it there (`tuner.on_device.sent_bundle`).

    Writes the results to ``results``. Raises ``AddressError`` for a malformed address, ``MeasureError`` where the
    server is not reached or lost, and ``RunnerError`` where no results come back.
    """
    address = remote_address(device)
    if address is None:
        raise MeasureError(f"device has {device!r}; needs a device behind RPC")
    results.unlink(missing_ok=True)
    try:
        code, complaint = cast(tuple[int, str], late("sent_bundle").run_sent(address, bundle, results, options))
    except FAILURES as error:
        raise MeasureError(f"{device}: {reason(error)}") from error
    _check_written(results, code, complaint)


def _check_written(results: Path, code: int, complaint: str) -> None:
    """Raise ``RunnerError`` unless the runner, which ended with ``code``, has written ``results``.

    Raises ``BundleError`` where the runner refused to run.
    """
    if code in _DONE and results.is_file() and results.stat().st_size:
        return
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    said = lines[-1][-_MOST_CHARACTERS:] if lines else f"it ended with code {code}"
    if code == _REFUSED:
        raise BundleError(f"the bundle's runner refuses: {said}")
    raise RunnerError(f"the bundle's runner has written no results: {said}")


def build_bundle(
    job: Job, model: str, policy: str, path: Path, runtime: Path | None = None, origin: str = ""
) -> Manifest:
    """Write the bundle of ``job`` to ``path`` and return its manifest (`tuner.on_device.bundling`, which needs TVM)."""
    return cast(Manifest, late("bundling").build_bundle(job, model, policy, path, runtime, origin))


def build_gpu_bundle(
    schedule: GpuSchedule, warp: int, target: str, names: tuple[str, str], path: Path, origin: str = ""
) -> Manifest:
    """Write the bundle of ``schedule`` for a GPU with warps of ``warp`` threads to ``path``; return its manifest.

    ``names`` are (model, policy). ``origin`` is returned with the results (`tuner.on_device.gpu_bundling`). Raises
    ``MeasureError`` where nvcc is missing or rejects the code, ``BundleError`` for a target other than CUDA.
    """
    if cuda_architecture(target) is None:
        raise BundleError(f"target has {target!r}; bundles for GPUs hold CUDA code")
    with nvcc_for(target):
        return cast(Manifest, late("gpu_bundling").build_gpu_bundle(schedule, warp, target, names, path, origin))


def build_gpu_probes(target: str, path: Path) -> Manifest:
    """Write a bundle of probes for a GPU to ``path``; return its manifest (`tuner.on_device.gpu_bundling`).

    Raises what `build_gpu_bundle` raises.
    """
    if cuda_architecture(target) is None:
        raise BundleError(f"target has {target!r}; GPUs are calibrated by CUDA code")
    with nvcc_for(target):
        return cast(Manifest, late("gpu_bundling").build_gpu_probes(target, path))


def build_probes(target: str, shape: ProbeShape, path: Path, runtime: Path | None = None) -> Manifest:
    """Write a bundle of probes for a processor to ``path``; return its manifest (`tuner.on_device.bundling`)."""
    return cast(Manifest, late("bundling").build_probes(target, shape, path, runtime))
