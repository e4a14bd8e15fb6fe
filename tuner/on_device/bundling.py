"""Building a bundle: code for every kernel of a plan, what it is given and what it should compute, and a runner."""

import hashlib
import io
import platform
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from scheduler.kernels.buffers import SharedBuffers, share_buffers
from tuner.bundle import contents
from tuner.bundle.archive import packed
from tuner.bundle.contents import (
    ALIGNMENT_BYTES,
    CARRIED,
    CODE,
    DATA,
    FORMATS,
    RUNTIME,
    START,
    BundledArray,
    BundledKernel,
    BundleError,
    DataRange,
    Manifest,
    MissingKernel,
)
from tuner.bundle.linking import architecture_of, linked
from tuner.calibrate.plan import ProbeShape
from tuner.codegen.kernels import GeneratedCode, Kernel, argument, generate, stored_array
from tuner.measure.arrays import READABLE_BEHIND_BYTES
from tuner.measure.job import Job
from tuner.measure.targets import runs_here, target_description
from tuner.on_device.flushing import after_first
from tuner.on_device.probe_kernels import probe_functions
from tuner.on_device.reference import CANCELLED, NETWORK_TOLERANCE, largest, reference
from tuner.on_device.session import own_processor
from workloads.executable import Executable, drawn_inputs, executable
from workloads.operators.registry import Array

_MOST_EXPECTED = 4096
"""Elements of a kernel's result that are compared on the device."""
_PACKAGES = tuple(f"{each}/__init__.py" for each in ("tuner", "tuner/bundle", "tuner/calibrate", "tuner/measure"))
_ROOT = Path(contents.__file__).parents[2]
_START_TEXT = '''\
"""Measures the kernels of this bundle on this machine: python3 run.py --help."""

import importlib
import sys
from pathlib import Path

HERE = str(Path(__file__).resolve().parent)
sys.path.insert(0, HERE)
sys.exit(importlib.import_module("tuner.bundle.runner").main(["--folder", HERE, *sys.argv[1:]]))
'''


@dataclass
class _Data:
    """``data.bin`` being written; everything begins where kernels may load whole vectors from."""

    file: io.BytesIO = field(default_factory=io.BytesIO)
    size_bytes: int = 0

    def add(self, value: Array) -> DataRange:
        """Append the elements of ``value``; return where they are."""
        padding = -self.size_bytes % ALIGNMENT_BYTES
        raw = np.ascontiguousarray(value).tobytes()
        self.file.write(bytes(padding) + raw)
        place = DataRange(self.size_bytes + padding, len(raw))
        self.size_bytes = place.offset + len(raw)
        return place


def build_bundle(
    job: Job, model: str, policy: str, path: Path, runtime: Path | None = None, origin: str = ""
) -> Manifest:
    """Write the bundle of ``job`` to ``path``; return what it says about itself.

    ``origin`` is brought back with the results. ``runtime``: a folder with the runtime's libraries (``RUNTIME``) for
    the device; None: those of this machine. Raises ``TargetError`` for an unknown target, ``BundleError`` for a runtime
    of another architecture, and where no linker for the target is installed.
    """
    architecture = architecture_for(job.target)
    network = executable(job.plan.graph, job.seed)
    code = generate(job.plan, network, job.tiles, job.lanes)
    data = _Data()
    arrays, kernels = _Listing(code, network, job, data).run()
    functions = code.module
    if job.flush_caches:
        functions = tvm.IRModule({each.name: after_first(each.function) for each in code.kernels})
    files = bundle_files(functions, job.target, job.threads, runtime)
    files[DATA] = data.file.getvalue() + bytes(READABLE_BEHIND_BYTES)
    buffers = share_buffers(code.plan.graph, code.stored).sizes_bytes
    manifest = Manifest(
        model, policy, job.plan.graph.batch, job.target, architecture, kernels,
        tuple(MissingKernel(each.name, each.operators, each.reason) for each in code.missing),
        arrays, tuple(size + READABLE_BEHIND_BYTES for size in buffers), NETWORK_TOLERANCE,
        job.threads, job.flush_caches, origin,
        checksums(files),
    )  # fmt: skip
    packed(path, manifest, files)
    return manifest


def build_probes(target: str, shape: ProbeShape, path: Path, runtime: Path | None = None) -> Manifest:
    """Write a bundle to ``path`` that calibrates the machine it is run on; return what it says about itself.

    ``shape`` is that of the machine's vectors. Raises what `build_bundle` raises.
    """
    files = bundle_files(tvm.IRModule(dict(probe_functions(shape))), target, 1, runtime)
    files[DATA] = bytes(READABLE_BEHIND_BYTES)
    manifest = Manifest(
        "", "", 1, target, architecture_for(target), (), (), (), (), 0.0, 0, False, "", checksums(files),
        shape.lanes, shape.registers,
    )  # fmt: skip
    packed(path, manifest, files)
    return manifest


def architecture_for(target: str) -> str:
    """Return what machines the code of a target is for, as Python names them."""
    return platform.machine() if runs_here(target) else "aarch64"


def bundle_files(functions: Any, target: str, threads: int, runtime: Path | None) -> dict[str, bytes]:
    """Return the files of a bundle by name, but for data and manifest: code, runtime, runner."""
    architecture = architecture_for(target)
    libraries = _runtime(runtime, architecture)
    with tempfile.TemporaryDirectory() as folder:
        description = target_description(target, threads, own_processor())
        module = tvm.tirx.build(functions, target=tvm.target.Target(description))
        library = linked(module, Path(folder) / CODE, architecture)
        files = {CODE: library.read_bytes(), START: _START_TEXT.encode()}
    files |= {f"lib/{each.name}": each.read_bytes() for each in libraries}
    files |= {name: (_ROOT / name).read_bytes() for name in CARRIED}
    return files | dict.fromkeys(_PACKAGES, b"")


def checksums(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the SHA-256 of files by name."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def _runtime(folder: Path | None, architecture: str) -> list[Path]:
    """Return the runtime's libraries for the device."""
    if folder is not None:
        found = [folder / name for name in RUNTIME]
    else:
        places = Path(tvm_ffi.__file__).parent / "lib", Path(tvm.__file__).parent / "lib"
        found = [place / name for place, name in zip(places, RUNTIME, strict=True)]
    for path in found:
        if not path.is_file():
            raise BundleError(f"the runtime lacks {path.name} in {path.parent}")
        if architecture_of(path) != architecture:
            raise BundleError(
                f"{path.name} is for {architecture_of(path)}, the code for {architecture}; --runtime names a folder"
                f" with {' and '.join(RUNTIME)} for {architecture}"
            )
    return found


class _Listing:
    """The kernels of generated code and their arguments, as a manifest lists them; values go to ``data``."""

    def __init__(self, code: GeneratedCode, network: Executable, job: Job, data: _Data) -> None:
        self._code, self._network, self._data = code, network, data
        self._graph = code.plan.graph
        self._inputs = drawn_inputs(self._graph, job.seed)
        self._flushed = job.flush_caches
        stored = {name for kernel in code.kernels for name in (*kernel.inputs, *kernel.outputs)}
        wanted = [name for name in self._graph.producer if name in stored]
        self._values = {**network.values, **self._inputs, **reference(network, self._inputs, wanted)}
        self._shared: SharedBuffers = share_buffers(code.plan.graph, code.stored)
        self._arrays: list[BundledArray] = []
        self._known: dict[tuple[str, str], int] = {}

    def run(self) -> tuple[tuple[BundledArray, ...], tuple[BundledKernel, ...]]:
        kernels = tuple(
            BundledKernel(kernel.name, kernel.operators, tuple(self._numbers(kernel)), len(kernel.outputs))
            for kernel in self._code.kernels
        )
        return tuple(self._arrays), kernels

    def _numbers(self, kernel: Kernel) -> Iterable[int]:
        if self._flushed:
            if not self._arrays:
                number = np.zeros(1, np.float32)
                self._arrays.append(BundledArray("first", _dtype(number), (1,), values=self._data.add(number)))
            yield 0
        for name in (*kernel.inputs, *kernel.outputs):
            is_weight = name in self._network.values
            key = (kernel.name if is_weight else "", name)  # each kernel has its own packing of a weight
            if key not in self._known:
                self._known[key] = len(self._arrays)
                self._arrays.append(self._weight(kernel, name) if is_weight else self._stored(kernel, name))
            yield self._known[key]

    def _weight(self, kernel: Kernel, name: str) -> BundledArray:
        value = argument(self._network, kernel, name, self._network.values[name])
        return BundledArray(name, _dtype(value), value.shape, values=self._data.add(value))

    def _stored(self, kernel: Kernel, name: str) -> BundledArray:
        """Return a tensor that is no weight; the first kernel that has it is the one that computes it."""
        value = stored_array(self._graph, name, self._values[name])
        place = self._data.add(value) if name in self._inputs else None
        expected = None if name in self._inputs else self._data.add(_sampled(value))
        made_of = largest(self._values[each] for each in kernel.inputs)
        return BundledArray(
            name, _dtype(value), value.shape, self._shared.buffer_of[name], place, expected,
            max(largest([value]), CANCELLED * made_of),
            name in self._graph.stored_outputs,
        )  # fmt: skip


def _sampled(value: Array) -> Array:
    """Return elements of ``value``, evenly spaced from the first one."""
    flat = value.reshape(-1)
    count = min(flat.size, _MOST_EXPECTED)
    return flat[[number * flat.size // count for number in range(count)]]


def _dtype(value: Array) -> str:
    name = str(value.dtype)
    if name not in FORMATS:
        raise BundleError(f"dtype {name} cannot be compared on a device")
    return name
