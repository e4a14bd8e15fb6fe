"""What runs the kernels of a bundle: memory with its data, and clocks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from dsascape.tuner.bundle.contents import BundledArray, BundledKernel, Manifest
from dsascape.tuner.bundle.on_gpu import OnGpu
from dsascape.tuner.bundle.on_processor import OnProcessor
from dsascape.tuner.measure.records import Budget, Device, Timing


class Machine(Protocol):
    """The code of a bundle in memory, with its weights and the network's inputs."""

    @property
    def device(self) -> Device | None:
        """What runs the kernels, where that is not the processor that this runs on."""

    def bytes_of(self, array: BundledArray) -> bytes | memoryview:
        """Return what the buffer of a tensor holds."""

    def run(self, kernel: BundledKernel) -> None:
        """Run a kernel once; raise ``DeviceError`` where that fails."""

    def timing(self, kernel: BundledKernel) -> Timing:
        """Return what a kernel takes, run again and again."""

    def row_timing(self, kernels: Sequence[BundledKernel]) -> Timing:
        """Return what ``kernels`` take in a row, run again and again."""


def machine_of(folder: Path, manifest: Manifest, data: memoryview, budget: Budget) -> Machine:
    """Return what runs the bundle in ``folder``; raise ``DeviceError`` where its code cannot be loaded."""
    return (OnGpu if manifest.gpu else OnProcessor)(folder, manifest, data, budget)
