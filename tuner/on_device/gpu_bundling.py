"""Building of GPU bundles: kernels compiled by nvcc, the grids of a schedule, and a runner.

The runner launches kernels through the CUDA driver, which every machine with such a GPU has. TVM's runtime is not
included: for CUDA it needs a toolkit's libraries on the device, and compiles what it loads there.
"""

import tempfile
from pathlib import Path

from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.tuner.bundle.archive import packed
from dsascape.tuner.bundle.contents import DATA, GPU_CODE, BundledKernel, GridLaunch, Manifest, MissingKernel
from dsascape.tuner.calibrate.gpu_probing import CONSTANTS
from dsascape.tuner.codegen.gpu.kernels import CodedKernel
from dsascape.tuner.measure.targets import cuda_architecture
from dsascape.tuner.on_device.bundling import checksums, runner_files
from dsascape.tuner.on_device.cross_gpu import GpuSource, compile_cuda, entry, gpu_code, gpu_source
from dsascape.tuner.on_device.listing import Listing
from dsascape.tuner.on_device.reference import NETWORK_TOLERANCE
from dsascape.tuner.on_device.settling import settled_reference
from dsascape.workloads.executable import drawn_inputs, executable

_PROBES = Path(__file__).with_name("gpu_probes.cu")
_SEED = 0
"""Seed of weights and inputs."""


def build_gpu_bundle(schedule: GpuSchedule, warp: int, target: str, names: tuple[str, str], path: Path, origin: str
) -> Manifest:  # fmt: skip
    """Write the bundle of ``schedule`` to ``path`` and return its manifest.

    ``names`` are (model, policy). ``origin`` is returned with the results. Raises ``RuntimeError`` with nvcc's message.
    """
    architecture = cuda_architecture(target)
    assert architecture is not None
    drawn, inputs = executable(schedule.graph, _SEED), drawn_inputs(schedule.graph, _SEED)
    network, _ = settled_reference(drawn, inputs, schedule.graph.producer)
    code = gpu_code(schedule, network, warp, target)
    listing = Listing(network, _SEED, code.kernels)
    source = gpu_source(code, target)
    files = {GPU_CODE: _binary(source.text, architecture), DATA: listing.data} | runner_files()
    manifest = Manifest(
        *names, schedule.graph.batch, target, "",
        tuple(
            BundledKernel(
                each.name, each.operators, listing.arguments[each.name], len(each.outputs), _grid(each, source)
            )
            for each in code.kernels
        ),
        tuple(MissingKernel(each.name, each.operators, each.reason) for each in code.missing),
        listing.arrays, listing.buffers_bytes, NETWORK_TOLERANCE, 1, False, origin, checksums(files), gpu=architecture,
    )  # fmt: skip
    packed(path, manifest, files)
    return manifest


def build_gpu_probes(target: str, path: Path) -> Manifest:
    """Write a bundle of GPU probes to ``path`` and return its manifest; raises what `build_gpu_bundle` raises."""
    architecture = cuda_architecture(target)
    assert architecture is not None
    files = {GPU_CODE: _binary(probe_source(), architecture), DATA: b""} | runner_files()
    manifest = Manifest(
        "", "", 1, target, "", (), (), (), (), 0.0, 1, False, "", checksums(files), gpu=architecture
    )  # fmt: skip
    packed(path, manifest, files)
    return manifest


def probe_source() -> str:
    """Return the CUDA source of the GPU probes."""
    constants = [f"#define {name} {value}" for name, value in CONSTANTS.items()]
    return "\n".join([*constants, _PROBES.read_text(encoding="utf-8")])


def _grid(kernel: CodedKernel, source: GpuSource) -> GridLaunch:
    name = entry(kernel.name)
    return GridLaunch(
        name, kernel.code.blocks, kernel.code.threads, kernel.code.asked_bytes, source.parameters[name]
    )  # fmt: skip


def _binary(source: str, architecture: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        text, binary = Path(folder) / "kernels.cu", Path(folder) / GPU_CODE
        text.write_text(source, encoding="utf-8")
        compile_cuda(text, binary, architecture)
        return binary.read_bytes()
