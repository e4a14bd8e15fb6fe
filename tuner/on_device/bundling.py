"""Building of bundles: code for every kernel of a plan, arguments and expected results, and a runner."""

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi

from dsascape.tuner.bundle import contents
from dsascape.tuner.bundle.archive import packed
from dsascape.tuner.bundle.contents import (
    CARRIED,
    CODE,
    DATA,
    RUNTIME,
    START,
    BundledKernel,
    BundleError,
    Manifest,
    MissingKernel,
)
from dsascape.tuner.bundle.linking import architecture_of, linked
from dsascape.tuner.calibrate.plan import ProbeShape
from dsascape.tuner.codegen.building import cpu_module
from dsascape.tuner.codegen.kernels import generate
from dsascape.tuner.measure.arrays import READABLE_BEHIND_BYTES
from dsascape.tuner.measure.job import Job
from dsascape.tuner.measure.targets import target_architecture, target_description
from dsascape.tuner.on_device.flushing import after_first
from dsascape.tuner.on_device.listing import Listing
from dsascape.tuner.on_device.places import own_processor
from dsascape.tuner.on_device.probe_kernels import probe_functions
from dsascape.tuner.on_device.reference import NETWORK_TOLERANCE
from dsascape.tuner.on_device.settling import settled_reference
from dsascape.workloads.executable import drawn_inputs, executable
from dsascape.workloads.operators.registry import Array

_ROOMS = ("tuner", "tuner/bundle", "tuner/calibrate", "tuner/measure")
_PACKAGES = tuple(f"dsascape/{room}__init__.py" for room in ("", *(f"{each}/" for each in _ROOMS)))
_ROOT = Path(contents.__file__).parents[3]
_START_TEXT = '''\
"""Measures the kernels of this bundle on this machine: python3 run.py --help."""

import importlib
import sys
from pathlib import Path

HERE = str(Path(__file__).resolve().parent)
sys.path.insert(0, HERE)
sys.exit(importlib.import_module("dsascape.tuner.bundle.runner").main(["--folder", HERE, *sys.argv[1:]]))
'''


def build_bundle(
    job: Job, model: str, policy: str, path: Path, runtime: Path | None = None, origin: str = ""
) -> Manifest:
    """Write the bundle of ``job`` to ``path`` and return its manifest.

    ``origin`` is returned with the results. ``runtime`` is a folder with the runtime's libraries (``RUNTIME``) for the
    device, by default those of this machine. Raises ``TargetError`` for an unknown target, ``BundleError`` for a
    runtime of another architecture, and where no linker for the target is installed.
    """
    architecture = target_architecture(job.target)
    drawn, inputs = executable(job.plan.graph, job.seed), drawn_inputs(job.plan.graph, job.seed)
    network, _ = settled_reference(drawn, inputs, job.plan.graph.producer)
    code = generate(job.plan, network, job.chosen)
    packings = {kernel.name: kernel.packings for kernel in code.kernels}

    def packing(kernel: str, name: str) -> Callable[[Array], Array] | None:
        return packings[kernel].get(name)

    listing = Listing(
        network, job.seed, code.kernels, packings=packing, flushed=job.flush_caches, written_out=code.executable
    )
    functions = code.module
    if job.flush_caches:
        functions = tvm.IRModule({each.name: after_first(each.function) for each in code.kernels})
    files = bundle_files(functions, job.target, job.threads, runtime) | {DATA: listing.data}
    manifest = Manifest(
        model, policy, job.plan.graph.batch, job.target, architecture,
        tuple(
            BundledKernel(each.name, each.operators, listing.arguments[each.name], len(each.outputs))
            for each in code.kernels
        ),
        tuple(MissingKernel(each.name, each.operators, each.reason) for each in code.missing),
        listing.arrays, listing.buffers_bytes, NETWORK_TOLERANCE, job.threads, job.flush_caches, origin,
        checksums(files),
    )  # fmt: skip
    packed(path, manifest, files)
    return manifest


def build_probes(target: str, shape: ProbeShape, path: Path, runtime: Path | None = None) -> Manifest:
    """Write a bundle of probes, which calibrates the machine it runs on, to ``path``; return its manifest.

    ``shape`` is that of the machine's vectors. Raises what `build_bundle` raises.
    """
    files = bundle_files(tvm.IRModule(dict(probe_functions(shape))), target, 1, runtime)
    files[DATA] = bytes(READABLE_BEHIND_BYTES)
    manifest = Manifest(
        "", "", 1, target, target_architecture(target), (), (), (), (), 0.0, 0, False, "", checksums(files),
        shape.lanes, shape.registers,
    )  # fmt: skip
    packed(path, manifest, files)
    return manifest


def bundle_files(functions: Any, target: str, threads: int, runtime: Path | None) -> dict[str, bytes]:
    """Return the files of a bundle by name, except data and manifest: code, runtime, runner."""
    architecture = target_architecture(target)
    others = runtime_files(runtime, architecture) | runner_files()
    with tempfile.TemporaryDirectory() as folder:
        description = target_description(target, threads, own_processor())
        module = cpu_module(functions, tvm.target.Target(description))
        library = linked(module, Path(folder) / CODE, architecture)
        return {CODE: library.read_bytes()} | others


def runtime_files(folder: Path | None, architecture: str) -> dict[str, bytes]:
    """Return the runtime's libraries for the device by name; raise ``BundleError`` where they lack or do not fit."""
    return {f"lib/{each.name}": each.read_bytes() for each in _runtime(folder, architecture)}


def runner_files() -> dict[str, bytes]:
    """Return the files of a bundle's runner, by name."""
    carried = {name: (_ROOT / name).read_bytes() for name in CARRIED}
    return {START: _START_TEXT.encode()} | carried | dict.fromkeys(_PACKAGES, b"")


def checksums(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the SHA-256 of each file, by name."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def _runtime(folder: Path | None, architecture: str) -> list[Path]:
    """Return the runtime's libraries for the device; raise ``BundleError`` where they are missing or do not fit."""
    if folder is not None:
        paths = [folder / name for name in RUNTIME]
    else:
        places = Path(tvm_ffi.__file__).parent / "lib", Path(tvm.__file__).parent / "lib"
        paths = [place / name for place, name in zip(places, RUNTIME, strict=True)]
    for path in paths:
        if not path.is_file():
            raise BundleError(f"the runtime lacks {path.name} in {path.parent}")
        if architecture_of(path) != architecture:
            raise BundleError(
                f"{path.name} is for {architecture_of(path)}, the code for {architecture}; --runtime names a folder"
                f" with {' and '.join(RUNTIME)} for {architecture}"
            )
    return paths
