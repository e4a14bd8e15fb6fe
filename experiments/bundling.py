"""The commands about bundles: build one here, run it on a machine that no network reaches, take its results in."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from experiments.answers import POINTS_FAILED, Answer, say
from experiments.files import check_place, write_whole
from experiments.measured_point import job_for
from experiments.measuring import check_folder, file_name, point_asked_for, show_measurement
from experiments.report.words import count
from hw_models.quantities import format_bytes
from scheduler import policy_label
from tuner.bundle import START, BundleError, build_bundle, read_results, unpacked
from tuner.measure import Budget, check_installed, is_gpu_target


def build(arguments: argparse.Namespace) -> Answer:
    """Write a bundle: compiled kernels, what they are given and should compute, and a runner."""
    check_installed()
    check_place(arguments.out, "--out")
    if is_gpu_target(arguments.target):
        raise BundleError(f"target has {arguments.target!r}; bundles hold code for CPUs")
    point = point_asked_for(arguments)
    job = job_for(point, arguments.target, Budget())[2]
    manifest = build_bundle(job, point.workload.label, policy_label(point.policy), arguments.out, arguments.runtime)
    missing = [
        {"name": lack.name, "operators": list(lack.operators), "error": lack.reason} for lack in manifest.missing
    ]
    data = {
        "model": manifest.model, "policy": manifest.policy, "batch": manifest.batch, "target": manifest.target,
        "architecture": manifest.architecture, "kernels": len(manifest.kernels), "missing": missing,
        "file": str(arguments.out), "size_bytes": arguments.out.stat().st_size,
    }  # fmt: skip

    def show() -> None:
        say(
            f"{arguments.out}: {format_bytes(data['size_bytes'])}, {count(len(manifest.kernels), 'kernel')} of"
            f" {manifest.model} for {manifest.architecture}",
            *(f"  no code for {each['name']}: {each['error']}" for each in missing),
            f"On the device: tar -xJf {arguments.out.name}; python3 {START} --out results.json",
        )

    return Answer(data, show, POINTS_FAILED if missing else 0)


def run(arguments: argparse.Namespace) -> Answer:
    """Run a bundle on this machine; the code in it runs with the rights of whoever calls this."""
    out = arguments.out or Path("results.json")
    check_place(out, "--out")
    with tempfile.TemporaryDirectory() as folder:
        unpacked(arguments.bundle, Path(folder))
        command = [sys.executable, "-I", "-S", str(Path(folder) / START), "--out", str(out.resolve())]
        if arguments.threads:
            command += ["--threads", str(arguments.threads)]
        command += ["--kernel-timeout", str(arguments.kernel_timeout)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, POINTS_FAILED):
        raise BundleError(f"{arguments.bundle}: {done.stderr.strip()[-300:] or f'ends with code {done.returncode}'}")
    return _answer(out, out)


def import_results(arguments: argparse.Namespace) -> Answer:
    """Bring the results of a bundle into a folder, as `measure` writes them there."""
    found = read_results(arguments.results)
    check_folder(arguments.out)
    measurement = found.measurement
    name = file_name(
        "measured", measurement.model, measurement.policy, measurement.target, str(measurement.threads)
    )
    place: Path = arguments.out / f"{name}.json"
    write_whole(place, json.dumps(measurement.as_json() | {"batch": found.batch}, indent=1) + "\n")
    return _answer(arguments.results, place)


def _answer(results: Path, place: Path) -> Answer:
    found = read_results(results)
    measurement = found.measurement
    data: dict[str, Any] = measurement.as_json() | {"batch": found.batch, "file": str(place)}
    return Answer(
        data, lambda: show_measurement(measurement, data), POINTS_FAILED if measurement.correct is False else 0
    )
