"""Running many design points: resumable, figures on disk as soon as they are known, none twice."""

from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.engines import Engine, Row, open_engine
from experiments.evaluate import evaluate
from experiments.points import DesignPoint
from experiments.store import ResultStore
from hw_models import HardwareError, SimulationError
from scheduler import ScheduleError, kind_of, policy_label
from workloads import WorkloadError
from workloads.analysis import Table

OnPoint = Callable[[DesignPoint, Row], None]
_MOST_MACHINES = 64
_known: Table[object] = Table(_MOST_MACHINES)
"""Of this worker process, by machine and tuning: what was found for one policy or network serves the next."""


def row_of(point: DesignPoint) -> Row:
    """Return the table row of a point: its figures, or the message of what stood in the way."""
    workload = point.workload
    row: Row = {
        "model": workload.family if "sequence" in point.swept else workload.label,
        "hardware": point.hardware.name, "policy": policy_label(point.policy), "batch": workload.batch,
        "dtype": workload.dtype, "area_mm2": point.hardware.area_mm2, **point.swept, "error": None,
    }  # fmt: skip
    machine = point.hardware.model_dump_json(), tuple(sorted(map(str, point.tuning.items())))
    try:
        figures = evaluate(point, _known.get(machine, kind_of(point.hardware).known)).record.flat()
    except (WorkloadError, HardwareError, ScheduleError, SimulationError) as error:
        return row | {"error": str(error)}
    return row | figures | {"model": row["model"]}


class Runner:
    """Computes points, except those that its store has."""

    def __init__(self, store: ResultStore, engine: Engine, on_point: OnPoint | None = None) -> None:
        self._store = store
        self._engine = engine
        self._on_point = on_point
        self._known = store.keys()
        self.computed = 0
        """Points that were not in the store."""

    def rows(self, points: Sequence[DesignPoint]) -> list[Row]:
        """Return the points' rows; each is on disk before the next one is waited for."""
        missing = {point.key: point for point in points if point.key not in self._known}
        for point, row in self._engine.rows(row_of, list(missing.values())):
            self._store.add(point.key, row)
            self._known.add(point.key)
            self.computed += 1
            if self._on_point is not None:
                self._on_point(point, row)
        return self._store.rows([point.key for point in points])


def run_points(points: Sequence[DesignPoint], folder: Path, workers: int = 0, on_point: OnPoint | None = None) -> int:
    """Compute the points that ``folder`` does not have yet; return how many those were.

    ``workers`` processes (one per core by default); with one, everything happens in this process. Rows are
    stored as they come, so that a run that is killed goes on where it was.
    """
    with open_engine(min(workers, len(points)) if workers else 0) as engine, ResultStore(folder) as store:
        runner = Runner(store, engine, on_point)
        runner.rows(points)
        return runner.computed
