"""CPU time of first and later design points on CPUs, in fresh processes, perhaps beside another checkout's.

Run ``python -m benchmarks.first_points FILE.csv``. ``--beside CHECKOUT`` computes each point with that checkout's code,
too, in turns: what else the machine does slows both. ``first_s``: seconds of the process, user and system, for the
first point of a network, once packages are imported and the network is loaded; ``later_s``: the mean of two further
points, with other DRAM bandwidths; ``process_s``: all of the process. Each is the median over processes. ``latency_s``
is the simulated latency of the first point: all cores, the machine's default dtype, ``fixed-pattern``.
"""

import argparse
import csv
import json
import os
import resource
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from dsascape.experiments.engine.run import computed
from dsascape.experiments.question.network import default_dtype, network, own_batch
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.hw_models import load_hardware, with_values
from dsascape.scheduler import make_policy

NETWORKS = "squeezenet", "mobilenet-v2", "resnet50", "efficientnet-b0", "bert-tiny", "mobilevit", "unet", "conformer"
PRESETS = "snapdragon855", "epyc", "raspberry_pi_4", "apple_m1"
LATER = "10 GB/s", "11 GB/s"
"""Bandwidths of the DRAM of later points: none of the presets has them."""
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Taken:
    """Seconds of CPU time of a process that computed the points of a network, and the first point's latency."""

    first_s: float
    later_s: float
    process_s: float
    latency_s: float


def spent_s() -> float:
    """Return the CPU time of this process so far, in seconds, user and system."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def computed_here(preset: str, name: str) -> Taken:
    """Compute the points of a network in this process, which has computed none before."""
    base, policy, workload = load_hardware(preset), make_policy("fixed-pattern"), Workload(name)
    network(workload, own_batch(workload).size, default_dtype(base))
    taken, latencies = [], []
    for values in ({}, *({"dram.bandwidth": bandwidth} for bandwidth in LATER)):
        point = DesignPoint(workload, with_values(base, values), policy, values)
        started = spent_s()
        latencies.append(float(str(computed(point).row["latency_s"])))
        taken.append(spent_s() - started)
    return Taken(taken[0], statistics.mean(taken[1:]), spent_s(), latencies[0])


def in_a_process(checkout: Path, preset: str, name: str) -> Taken:
    """Return what a fresh process takes with the code of a checkout."""
    command = [sys.executable, str(Path(__file__).resolve()), "--here", preset, name]
    environment = {**os.environ, "PYTHONPATH": f"{checkout / 'src'}", "PYTHONSAFEPATH": "1"}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return Taken(**json.loads(ran.stdout))


def median(several: Sequence[Taken]) -> Taken:
    """Return the median of each figure."""
    return Taken(*(statistics.median(getattr(each, field.name) for each in several) for field in fields(Taken)))


def rows(checkouts: Sequence[Path], presets: Sequence[str], names: Sequence[str], runs: int) -> Iterator[list[str]]:
    """Yield a row for each network on each preset and checkout, as soon as it is known."""
    for preset in presets:
        for name in names:
            found: defaultdict[Path, list[Taken]] = defaultdict(list)
            for _ in range(runs):
                for checkout in checkouts:
                    found[checkout].append(in_a_process(checkout, preset, name))
            for checkout in checkouts:
                figures = [f"{figure:.4g}" for figure in asdict(median(found[checkout])).values()]
                yield [checkout.name, preset, name, *figures]


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute points and write their times, or compute those of one network and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", help="where to write; default: printed")
    parser.add_argument("--beside", type=Path, action="append", default=[], metavar="CHECKOUT")
    parser.add_argument("--only-beside", action="store_true", help="without the code of this checkout")
    parser.add_argument("--preset", action="append")
    parser.add_argument("--network", action="append")
    parser.add_argument("--runs", type=int, default=3, help="processes for each figure")
    parser.add_argument("--note", default="CPU times by benchmarks.first_points")
    parser.add_argument("--here", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.here:
        print(json.dumps(asdict(computed_here(*asked.here))))
        return
    checkouts = [*([] if asked.only_beside else [ROOT]), *(each.resolve() for each in asked.beside)]
    with nullcontext(sys.stdout) if asked.file is None else asked.file.open("w", encoding="utf-8", newline="") as file:
        file.write(f"# {asked.note}\n")
        written = csv.writer(file, lineterminator="\n")
        written.writerow(["code", "preset", "network", *(field.name for field in fields(Taken))])
        for row in rows(checkouts, asked.preset or PRESETS, asked.network or NETWORKS, asked.runs):
            written.writerow(row)
            file.flush()


if __name__ == "__main__":
    main()
