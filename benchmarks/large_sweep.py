"""A sweep of 100,000 points: time to its first point, growth of its memory, time of its report.

Run ``python -m benchmarks.large_sweep``; it takes five to ten minutes and 600 MB of disk. The sweep runs for a while on
two processes, and is stopped. Then the missing points get the figures of computed ones, so that the report covers the
whole sweep.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import cycle
from pathlib import Path

from dsascape.experiments.engine.run import computed
from dsascape.experiments.question.points import DesignPoint
from dsascape.experiments.question.reading import read_experiment
from dsascape.experiments.results.store import DATABASE, ResultStore

START_AIM_S, REPORT_AIM_S = 5, 60
RUN_S, FEW = 40, 20
SWEEP = """\
name: large
workloads: [{{model: bert-tiny, batch: 4}}]
hardware:
  base: stcp920
  sweep:
    local_buffer.capacity: [{sizes}]
    ddr.bandwidth: [{bandwidths}]
    launch: [{launches}]
policies: [fixed-pattern]
objectives: [latency_s, area_mm2]
search: {{method: grid}}
"""
"""Number of points of the sweep: 50 x 50 x 40."""
COMMAND = (str(Path(sys.executable).with_name("dsascape")),)
_MIB = 2**20


def main() -> None:
    """Print the figures with their targets."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "large.yaml"
        file.write_text(
            SWEEP.format(
                sizes=", ".join([f"{512 + 32 * step} KiB" for step in range(50)]),
                bandwidths=", ".join([f"{60 + 4 * step} GB/s" for step in range(50)]),
                launches=", ".join([f"{1000 + 100 * step} ns" for step in range(40)]),
            )
        )
        experiment, grid = read_experiment(file)
        points = grid.chosen(experiment.search)
        print(f"a sweep of {grid.size:,} points")
        run_for_a_while(file, folder / "out")
        fill(points, folder / "out")
        report(folder / "out")


def run_for_a_while(file: Path, out: Path) -> None:
    """Run the sweep for some time; print when the first point was there, and its memory early and late."""
    started = time.perf_counter()
    with subprocess.Popen(
        [*COMMAND, "run", str(file), "--out", str(out), "--workers", "2"], stderr=subprocess.DEVNULL
    ) as running:
        while not points_in(out) and running.poll() is None:
            time.sleep(0.05)
        if running.poll() is not None:
            raise SystemExit(f"the sweep has ended with {running.returncode}")
        begun_s = time.perf_counter() - started
        print(f"first point after {begun_s:.1f} s (aim {START_AIM_S})")
        for part in (1, 2):
            time.sleep(RUN_S / 2)
            print(f"after {part * RUN_S // 2} s: {points_in(out):,} points, {resident_mib(running.pid):.0f} MiB")
        running.terminate()


def points_in(out: Path) -> int:
    """Return how many points are stored."""
    try:
        with closing(sqlite3.connect(f"file:{out / DATABASE}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM runs").fetchone()[0])
    except sqlite3.OperationalError:  # there is no file or no table yet
        return 0


def resident_mib(process: int) -> float:
    """Return the memory of a process that computes no points itself, in MiB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _MIB


def fill(points: Sequence[DesignPoint], out: Path) -> None:
    """Give all points that have no figures those of one of a few that are computed here."""
    known = [computed(point) for point in points[:FEW]]
    with ResultStore(out) as store:
        there = store.keys()
        for point, like in zip(points, cycle(known), strict=False):
            if point.key not in there:
                store.add(point.key, {**like.row, **point.swept}, like.layers)


def report(out: Path) -> None:
    """Print how long the report takes, and its memory."""
    started = time.perf_counter()
    process = subprocess.Popen([*COMMAND, "report", str(out)])
    _, status, used = os.wait4(process.pid, 0)
    taken_s = time.perf_counter() - started
    print(f"report after {taken_s:.0f} s (aim {REPORT_AIM_S}), {used.ru_maxrss / 1024:.0f} MiB, exit {status}")


if __name__ == "__main__":
    main()
