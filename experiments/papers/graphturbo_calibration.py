"""Fit of single parameters of the STCP920 preset to the paper's TVM rows of ResNet-50 and BERT-128.

``python -m dsascape.experiments.papers.graphturbo_calibration [OUT.md]``. Each of the five free parameters is fitted
alone to these two rows of Table 2, with the others at their assumed values, and the launch once more for several
efficiencies of DDR. The value chosen from this study was written into the preset by hand.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dsascape.experiments.papers.graphturbo_tables import FOLDER, markdown, relative
from dsascape.experiments.papers.pages import write_page
from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.hw_models import AnyHardware, load_hardware, with_values
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.scheduler import make_policy

MACHINE = "stcp920"
ROWS = {"A": 2, "B": 4}
"""Rows of the paper's Table 2 that are fitted, with TVM's batches per cluster."""
EFFICIENCIES = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
"""Efficiencies of DDR for which the launch is fitted, around the 0.9 of the preset."""
_TRIED = (13, 7, 7, 7)
"""Values tried over the whole range, then between the neighbours of the best, and again."""


@dataclass(frozen=True, slots=True)
class Number:
    """A free parameter of the preset: its paths in the YAML, its unit, the assumed value and the range of the fit."""

    paths: tuple[str, ...]
    unit: str
    assumed: float
    least: float
    most: float

    def values(self, value: float) -> dict[str, object]:
        """Return the values to set in the preset, by path, for this value of the parameter."""
        return dict.fromkeys(self.paths, f"{value:.6g} {self.unit}" if self.unit else value)


NUMBERS: Mapping[str, Number] = {
    "DDR efficiency": Number(("ddr.efficiency",), "", 0.9, 0.5, 1.0),
    "DMA start-up": Number(("dma.load.startup", "dma.store.startup"), "us", 1.0, 0.1, 20.0),
    "launch": Number(("launch",), "us", 5.0, 0.5, 50.0),
    "matrix-engine efficiency": Number(("units.matrix.efficiency",), "", 1.0, 0.05, 1.0),
    "vector-engine efficiency": Number(("units.vector.efficiency", "units.vector_core.efficiency"), "", 1.0, 0.02, 1.0),
}


def machine_with(number: str, value: float, beside: Mapping[str, float] | None = None) -> AnyHardware:
    """Return the preset with ``number`` at ``value`` and the other free parameters at their assumed values.

    ``beside`` has values of some of these others, by name.
    """
    chosen = {name: each.assumed for name, each in NUMBERS.items()} | dict(beside or {}) | {number: value}
    values: dict[str, object] = {}
    for name, each in NUMBERS.items():
        values |= each.values(chosen[name])
    return with_values(load_hardware(MACHINE), values)


def measured() -> dict[str, float]:
    """Return the paper's throughputs of the fitted rows, in inferences per second."""
    networks = read_yaml(FOLDER / "paper.yaml")["networks"]
    return {label: float(networks[label]["tvm_per_s"]) for label in ROWS}


def throughput(label: str, machine: AnyHardware, policy: str, batches_per_cluster: object) -> float:
    """Return the simulated throughput of a row of Table 2 on ``machine``, in inferences per second."""
    network = read_yaml(FOLDER / "paper.yaml")["networks"][label]
    chosen = make_policy(policy, {"batches_per_cluster": batches_per_cluster})
    return evaluate(DesignPoint(Workload(network["model"], network["batch"]), machine, chosen)).record.throughput_per_s


def simulated(machine: AnyHardware) -> dict[str, float]:
    """Return our throughputs of the fitted rows, under TVM's schedule."""
    return {label: throughput(label, machine, "fixed-pattern", batches) for label, batches in ROWS.items()}


def misfit(ours: Mapping[str, float]) -> float:
    """Return the sum over the rows of the squared logarithm of our throughput divided by the paper's."""
    return sum(math.log(ours[label] / per_s) ** 2 for label, per_s in measured().items())


def fitted(number: str, beside: Mapping[str, float] | None = None) -> tuple[float, dict[str, float]]:
    """Return the value of ``number`` that explains both rows best, and our throughputs with it.

    The others are as `machine_with` has them.
    """
    least, most = NUMBERS[number].least, NUMBERS[number].most
    tried: dict[float, dict[str, float]] = {}
    for count in _TRIED:
        for value in np.geomspace(least, most, count):
            tried[float(value)] = simulated(machine_with(number, float(value), beside))
        order = sorted(tried)
        place = order.index(min(tried, key=lambda value: misfit(tried[value])))
        least, most = order[max(place - 1, 0)], order[min(place + 1, len(order) - 1)]
    best = min(tried, key=lambda value: misfit(tried[value]))
    return best, tried[best]


def page() -> str:
    """Return the page on the fits as Markdown."""
    paper = measured()
    names = {row: read_yaml(FOLDER / "paper.yaml")["networks"][row]["model"] for row in paper}
    rows: list[tuple[object, ...]] = []
    for number, about in NUMBERS.items():
        value, ours = fitted(number)
        machine = machine_with(number, value)
        speedup = throughput("A", machine, "graphturbo", "best") / ours["A"]
        written = f"{value:.3g} {about.unit}".strip()
        rows.append((number, f"{about.assumed:g} {about.unit}".strip(), written,
                     *(relative(ours[row], paper[row]) for row in paper), misfit(ours), speedup))  # fmt: skip
    start = simulated(machine_with("launch", NUMBERS["launch"].assumed))
    rows.append(("none", "", "", *(relative(start[row], paper[row]) for row in paper), misfit(start), None))
    columns = (
        "fitted alone", "assumed before", "best", *(f"{name} to the paper's" for name in names.values()),
        "sum of squared logarithms", "graphturbo's speed-up on ResNet-50 then",
    )  # fmt: skip
    introduction = (FOLDER / "calibration.md").read_text(encoding="utf-8").rstrip()
    together = (FOLDER / "calibration-together.md").read_text(encoding="utf-8").rstrip()
    return f"{introduction}\n\n{markdown(columns, rows)}\n\n{together}\n\n{_launches(paper, names)}\n"


def _launches(paper: Mapping[str, float], names: Mapping[str, str]) -> str:
    """Return the table of the launch that fits best for each efficiency of DDR."""
    rows: list[tuple[object, ...]] = []
    for efficiency in EFFICIENCIES:
        beside = {"DDR efficiency": efficiency}
        launch_us, ours = fitted("launch", beside)
        speedup = throughput("A", machine_with("launch", launch_us, beside), "graphturbo", "best") / ours["A"]
        rows.append((efficiency, launch_us, *(relative(ours[row], paper[row]) for row in paper), misfit(ours), speedup))
    columns = (
        "DDR efficiency", "best launch [us]", *(f"{name} to the paper's" for name in names.values()),
        "sum of squared logarithms", "graphturbo's speed-up on ResNet-50 then",
    )  # fmt: skip
    return markdown(columns, rows)


if __name__ == "__main__":
    sys.exit(write_page(page, __doc__))
