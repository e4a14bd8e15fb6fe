"""The process on a device that runs a bundle's kernels: each once for comparison, then repeatedly for its time.

It prints one line of JSON per finished kernel, and the kernel's name before it starts on it, so that its parent knows
which kernel ended it.
"""

import json
import math
import mmap
import struct
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dsascape.tuner.bundle.contents import DATA, FORMATS, MANIFEST, BundledArray, BundledKernel, DataRange, Manifest
from dsascape.tuner.bundle.machines import machine_of
from dsascape.tuner.measure.device import DeviceError
from dsascape.tuner.measure.records import Budget, Device, KernelMeasurement

NETWORK = "network"
"""Name used in place of a kernel's for all kernels in sequence."""
LAST = "last"
"""Key of a message: whether the process can run nothing more after this kernel."""
DEVICE = "device"
"""Key of a message: description of the device, if it is not the machine's processor."""
AGAIN = "again"
"""Key of a message: a candidate that has to be tried once more, in a new process."""
LACKS = "lacks"
"""Key of a message: what this machine lacks to run anything."""


class Steps:
    """Runs a bundle's kernels in order: each compared with its expected results, and timed."""

    def __init__(self, folder: Path, manifest: Manifest, budget: Budget) -> None:
        self._manifest = manifest
        with (folder / DATA).open("rb") as file:
            self._data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        self.machine = machine_of(folder, manifest, self._data, budget)
        """What runs the kernels."""
        self._wrong: list[str] = []
        """Names of kernels without right results so far."""
        self._is_over = False
        """Whether this process can run nothing more."""

    @property
    def device(self) -> Device | None:
        """Description of the device that runs the kernels; None if it is this machine's processor."""
        return self.machine.device

    def run(self, done: Collection[str], crashed: Collection[str], told: Callable[[dict[str, Any]], None]) -> None:
        """Measure every kernel and the network, and pass messages on them to ``told``.

        Kernels in ``done`` run once without timing, as others read their results; those in ``crashed`` do not run.
        """
        if self._manifest.are_candidates:
            self._run_candidates({*done, *crashed}, told)
            return
        self._wrong = [missing.name for missing in self._manifest.missing]
        for kernel in self._manifest.kernels:
            if kernel.name in crashed:
                self._wrong.append(kernel.name)
            elif kernel.name in done:
                with suppress(DeviceError, OSError):  # what has failed fails again, and is recorded
                    self.machine.run(kernel)
            else:
                told({"begins": kernel.name})
                told({"ends": asdict(self._kernel(kernel)), LAST: self._is_over})
            if self._is_over:
                return
        if NETWORK not in crashed:
            told({"begins": NETWORK})
            told({"ends": asdict(self._network())})

    def _run_candidates(self, finished: Collection[str], told: Callable[[dict[str, Any]], None]) -> None:
        """Measure each candidate by itself.

        One that is wrong ends the process, as it may have written anywhere; so may one before whose results were right,
        and it counts only where it is the first of its process.
        """
        is_first = True
        for kernel in self._manifest.kernels:
            if kernel.name in finished:
                continue
            told({"begins": kernel.name})
            found = self._candidate(kernel)
            if found.correct is False and not is_first:
                told({AGAIN: kernel.name})
                return
            is_last = self._is_over or found.correct is False
            told({"ends": asdict(found), LAST: is_last})
            if is_last:
                return
            is_first = False

    def _candidate(self, kernel: BundledKernel) -> KernelMeasurement:
        try:
            self.machine.renew(kernel)
        except (DeviceError, OSError) as error:
            self._is_over = True
            return KernelMeasurement(kernel.name, kernel.operators, error=f"{type(error).__name__}: {error}")
        self._wrong = []
        return self._kernel(kernel)

    def _kernel(self, kernel: BundledKernel) -> KernelMeasurement:
        try:
            self.machine.run(kernel)
            difference = self.deviation(kernel)
            if not self._wrong and difference > self._manifest.tolerance:
                self._wrong.append(kernel.name)
                text = f"computes another result than onnxruntime: {difference:.2g} of the largest value"
                return KernelMeasurement(kernel.name, kernel.operators, None, False, _finite(difference), text)
            timing = self.machine.timing(kernel)
        except (DeviceError, OSError) as error:
            self._wrong.append(kernel.name)
            self._is_over = isinstance(error, DeviceError) and error.is_last
            return KernelMeasurement(kernel.name, kernel.operators, error=f"{type(error).__name__}: {error}")
        if self._wrong:
            text = f"not compared: its inputs come from {self._wrong[0]}, which has no right result"
            return KernelMeasurement(kernel.name, kernel.operators, timing, None, None, text)
        return KernelMeasurement(kernel.name, kernel.operators, timing, True, difference)

    def _network(self) -> KernelMeasurement:
        operators = tuple(name for kernel in self._manifest.kernels for name in kernel.operators)
        if self._wrong:
            return KernelMeasurement(NETWORK, operators, error=f"does not run without: {', '.join(self._wrong)}")
        try:
            timing = self.machine.row_timing(self._manifest.kernels)
        except DeviceError as error:
            return KernelMeasurement(NETWORK, operators, error=f"{type(error).__name__}: {error}")
        difference = max((self._difference(array) for array in self._manifest.arrays if array.is_result), default=0.0)
        if difference > self._manifest.tolerance:
            text = f"computes another result than onnxruntime: {difference:.2g} of the largest value"
            return KernelMeasurement(NETWORK, operators, None, False, _finite(difference), text)
        return KernelMeasurement(NETWORK, operators, timing, True, difference)

    def _bytes(self, place: DataRange) -> memoryview:
        return self._data[place.offset : place.offset + place.size_bytes]

    def deviation(self, kernel: BundledKernel) -> float:
        """Return the largest difference of a kernel's results from the expected ones, relative to their magnitude."""
        written = kernel.arguments[len(kernel.arguments) - kernel.results :]
        return max((self._difference(self._manifest.arrays[number]) for number in written), default=0.0)

    def _difference(self, array: BundledArray) -> float:
        if array.expected is None:
            return 0.0
        kind = struct.Struct(FORMATS[array.dtype])
        content, elements = self.machine.bytes_of(array), math.prod(array.shape)
        compared = array.expected.size_bytes // kind.size
        places = [number * elements // compared for number in range(compared)]
        if not array.dtype.startswith("float"):
            ends = [(place * kind.size, (place + 1) * kind.size) for place in places]
            raw = b"".join([bytes(content[begin:end]) for begin, end in ends])
            return 0.0 if raw == self._bytes(array.expected) else math.inf
        wanted = [value for (value,) in kind.iter_unpack(self._bytes(array.expected))]
        got = [kind.unpack_from(content, place * kind.size)[0] for place in places]
        unlike = [(a, b) for a, b in zip(got, wanted, strict=True) if a != b and not (math.isnan(a) and math.isnan(b))]
        differences = [abs(one - other) for one, other in unlike]
        if not all(map(math.isfinite, differences)):
            return math.inf
        largest = max(differences, default=0.0)
        return largest / array.largest if array.largest else largest


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def main(folder: Path, done: Collection[str], crashed: Collection[str], budget: Budget) -> None:
    """Run the bundle in ``folder`` and print a line of JSON per message; see `Steps.run`."""
    manifest = Manifest.from_trusted((folder / MANIFEST).read_text(encoding="utf-8"))

    def told(message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    try:
        steps = Steps(folder, manifest, budget)
    except DeviceError as error:
        told({LACKS: str(error)})
        return
    told({"ready": True, DEVICE: None if steps.device is None else asdict(steps.device)})
    steps.run(done, crashed, told)
