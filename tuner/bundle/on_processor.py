"""Kernels of a bundle on a processor, called through TVM's runtime."""

import ctypes
import mmap
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from dsascape.tuner.bundle.contents import RUNTIME, BundledArray, BundledKernel, Manifest
from dsascape.tuner.bundle.initial import initial
from dsascape.tuner.bundle.native import Runtime, Tensor, tensor
from dsascape.tuner.measure.records import Budget, Timing
from dsascape.tuner.measure.timing import FLUSH, measured, measured_in_parts

SHORTEST_SAMPLE_S = 20e-6
"""Duration below which a kernel is run several times per sample, in seconds."""


class OnProcessor:
    """A bundle's code and data, loaded into this process."""

    def __init__(self, folder: Path, manifest: Manifest, data: memoryview, budget: Budget) -> None:
        self._manifest, self._data, self._budget = manifest, data, budget
        self._runtime = Runtime([folder / "lib" / name for name in RUNTIME], folder / manifest.code)
        self._buffers = [mmap.mmap(-1, max(size, 1)) for size in manifest.buffers]
        self._tensors = [self._tensor(array) for array in manifest.arrays]
        for array in manifest.arrays:
            if array.buffer >= 0 and array.values is not None:
                place, size = array.values.offset, array.values.size_bytes
                self._buffers[array.buffer][:size] = data[place : place + size].tobytes()

    @property
    def device(self) -> None:
        return None

    def bytes_of(self, array: BundledArray) -> memoryview:
        return memoryview(self._buffers[array.buffer])

    def renew(self, kernel: BundledKernel) -> None:
        for number in kernel.arguments:
            array = self._manifest.arrays[number]
            if array.buffer >= 0:
                content = initial(array, self._data)
                self._buffers[array.buffer][: len(content)] = content

    def run(self, kernel: BundledKernel) -> None:
        self._call(kernel)()

    def timing(self, kernel: BundledKernel) -> Timing:
        return measured(self.clock(kernel), self._budget.kernel_s, self._budget.width)

    def clock(self, kernel: BundledKernel) -> Callable[[], float]:
        """Return a function that times one run of a kernel, or the mean of as many as a sample is long."""
        arguments = self._arguments(kernel)
        evaluator = self._runtime.evaluator(kernel.name, 1, FLUSH if self._manifest.flushed else "")
        if not self._manifest.flushed:
            first = min(self._runtime.seconds(evaluator, arguments) for _ in range(2))
            evaluator = self._runtime.evaluator(kernel.name, max(1, int(SHORTEST_SAMPLE_S / max(first, 1e-9))))
        return partial(self._runtime.seconds, evaluator, arguments)

    def row_timing(self, kernels: Sequence[BundledKernel]) -> Timing:
        def flush() -> None:
            """Flush the arguments of all kernels from the caches, if the bundle was built for that."""
            if self._manifest.flushed:
                for kernel in kernels:
                    self._runtime.run_named(FLUSH, self._arguments(kernel))

        calls = list(map(self._call, kernels))
        return measured_in_parts(calls, self._budget.network_s, self._budget.width, flush)

    def _arguments(self, kernel: BundledKernel) -> list[Tensor]:
        return [self._tensors[number] for number in kernel.arguments]

    def _call(self, kernel: BundledKernel) -> Callable[[], None]:
        return partial(self._runtime.run, self._runtime.function(kernel.name), self._arguments(kernel))

    def _tensor(self, array: BundledArray) -> Tensor:
        memory, offset = (self._data, 0) if array.buffer < 0 else (memoryview(self._buffers[array.buffer]), 0)
        if array.buffer < 0:
            assert array.values is not None
            offset = array.values.offset
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory, offset))
        return tensor(address, array.dtype, array.shape)
