"""Layers on Gemmini's RTL beside the same layers on the `gemmini` preset, with the memories of each measured machine.

    python -m dsascape.experiments.papers.gemmini_layers [OUT.md]

Shapes, cycles and tiles are DOSA's (``gemmini/layers.yaml``, with its source). A layer is a network of its own, in
INT8, run under ``fixed-pattern`` with the tiles that ran on RTL, and with those of our own search besides. Nothing but
the size of memories differs from the preset.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
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

Tile = Mapping[str, int]
"""Elements of a tile by dimension, as in a pin: ``m`` and ``n``, or ``c``, ``h`` and ``w``; ``k`` along the depth."""

DATA = Path(__file__).parent / "gemmini" / "layers.yaml"
PRESET = "gemmini"
_ACCUMULATOR_BYTES = 4
_BLOCK = 16
"""Channels that the array adds up at once."""
_HEADINGS = (
    "machine of", "layer", "RTL, library's tiles", "predicted", "share", "RTL, searched tiles", "predicted", "share",
    "our tiles",
)  # fmt: skip


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
    auto_tile: Tile
    """Tile that the library chooses."""
    mapped_tile: Tile
    """Tile of the mapping."""

    def predicted_cycles(self, tile: Tile | None) -> float:
        """Return the simulated cycles with these tiles; None: with those of our own search."""
        graph = single_operator(self.described)
        pins = {} if tile is None else {graph.ops[-1].name: {"tile": tile}}
        outcome = simulate(graph, self.machine, "fixed-pattern", dtype="int8", pins=pins or None)
        return outcome.record.latency_s * self.machine.clock_hz


def layers() -> Iterator[Layer]:
    """Yield all layers, each on its own machine."""
    for each in read_yaml(DATA)["machines"]:
        machine, network = machine_of(each["scratchpad_kib"], each["accumulators_kib"]), each["network"]
        for outputs, inputs, rows, auto, mapped, loops, tile in each["products"]:
            sizes = {"K": outputs, "C": inputs, "P": rows, "Q": 1, "R": 1, "S": 1}
            tiles = [_tile_of_product(own) for own in (_own_tile(sizes, tile), _inside(sizes, loops))]
            yield Layer(network, _product(outputs, inputs, rows), machine, auto, mapped, *tiles)
        for outputs, inputs, size, window, stride, auto, mapped, loops, tile in each["convolutions"]:
            sizes = {"K": outputs, "C": inputs, "P": size, "Q": size, "R": window, "S": window}
            tiles = [_tile_of_convolution(sizes, own) for own in (_own_tile(sizes, tile), _inside(sizes, loops))]
            yield Layer(network, _convolution(outputs, inputs, size, window, stride), machine, auto, mapped, *tiles)


def machine_of(scratchpad_kib: int, accumulators_kib: int) -> ClusteredDsa:
    """Return the preset with memories that hold two tiles: the search's sizes are those of one.

    Results are of one byte here and four in the accumulators, of which a tile has a half too.
    """
    held_bytes = 2 * 1024 * (scratchpad_kib + accumulators_kib // _ACCUMULATOR_BYTES)
    values = {"local_buffer.capacity": f"{held_bytes} B"}
    return with_values(load_hardware(PRESET, ClusteredDsa), values)


def _own_tile(sizes: Mapping[str, int], tile: Sequence[int]) -> dict[str, int]:
    """Return the library's tile, no larger than the layer; it never splits a window."""
    return {name: min(own, sizes[name]) for name, own in zip("RSPQCK", tile, strict=True)}


def _inside(sizes: Mapping[str, int], loops: str) -> dict[str, int]:
    """Return the tile that is left inside the ``loops`` of a mapping over it, such as ``K2 S3``."""
    outer = {each[0]: int(each[1:]) for each in loops.split()}
    return {name: -(-size // outer.get(name, 1)) for name, size in sizes.items()}


def _tile_of_product(tile: Mapping[str, int]) -> Tile:
    return {"m": tile["P"], "n": tile["K"], "k": tile["C"]}


def _tile_of_convolution(sizes: Mapping[str, int], tile: Mapping[str, int]) -> Tile:
    """Return a tile as a pin; where it has a part of the window, it has as many blocks of channels at all of it."""
    taps, of_window = tile["R"] * tile["S"], sizes["R"] * sizes["S"]
    channels = tile["C"] if taps == of_window else -(-tile["C"] * taps // of_window // _BLOCK) * _BLOCK
    whole = max(sizes["C"], sizes["R"])  # the longest loop is the depth
    return {"c": tile["K"], "h": tile["Q"], "w": tile["P"], "k": channels if channels < sizes["C"] else whole}


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
        row: list[Any] = [layer.network, layer.described.name]
        for tile, true in ((layer.auto_tile, layer.auto_cycles), (layer.mapped_tile, layer.mapped_cycles)):
            cycles = layer.predicted_cycles(tile)
            row += [true, round(cycles), f"{cycles / true:.2f}"]
        rows.append((*row, round(layer.predicted_cycles(None))))
    return markdown(_HEADINGS, rows) + "\n"


if __name__ == "__main__":
    sys.exit(write_page(page, __doc__))
