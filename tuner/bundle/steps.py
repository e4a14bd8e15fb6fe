"""The process on a device in which kernels run: each is run once, compared, then repeated.

It prints one line of JSON for everything that it finishes, and a kernel's name ahead of the work on it: whatever a
kernel does, the process that reads the lines knows which one it was.
"""

import ctypes
import json
import math
import mmap
import struct
import sys
from collections.abc import Callable, Collection
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from tuner.bundle.contents import (
    CODE,
    DATA,
    FORMATS,
    MANIFEST,
    RUNTIME,
    BundledArray,
    BundledKernel,
    DataRange,
    Manifest,
)
from tuner.bundle.native import NativeError, Runtime, Tensor, tensor
from tuner.measure.records import Budget, KernelMeasurement, Timing
from tuner.measure.timing import FLUSH, measured, measured_in_parts

NETWORK = "network"
"""Stands for all kernels in a row where a kernel's name would."""
SHORTEST_SAMPLE_S = 20e-6
"""What is faster is run several times for one sample."""


class Steps:
    """The code of a bundle in memory, with its data."""

    def __init__(self, folder: Path, manifest: Manifest, budget: Budget) -> None:
        self._manifest, self._budget = manifest, budget
        self._runtime = Runtime([folder / "lib" / name for name in RUNTIME], folder / CODE)
        with (folder / DATA).open("rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self._buffers = [mmap.mmap(-1, max(size, 1)) for size in manifest.buffers]
        self._tensors = [self._tensor(array) for array in manifest.arrays]
        self._calls: list[Callable[[], None]] = []
        self._wrong: list[str] = []
        """Kernels without a right result so far."""

    def run(self, done: Collection[str], crashed: Collection[str], told: Callable[[dict[str, Any]], None]) -> None:
        """Tell of every kernel and of the network.

        Those that are ``done`` run once, as others read what they write; those that ``crashed`` do not.
        """
        self._wrong = [missing.name for missing in self._manifest.missing]
        for array in self._manifest.arrays:
            if array.buffer >= 0 and array.values is not None:
                buffer, size = self._buffers[array.buffer], array.values.size_bytes
                buffer[:size] = self._bytes(array.values)
        for kernel in self._manifest.kernels:
            if kernel.name in crashed:
                self._wrong.append(kernel.name)
                continue
            if kernel.name in done:
                self._calls.append(self._call(kernel))
                self._calls[-1]()
                continue
            told({"begins": kernel.name})
            told({"ends": asdict(self._kernel(kernel))})
        if NETWORK not in crashed:
            told({"begins": NETWORK})
            told({"ends": asdict(self._network())})

    def _kernel(self, kernel: BundledKernel) -> KernelMeasurement:
        try:
            call = self._call(kernel)
            call()
            found = self._deviation(kernel)
            if not self._wrong and found > self._manifest.tolerance:
                self._wrong.append(kernel.name)
                text = f"computes another result than onnxruntime: {found:.2g} of the largest value"
                return KernelMeasurement(kernel.name, kernel.operators, None, False, _finite(found), text)
            self._calls.append(call)
            timing = self._timing(kernel)
        except (NativeError, OSError) as error:
            self._wrong.append(kernel.name)
            return KernelMeasurement(kernel.name, kernel.operators, error=f"{type(error).__name__}: {error}")
        if self._wrong:
            text = f"not compared: its inputs come from {self._wrong[0]}, which has no right result"
            return KernelMeasurement(kernel.name, kernel.operators, timing, None, None, text)
        return KernelMeasurement(kernel.name, kernel.operators, timing, True, found)

    def _network(self) -> KernelMeasurement:
        operators = tuple(name for kernel in self._manifest.kernels for name in kernel.operators)
        if self._wrong:
            return KernelMeasurement(NETWORK, operators, error=f"does not run without: {', '.join(self._wrong)}")
        timing = measured_in_parts(self._calls, self._budget.network_s, self._budget.width, self._flush)
        found = max((self._difference(array) for array in self._manifest.arrays if array.is_result), default=0.0)
        if found > self._manifest.tolerance:
            text = f"computes another result than onnxruntime: {found:.2g} of the largest value"
            return KernelMeasurement(NETWORK, operators, None, False, _finite(found), text)
        return KernelMeasurement(NETWORK, operators, timing, True, found)

    def _flush(self) -> None:
        """Take what all kernels are given out of the caches, if the bundle was built for that."""
        if self._manifest.flushed:
            for kernel in self._manifest.kernels:
                self._runtime.run_named(FLUSH, self._arguments(kernel))

    def _arguments(self, kernel: BundledKernel) -> list[Tensor]:
        return [self._tensors[number] for number in kernel.arguments]

    def _call(self, kernel: BundledKernel) -> Callable[[], None]:
        return partial(self._runtime.run, self._runtime.function(kernel.name), self._arguments(kernel))

    def _timing(self, kernel: BundledKernel) -> Timing:
        arguments = self._arguments(kernel)
        evaluator = self._runtime.evaluator(kernel.name, 1, FLUSH if self._manifest.flushed else "")
        if not self._manifest.flushed:
            first = min(self._runtime.seconds(evaluator, arguments) for _ in range(2))
            evaluator = self._runtime.evaluator(kernel.name, max(1, int(SHORTEST_SAMPLE_S / max(first, 1e-9))))
        sample = partial(self._runtime.seconds, evaluator, arguments)
        return measured(sample, self._budget.kernel_s, self._budget.width)

    def _tensor(self, array: BundledArray) -> Tensor:
        if array.buffer < 0:
            assert array.values is not None
            memory, offset = self._data, array.values.offset
        else:
            memory, offset = self._buffers[array.buffer], 0
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory, offset))
        return tensor(address, array.dtype, array.shape)

    def _bytes(self, place: DataRange) -> bytes:
        return self._data[place.offset : place.offset + place.size_bytes]

    def _deviation(self, kernel: BundledKernel) -> float:
        """Return the largest difference of a kernel's results from what is expected, by the largest value there."""
        written = kernel.arguments[len(kernel.arguments) - kernel.results :]
        return max((self._difference(self._manifest.arrays[number]) for number in written), default=0.0)

    def _difference(self, array: BundledArray) -> float:
        if array.expected is None:
            return 0.0
        kind = struct.Struct(FORMATS[array.dtype])
        wanted = [value for (value,) in kind.iter_unpack(self._bytes(array.expected))]
        buffer, elements = self._buffers[array.buffer], math.prod(array.shape)
        places = [number * elements // len(wanted) for number in range(len(wanted))]
        got = [kind.unpack_from(buffer, place * kind.size)[0] for place in places]
        if not array.dtype.startswith("float"):
            return 0.0 if got == wanted else math.inf
        unlike = [(a, b) for a, b in zip(got, wanted, strict=True) if a != b and not (math.isnan(a) and math.isnan(b))]
        differences = [abs(one - other) for one, other in unlike]
        if not all(map(math.isfinite, differences)):
            return math.inf
        largest = max(differences, default=0.0)
        return largest / array.largest if array.largest else largest


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def main(folder: Path, done: Collection[str], crashed: Collection[str], budget: Budget) -> None:
    """Run the bundle in ``folder`` and print what comes of it, line by line; see `Steps.run`."""
    manifest = Manifest.from_trusted((folder / MANIFEST).read_text(encoding="utf-8"))

    def told(message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    steps = Steps(folder, manifest, budget)
    told({"ready": True})
    steps.run(done, crashed, told)
