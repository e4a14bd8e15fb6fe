"""ResNet-50 on sizes of NVDLA, as its makers estimate it, beside the `nvdla_large` preset cut to these sizes.

    python -m dsascape.experiments.papers.nvdla_sizes [OUT.md]

Sizes and frames are those of ``nvdla/resnet50.yaml``, with its sources. A size differs from the preset in its array,
the lanes behind it, the convolution buffer with its port, and the bandwidth of DRAM.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dsascape.experiments.api import simulate
from dsascape.experiments.papers.graphturbo_tables import markdown
from dsascape.experiments.papers.pages import write_page
from dsascape.hw_models import ClusteredDsa, load_hardware
from dsascape.hw_models.machine_files.load import with_values
from dsascape.hw_models.text.yaml_file import read_yaml

DATA = Path(__file__).parent / "nvdla" / "resnet50.yaml"
PRESET = "nvdla_large"
_POSITIONS = 32
"""Positions for which weights stay in the array, as in the preset."""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of NVDLA with the frames of ResNet-50 that its makers estimate."""

    macs: int
    machine: ClusteredDsa
    frames_per_s: float

    def predicted_frames_per_s(self) -> float:
        """Return the simulated frames per second, one at a time, kernel by kernel."""
        return simulate("resnet50", self.machine, "fixed-pattern", batch=1, dtype="int8").record.throughput_per_s


def sizes() -> Iterator[Size]:
    """Yield all sizes, the largest first."""
    for kernels, channels, lanes, buffer_kib, ddr_gb_per_s, frames in read_yaml(DATA)["sizes"]:
        yield Size(kernels * channels, machine_of(kernels, channels, lanes, buffer_kib, ddr_gb_per_s), frames)


def machine_of(kernels: int, channels: int, lanes: int, buffer_kib: int, ddr_gb_per_s: float) -> ClusteredDsa:
    """Return the preset with an array of ``kernels`` x ``channels`` products a cycle.

    A cycle reads ``channels`` bytes of data and of weights from the buffer, and writes as many, as in the preset.
    """
    return with_values(load_hardware(PRESET, ClusteredDsa), {
        "units.matrix.macs_per_cycle.int8": kernels * channels,
        "units.matrix.native_tile": [1, kernels, channels],
        "units.matrix.operand_reuse": [_POSITIONS, kernels],
        "units.vector.lanes.int8": lanes,
        "local_buffer.capacity": f"{buffer_kib} KiB",
        "local_buffer.bandwidth": f"{3 * channels} GB/s",
        "ddr.bandwidth": f"{ddr_gb_per_s} GB/s",
    })  # fmt: skip


def page() -> str:
    """Return a table of all sizes as Markdown."""
    rows = []
    for size in sizes():
        ours = size.predicted_frames_per_s()
        rows.append((size.macs, size.frames_per_s, f"{ours:.3g}", f"{ours / size.frames_per_s:.2f}"))
    return markdown(("multipliers", "estimated by its makers [1/s]", "predicted [1/s]", "share"), rows) + "\n"


if __name__ == "__main__":
    sys.exit(write_page(page, __doc__))
