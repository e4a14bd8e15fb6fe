"""Kernels of a bundle beside the pace of arithmetic of the same moment, for machines whose speed changes by the second.

    python3 -I -S paced_bundle.py PROBES BUNDLE OUT.json ROUNDS SECONDS     # under TVM_NUM_THREADS, TVM_BIND_THREADS=0

``PROBES`` and ``BUNDLE`` are unpacked bundles, the first of ``bundle build --calibrate``. Round after round, each
kernel runs once and then for at least 20 microseconds; before and behind it, multiply-accumulates in registers are
timed, split over as many threads. Then all kernels in sequence, likewise. A virtual machine's cores share pipes and
clocks with others: both times are written, and ``benchmarks.paced_results`` makes tables of them.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

_CHAINS, _DEPTH, _ROWS = 12, 4096, 4
"""Accumulators and steps of the probe ``chains_split``, and its rows on each thread."""
UPDATES = _CHAINS * _DEPTH * _ROWS
"""Vector multiply-accumulates of each thread in one reading of the pace."""
_FEWEST, _MOST, _ROW_S = 12, 100, 0.4


class Pace:
    """Reads the seconds of one multiply-accumulate on the slowest of all threads; keeps the arrays of its probe."""

    def __init__(self, bench: Any, lanes: int, threads: int) -> None:
        self._arrays = []
        for shape in ((_DEPTH,), (_CHAINS * lanes,), (threads, _ROWS, _CHAINS * lanes)):
            self._arrays.append(bench.array(shape, "float32"))
            bench.run(f"fill{len(shape)}", self._arrays[-1:])
        self._clock = bench.clock("chains_split", self._arrays, 1)

    def __call__(self) -> float:
        return float(self._clock()) / UPDATES


def sampled(timed: Callable[[], float], pace: Callable[[], float]) -> tuple[float, float, float]:
    """Return a time, and the pace before and behind it."""
    before = pace()
    seconds = timed()
    return seconds, before, pace()


def in_sequence(calls: Sequence[Callable[[], None]]) -> float:
    """Return the seconds of all calls, one after the other."""
    begin = time.perf_counter()
    for call in calls:
        call()
    return time.perf_counter() - begin


def main(probes: Path, folder: Path, out: Path, rounds: int, seconds: float) -> None:
    """Measure the bundle in ``folder`` and write its samples to ``out``."""
    sys.path.insert(0, str(folder))  # the bundle has the package's runner, and nothing else is installed
    contents = import_module("dsascape.tuner.bundle.contents")
    native = import_module("dsascape.tuner.bundle.native")
    threads = int(os.environ["TVM_NUM_THREADS"])
    read = contents.Manifest.from_trusted
    manifest, of_probes = (read((each / contents.MANIFEST).read_text("utf-8")) for each in (folder, probes))
    budget = import_module("dsascape.tuner.measure.records").Budget()
    steps = import_module("dsascape.tuner.bundle.steps").Steps(folder, manifest, budget)
    runtime = native.Runtime([folder / "lib" / name for name in contents.RUNTIME], probes / contents.CODE)
    bench = import_module("dsascape.tuner.bundle.probes").NativeBench(runtime)
    pace = Pace(bench, of_probes.lanes, threads)
    machine, wrong = steps.machine, {}
    for kernel in manifest.kernels:
        machine.run(kernel)
        deviation = steps.deviation(kernel)
        wrong.update({kernel.name: deviation} if deviation > manifest.tolerance else {})
    clocks = {kernel.name: machine.clock(kernel) for kernel in manifest.kernels}
    samples: dict[str, list[tuple[float, float, float]]] = {name: [] for name in clocks}
    end = time.perf_counter() + seconds
    for number in range(rounds):
        if number >= _FEWEST // 2 and time.perf_counter() > end:
            break
        for name, clock in clocks.items():
            samples[name].append(sampled(clock, pace))
    calls = [partial(machine.run, kernel) for kernel in manifest.kernels]
    row: list[tuple[float, float, float]] = []
    end = time.perf_counter() + _ROW_S
    while len(row) < _FEWEST or (time.perf_counter() < end and len(row) < _MOST):
        in_sequence(calls)
        row.append(sampled(partial(in_sequence, calls), pace))
    device = import_module("dsascape.tuner.measure.device")
    out.write_text(json.dumps({
        "model": manifest.model, "policy": manifest.policy, "target": manifest.target, "threads": threads,
        "built_threads": manifest.threads, "measured_at": device.now(), "device": asdict(device.local_device()),
        "wrong": wrong, "operators": {kernel.name: kernel.operators for kernel in manifest.kernels},
        "kernels": samples, "network": row,
    }), "utf-8")  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
