"""Which numbers of the STCP920 preset the paper's TVM rows of ResNet-50 and BERT-128 determine, and their fit.

``python -m experiments.papers.graphturbo_calibration [OUT.md]``. Only these two rows of Table 2 are used; everything
else that the preset is held against is then a prediction. The fitted value stands in the preset, written by hand.
"""

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments.evaluate import evaluate
from experiments.papers.graphturbo_tables import FOLDER, markdown, relative
from experiments.points import DesignPoint, Workload
from hw_models import AnyHardware, load_hardware, with_values
from hw_models.yaml_file import read_yaml
from scheduler import make_policy

MACHINE = "stcp920"
ROWS = {"A": 2, "B": 4}
"""Rows of the paper's Table 2 that are fitted, with TVM's batches per cluster."""
LAUNCH_BEFORE_US = 5.0
"""The assumption that the fit replaces."""
_LONGEST_LAUNCH_US = 50.0
_STEP = 1.1
NUMBERS: Mapping[str, Mapping[str, tuple[float, str]]] = {
    "DDR efficiency": {"ddr.efficiency": (0.9, "")},
    "DMA start-up": {"dma.load.startup": (1.0, " us"), "dma.store.startup": (1.0, " us")},
    "launch": {"launch": (LAUNCH_BEFORE_US, " us")},
    "matrix-engine efficiency": {"units.matrix.efficiency": (1.0, "")},
    "vector-engine efficiency": {"units.vector.efficiency": (1.0, ""), "units.vector_core.efficiency": (1.0, "")},
}
"""The five that may be fitted: their paths in the preset, value before and unit."""
_WORSE_WHEN_SMALLER = ("DDR efficiency", "matrix-engine efficiency", "vector-engine efficiency")


def throughputs(machine: AnyHardware) -> dict[str, float]:
    """Return images or sentences per second of the fitted rows under TVM's schedule."""
    paper, found = read_yaml(FOLDER / "paper.yaml"), {}
    for label, per_cluster in ROWS.items():
        network = paper["networks"][label]
        policy = make_policy("fixed-pattern", {"batches_per_cluster": per_cluster})
        point = DesignPoint(Workload(network["model"], network["batch"]), machine, policy)
        found[label] = evaluate(point).record.throughput_per_s
    return found


def measured() -> dict[str, float]:
    """Return the paper's figures for the fitted rows."""
    networks = read_yaml(FOLDER / "paper.yaml")["networks"]
    return {label: float(networks[label]["tvm_per_s"]) for label in ROWS}


def before() -> AnyHardware:
    """Return the preset as it was before anything was fitted."""
    return with_launch(LAUNCH_BEFORE_US)


def with_launch(launch_us: float) -> AnyHardware:
    """Return the preset with another launch cost."""
    return with_values(load_hardware(MACHINE), {"launch": f"{launch_us} us"})


def elasticities() -> dict[str, dict[str, float]]:
    """Return by number and row the per cent of throughput lost when the number gets one per cent worse."""
    start = throughputs(before())
    found = {}
    for number, paths in NUMBERS.items():
        factor = 1 / _STEP if number in _WORSE_WHEN_SMALLER else _STEP
        values = {p: f"{v * factor}{unit}" if unit else v * factor for p, (v, unit) in paths.items()}
        worse = throughputs(with_values(before(), values))
        found[number] = {row: math.log(start[row] / worse[row]) / math.log(_STEP) for row in start}
    return found


def fitted_launch_us() -> float:
    """Return the launch cost with the least sum of squared logarithms of ours over the paper's, to a tenth of a us.

    Kernels follow each other, so that the time of a row is affine in the launch cost: two simulations give the line.
    """
    near, far, paper = throughputs(before()), throughputs(with_launch(_LONGEST_LAUNCH_US)), measured()
    candidates = np.arange(0.0, _LONGEST_LAUNCH_US, 0.1)
    share = (candidates - LAUNCH_BEFORE_US) / (_LONGEST_LAUNCH_US - LAUNCH_BEFORE_US)
    misfit = np.zeros_like(candidates)
    for row, per_s in paper.items():
        seconds = 1 / near[row] + share * (1 / far[row] - 1 / near[row])
        misfit += np.log(seconds * per_s) ** 2
    return round(float(candidates[int(misfit.argmin())]), 1)


def page() -> str:
    """Return what was found as Markdown."""
    paper, start, launch_us = measured(), throughputs(before()), fitted_launch_us()
    fitted = throughputs(with_launch(launch_us))
    names = {row: read_yaml(FOLDER / "paper.yaml")["networks"][row]["model"] for row in paper}
    sensitivity = [(number, *rows.values()) for number, rows in elasticities().items()]
    result = [
        (row, names[row], paper[row], start[row], relative(start[row], paper[row]), fitted[row],
         relative(fitted[row], paper[row]))
        for row in paper
    ]  # fmt: skip
    introduction = (FOLDER / "calibration.md").read_text(encoding="utf-8").rstrip()
    columns = ("number", *(f"{name}: % slower per % worse" for name in names.values()))
    after = f"with launch = {launch_us} us [1/s]"
    parts = (
        introduction,
        "## What each number does to the two rows",
        markdown(columns, sensitivity),
        "## The fit",
        markdown(("", "network", "TVM, paper [1/s]", "before [1/s]", "difference", after, "difference"), result),
    )
    return "\n\n".join(parts) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page to standard output or a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT.md", help="default: print")
    out: Path | None = parser.parse_args(argv).out
    if out is None:
        sys.stdout.write(page())
    else:
        out.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
