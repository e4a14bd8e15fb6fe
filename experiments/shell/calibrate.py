"""The command ``calibrate``: describes a processor or GPU by system facts and small kernels."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from dsascape.experiments.real.measured_kinds import kind_of_target
from dsascape.experiments.results.files import for_terminal
from dsascape.experiments.shell.answers import Answer, say, unwritten_told, write
from dsascape.hw_models import HardwareError
from dsascape.hw_models.machine_files.json_schema import for_editors
from dsascape.hw_models.text.whole_file import write_whole
from dsascape.tuner.bundle import BundleError, read_calibration
from dsascape.tuner.calibrate import Calibrated
from dsascape.tuner.measure import LOCAL, MeasureError


def calibrate(arguments: argparse.Namespace) -> Answer:
    """Calibrate a machine, or use the results of a bundle of probes, and write or print the machine's file."""
    begin = time.monotonic()
    kind = kind_of_target(arguments.target)
    if arguments.libraries and (
        arguments.results is not None or arguments.device != LOCAL or not kind.has_libraries
    ):
        raise MeasureError("--libraries measures this processor; it goes without --from, --device and targets of GPUs")
    if arguments.results is not None:
        if arguments.device != LOCAL:
            raise MeasureError(f"--device has {arguments.device!r}; --from uses earlier results, without a device")
        return calibration(arguments.results, arguments.out)
    found = kind.calibrated(arguments.device, arguments.target, libraries=arguments.libraries)
    return _answer(found, arguments.out, {"wall_s": time.monotonic() - begin})


def calibration(results: Path, out: Path | None = None) -> Answer:
    """Return the answer of a command that has the results of a bundle of probes."""
    found = read_calibration(results)
    return _answer(found.machine, out, {"day": found.measured_at[:10]}, results)


def _answer(machine: Calibrated, out: Path | None, how: dict[str, Any], source: Path | None = None) -> Answer:
    """Write the machine's file to ``out``, or print it; raise ``BundleError`` for figures that describe no machine."""
    try:
        found = machine.described(machine.usual_name if out is None else out.stem, how.get("day", ""))
    except (HardwareError, ArithmeticError, ValueError) as error:
        wrong = "; ".join(str(error).splitlines())
        raise BundleError(f"{source or 'the measurement'}: does not describe a machine: {wrong}") from error
    for each in found.warnings:
        sys.stderr.write(f"dsascape: warning: {for_terminal(each)}\n")
    data = {
        **found.as_json(), "hardware": found.spec.model_dump(by_alias=True, mode="json"),
        "file": None if out is None else str(out), "warnings": list(found.warnings), **how,
    }  # fmt: skip
    if out is None:
        return Answer(data, lambda: write(f"{found.text.rstrip()}\n"))
    unwritten: list[str] = []
    with unwritten_told(unwritten):
        write_whole(out, for_editors(found.text))
    if unwritten:  # minutes of measuring: the machine is printed in its place
        return Answer(data, lambda: write(f"{found.text.rstrip()}\n"), unwritten=tuple(unwritten))
    return Answer(data, lambda: say(*found.lines(out, how.get("wall_s"))))
