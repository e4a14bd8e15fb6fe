"""Bundles: kernels for a machine that no network reaches, built here, run there, their times brought back."""

from pathlib import Path
from typing import cast

from tuner.bundle.archive import unpacked
from tuner.bundle.contents import START, BundleError, Manifest
from tuner.bundle.results import BundleResults, is_calibration, read_calibration, read_results
from tuner.calibrate.plan import ProbeShape
from tuner.late import late
from tuner.measure.job import Job

__all__ = [
    "START", "BundleError", "BundleResults", "Manifest", "build_bundle", "build_probes", "is_calibration",
    "read_calibration", "read_results", "unpacked",
]  # fmt: skip


def build_bundle(
    job: Job, model: str, policy: str, path: Path, runtime: Path | None = None, origin: str = ""
) -> Manifest:
    """Write the bundle of ``job`` to ``path`` (`tuner.on_device.bundling`, which needs TVM)."""
    return cast(Manifest, late("bundling").build_bundle(job, model, policy, path, runtime, origin))


def build_probes(target: str, shape: ProbeShape, path: Path, runtime: Path | None = None) -> Manifest:
    """Write a bundle that calibrates a machine to ``path`` (`tuner.on_device.bundling`, which needs TVM)."""
    return cast(Manifest, late("bundling").build_probes(target, shape, path, runtime))
