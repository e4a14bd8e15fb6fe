"""Processor time per design point of a sweep, compared with its target and with a bare simulation.

Run ``python -m benchmarks.sweep_speed`` (part of ``make bench``). The coarse sweep has four local buffers and four DDR
bandwidths, in one process, with the network loaded; ``finer``: twelve of each, 144 points (twelve for the paper's
machine, which is swept over DDR alone). ``first``: the first point of the coarse sweep, without caches of earlier ones.
``known``: the mean of the points of the coarse sweep whose local buffer and bandwidth both occurred before, but not
together. ``simulate``: a point's program simulated again, without planning or lowering. ``before``: planning, lowering
and simulation of a point when the targets were set. The last lines are wall time with two processes that store all
points.

``DSASCAPE_PURE=1`` runs Python instead of the C extensions.
"""

import gc
import itertools
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dsascape.experiments.engine.run import computed, run_points
from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.question.network import network, own_batch
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.hw_models import ClusteredDsa, dsa_energy, dsa_machine, load_hardware, simulate, with_values
from dsascape.hw_models.simulation.engines import available_engines
from dsascape.hw_models.simulation.pause import collect_seldom
from dsascape.scheduler import make_policy

LOCAL_BUFFERS = ("768 KiB", "1 MiB", "1.25 MiB", "2 MiB")
DDR = ("60 GB/s", "90 GB/s", "119.4 GB/s", "160 GB/s")


@dataclass(frozen=True)
class Case:
    """A network at its batch per cluster, and the target in milliseconds per point."""

    network: str
    images: int
    before_ms: float | None = None
    aim_ms: float | None = None
    first_aim_ms: float | None = None
    policy: str = "graphturbo"
    base: str = "stcp920"


CASES = (
    Case("resnet50", 4, 182, 40, 60),
    Case("resnet50", 16, 448, 80, 150),
    Case("bert-base-128", 4, 470, 80),
    Case("conformer", 3, 557, 80),
    Case("resnet50", 16, 5054, 500, base="stcp920_paper"),
    *(Case(name, images, policy="fixed-pattern") for name, images in (("resnet50", 16), ("bert-base-128", 4))),
)


def points(
    case: Case, local: Sequence[str | None] = LOCAL_BUFFERS, bandwidths: Sequence[str] = DDR
) -> list[DesignPoint]:
    """Return the points of a case's sweep; the paper's machine is swept over DDR alone."""
    base, policy = load_hardware(case.base), make_policy(case.policy)
    workload = Workload(case.network, case.images * 4)
    local = local if case.base == "stcp920" else (None,)
    found = []
    for size, bandwidth in itertools.product(local, bandwidths):
        values = {"ddr.bandwidth": bandwidth} | ({"local_buffer.capacity": size} if size else {})
        found.append(DesignPoint(workload, with_values(base, values), policy, values))
    return found


def resimulated_ms(point: DesignPoint) -> float:
    """Return the milliseconds of simulating a point's program again: the least of three."""
    program = evaluate(point).program
    spec = point.hardware
    assert isinstance(spec, ClusteredDsa)
    machine, energy, taken = dsa_machine(spec), dsa_energy(spec), []
    for _ in range(3):
        started = time.process_time()
        simulate(program, machine, energy)
        taken.append(time.process_time() - started)
    return 1e3 * min(taken)


def shown(measured_ms: float, aim_ms: float | None) -> str:
    """Return a time with its target, as text."""
    return f"{measured_ms:9.0f}ms {'' if aim_ms is None else f'({aim_ms:.0f})':>7}"


def finer(case: Case, steps: int) -> list[DesignPoint]:
    """Return the points of a sweep over this many local buffers and bandwidths, in the same ranges."""
    sizes, bandwidths = _evenly(768, 2048, steps), _evenly(60, 160, steps)
    return points(case, [f"{size} KiB" for size in sizes], [f"{bandwidth} GB/s" for bandwidth in bandwidths])


def rate(steps: int) -> float:
    """Return the points per second that two processes compute and store in a sweep of this many values per axis."""
    tried = finer(CASES[0], steps)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        run_points(tried, Path(folder), 2)
        return len(tried) / (time.perf_counter() - started)


def _evenly(least: int, most: int, steps: int) -> list[int]:
    return [least + (most - least) * step // (steps - 1) for step in range(steps)]


def main() -> None:
    """Print the table."""
    collect_seldom()  # as the processes that compute points do
    print(f"engine: {available_engines()[0]}")
    wide = (("coarse", 11), ("aim", 7), ("before", 9), ("finer", 9), ("known", 9), ("first", 11), ("aim", 7))
    columns = " ".join([f"{name:>{width}}" for name, width in (*wide, ("simulate", 9))])
    print(f"{'network':14} {'images':>6} {'policy':14} {'machine':14} {columns}")
    for case in CASES:
        swept = points(case)
        taken = times_ms(swept)
        finer_ms = f"{statistics.mean(times_ms(finer(case, 12))):.0f}ms"
        known = [ms for place, ms in enumerate(taken) if place > len(DDR) and place % len(DDR)]
        before = "" if case.before_ms is None else f"{case.before_ms:.0f}ms"
        known_ms = f"{statistics.mean(known):.0f}ms" if known else ""
        print(
            f"{case.network:14} {case.images:6d} {case.policy:14} {case.base:14}"
            f" {shown(statistics.mean(taken), case.aim_ms)} {before:>9} {finer_ms:>9} {known_ms:>9}"
            f" {shown(taken[0], case.first_aim_ms)} {resimulated_ms(swept[-1]):7.0f}ms"
        )
    for steps in (4, 16):
        print(f"resnet50 at 4 images, {steps * steps} points: {rate(steps):.1f} a second over two processes (aim 25)")


def times_ms(swept: Sequence[DesignPoint]) -> list[float]:
    """Return the processor time of each point in ms; the first one has no caches but its network."""
    network.cache_clear()
    own_batch.cache_clear()
    gc.collect()  # what was computed before has left garbage behind, which is no part of these times
    load(swept[0])
    taken = []
    for point in swept:
        started = time.process_time()
        computed(point)
        taken.append(1e3 * (time.process_time() - started))
    return taken


def load(point: DesignPoint) -> None:
    """Load the network of a point, so that this is not part of any time."""
    network(point.workload, point.workload.batch // 4 if point.workload.batch else 1, "fp16")


if __name__ == "__main__":
    main()
