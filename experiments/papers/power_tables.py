"""Tables of predicted power of CPUs, boards and scratchpads: parts of it, beside rated and measured power."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dsascape.experiments.api import simulate
from dsascape.experiments.papers.graphturbo_tables import markdown

PART_HEADINGS = (
    "machine", "mJ an image", "power [W]", "arithmetic", "instructions, registers", "on-chip memories, wires", "DRAM",
    "clocks", "static", "rated [W]", "share",
)  # fmt: skip
MEASURED_HEADINGS = ("machine", "predicted", "measured", "share", "what was measured", "source")
_OFF_CHIP = ("ddr", "dram")
_GROUP = {
    "macs": "arithmetic", "vector": "arithmetic", "instructions": "instructions", "registers": "instructions",
    "ddr": "dram", "dram": "dram", "clock": "clock", "static": "static", "static_cores": "static",
    "static_interface": "static",
}  # fmt: skip
"""Column of a component of energy; memories on chip and wires are those that are not named."""
_COLUMNS = ("arithmetic", "instructions", "on_chip", "dram", "clock", "static")


@dataclass(frozen=True, slots=True)
class Predicted:
    """Predicted power of ResNet-50 on a machine."""

    hardware: str
    images_per_s: float
    parts_w: Mapping[str, float]
    """Watts by component of energy."""

    @property
    def watts(self) -> float:
        """Power of the run: energy by latency."""
        return sum(self.parts_w.values())

    @property
    def columns_w(self) -> dict[str, float]:
        """Watts by column of the table."""
        columns = dict.fromkeys(_COLUMNS, 0.0)
        for name, watts in self.parts_w.items():
            columns[_GROUP.get(name, "on_chip")] += watts
        return columns

    @property
    def without_dram_w(self) -> float:
        """Power without DRAM and its interface."""
        return self.watts - sum([self.parts_w.get(name, 0.0) for name in (*_OFF_CHIP, "static_interface")])


def predicted(hardware: str, policy: str, batch: int) -> Predicted:
    """Return the predicted power of ResNet-50 under a policy."""
    record = simulate("resnet50", hardware, policy, batch=batch).record
    parts_w = {name: joules / record.latency_s for name, joules in record.energy_parts_j.items()}
    return Predicted(hardware, record.throughput_per_s, parts_w)


def power_tables(published: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Return two tables in Markdown: power by part beside the rated one, and beside measured power.

    ``published``: entries of ``powers_by_part`` in ``experiments/measured/published.yaml``.
    """
    parts: list[tuple[object, ...]] = []
    measured: list[tuple[object, ...]] = []
    for each in published:
        figures = predicted(each["hardware"], each.get("policy", "fixed-pattern"), each.get("batch", 16))
        rated = each.get("rated")
        share = "" if rated is None else f"{figures.watts / rated:.0%}"
        columns = [_shown(watts) for watts in figures.columns_w.values()]
        energy = f"{1e3 * figures.watts / figures.images_per_s:.3g}"
        rating = "" if rated is None else f"{rated}"
        parts.append((each["hardware"], energy, _shown(figures.watts), *columns, rating, share))
        for one in each.get("measured", ()):
            ours = figures.without_dram_w if one.get("without_dram") else figures.watts
            compared = f"{_shown(ours)} W", f"{one['watts']} W", f"{ours / one['watts']:.0%}"
            measured.append((each["hardware"], *compared, one["is"], one["source"]))
    return markdown(PART_HEADINGS, parts), markdown(MEASURED_HEADINGS, measured)


def _shown(watts: float) -> str:
    return f"{watts:.3g}"
