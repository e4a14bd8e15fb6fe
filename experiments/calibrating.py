"""The command that describes this machine: what the system tells, and what small kernels show."""

import argparse
import time

from experiments.answers import Answer, say
from experiments.files import check_place, write_whole
from hw_models.quantities import format_bytes
from tuner.calibrate import calibrate as calibrated
from tuner.calibrate import host_spec, host_yaml


def calibrate(arguments: argparse.Namespace) -> Answer:
    """Measure this machine and write, or print, its file."""
    check_place(arguments.out, "--out")
    begin = time.monotonic()
    facts, figures = calibrated()
    name = "host" if arguments.out is None else arguments.out.stem
    text = host_yaml(facts, figures, name)
    spec = host_spec(facts, figures)
    data = {
        "processor": facts.processor, "cores": facts.cores, "hardware": spec.model_dump(by_alias=True, mode="json"),
        "file": None if arguments.out is None else str(arguments.out), "wall_s": time.monotonic() - begin,
    }  # fmt: skip
    if arguments.out is None:
        return Answer(data, lambda: say(text.rstrip()))
    write_whole(arguments.out, text)
    reads = [f"{level.name} {1e-9 / level.byte_s:.1f} GB/s" for level in figures.levels]
    lines = [
        f"{facts.processor}, {facts.cores} cores with {format_bytes(spec.simd.register_bytes)} vectors, in"
        f" {data['wall_s']:.0f} s: {arguments.out}",
        f"  {spec.peak_macs_per_s('fp32') / 1e9:.4g} GMAC/s in all; one thread reads {', '.join(reads)}",
    ]
    return Answer(data, lambda: say(*lines))
