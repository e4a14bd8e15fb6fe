"""Layers on Gemmini's RTL beside the same layers on the `gemmini` preset, with the memories of each measured machine.

    python -m dsascape.experiments.papers.gemmini_layers [OUT.md]

Shapes and cycles are DOSA's (``gemmini/layers.yaml``, with its source). A layer is a network of its own, in INT8, run
under ``fixed-pattern``. Accumulators hold a square block of results, for which operands are read once; nothing else of
the machine differs from the preset.
"""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsascape.experiments.api import simulate
from dsascape.experiments.papers.graphturbo_tables import markdown
from dsascape.experiments.papers.pages import write_page
from dsascape.hw_models import ClusteredDsa, load_hardware
from dsascape.hw_models.machine_files.load import with_values
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.workloads.single_operators import SingleOperator, single_operator

DATA = Path(__file__).parent / "gemmini" / "layers.yaml"
PRESET = "gemmini"
_RESULT_BYTES = 4
_HEADINGS = ("machine of", "layer", "RTL, own tiles", "RTL, searched tiles", "predicted", "by searched")


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer with its cycles on RTL, and the machine that it ran on."""

    network: str
    described: SingleOperator
    machine: ClusteredDsa
    auto_cycles: int
    """Cycles with the tiles that Gemmini's library chooses."""
    mapped_cycles: int
    """Cycles with the tiles of a mapping that DOSA's search found."""

    def predicted_cycles(self) -> float:
        """Return the simulated cycles."""
        graph = single_operator(self.described)
        return simulate(graph, self.machine, "fixed-pattern", dtype="int8").record.latency_s * self.machine.clock_hz


def layers() -> Iterator[Layer]:
    """Yield all layers, each on its own machine."""
    for each in read_yaml(DATA)["machines"]:
        machine, network = machine_of(each["scratchpad_kib"], each["accumulators_kib"]), each["network"]
        for outputs, inputs, rows, auto, mapped in each["products"]:
            yield Layer(network, _product(outputs, inputs, rows), machine, auto, mapped)
        for outputs, inputs, size, window, stride, auto, mapped in each["convolutions"]:
            yield Layer(network, _convolution(outputs, inputs, size, window, stride), machine, auto, mapped)


def machine_of(scratchpad_kib: int, accumulators_kib: int) -> ClusteredDsa:
    """Return the preset with other memories; operands are reused over the largest square that the accumulators hold."""
    side = math.isqrt(accumulators_kib * 1024 // _RESULT_BYTES)
    return with_values(load_hardware(PRESET, ClusteredDsa), {
        "local_buffer.capacity": f"{scratchpad_kib} KiB",
        "units.matrix.operand_reuse": [side, side],
    })  # fmt: skip


def _product(outputs: int, inputs: int, rows: int) -> SingleOperator:
    name = f"{rows} x {inputs} by {inputs} x {outputs}"
    return SingleOperator(name, "MatMul", ((rows, inputs),), ((inputs, outputs),))


def _convolution(outputs: int, inputs: int, size: int, window: int, stride: int) -> SingleOperator:
    """Return a convolution whose result has ``size`` rows and columns, of an image with its padding."""
    image = (size - 1) * stride + window
    name = f"{window} x {window}, {inputs} to {outputs}, {size} x {size}" + (f" by {stride}" if stride > 1 else "")
    shapes = ((1, inputs, image, image),), ((outputs, inputs, window, window),)
    return SingleOperator(name, "Conv", *shapes, {"strides": [stride, stride]})


def page() -> str:
    """Return a table of all layers as Markdown."""
    rows: list[tuple[Any, ...]] = []
    for layer in layers():
        cycles = layer.predicted_cycles()
        share = f"{cycles / layer.mapped_cycles:.2f}"
        rows.append((
            layer.network, layer.described.name, layer.auto_cycles, layer.mapped_cycles, round(cycles), share,
        ))  # fmt: skip
    return markdown(_HEADINGS, rows) + "\n"


if __name__ == "__main__":
    sys.exit(write_page(page, __doc__))
