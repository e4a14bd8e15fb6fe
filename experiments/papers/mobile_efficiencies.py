"""Efficiency of libraries on GPUs of phones, and of FP16 on CPUs, by kind of kernel, from published times of networks.

    python -m dsascape.experiments.papers.mobile_efficiencies

prints what ``hw_models/library_efficiencies.yaml`` states; with ``--record`` it first simulates the networks of GPUs
again and writes their parts. ``gpus/mobile_parts.csv`` has published times on two development devices, Adreno 640 (ncnn
with Vulkan, its benchmark/README.md) and Adreno 650 (DNNFusion's OurB+, table 6, and DistilBERT of its table 1), and
the parts of each network's simulated critical path in FP16; the Mali-G76 has set nothing. Its launches count as a kind
too: presets have the time of a kernel in a queue, and libraries put barriers and changes of layout between kernels.
``cpus/parts_fp16.csv`` has the same of FP16 on one thread of rk3588 and snapdragon855; what no product limits has the
efficiencies of FP32 there.
"""

import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dsascape.experiments.api import simulate
from dsascape.experiments.papers.cpu_efficiencies import Parts, error, fitted
from dsascape.experiments.point.expected import expected_ps
from dsascape.hw_models import load_hardware

_FOLDER = Path(__file__).parent
_MOBILE, _FP16 = _FOLDER / "gpus" / "mobile_parts.csv", _FOLDER / "cpus" / "parts_fp16.csv"
MOBILE_KINDS = ("product", "convolution", "memory", "launch")
"""Kinds that take time on the critical paths of the recorded networks: depthwise convolutions wait for memory."""
_KINDS_IN = {"product": ("product", "depthwise", "other"), **{kind: (kind,) for kind in MOBILE_KINDS[1:]}}
"""Kinds of kernels of presets by the recorded kind: depthwise convolutions and other kernels are as products."""
_ALL_KINDS = [kind for own in _KINDS_IN.values() for kind in own]
FP16_KINDS = ("product", "convolution", "depthwise")


def recorded_mobile() -> tuple[Parts, ...]:
    """Return the networks of GPUs whose parts are recorded; launches are a kind of kernel."""
    return _read(_MOBILE, MOBILE_KINDS)


def simulated_ms(device: str, network: str) -> dict[str, float]:
    """Return milliseconds of a network's simulated critical path in FP16 on a GPU, by kind as in `recorded_mobile`."""
    outcome = simulate(network, device, "fixed-pattern", dtype="fp16")
    spec = load_hardware(device)

    def taken_ps(**efficiency: float) -> float:
        hardware = spec.model_copy(update={"library_efficiency": dict.fromkeys(_ALL_KINDS, 1.0) | efficiency})
        return expected_ps(outcome.schedule, outcome.program, outcome.result, hardware)

    at_bound_ps = taken_ps()
    return {kind: (taken_ps(**dict.fromkeys(own, 0.5)) - at_bound_ps) / 1e9 for kind, own in _KINDS_IN.items()}


def record_mobile() -> None:
    """Simulate the networks whose parts are recorded again, and write their parts."""
    with _MOBILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    every = [simulated_ms(row["device"], row["network"]) for row in rows]  # before the file is opened to be written
    with _MOBILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row, parts in zip(rows, every, strict=True):
            writer.writerow(row | {kind: f"{parts[kind]:.3f}" for kind in MOBILE_KINDS})


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


def main(argv: Sequence[str]) -> int:
    """Print the efficiencies, those of each GPU alone, and how far off they are; return the exit code."""
    if list(argv) == ["--record"]:
        record_mobile()
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
    sys.exit(main(sys.argv[1:]))
