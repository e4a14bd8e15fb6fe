"""The command ``calibrate``: describes a processor or GPU by system facts and small kernels."""

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pydantic

from dsascape.experiments.real.on_gpu import bundle_run
from dsascape.experiments.results.files import check_place, write_whole
from dsascape.experiments.shell.answers import Answer, say
from dsascape.hw_models import Cpu, Gpu, HardwareError, hardware_of_text
from dsascape.hw_models.machine_files.json_schema import for_editors
from dsascape.hw_models.text.messages import explain
from dsascape.hw_models.text.quantities import format_bytes
from dsascape.tuner.bundle import (
    BundleError,
    CalibrationResults,
    GpuCalibrationResults,
    build_gpu_probes,
    read_calibration,
)
from dsascape.tuner.calibrate import Figures, HostFacts, gpu_yaml, host_spec, host_yaml
from dsascape.tuner.calibrate import calibrate as calibrated
from dsascape.tuner.measure import LOCAL, MeasureError, check_installed, check_target, is_gpu_target, remote_address
from dsascape.wording import count


def calibrate(arguments: argparse.Namespace) -> Answer:
    """Calibrate a processor, or use the results of a bundle of probes, and write or print the machine's file."""
    check_place(arguments.out, "--out")
    begin = time.monotonic()
    if arguments.libraries and (
        arguments.results is not None or arguments.device != LOCAL or is_gpu_target(arguments.target)
    ):
        raise MeasureError("--libraries measures this processor; it goes without --from, --device and targets of GPUs")
    if arguments.results is not None:
        if arguments.device != LOCAL:
            raise MeasureError(f"--device has {arguments.device!r}; --from uses earlier results, without a device")
        results = read_calibration(arguments.results)
        return _of(results, arguments.out, arguments.results)
    if is_gpu_target(arguments.target):
        return _gpu(arguments, begin)
    facts, figures = calibrated(arguments.device, arguments.target)
    shares = None
    if arguments.libraries:  # only then is onnxruntime imported
        measure = resolve_name("dsascape.experiments.real.library_efficiency:measured_efficiencies")
        shares = measure(host_spec(facts, figures))
    return _answer(facts, figures, arguments.out, {"wall_s": time.monotonic() - begin}, shares=shares)


def calibration(results: Path) -> Answer:
    """Return the answer of a command that has run a bundle of probes."""
    return _of(read_calibration(results), None, results)


def _of(results: CalibrationResults | GpuCalibrationResults, out: Path | None, source: Path) -> Answer:
    how: dict[str, Any] = {"day": results.measured_at[:10]}
    if isinstance(results, GpuCalibrationResults):
        return _gpu_answer(results, out, how, source)
    return _answer(results.facts, results.figures, out, how, source)


def _gpu(arguments: argparse.Namespace, begin: float) -> Answer:
    """Calibrate the GPU of this machine or of one behind RPC, with the bundle that another machine would run."""
    check_installed()
    if remote_address(arguments.device) is None:
        check_target(arguments.target)
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle.tar.xz"
        build_gpu_probes(arguments.target, bundle)
        results = read_calibration(bundle_run(bundle, arguments.device))
    assert isinstance(results, GpuCalibrationResults)
    return _gpu_answer(results, arguments.out, {"wall_s": time.monotonic() - begin}, None)


def _gpu_answer(
    results: GpuCalibrationResults, out: Path | None, how: dict[str, Any], source: Path | None
) -> Answer:  # fmt: skip
    """Write the GPU's file to ``out``, or print it; raise ``BundleError`` for figures that describe no machine."""
    name = "gpu" if out is None else out.stem
    try:
        text = gpu_yaml(results.facts, results.figures, name, how.get("day", ""))
        spec = hardware_of_text(text, f"{name}.yaml")
    except (HardwareError, ArithmeticError, ValueError) as error:
        wrong = "; ".join(str(error).splitlines())
        raise BundleError(f"{source or 'the measurement'}: does not describe a machine: {wrong}") from error
    assert isinstance(spec, Gpu)
    data = {
        "processor": results.facts.name, "sms": results.facts.sms,
        "hardware": spec.model_dump(by_alias=True, mode="json"), "file": None if out is None else str(out), **how,
    }  # fmt: skip
    if out is None:
        return Answer(data, lambda: say(text.rstrip()))
    write_whole(out, for_editors(text))
    line = (
        f"{results.facts.name}, {results.facts.sms} SMs: {out}",
        f"  {spec.peak_macs_per_s('fp32') / 1e9:.4g} GMAC/s in fp32; DRAM {results.figures.dram_bytes_per_s / 1e9:.0f}"
        f" GB/s, a launch {results.figures.launch_s * 1e6:.1f} us",
    )
    return Answer(data, lambda: say(*line))


def _answer(
    facts: HostFacts, figures: Figures, out: Path | None, how: dict[str, Any], source: Path | None = None,
    shares: Mapping[str, float] | None = None,
) -> Answer:  # fmt: skip
    """Write the machine's file to ``out``, or print it; raise ``BundleError`` for figures that describe no machine."""
    name = "host" if out is None else out.stem
    try:
        text = host_yaml(facts, figures, name, how.get("day", ""))
        spec = host_spec(facts, figures)
        if shares:
            text = resolve_name("dsascape.experiments.real.library_efficiency:with_efficiencies")(text, shares)
            spec = spec.model_copy(update={"library_efficiency": shares})
    except pydantic.ValidationError as error:
        wrong = "; ".join(explain(error, "its file", model=Cpu).splitlines())
        raise BundleError(f"{source or 'the measurement'}: does not describe a machine: {wrong}") from error
    except (HardwareError, ArithmeticError, ValueError) as error:
        raise BundleError(f"{source or 'the measurement'}: does not describe a machine: {error}") from error
    data = {
        "processor": facts.processor, "cores": facts.cores, "assumed": list(facts.assumed),
        "hardware": spec.model_dump(by_alias=True, mode="json"),
        "file": None if out is None else str(out), **how,
    }  # fmt: skip
    if out is None:
        return Answer(data, lambda: say(text.rstrip()))
    write_whole(out, for_editors(text))
    reads = [f"{level.name} {1e-9 / level.byte_s:.1f} GB/s" for level in figures.levels]
    took = f", in {how['wall_s']:.0f} s" if "wall_s" in how else ""
    lines = [
        f"{facts.processor}, {count(facts.cores, 'core')} with {format_bytes(spec.simd.register_bytes)}"
        f" vectors{took}: {out}",
        f"  {spec.peak_macs_per_s('fp32') / 1e9:.4g} GMAC/s in all; one thread reads {', '.join(reads)}",
    ]
    return Answer(data, lambda: say(*lines))
