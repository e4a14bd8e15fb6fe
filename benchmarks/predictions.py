"""Predicted times of every kernel of networks on CPUs, kept as data: what a change of the cost model moves.

`python -m benchmarks.predictions write FILE.csv` predicts with the code that is imported; `... compare FILE.csv`
predicts again and prints networks that take more than 2 % longer, and the kernels that drift by more than 3 %, the
dearest first. Kernels are paired by network and name.
"""

import argparse
import csv
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import Cpu, load_hardware, preset_names
from dsascape.scheduler.cpu.convolutions import with_algorithms_that_pay
from dsascape.scheduler.cpu.cost.estimate import time_ps
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.lower import works
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.workloads import load_network
from dsascape.workloads.analysis import Analysis

NETWORKS = (
    "resnet50", "mobilenet-v2", "squeezenet", "efficientnet-b0", "bert-tiny", "mobilevit", "shufflenet-v2", "dcgan",
    "unet", "conformer",
)  # fmt: skip
FURTHER = (
    "resnet18", "mnasnet", "vgg16", "densenet121", "c3d", "tinybert", "mobilebert", "gpt2", "dlrm", "s3d",
    "resnest50", "faster-rcnn",
)  # fmt: skip
EVERYWHERE = ("snapdragon855", "epyc", "raspberry_pi_4", "apple_m1")
"""Presets on which all networks are predicted, with one thread as well."""
SLOWER, DRIFT = 0.02, 0.03

Key = tuple[str, int, str, str]
"""Preset, threads asked for (0: all), network, kernel."""


def predicted(preset: str, threads: int, network: str) -> dict[Key, float]:
    """Return the time of each kernel of a network in single precision, in picoseconds."""
    view = CpuView(load_hardware(preset, Cpu), CpuTuning(threads=threads))
    graph = load_network(network).with_dtype("fp32")
    costs = CpuCosts(view, Analysis(graph), "fp32")
    schedule = with_algorithms_that_pay(fixed_pattern_plan(graph), costs, "fixed-pattern")
    found: defaultdict[Key, float] = defaultdict(float)
    for kernel, work in zip(schedule.runs, works(schedule, view), strict=True):
        found[preset, threads, network, kernel.name] += time_ps(work, view)
    return dict(found)


def cpus() -> list[str]:
    """Return the presets of CPUs that compute in single precision."""
    found = [(name, load_hardware(name)) for name in preset_names()]
    return [name for name, spec in found if isinstance(spec, Cpu) and "fp32" in spec.simd.lanes]


def points() -> Iterator[tuple[str, int, str]]:
    """Yield preset, threads and network of every point of the file."""
    for preset in cpus():
        yield from [(preset, 0, network) for network in NETWORKS]
        if preset in EVERYWHERE:
            yield from [(preset, 0, network) for network in FURTHER]
            yield from [(preset, 1, network) for network in NETWORKS]


def read(path: Path) -> dict[Key, float]:
    """Return the predictions of a file."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {
            (row["preset"], int(row["threads"]), row["network"], row["kernel"]): float(row["time_ps"]) for row in rows
        }


def write(path: Path, found: Mapping[Key, float], note: str) -> None:
    """Write predictions, under a note that says what has made them."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"# {note}\n")
        rows = csv.writer(file)
        rows.writerow(("preset", "threads", "network", "kernel", "time_ps"))
        rows.writerows([(*key, round(time)) for key, time in found.items()])


def networks_of(found: Mapping[Key, float]) -> dict[tuple[str, int, str], float]:
    """Return the time of each network: the sum of its kernels'."""
    total: defaultdict[tuple[str, int, str], float] = defaultdict(float)
    for (preset, threads, network, _), time in found.items():
        total[preset, threads, network] += time
    return dict(total)


def comparison(before: Mapping[Key, float], after: Mapping[Key, float]) -> Iterator[str]:
    """Yield lines that say what has moved, of what both have; and what only one has."""
    own, other = networks_of(before), networks_of(after)
    ratios = {key: other[key] / own[key] for key in own if key in other}
    slower = {key: ratio for key, ratio in ratios.items() if ratio > 1 + SLOWER}
    faster = [ratio for ratio in ratios.values() if ratio < 1 - SLOWER]
    moved = f"{len(slower)} slower by more than 2 %, {len(faster)} faster"
    yield f"{len(ratios)} networks: {moved}; {_middle(ratios.values())}"
    for (preset, threads, network), ratio in sorted(slower.items(), key=lambda each: -each[1]):
        yield f"  {ratio:.3f} {network} on {preset}, {threads or 'all'} threads"
    drift = {key: after[key] / time for key, time in before.items() if key in after and time}
    far = [key for key, ratio in drift.items() if abs(ratio - 1) > DRIFT]
    yield f"{len(drift)} kernels: {len(far)} drift by more than 3 %; {_middle(drift.values())}"
    share = {key: before[key] / own[key[0], key[1], key[2]] for key in far}
    dearest = sorted(far, key=lambda key: -abs(drift[key] - 1) * share[key])
    for key in dearest[:40]:
        yield f"  {drift[key]:.3f} {share[key]:.1%} of {key[2]} on {key[0]}: {key[3]}"
    only = before.keys() ^ after.keys()
    yield f"{len(only)} kernels have no partner"


def _middle(ratios: Iterable[float]) -> str:
    found = sorted(ratios)
    mean = math.exp(statistics.fmean(map(math.log, found))) if found else 1.0
    return f"mean {mean:.3f}, from {found[0]:.2f} to {found[-1]:.2f}" if found else "none"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("write", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--preset", help="only this one")
    parser.add_argument("--note", default="predicted by benchmarks.predictions")
    asked = parser.parse_args(arguments)
    found: dict[Key, float] = {}
    for preset, threads, network in points():
        if asked.preset in (None, preset):
            found |= predicted(preset, threads, network)
    if asked.what == "write":
        write(asked.file, found, asked.note)
        return
    before = {key: time for key, time in read(asked.file).items() if asked.preset in (None, key[0])}
    print(*comparison(before, found), sep="\n")


if __name__ == "__main__":
    main()
