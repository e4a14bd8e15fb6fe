"""Manifest of a bundle (``bundle.json``): kernels in order, their arguments, and where the data lies.

This module and the others that a bundle carries (``CARRIED``) use the standard library only, because a device may have
nothing else.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

BUNDLE = "dsascape bundle 2"
RESULTS = "dsascape results 2"
CANDIDATES = "dsascape candidates 1"
"""Format of the results of a batch of candidates."""
CALIBRATION = "dsascape calibration 1"
GPU_CALIBRATION = "dsascape gpu calibration 1"
MANIFEST = "bundle.json"
DATA = "data.bin"
"""File with weights, inputs and expected values, at the offsets of the manifest."""
CODE = "kernels.so"
GPU_CODE = "kernels.fatbin"
RUNTIME = ("libtvm_ffi.so", "libtvm_runtime.so")
"""Libraries that load the code and split its loops over threads."""
START = "run.py"
CARRIED = (
    "dsascape/wording.py",
    "dsascape/tuner/bundle/contents.py",
    "dsascape/tuner/bundle/gpu_probes.py",
    "dsascape/tuner/bundle/initial.py",
    "dsascape/tuner/bundle/machines.py",
    "dsascape/tuner/bundle/native.py",
    "dsascape/tuner/bundle/on_gpu.py",
    "dsascape/tuner/bundle/on_processor.py",
    "dsascape/tuner/bundle/probes.py",
    "dsascape/tuner/bundle/runner.py",
    "dsascape/tuner/bundle/steps.py",
    "dsascape/tuner/calibrate/arithmetic.py",
    "dsascape/tuner/calibrate/bench.py",
    "dsascape/tuner/calibrate/derived.py",
    "dsascape/tuner/calibrate/facts.py",
    "dsascape/tuner/calibrate/figures.py",
    "dsascape/tuner/calibrate/gpu_probing.py",
    "dsascape/tuner/calibrate/memories.py",
    "dsascape/tuner/calibrate/overheads.py",
    "dsascape/tuner/calibrate/plan.py",
    "dsascape/tuner/calibrate/probing.py",
    "dsascape/tuner/calibrate/rounds.py",
    "dsascape/tuner/calibrate/shapes.py",
    "dsascape/tuner/calibrate/timer.py",
    "dsascape/tuner/measure/cores.py",
    "dsascape/tuner/measure/cuda.py",
    "dsascape/tuner/measure/device.py",
    "dsascape/tuner/measure/interference.py",
    "dsascape/tuner/measure/records.py",
    "dsascape/tuner/measure/timing.py",
)
"""Paths of the modules that a bundle carries to the device."""
ALIGNMENT_BYTES = 64
"""Alignment of all data that kernels access, in bytes."""
FORMATS: Mapping[str, str] = {
    "float32": "f", "float64": "d", "int64": "q", "int32": "i", "int16": "h", "int8": "b", "uint8": "B", "bool": "?",
}  # fmt: skip
"""Format characters of module ``struct`` by dtype."""


class BundleError(ValueError):
    """A bundle or results file that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class DataRange:
    """A range of bytes of ``data.bin``."""

    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class BundledArray:
    """An argument of kernels: a weight with its values, or a tensor at the start of a buffer."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    buffer: int = -1
    """Index of its buffer; -1 for a weight."""
    values: DataRange | None = None
    """Values of a weight or of an input of the network."""
    expected: DataRange | None = None
    """Expected elements of a result, evenly spaced from the first one."""
    largest: float = 0.0
    """Largest magnitude in it, or a fraction of the largest that it is computed from; scale of differences."""
    is_result: bool = False
    """Whether it is an output of the network; other tensors may share their buffers."""


@dataclass(frozen=True, slots=True)
class GridLaunch:
    """Launch of a kernel on a GPU: its function, and a grid of thread blocks."""

    function: str
    blocks: int
    threads: int
    """Number of threads per block."""
    shared_bytes: int
    """Dynamic shared memory per block, in bytes."""
    parameters: tuple[int, ...]
    """Position of each of the function's parameters among the kernel's arguments."""


@dataclass(frozen=True, slots=True)
class BundledKernel:
    """A function of the code with its arguments by number; it writes the last ``results`` of them."""

    name: str
    operators: tuple[str, ...]
    arguments: tuple[int, ...]
    results: int
    grid: GridLaunch | None = None
    """Launch on a GPU; None on a processor."""


@dataclass(frozen=True, slots=True)
class MissingKernel:
    """A group without code, and the reason."""

    name: str
    operators: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything that a bundle says about itself."""

    model: str
    policy: str
    batch: int
    target: str
    architecture: str
    """Architecture that the code is for, as Python names it; empty if any will do."""
    kernels: tuple[BundledKernel, ...]
    """Kernels in the order in which they run."""
    missing: tuple[MissingKernel, ...]
    arrays: tuple[BundledArray, ...]
    buffers: tuple[int, ...]
    """Size of each buffer in bytes, with the readable bytes after its last tensor."""
    tolerance: float
    """Largest difference of a result, relative to its largest magnitude."""
    threads: int
    """Number of threads of the schedule."""
    flushed: bool
    """Whether caches are flushed before each timed run; kernels then have an additional first argument, see
    `tuner.on_device.flushing`."""
    origin: str
    """Text that the builder wants back with the results; the runner does not read it."""
    files: Mapping[str, str]
    """SHA-256 of every other file of the bundle, by name."""
    lanes: int = 0
    """Single-precision lanes of the vectors that probes are compiled for; 0 in the bundle of a network."""
    registers: int = 0
    """Number of vector registers that probes are compiled for."""
    gpu: str = ""
    """GPU architecture of the code, such as sm_90; empty for a processor's code."""
    are_candidates: bool = False
    """Whether kernels are candidates of a search: each runs by itself, with arguments made anew; there is no network
    of them."""
    format: str = BUNDLE

    @property
    def code(self) -> str:
        """Name of the file with the kernels."""
        return GPU_CODE if self.gpu else CODE

    @property
    def is_of_probes(self) -> bool:
        """Whether it holds probes for calibration, and no network."""
        return not self.model

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @staticmethod
    def from_trusted(text: str) -> "Manifest":
        """Parse the manifest of a bundle that has been checked (`archive.unpacked`), or that the user trusts."""
        content: dict[str, Any] = _with_tuples(json.loads(text))
        if content.get("format") != BUNDLE:
            raise BundleError(f"{MANIFEST} has the format {str(content.get('format'))[:40]!r}; needs {BUNDLE!r}")
        content["kernels"] = tuple(map(_kernel, content["kernels"]))
        content["missing"] = tuple(MissingKernel(**each) for each in content["missing"])
        content["arrays"] = tuple(_array(each) for each in content["arrays"])
        return Manifest(**content)


def _kernel(content: dict[str, Any]) -> BundledKernel:
    grid = content.get("grid")
    return BundledKernel(**{**content, "grid": None if grid is None else GridLaunch(**grid)})


def _array(content: dict[str, Any]) -> BundledArray:
    ranges = {name: DataRange(**content[name]) for name in ("values", "expected") if content[name] is not None}
    return BundledArray(**{**content, **ranges})


def _with_tuples(value: Any) -> Any:
    """Return parsed JSON with its lists as tuples, as the records need them."""
    if isinstance(value, dict):
        return {name: _with_tuples(each) for name, each in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value
