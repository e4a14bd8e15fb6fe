"""Running many design points: over processes, resumable, every figure on disk as soon as it is known."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path

from experiments.evaluate import evaluate
from experiments.points import DesignPoint, Figure
from experiments.store import ResultStore
from hw_models import HardwareError, SimulationError
from scheduler import ScheduleError, TilingCache, policy_label
from workloads import WorkloadError

Row = dict[str, Figure]
OnPoint = Callable[[DesignPoint, Row], None]
_MOST_TILINGS = 20_000
_IN_FLIGHT_PER_WORKER = 4
_tilings: dict[str, TilingCache] = {}
"""Of this worker process, by machine: tilings found for one policy or network serve the next."""


def row_of(point: DesignPoint) -> Row:
    """Return the table row of a point: its figures, or the message of what stood in the way."""
    row: Row = {
        "model": point.workload.label, "hardware": point.hardware.name, "policy": policy_label(point.policy),
        "area_mm2": point.hardware.area_mm2, **point.swept, "error": None,
    }  # fmt: skip
    machine = point.hardware.model_dump_json()
    if sum(map(len, _tilings.values())) > _MOST_TILINGS:
        _tilings.clear()
    try:
        row.update(evaluate(point, _tilings.setdefault(machine, {})).record.flat())
    except (WorkloadError, HardwareError, ScheduleError, SimulationError) as error:
        row["error"] = str(error)
        row["batch"] = point.workload.batch
    return row


def run_points(points: Sequence[DesignPoint], folder: Path, workers: int = 0, on_point: OnPoint | None = None) -> int:
    """Compute the points that ``folder`` does not have yet; return how many those were.

    ``workers`` processes (one per core by default); with one, everything happens in this process. Rows are stored as
    they come, so that a run that is killed goes on where it was.
    """
    with ResultStore(folder) as store:
        known = store.keys()
        missing = list({p.key: p for p in points if p.key not in known}.values())
        for point, row in _computed(missing, workers or os.cpu_count() or 1):
            store.add(point.key, row)
            if on_point is not None:
                on_point(point, row)
    return len(missing)


def _computed(points: Sequence[DesignPoint], workers: int) -> Iterator[tuple[DesignPoint, Row]]:
    if workers == 1 or len(points) <= 1:
        yield from ((point, row_of(point)) for point in points)
        return
    with ProcessPoolExecutor(max_workers=min(workers, len(points))) as pool:
        waiting = iter(points)
        running = {}
        try:
            for point in waiting:
                running[pool.submit(row_of, point)] = point
                if len(running) < workers * _IN_FLIGHT_PER_WORKER:
                    continue
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield running.pop(future), future.result()
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield running.pop(future), future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
