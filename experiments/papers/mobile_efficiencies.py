"""Efficiency of libraries on GPUs of phones, and of FP16 on CPUs, by kind of kernel, from published times of networks.

    python -m dsascape.experiments.papers.mobile_efficiencies

prints what ``hw_models/library_efficiencies.yaml`` states. ``gpus/mobile_parts.csv`` has published times on two
development devices, Adreno 640 (ncnn with Vulkan, its benchmark/README.md) and Adreno 650 (DNNFusion's OurB+, table 6,
and DistilBERT of its table 1), and the parts of each network's simulated critical path in FP16; the Mali-G76 has set
nothing. Its launches count as a kind too: presets have the time of a kernel in a queue, and libraries put barriers and
changes of layout between kernels. ``cpus/parts_fp16.csv`` has the same of FP16 on one thread of rk3588 and
snapdragon855; what no product limits has the efficiencies of FP32 there.
"""

import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dsascape.experiments.papers.cpu_efficiencies import Parts, error, fitted

_FOLDER = Path(__file__).parent
_MOBILE, _FP16 = _FOLDER / "gpus" / "mobile_parts.csv", _FOLDER / "cpus" / "parts_fp16.csv"
MOBILE_KINDS = ("product", "convolution", "memory", "launch")
"""Kinds that take time on the critical paths of the recorded networks: depthwise convolutions wait for memory."""
FP16_KINDS = ("product", "convolution", "depthwise")


def recorded_mobile() -> tuple[Parts, ...]:
    """Return the networks of GPUs whose parts are recorded; launches are a kind of kernel."""
    return _read(_MOBILE, MOBILE_KINDS)


def recorded_fp16(others: Mapping[str, float]) -> tuple[Parts, ...]:
    """Return the networks in FP16 on CPUs; parts of ``others`` are counted as fixed, at these efficiencies."""
    found = _read(_FP16, ("launch", *FP16_KINDS, *others))
    return tuple([
        Parts(row.device, row.network, row.ms,
              row.by_kind_ms["launch"] + sum(row.by_kind_ms[kind] / share for kind, share in others.items()),
              {kind: row.by_kind_ms[kind] for kind in FP16_KINDS})
        for row in found
    ])  # fmt: skip


def _read(place: Path, kinds: Sequence[str]) -> tuple[Parts, ...]:
    with place.open(encoding="utf-8", newline="") as file:
        return tuple([
            Parts(row["device"], row["network"], float(row["ms"]), 0.0, {kind: float(row[kind]) for kind in kinds})
            for row in csv.DictReader(file)
        ])  # fmt: skip


def main() -> int:
    """Print the efficiencies, those of each GPU alone, and how far off they are; return the exit code."""
    rows = recorded_mobile()
    devices = list(dict.fromkeys(row.device for row in rows))
    for chosen in (devices, *[[device] for device in devices]):
        found = fitted([row for row in rows if row.device in chosen], MOBILE_KINDS)
        told = ", ".join(f"{kind}: {share:.2f}" for kind, share in found.items())
        off = ", ".join(f"{d} {error(own, found) / len(own):.3f}" for d, own in _by_device(rows).items())
        sys.stdout.write(f"{' and '.join(chosen)}: {told}; off in the mean: {off}\n")
    halves = recorded_fp16({"other": 0.41, "memory": 0.54})
    found = fitted(halves, FP16_KINDS)
    told = ", ".join(f"{kind}: {share:.2f}" for kind, share in found.items())
    sys.stdout.write(f"FP16 out of order, off by {error(halves, found) / len(halves):.3f} in the mean: {told}\n")
    return 0


def _by_device(rows: Sequence[Parts]) -> dict[str, list[Parts]]:
    found: dict[str, list[Parts]] = {}
    for row in rows:
        found.setdefault(row.device, []).append(row)
    return found


if __name__ == "__main__":
    sys.exit(main())
