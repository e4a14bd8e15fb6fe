"""What a bundle lists about itself (``bundle.json``): kernels in order, their arguments, where the data lies.

This module and the other ones that a bundle carries (``CARRIED``) need nothing but Python's own library: a device may
have no more.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

BUNDLE = "dsascape bundle 2"
RESULTS = "dsascape results 2"
CALIBRATION = "dsascape calibration 1"
GPU_CALIBRATION = "dsascape gpu calibration 1"
MANIFEST = "bundle.json"
DATA = "data.bin"
"""Weights, inputs and expected values, each where the manifest says."""
CODE = "kernels.so"
GPU_CODE = "kernels.fatbin"
RUNTIME = ("libtvm_ffi.so", "libtvm_runtime.so")
"""What loads the code and splits its loops over threads."""
START = "run.py"
CARRIED = (
    "dsascape/tuner/bundle/contents.py",
    "dsascape/tuner/bundle/gpu_probes.py",
    "dsascape/tuner/bundle/machines.py",
    "dsascape/tuner/bundle/native.py",
    "dsascape/tuner/bundle/on_gpu.py",
    "dsascape/tuner/bundle/on_processor.py",
    "dsascape/tuner/bundle/probes.py",
    "dsascape/tuner/bundle/runner.py",
    "dsascape/tuner/bundle/steps.py",
    "dsascape/tuner/calibrate/facts.py",
    "dsascape/tuner/calibrate/figures.py",
    "dsascape/tuner/calibrate/gpu_probing.py",
    "dsascape/tuner/calibrate/plan.py",
    "dsascape/tuner/calibrate/probing.py",
    "dsascape/tuner/measure/cores.py",
    "dsascape/tuner/measure/cuda.py",
    "dsascape/tuner/measure/device.py",
    "dsascape/tuner/measure/interference.py",
    "dsascape/tuner/measure/records.py",
    "dsascape/tuner/measure/timing.py",
)
"""Modules that run on the device."""
ALIGNMENT_BYTES = 64
"""Of everything that kernels touch."""
FORMATS: Mapping[str, str] = {
    "float32": "f", "float64": "d", "int64": "q", "int32": "i", "int16": "h", "int8": "b", "uint8": "B", "bool": "?",
}  # fmt: skip
"""What elements of a dtype are called where memory is read (module ``struct``)."""


class BundleError(ValueError):
    """A bundle, or a file of results, that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class DataRange:
    """Bytes of ``data.bin``."""

    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class BundledArray:
    """An argument of kernels as it lies in memory: a weight with its values, or a tensor in a buffer."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    buffer: int = -1
    """Which of the buffers it lies in, from its first byte; -1 for a weight."""
    values: DataRange | None = None
    """Of a weight, or of an input of the network."""
    expected: DataRange | None = None
    """Elements of a result, evenly spaced from the first one: as many as there is room for here."""
    largest: float = 0.0
    """The largest magnitude in it, or a part of the largest that it is computed from: differences count by it."""
    is_result: bool = False
    """Whether it is a result of the network: others share their buffers."""


@dataclass(frozen=True, slots=True)
class GridLaunch:
    """How a GPU runs a kernel: a function of its code, and a grid of thread blocks."""

    function: str
    blocks: int
    threads: int
    """Of a block."""
    shared_bytes: int
    """Of a block, beyond what the function declares itself."""
    parameters: tuple[int, ...]
    """Of the function: their places among the kernel's arguments."""


@dataclass(frozen=True, slots=True)
class BundledKernel:
    """A function of the code, its arguments by number, the last ``results`` of which it writes."""

    name: str
    operators: tuple[str, ...]
    arguments: tuple[int, ...]
    results: int
    grid: GridLaunch | None = None
    """On a GPU."""


@dataclass(frozen=True, slots=True)
class MissingKernel:
    """A group that has no code, and why."""

    name: str
    operators: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that a bundle says about itself."""

    model: str
    policy: str
    batch: int
    target: str
    architecture: str
    """Of the machine that the code is for, as Python names it; empty if any will do."""
    kernels: tuple[BundledKernel, ...]
    """In the order in which they run."""
    missing: tuple[MissingKernel, ...]
    arrays: tuple[BundledArray, ...]
    buffers: tuple[int, ...]
    """Bytes of each, with what kernels may read behind the last tensor."""
    tolerance: float
    """Largest difference of a result by its largest value."""
    threads: int
    """That its schedule is for."""
    flushed: bool
    """Whether kernels are timed with nothing in the caches; they then have an argument ahead of their own, for which
    see `tuner.on_device.flushing`."""
    origin: str
    """What its builder wants back with the results, as text; nobody here reads it."""
    files: Mapping[str, str]
    """SHA-256 of every other file of the bundle, by name."""
    lanes: int = 0
    """Of single precision in the vectors that probes are compiled for; 0 in the bundle of a network."""
    registers: int = 0
    """Of vectors, for probes."""
    gpu: str = ""
    """Architecture of GPUs that the code is for, such as sm_90; empty for code that a processor runs."""
    format: str = BUNDLE

    @property
    def code(self) -> str:
        """The file that holds the kernels."""
        return GPU_CODE if self.gpu else CODE

    @property
    def is_of_probes(self) -> bool:
        """Whether it calibrates the machine that it is run on: it has no network then."""
        return not self.model

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @staticmethod
    def from_trusted(text: str) -> "Manifest":
        """Return the manifest of a bundle that has been checked (`archive.unpacked`), or that the user vouches for."""
        found: dict[str, Any] = _with_tuples(json.loads(text))
        if found.get("format") != BUNDLE:
            raise BundleError(f"{MANIFEST} has the format {str(found.get('format'))[:40]!r}; needs {BUNDLE!r}")
        found["kernels"] = tuple(map(_kernel, found["kernels"]))
        found["missing"] = tuple(MissingKernel(**each) for each in found["missing"])
        found["arrays"] = tuple(_array(each) for each in found["arrays"])
        return Manifest(**found)


def _kernel(found: dict[str, Any]) -> BundledKernel:
    grid = found.get("grid")
    return BundledKernel(**{**found, "grid": None if grid is None else GridLaunch(**grid)})


def _array(found: dict[str, Any]) -> BundledArray:
    ranges = {name: DataRange(**found[name]) for name in ("values", "expected") if found[name] is not None}
    return BundledArray(**{**found, **ranges})


def _with_tuples(value: Any) -> Any:
    """Return what JSON holds with tuples for its lists, as the records have them."""
    if isinstance(value, dict):
        return {name: _with_tuples(each) for name, each in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value
