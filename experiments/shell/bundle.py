"""The commands ``bundle build``, ``bundle run`` and ``bundle import``, for devices without a network."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from dsascape.experiments.question.points import DesignPoint
from dsascape.experiments.real.bundled_point import bundled, point_of
from dsascape.experiments.real.compared import Comparison
from dsascape.experiments.real.on_gpu import gpu_bundle, prepared_for_gpu
from dsascape.experiments.real.on_processor import prepared
from dsascape.experiments.results.files import check_place
from dsascape.experiments.shell.answers import POINTS_FAILED, Answer, say
from dsascape.experiments.shell.calibrate import calibration
from dsascape.experiments.shell.keep_measured import keep
from dsascape.experiments.shell.measure import check_folder, requested_machine, requested_point, show_measurement
from dsascape.hw_models import Gpu
from dsascape.hw_models.text.quantities import format_bytes
from dsascape.tuner.bundle import (
    START,
    BundleError,
    BundleResults,
    Manifest,
    build_bundle,
    build_gpu_probes,
    build_probes,
    is_calibration,
    is_of_candidates,
    read_candidates,
    read_results,
    run_unpacked,
    unpacked,
)
from dsascape.tuner.calibrate import ProbeShape
from dsascape.tuner.measure import BUNDLE, Budget, check_installed, is_gpu_target
from dsascape.wording import count


def build(arguments: argparse.Namespace) -> Answer:
    """Write a bundle: compiled kernels, their inputs and expected results, and a runner."""
    check_installed()
    check_place(arguments.out, "--out")
    if arguments.calibrate:
        return _build_probes(arguments)
    if arguments.model is None:
        raise BundleError("MODEL is missing: needs a network with a policy, or --calibrate")
    point = requested_point(arguments, BUNDLE)
    manifest = _of_network(point, arguments.out, arguments.runtime)
    missing = [
        {"name": lack.name, "operators": list(lack.operators), "error": lack.reason} for lack in manifest.missing
    ]
    data = {
        "model": manifest.model, "policy": manifest.policy, "batch": manifest.batch, "target": manifest.target,
        "architecture": manifest.gpu or manifest.architecture, "threads": manifest.threads,
        "flushed_caches": manifest.flushed,
        "kernels": len(manifest.kernels), "missing": missing,
        "file": str(arguments.out), "size_bytes": arguments.out.stat().st_size,
    }  # fmt: skip

    def show() -> None:
        say(
            f"{arguments.out}: {format_bytes(data['size_bytes'])}, {count(len(manifest.kernels), 'kernel')} of"
            f" {manifest.model} for {data['architecture']}",
            *(f"  no code for {each['name']}: {each['error']}" for each in missing),
            f"On the device: tar -xJf {arguments.out.name}; python3 {START} --out results.json",
        )

    return Answer(data, show, POINTS_FAILED if missing else 0)


def _of_network(point: DesignPoint, out: Path, runtime: Path | None) -> Manifest:
    """Write the bundle of a network and return its manifest."""
    if isinstance(point.hardware, Gpu):
        if runtime is not None:
            raise BundleError("--runtime is for processors; code for a GPU needs only its driver")
        on_gpu = prepared_for_gpu(point)
        return gpu_bundle(on_gpu, out, bundled(point, on_gpu.outcome, on_gpu.kernels, threads=1).to_text())
    ready = prepared(point, Budget())
    origin = bundled(point, ready.outcome, ready.kernels, ready.job.threads).to_text()
    return build_bundle(ready.job, point.workload.label, point.decided_by, out, runtime, origin)


def _build_probes(arguments: argparse.Namespace) -> Answer:
    """Write a bundle of probes that calibrate the machine they run on."""
    given = [
        f"--{name.replace('_', '-')}"
        for name in (
            "policy", "schedule", "kernels", "pins", "option", "threads", "batch", "sequence", "image", "dim", "dtype",
            "simplify", "flush_caches",
        )
        if getattr(arguments, name)
    ]
    if arguments.model is not None or given:
        raise BundleError(f"{(['MODEL'] if arguments.model is not None else given)[0]} does not go with --calibrate")
    if is_gpu_target(arguments.target):
        return _build_gpu_probes(arguments)
    simd = requested_machine(arguments.hardware, arguments.target).simd
    shape = ProbeShape.of(simd.register_bytes, simd.registers)
    manifest = build_probes(arguments.target, shape, arguments.out, arguments.runtime)
    data = {
        "target": manifest.target, "architecture": manifest.architecture, "lanes": shape.lanes,
        "registers": shape.registers, "file": str(arguments.out), "size_bytes": arguments.out.stat().st_size,
    }  # fmt: skip
    lines = [
        f"{arguments.out}: {format_bytes(arguments.out.stat().st_size)}, probes for {manifest.architecture} with"
        f" {count(shape.registers, 'vector')} of {shape.lanes}",
        *_what_next(arguments.out),
    ]
    return Answer(data, lambda: say(*lines))


def _build_gpu_probes(arguments: argparse.Namespace) -> Answer:
    """Write a bundle of probes that calibrate the GPU of the machine they run on."""
    given = [f"--{name}" for name in ("hardware", "runtime") if getattr(arguments, name)]
    if given:
        raise BundleError(f"{given[0]} does not go with --calibrate for a GPU")
    manifest = build_gpu_probes(arguments.target, arguments.out)
    size_bytes = arguments.out.stat().st_size
    data = {
        "target": manifest.target, "architecture": manifest.gpu, "file": str(arguments.out), "size_bytes": size_bytes,
    }  # fmt: skip
    lines = f"{arguments.out}: {format_bytes(size_bytes)}, probes for {manifest.gpu}", *_what_next(arguments.out)
    return Answer(data, lambda: say(*lines))


def _what_next(bundle: Path) -> tuple[str, str]:
    return (
        f"On the device: tar -xJf {bundle.name}; python3 {START} --out results.json",
        "Then here: dsascape calibrate --from results.json --out device.yaml",
    )


def run(arguments: argparse.Namespace) -> Answer:
    """Run a bundle on this machine; its code runs with the caller's rights."""
    out = arguments.out or Path("results.json")
    check_place(out, "--out")
    with tempfile.TemporaryDirectory() as folder:
        unpacked(arguments.bundle, Path(folder))
        options = [] if arguments.kernel_timeout is None else ["--kernel-timeout", str(arguments.kernel_timeout)]
        if arguments.threads:
            options += ["--threads", str(arguments.threads)]
        try:
            run_unpacked(Path(folder), out, *options)
        except BundleError as error:
            raise type(error)(f"{arguments.bundle}: {error}") from error
    if is_calibration(out):
        return calibration(out)
    if is_of_candidates(out):
        return _of_candidates(out)
    results = read_results(out)
    return _answer(results, point_of(results).compared(results), {"file": str(out)})


def _of_candidates(out: Path) -> Answer:
    """Answer with the numbers of candidates that have a time, and of those that have none."""
    kernels = read_candidates(out).measurement.kernels
    timed = sum(kernel.timing is not None for kernel in kernels)
    text = f"{out}: {timed} of {count(len(kernels), 'candidate')} have a time, for dsascape tune --runner bundle"
    return Answer({"file": str(out), "candidates": len(kernels), "failed": len(kernels) - timed}, lambda: say(text))


def import_results(arguments: argparse.Namespace) -> Answer:
    """Store the results of a bundle in a folder, as `measure` stores its own."""
    results = read_results(arguments.results)
    try:
        point = point_of(results)
        key, computed = point.stored(results)
    except BundleError as error:
        raise BundleError(f"{arguments.results}: {error}") from error
    check_folder(arguments.out)
    change, written = keep(arguments.out, key, computed)
    stored = {"file": str(arguments.results), "key": key, "stored": change, "report": str(written.path)}
    return _answer(results, point.compared(results), stored)


def _answer(results: BundleResults, comparison: Comparison, more: dict[str, Any]) -> Answer:
    measurement = results.measurement
    data: dict[str, Any] = comparison.as_json() | {"batch": results.batch} | more

    def show() -> None:
        show_measurement(measurement, data, comparison)
        if "stored" in data:
            say(f"  {data['stored']} in {data['report']}")

    return Answer(data, show, POINTS_FAILED if measurement.correct is False else 0)
