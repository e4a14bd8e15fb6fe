"""Runs of many design points: resumable, stored as they are computed, none computed twice."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dsascape.experiments.engine.engines import Engine, open_engine
from dsascape.experiments.engine.failures import Failure
from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.layers import layer_rows, layers_of
from dsascape.experiments.point.replay import simulated
from dsascape.experiments.point.sound import check_figures
from dsascape.experiments.question.combined import figures_of, power_w
from dsascape.experiments.question.command_line import simulate_command
from dsascape.experiments.question.constraints import Constraint, violated
from dsascape.experiments.question.network import default_dtype
from dsascape.experiments.question.points import DesignPoint, Row
from dsascape.experiments.real.compared import Comparison
from dsascape.experiments.real.measured_kinds import measured_kind
from dsascape.experiments.results.computed import Computed, check_finite
from dsascape.experiments.results.store import VIOLATES, ResultStore
from dsascape.scheduler import kind_of
from dsascape.tuner.measure import Budget
from dsascape.workloads.analysis import Table
from dsascape.workloads.memo import MemoFigures, memo_figures, memo_figures_since, summed_memo_figures

OnPoint = Callable[[DesignPoint, Row], None]
_log = logging.getLogger(__name__)
_MOST_MACHINES = 64
_caches: Table[object] = Table(_MOST_MACHINES)
"""Caches of this worker process by machine and tuning, shared by the policies and networks that it computes."""


def computed(point: DesignPoint) -> Computed:
    """Evaluate a point; raise what `simulated` raises, and ``HardwareError`` for figures that are not finite."""
    if point.measured_on is not None:
        return computed_of(point, *measured(point, Budget()))
    outcome = evaluated(point)
    row = described(point)
    layers = layers_of(outcome)
    check_figures(outcome.record, layers)
    row |= outcome.record.flat() | {"model": row["model"]}
    row["power_w"] = power_w(row)
    check_finite(row)
    return Computed(row, layer_rows(outcome, layers))


def computed_and_profiled(point: DesignPoint) -> Computed:
    """Evaluate a point as `computed` does, and tell how the process used its stored results."""
    before = memo_figures()
    found = computed(point)
    return replace(found, memos=memo_figures_since(before))


def evaluated(point: DesignPoint) -> Outcome:
    """Simulate a point with this process' cache of its machine; raise what `simulated` raises."""
    machine = point.hardware.model_dump_json(), tuple(sorted(map(str, point.tuning.items())))
    return simulated(point, _caches.get(machine, kind_of(point.hardware).new_cache))


def measured(point: DesignPoint, budget: Budget) -> tuple[Outcome, Comparison]:
    """Simulate ``point`` and measure it on a real device; return both results.

    Raises what `measured_kind` raises, and what the kind's measurement raises (`on_processor`, `on_gpu`).
    """
    return measured_kind(point.hardware).measured(point, budget)


def computed_of(point: DesignPoint, outcome: Outcome, comparison: Comparison) -> Computed:
    """Return the rows of a measured point, with its kernels predicted and measured."""
    row = described(point)
    row |= outcome.record.flat() | {"model": row["model"]} | comparison.row()
    row["power_w"] = power_w(row)
    layers = layers_of(outcome)
    check_figures(outcome.record, layers)
    check_finite(row)
    return Computed(row, layer_rows(outcome, layers), tuple(comparison.kernel_rows()))


def described(point: DesignPoint) -> Row:
    """Return a point's row without its figures."""
    workload = point.workload
    return {
        "model": workload.label_beside(point.swept),
        "hardware": point.hardware.name, "policy": point.decided_by, "batch": workload.batch,
        "dtype": workload.dtype or default_dtype(point.hardware), "area_mm2": point.hardware.area_mm2,
        **point.swept, **_measured_on(point), **_origin(point), "error": None,
    }  # fmt: skip


def _measured_on(point: DesignPoint) -> Row:
    """Return the columns of a measured point that do not depend on the measurement."""
    on = point.measured_on
    return {} if on is None else {"target": on.target, "device": on.processor, "flushed_caches": int(on.flush_caches)}


def _origin(point: DesignPoint) -> Row:
    """Return the columns of a point from an experiment file: the command that runs it, and whether it is the base."""
    if point.origin is None:
        return {}
    return {"is_base": int(point.origin.is_base), "command": simulate_command(point, point.origin)}


class Runner:
    """Computes the points that its store does not have."""

    def __init__(
        self, store: ResultStore, engine: Engine, on_point: OnPoint | None = None, *, retry_failed: bool = False,
        constraints: Sequence[Constraint] = (), profiles: bool = False,
    ) -> None:  # fmt: skip
        self._compute = computed_and_profiled if profiles else computed
        self.memos: tuple[MemoFigures, ...] = ()
        """Use of stored results by worker processes, summed over the points that have figures; with ``profiles``."""
        self._store = store
        self._engine = engine
        self._on_point = on_point
        self._constraints = constraints
        self._stored = store.keys(failed=not retry_failed)
        self._before = frozenset(self._stored)
        self._reused: set[str] = set()
        """Keys of requested points that the store had before."""
        self.computed = 0
        """Number of points computed by this runner."""

    def rows(self, points: Sequence[DesignPoint]) -> list[Row]:
        """Compute the points that are not stored; return the rows of all of them in order."""
        self.run(points)
        return self._store.rows([point.key for point in points])

    def run(self, points: Iterable[DesignPoint]) -> None:
        """Compute the points that are not stored, drawn one by one as workers become free."""
        for point, outcome in self._engine.results(self._compute, self._missing(points)):
            result = outcome if isinstance(outcome, Computed) else Computed(_failed(point, outcome))
            if result.memos:
                self.memos = summed_memo_figures([self.memos, result.memos])
            row = result.row | {"code": point.code}
            if self._constraints and row["error"] is None:
                row[VIOLATES] = violated(figures_of(row), self._constraints) or None
            self._store.add(point.key, row, result.layers, result.kernels)
            self._stored.add(point.key)
            self.computed += 1
            if self._on_point is not None:
                self._on_point(point, row)
        if self._reused:
            self._store.make_current(self._reused)
            self._reused.clear()

    def _missing(self, points: Iterable[DesignPoint]) -> Iterator[DesignPoint]:
        """Yield the points that are not stored, each once."""
        begun: set[str] = set()
        for point in points:
            if point.key in self._before:
                self._reused.add(point.key)
            if point.key not in self._stored and point.key not in begun:
                begun.add(point.key)
                yield point


def _failed(point: DesignPoint, failure: Failure) -> Row:
    row = described(point) | {"error": failure.reason}
    if failure.traceback:
        _log.info("%s under %s fails:\n%s", row["model"], row["policy"], failure.traceback)
    return row


def run_points(points: Sequence[DesignPoint], folder: Path, workers: int = 0, on_point: OnPoint | None = None) -> int:
    """Compute the points that ``folder`` does not have; return the number of them.

    Uses ``workers`` processes, by default one per core. Rows are stored as they are computed, so a killed run can be
    resumed.
    """
    with open_engine(min(workers, len(points)) if workers else 0) as engine, ResultStore(folder) as store:
        runner = Runner(store, engine, on_point)
        runner.run(points)
        return runner.computed
