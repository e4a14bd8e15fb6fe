"""Machines that run the kernels of a bundle: memory with its data, and clocks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from dsascape.tuner.bundle.contents import BundledArray, BundledKernel, Manifest
from dsascape.tuner.bundle.on_gpu import OnGpu
from dsascape.tuner.bundle.on_processor import OnProcessor
from dsascape.tuner.measure.records import Budget, Device, Timing


class Machine(Protocol):
    """A bundle's code loaded into memory, with its weights and the network's inputs."""

    @property
    def device(self) -> Device | None:
        """Description of the device that runs the kernels; None if it is this machine's processor."""

    def bytes_of(self, array: BundledArray) -> bytes | memoryview:
        """Return the contents of a tensor's buffer."""

    def renew(self, kernel: BundledKernel) -> None:
        """Give a kernel's inputs their values, and its results values that are wrong (`blank`)."""

    def run(self, kernel: BundledKernel) -> None:
        """Run a kernel once; raise ``DeviceError`` if that fails."""

    def timing(self, kernel: BundledKernel) -> Timing:
        """Time a kernel by repetition."""

    def row_timing(self, kernels: Sequence[BundledKernel]) -> Timing:
        """Time ``kernels`` in sequence, by repetition."""


def machine_of(folder: Path, manifest: Manifest, data: memoryview, budget: Budget) -> Machine:
    """Load the bundle in ``folder`` on its kind of device; raise ``DeviceError`` where its code cannot be loaded."""
    return (OnGpu if manifest.gpu else OnProcessor)(folder, manifest, data, budget)
