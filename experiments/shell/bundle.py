"""The commands ``bundle build``, ``bundle run`` and ``bundle import``, for devices without a network."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from dsascape.experiments.real.bundled_point import point_of
from dsascape.experiments.real.compared import Comparison
from dsascape.experiments.real.measured_kinds import kind_of_target, measured_kind
from dsascape.experiments.shell.answers import POINTS_FAILED, Answer, say
from dsascape.experiments.shell.calibrate import calibration
from dsascape.experiments.shell.keep_measured import keep
from dsascape.experiments.shell.measure import requested_point, show_measurement
from dsascape.hw_models.text.folder_lock import FolderLock
from dsascape.hw_models.text.quantities import format_bytes
from dsascape.tuner.bundle import (
    START,
    BundleError,
    BundleResults,
    is_calibration,
    is_of_candidates,
    read_candidates,
    read_results,
    run_unpacked,
    unpacked,
)
from dsascape.tuner.measure import BUNDLE, check_installed
from dsascape.wording import count


def build(arguments: argparse.Namespace) -> Answer:
    """Write a bundle: compiled kernels, their inputs and expected results, and a runner."""
    check_installed()
    if arguments.calibrate:
        return _build_probes(arguments)
    if arguments.model is None:
        raise BundleError("MODEL is missing: needs a network with a policy, or --calibrate")
    point = requested_point(arguments, BUNDLE)
    manifest = measured_kind(point.hardware).bundle(point, arguments.out, arguments.runtime)
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
    built = kind_of_target(arguments.target).probes(
        arguments.hardware, arguments.target, arguments.out, arguments.runtime
    )
    size_bytes = arguments.out.stat().st_size
    data = {
        "target": built.manifest.target, "architecture": built.architecture, **built.shape,
        "file": str(arguments.out), "size_bytes": size_bytes,
    }  # fmt: skip
    lines = f"{arguments.out}: {format_bytes(size_bytes)}, probes for {built.text}", *_what_next(arguments.out)
    return Answer(data, lambda: say(*lines))


def _what_next(bundle: Path) -> tuple[str, str]:
    return (
        f"On the device: tar -xJf {bundle.name}; python3 {START} --out results.json",
        "Then here: dsascape calibrate --from results.json --out device.yaml",
    )


def run(arguments: argparse.Namespace) -> Answer:
    """Run a bundle on this machine; its code runs with the caller's rights."""
    out: Path = arguments.out
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
    with FolderLock(arguments.out) as lock:
        change, written = keep(arguments.out, key, computed, lock)
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
