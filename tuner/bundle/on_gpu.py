"""Kernels of a bundle on a GPU, launched through the CUDA driver.

The bundle's data is one block of device memory. A kernel is timed as a graph of repeated launches, the network as a
graph of all its launches.
"""

from collections.abc import Sequence
from pathlib import Path

from dsascape.tuner.bundle.contents import BundledArray, BundledKernel, BundleError, Manifest
from dsascape.tuner.bundle.initial import initial
from dsascape.tuner.measure.cuda import Cuda, CudaLaunch
from dsascape.tuner.measure.records import Budget, Device, Timing
from dsascape.tuner.measure.timing import measured

_SAMPLE_S = 200e-6
"""Duration of one sample in seconds; the device's clock has a resolution of half a microsecond."""
_MOST_LAUNCHES = 200
"""Most launches per sample."""


class OnGpu:
    """A bundle's code and data, loaded on the first GPU."""

    def __init__(self, folder: Path, manifest: Manifest, data: memoryview, budget: Budget) -> None:
        self._arrays, self._content, self._budget = manifest.arrays, data, budget
        self._cuda = cuda = Cuda()
        cuda.load((folder / manifest.code).read_bytes())
        self._data = cuda.memory(len(data))
        cuda.write(self._data, data)
        self._buffers = [cuda.memory(size) for size in manifest.buffers]
        for array in manifest.arrays:
            if array.buffer >= 0 and array.values is not None:
                place, size = array.values.offset, array.values.size_bytes
                cuda.write(self._buffers[array.buffer], data[place : place + size])
        self._buffer_bytes = manifest.buffers

    @property
    def device(self) -> Device:
        return self._cuda.described

    def bytes_of(self, array: BundledArray) -> bytes:
        return self._cuda.read(self._buffers[array.buffer], self._buffer_bytes[array.buffer])

    def renew(self, kernel: BundledKernel) -> None:
        for number in kernel.arguments:
            array = self._arrays[number]
            if array.buffer >= 0:
                self._cuda.write(self._buffers[array.buffer], initial(array, self._content))

    def run(self, kernel: BundledKernel) -> None:
        self._cuda.run([self._launch(kernel)])

    def timing(self, kernel: BundledKernel) -> Timing:
        launch = self._launch(kernel)
        with self._cuda.recorded([launch]) as once:
            first_s = min(once.seconds() for _ in range(2))
        number = max(1, min(_MOST_LAUNCHES, int(_SAMPLE_S / max(first_s, 1e-9))))
        with self._cuda.recorded([launch] * number) as several:
            return measured(lambda: several.seconds() / number, self._budget.kernel_s, self._budget.width)

    def row_timing(self, kernels: Sequence[BundledKernel]) -> Timing:
        with self._cuda.recorded(list(map(self._launch, kernels))) as row:
            return measured(row.seconds, self._budget.network_s, self._budget.width)

    def _launch(self, kernel: BundledKernel) -> CudaLaunch:
        grid = kernel.grid
        if grid is None:
            raise BundleError(f"{kernel.name} has no grid that a GPU could run")
        addresses = [self._address(self._arrays[kernel.arguments[place]]) for place in grid.parameters]
        function = self._cuda.function(grid.function, grid.shared_bytes)
        return CudaLaunch(function, grid.blocks, grid.threads, grid.shared_bytes, tuple(addresses))

    def _address(self, array: BundledArray) -> int:
        if array.buffer >= 0:
            return self._buffers[array.buffer]
        assert array.values is not None
        return self._data + array.values.offset
