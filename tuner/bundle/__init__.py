"""Bundles: kernels for a machine that no network reaches, built here, run there, their times brought back."""

import importlib
from pathlib import Path
from typing import cast

from fusion.plan import FusionPlan
from tuner.bundle.archive import unpacked
from tuner.bundle.contents import START, BundleError, Destination, Manifest
from tuner.bundle.results import BundleResults, read_results

__all__ = [
    "START", "BundleError", "BundleResults", "Destination", "Manifest", "build_bundle", "read_results", "unpacked",
]  # fmt: skip


def build_bundle(plan: FusionPlan, model: str, policy: str, path: Path, destination: Destination) -> Manifest:
    """Write the bundle of ``plan`` to ``path`` (`tuner.bundle.build`, which needs TVM)."""
    build = importlib.import_module("tuner.bundle.build").build_bundle
    return cast(Manifest, build(plan, model, policy, path, destination))
