"""The command that describes a processor: what its system tells, and what small kernels show."""

import argparse
import time
from pathlib import Path
from typing import Any

import pydantic

from experiments.answers import Answer, say
from experiments.files import check_place, write_whole
from hw_models import Cpu, HardwareError
from hw_models.messages import explain
from hw_models.quantities import format_bytes
from tuner.bundle import BundleError, read_calibration
from tuner.calibrate import Figures, HostFacts, host_spec, host_yaml
from tuner.calibrate import calibrate as calibrated
from tuner.measure import LOCAL, MeasureError


def calibrate(arguments: argparse.Namespace) -> Answer:
    """Measure a processor, or take what a bundle has measured, and write, or print, its file."""
    check_place(arguments.out, "--out")
    begin = time.monotonic()
    if arguments.results is not None:
        if arguments.device != LOCAL:
            raise MeasureError(f"--device has {arguments.device!r}; --from takes what was measured before")
        found = read_calibration(arguments.results)
        return _answer(found.facts, found.figures, arguments.out, {"day": found.measured_at[:10]}, arguments.results)
    facts, figures = calibrated(arguments.device, arguments.target)
    return _answer(facts, figures, arguments.out, {"wall_s": time.monotonic() - begin})


def calibration(results: Path) -> Answer:
    """Return the answer of a command that has run a bundle of probes."""
    found = read_calibration(results)
    return _answer(found.facts, found.figures, None, {"day": found.measured_at[:10]}, results)


def _answer(
    facts: HostFacts, figures: Figures, out: Path | None, how: dict[str, Any], source: Path | None = None
) -> Answer:
    """Return the answer that says, and writes to ``out``, the machine; raise ``BundleError`` for absurd figures."""
    name = "host" if out is None else out.stem
    try:
        text = host_yaml(facts, figures, name, how.get("day", ""))
        spec = host_spec(facts, figures)
    except pydantic.ValidationError as error:
        wrong = "; ".join(explain(error, "its file", model=Cpu).splitlines())
        raise BundleError(f"{source or 'what was measured'}: describes no machine: {wrong}") from error
    except (HardwareError, ArithmeticError, ValueError) as error:
        raise BundleError(f"{source or 'what was measured'}: describes no machine: {error}") from error
    data = {
        "processor": facts.processor, "cores": facts.cores, "assumed": list(facts.assumed),
        "hardware": spec.model_dump(by_alias=True, mode="json"),
        "file": None if out is None else str(out), **how,
    }  # fmt: skip
    if out is None:
        return Answer(data, lambda: say(text.rstrip()))
    write_whole(out, text)
    reads = [f"{level.name} {1e-9 / level.byte_s:.1f} GB/s" for level in figures.levels]
    took = f", in {how['wall_s']:.0f} s" if "wall_s" in how else ""
    lines = [
        f"{facts.processor}, {facts.cores} cores with {format_bytes(spec.simd.register_bytes)} vectors{took}: {out}",
        f"  {spec.peak_macs_per_s('fp32') / 1e9:.4g} GMAC/s in all; one thread reads {', '.join(reads)}",
    ]
    return Answer(data, lambda: say(*lines))
