"""Efficiency of a library by kind of kernel, from published times of networks on one thread of development devices.

    python -m dsascape.experiments.papers.cpu_efficiencies

prints what the presets of phones and boards state. ``cpus/parts.csv`` has the parts of each network's simulated
critical path: launches, kernels by kind, and what memory limits. The efficiencies are those by which the parts add up
to the published times with the least mean error of logarithms. Single kernels are not published, so networks tell kinds
apart only as far as these are mixed differently; a penalty keeps what they do not tell near the others. Networks with
groups of channels are left out: ncnn runs each group as a convolution of its own. So are VGG-16 and MobileNet-YOLO, in
which Winograd's convolutions of many channels take most of the time: they were tile by tile, and slow, at that time.
"""

import csv
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dsascape.experiments.papers.published_cpus import published

_PARTS = Path(__file__).parent / "cpus" / "parts.csv"
KINDS = ("product", "convolution", "depthwise", "other", "memory")
"""Keys of ``library_efficiency`` on CPUs."""
_LEAST = 0.05
_LEFT_OUT = ("vgg16", "mobilenet-yolo")
_PENALTY = 0.3
"""Weight of a kind's squared distance from all alike, in logarithms, beside the error of one network."""
_STEPS = (0.8, 0.9, 0.95, 0.98, 0.99, 1.0, 1.01, 1.02, 1.05, 1.1, 1.25)
_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Parts:
    """Published time of a network on one thread of a device, and the parts of its simulated bound, in milliseconds."""

    device: str
    network: str
    ms: float
    launch_ms: float
    by_kind_ms: Mapping[str, float]

    def expected_ms(self, efficiency: Mapping[str, float]) -> float:
        """Return the expected latency with these efficiencies."""
        return self.launch_ms + sum(ms / efficiency[kind] for kind, ms in self.by_kind_ms.items())


def recorded() -> tuple[Parts, ...]:
    """Return the networks whose parts are recorded."""
    alone = [each for each in published() if each.threads == 1 and each.library == "ncnn"]
    ms_of = {(each.device, each.network): each.ms for each in alone}
    with _PARTS.open(encoding="utf-8", newline="") as file:
        return tuple([
            Parts(row["device"], row["network"], ms_of[row["device"], row["network"]], float(row["launch"]),
                  {kind: float(row[kind]) for kind in KINDS})
            for row in csv.DictReader(file) if row["network"] not in _LEFT_OUT
        ])  # fmt: skip


def error(rows: Sequence[Parts], efficiency: Mapping[str, float]) -> float:
    """Return the sum of the networks' errors, absolute and in logarithms."""
    return sum(abs(math.log(row.expected_ms(efficiency) / row.ms)) for row in rows)


def alike(rows: Sequence[Parts]) -> float:
    """Return the one efficiency of all kinds with which there is no bias in the geometric mean, launches aside."""
    shares = [sum(row.by_kind_ms.values()) / (row.ms - row.launch_ms) for row in rows]
    return math.exp(sum(map(math.log, shares)) / len(shares))


def fitted(rows: Sequence[Parts], kinds: Sequence[str] = KINDS) -> dict[str, float]:
    """Return the efficiency by kind, from 0.05 to 1: descents along one kind after the other from all alike."""
    start = alike(rows)
    found = dict.fromkeys(kinds, start)

    def loss(tried: Mapping[str, float]) -> float:
        return error(rows, tried) + _PENALTY * sum(math.log(each / start) ** 2 for each in tried.values())

    for kind in tuple(kinds) * _ROUNDS:
        tried = [{**found, kind: min(1.0, max(_LEAST, found[kind] * step))} for step in _STEPS]
        found = min(tried, key=loss)
    return found


def main() -> int:
    """Print the efficiencies of cores in order and out of order; return the exit code."""
    rows = recorded()
    for devices in (("snapdragon410",), ("snapdragon810", "snapdragon835")):
        chosen = [row for row in rows if row.device in devices]
        found = fitted(chosen)
        shares = ", ".join(f"{kind}: {share:.2f}" for kind, share in found.items())
        mean = error(chosen, found) / len(chosen)
        sys.stdout.write(f"{' and '.join(devices)}, {len(chosen)} times, off by {mean:.3f} in the mean: {shares}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
