"""Bundles: kernels for a machine that no network reaches, built here, run there, their times brought back."""

from pathlib import Path
from typing import cast

from tuner.bundle.archive import unpacked
from tuner.bundle.contents import START, BundleError, Manifest
from tuner.bundle.results import BundleResults, read_results
from tuner.late import late
from tuner.measure.job import Job

__all__ = [
    "START", "BundleError", "BundleResults", "Manifest", "build_bundle", "read_results", "unpacked",
]  # fmt: skip


def build_bundle(
    job: Job, model: str, policy: str, path: Path, runtime: Path | None = None, origin: str = ""
) -> Manifest:
    """Write the bundle of ``job`` to ``path`` (`tuner.on_device.bundling`, which needs TVM)."""
    return cast(Manifest, late("bundling").build_bundle(job, model, policy, path, runtime, origin))
