"""Predicted times of every kernel of networks, kept as data: what a change of the cost model moves.

`python -m benchmarks.predictions write FILE.csv` predicts CPUs with the code that is imported, with ``--kind gpu``
GPUs; `... compare FILE.csv` predicts again what the file has, and prints for each preset the networks that take more
than 2 % longer, the median and 95th percentile of the kernels' drift, and the kernels that drift by more than 3 %, by
their operators. Kernels are paired by preset, dtype, threads, network and name, the tensor that they write.
``--preset``, ``--network`` and ``--dtype`` choose; each may be given several times.
"""

import argparse
import csv
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import Cpu, Gpu, load_hardware, preset_names
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.cpu.convolutions import with_algorithms_that_pay
from dsascape.scheduler.cpu.cost.estimate import time_ps
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.lower import works
from dsascape.scheduler.cpu.search.tiling import KnownTiles
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.gpu.kind import GPU
from dsascape.scheduler.gpu.repeated import repeated_kernels
from dsascape.scheduler.gpu.tiling import KnownTiles as KnownGrids
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
NARROW = (("snapdragon855", "fp16"), ("snapdragon855", "int8"), ("apple_m1", "fp16"), ("epyc", "int8"))
"""Presets and dtypes of fewer bits that ``NETWORKS`` are predicted in, on all cores."""
EVERYWHERE_ON_GPUS = ("h100", "a100", "t4", "adreno640")
"""Presets on which all networks are predicted, in single precision as well."""
SLOWER, DRIFT = 0.02, 0.03
SHOWN = 12
"""Number of kinds of kernels that are shown of a preset, those that move the most time first."""


class Point(NamedTuple):
    """A network on a machine."""

    preset: str
    dtype: str
    threads: int
    """Threads asked for; 0: all."""
    network: str

    def __str__(self) -> str:
        return f"{self.network}, {self.dtype}, {self.threads or 'all'} threads"


class Key(NamedTuple):
    """A kernel of a network, by the name of the tensor that it writes."""

    point: Point
    kernel: str


class Predicted(NamedTuple):
    """Predicted time of a kernel among the others of its network, and the operators that it computes."""

    time_ps: float
    operators: str = ""
    """Kinds of its operators in order, such as ``Conv+Relu``; empty where they are not known."""


Predictions = Mapping[Key, Predicted]


class Known:
    """Tiles that points of one machine share."""

    def __init__(self) -> None:
        self.cpu, self.gpu = KnownTiles(), KnownGrids()


def predicted(point: Point, known: Known | None = None) -> dict[Key, Predicted]:
    """Return the time of each kernel of a network; ``known`` keeps tiles for other networks on as many threads."""
    known = known or Known()
    spec = load_hardware(point.preset)
    return _on_cpu(point, known.cpu) if isinstance(spec, Cpu) else _on_gpu(point, known.gpu)


def _on_gpu(point: Point, known: KnownGrids) -> dict[Key, Predicted]:
    graph = load_network(point.network).with_dtype(point.dtype)
    costs = GPU.costs(load_hardware(point.preset, Gpu), 1, point.dtype, None, known, Analysis(graph))
    schedule = GPU.schedule(fixed_pattern_plan(graph), costs, "fixed-pattern")
    found: dict[Key, Predicted] = {}
    for kernel, each in zip(schedule.runs, repeated_kernels(schedule, costs), strict=True):
        ops = kernel.layer.analysis.graph.ops
        kinds = "+".join(kind for kind, _ in groupby(ops[op].kind for op in kernel.layer.ops))
        found[Key(point, kernel.name)] = Predicted(each.seconds * PS_PER_S, kinds)
    return found


def _on_cpu(point: Point, known: KnownTiles) -> dict[Key, Predicted]:
    view = CpuView(load_hardware(point.preset, Cpu), CpuTuning(threads=point.threads))
    graph = load_network(point.network).with_dtype(point.dtype)
    costs = CpuCosts(view, Analysis(graph), point.dtype, known)
    schedule = with_algorithms_that_pay(fixed_pattern_plan(graph), costs, "fixed-pattern")
    found: dict[Key, Predicted] = {}
    for kernel, work in zip(schedule.runs, works(schedule, view), strict=True):
        ops = kernel.layer.analysis.graph.ops
        kinds = "+".join(kind for kind, _ in groupby(ops[op].kind for op in kernel.layer.ops))
        key = Key(point, kernel.name)
        before = found[key].time_ps if key in found else 0.0
        found[key] = Predicted(before + time_ps(work, view), kinds)
    return found


def predictions(chosen: Iterable[Point]) -> dict[Key, Predicted]:
    """Return the predictions of points; networks of one machine share what they know about tiles."""
    found: dict[Key, Predicted] = {}
    for _, of_machine in groupby(chosen, key=lambda point: (point.preset, point.threads)):
        known = Known()
        for point in of_machine:
            found |= predicted(point, known)
    return found


def cpus() -> list[str]:
    """Return the presets of CPUs that compute in single precision."""
    found = [(name, load_hardware(name)) for name in preset_names()]
    return [name for name, spec in found if isinstance(spec, Cpu) and "fp32" in spec.simd.lanes]


def points_of_gpus() -> Iterator[Point]:
    """Yield every point of the file of GPUs, those of one machine one after the other."""
    for preset in [name for name in preset_names() if isinstance(load_hardware(name), Gpu)]:
        everywhere = preset in EVERYWHERE_ON_GPUS
        yield from [Point(preset, "fp16", 0, network) for network in (*NETWORKS, *(FURTHER if everywhere else ()))]
        yield from [Point(preset, "fp32", 0, network) for network in (NETWORKS if everywhere else ())]


def points() -> Iterator[Point]:
    """Yield every point of the file of CPUs, those of one machine and number of threads one after the other."""
    for preset in cpus():
        everywhere = preset in EVERYWHERE
        yield from [Point(preset, "fp32", 0, network) for network in (*NETWORKS, *(FURTHER if everywhere else ()))]
        narrow = [dtype for name, dtype in NARROW if name == preset]
        yield from [Point(preset, dtype, 0, network) for dtype in narrow for network in NETWORKS]
        if everywhere:
            yield from [Point(preset, "fp32", 1, network) for network in NETWORKS]


def read(path: Path) -> dict[Key, Predicted]:
    """Return the predictions of a file; without a column ``dtype`` they are in single precision."""
    with path.open(encoding="utf-8", newline="") as file:
        return {
            Key(
                Point(row["preset"], row.get("dtype", "fp32"), int(row["threads"]), row["network"]), row["kernel"]
            ): Predicted(float(row["time_ps"]))
            for row in csv.DictReader(line for line in file if not line.startswith("#"))
        }  # fmt: skip


def write(path: Path, found: Predictions, note: str) -> None:
    """Write predictions, under a note that says what has made them."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"# {note}\n")
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow((*Point._fields, "kernel", "time_ps"))
        rows.writerows((*key.point, key.kernel, round(each.time_ps)) for key, each in found.items())


def times_ps(found: Predictions) -> dict[Point, float]:
    """Return the time of each network in picoseconds: the sum of its kernels'."""
    total: defaultdict[Point, float] = defaultdict(float)
    for key, each in found.items():
        total[key.point] += each.time_ps
    return dict(total)


def comparison(before: Predictions, after: Predictions) -> Iterator[str]:
    """Yield lines for each preset that say what has moved of what both have, and which kernels only one of them has."""
    presets = {key.point.preset: None for key in (*before, *after)}
    for preset in presets:
        yield from _of_preset(preset, *(_on(preset, found) for found in (before, after)))


def _on(preset: str, found: Predictions) -> dict[Key, Predicted]:
    return {key: each for key, each in found.items() if key.point.preset == preset}


def _of_preset(preset: str, before: Predictions, after: Predictions) -> Iterator[str]:
    own, other = times_ps(before), times_ps(after)
    ratios = {point: other[point] / time for point, time in own.items() if time and point in other}
    slower = sorted((point for point, ratio in ratios.items() if ratio > 1 + SLOWER), key=lambda point: -ratios[point])
    faster = [point for point, ratio in ratios.items() if ratio < 1 - SLOWER]
    yield f"{preset}: networks: {len(ratios)}; more than 2 % slower: {len(slower)}; faster: {len(faster)}"
    yield from (f"  {ratios[point]:.3f} {point}" for point in slower)
    drift = {key: after[key].time_ps / each.time_ps for key, each in before.items() if key in after and each.time_ps}
    far = [key for key, ratio in drift.items() if abs(ratio - 1) > DRIFT]
    sizes = sorted(abs(ratio - 1) for ratio in drift.values())
    if sizes:
        half, most = statistics.median(sizes), sizes[math.ceil(0.95 * len(sizes)) - 1]
        yield f"  kernels: {len(drift)}; drift: {half:.2%}, 95th percentile {most:.2%}; above 3 %: {len(far)}"
    alike: defaultdict[str, list[Key]] = defaultdict(list)
    for key in far:
        alike[after[key].operators or key.kernel].append(key)
    moved = {
        kind: sum(abs(after[key].time_ps - before[key].time_ps) / own[key.point] for key in keys)
        for kind, keys in alike.items()
    }
    for kind in sorted(alike, key=lambda kind: -moved[kind])[:SHOWN]:
        yield _of_kind(kind, alike[kind], drift, moved[kind])
    yield from _alone("before", before.keys() - after.keys(), own, other)
    yield from _alone("now", after.keys() - before.keys(), other, own)


def _of_kind(kind: str, keys: Sequence[Key], drift: Mapping[Key, float], moved: float) -> str:
    low, *_, high = sorted(drift[key] for key in (*keys, keys[0]))
    worst = max(keys, key=lambda key: abs(math.log(drift[key])))
    between = f"{low:.2f} to {high:.2f} times, {moved:.1%} of a network in all"
    return f"    {len(keys)} x {kind}: {between}; worst {worst.kernel} of {worst.point}"


def _alone(when: str, keys: Iterable[Key], own: Mapping[Point, float], other: Mapping[Point, float]) -> Iterator[str]:
    """Yield lines about kernels and networks that only one of both has; ``own`` is what has them."""
    by_point: defaultdict[Point, list[str]] = defaultdict(list)
    for key in sorted(keys):
        by_point[key.point].append(key.kernel)
    for point in own:
        if point not in other:
            yield f"  only {when}: {point}"
        elif point in by_point:
            names = by_point[point]
            yield f"  only {when}, of {point}: kernels: {len(names)}: {', '.join(names[:SHOWN])}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("write", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--kind", choices=("cpu", "gpu"), default="cpu", help="machines that are written")
    for option in ("preset", "network", "dtype"):
        parser.add_argument(f"--{option}", action="append", help="only this one, and others given so")
    parser.add_argument("--note", default="predicted by benchmarks.predictions")
    asked = parser.parse_args(arguments)

    def is_asked(point: Point) -> bool:
        chosen = (asked.preset, point.preset), (asked.network, point.network), (asked.dtype, point.dtype)
        return all(names is None or name in names for names, name in chosen)

    if asked.what == "write":
        every = points() if asked.kind == "cpu" else points_of_gpus()
        write(asked.file, predictions(filter(is_asked, every)), asked.note)
        return
    before = {key: each for key, each in read(asked.file).items() if is_asked(key.point)}
    print(*comparison(before, predictions(dict.fromkeys(key.point for key in before))), sep="\n")


if __name__ == "__main__":
    main()
