"""The commands ``run`` and ``report``: run an experiment file, and write its report."""

import argparse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from dsascape.experiments.engine.ask import ask, planned_points
from dsascape.experiments.engine.engines import EngineError, open_engine
from dsascape.experiments.engine.limits import read_limits
from dsascape.experiments.engine.run import OnPoint, Runner
from dsascape.experiments.question.config import Experiment, Measuring
from dsascape.experiments.question.constraints import read_constraints
from dsascape.experiments.question.grid import read_experiment
from dsascape.experiments.question.points import DesignPoint, Row
from dsascape.experiments.report.best_of_study import found_in
from dsascape.experiments.report.build import Written, begin_study, end_study, write_report
from dsascape.experiments.results.store import ResultStore
from dsascape.experiments.shell.answers import POINTS_FAILED, Answer, say
from dsascape.wording import count

_MOST_FAILURES_SHOWN = 5


def run(arguments: argparse.Namespace, measure: Measuring | None = None) -> Answer:
    """Run an experiment file, resuming stored results, and write the report; ``measure`` adds measuring."""
    if (arguments.engine == "dask") != (arguments.scheduler is not None):
        raise EngineError("--engine dask and --scheduler ADDRESS go together; one of them is missing")
    limits = read_limits(arguments.point_timeout, arguments.point_memory)
    experiment, grid = read_experiment(arguments.experiment, measure, arguments.kernels, arguments.pins)
    folder = arguments.out or Path("out") / experiment.name
    planned = planned_points(experiment, grid)
    workers = _workers(arguments, experiment, planned)
    failed_now: set[str] = set()
    with (
        open_engine(workers, arguments.scheduler, limits) as engine,
        ResultStore(folder) as store,
    ):
        begin_study(experiment, grid, folder, store)
        with _progress(planned, failed_now) as on_point:
            limited = read_constraints(experiment.constraints)
            runner = Runner(store, engine, on_point, retry_failed=arguments.retry_failed, constraints=limited)
            asked = ask(experiment, grid, runner)
        points = asked.points
        failed = _failed(points, store)
        end_study(experiment, grid, asked, store, engine)
        written = write_report(folder)
    earlier = [key for key in failed if key not in failed_now]
    data = {
        "experiment": experiment.name, "points": len(points), "computed": runner.computed,
        "failed": len(failed) - len(earlier), "failed_earlier": len(earlier), "folder": str(folder),
        "report": str(written.path),
    }  # fmt: skip
    found = found_in(written.study)
    data |= {"infeasible": found.infeasible} if experiment.constraints else {}
    data |= {"answer": found.sentence, "best": found.best} if found.sentence else {}
    counts = [f"{count(len(points), 'design point')}", f"{runner.computed} computed now", f"{data['failed']} failed"]
    counts += [f"{len(earlier)} failed earlier (--retry-failed computes them again)"] if earlier else []
    counts += [f"{found.infeasible} beyond a constraint"] if found.infeasible else []
    lines = [f"{', '.join(counts)}; {written.path}", *_reasons(failed.values()), *written.remarks]
    lines += [each for each in (found.sentence, *found.front, found.warning) if each]
    return Answer(data, lambda: say(*lines), POINTS_FAILED if failed else 0)


def _workers(arguments: argparse.Namespace, experiment: Experiment, planned: int) -> int:
    """Return the number of worker processes (0: one per core); measured points use one."""
    if experiment.measure is None:
        return min(arguments.workers, planned) if arguments.workers else 0
    if arguments.scheduler is not None:
        raise EngineError("--engine dask does not go with measure: points are measured here, one at a time")
    return 1


def _failed(points: Iterable[DesignPoint], store: ResultStore) -> dict[str, tuple[DesignPoint, Row]]:
    """Return (point, row) of the points without figures, by key."""
    without = store.keys() - store.keys(failed=False)
    if not without:
        return {}
    points_by_key = {point.key: point for point in points if point.key in without}
    rows = store.rows(list(points_by_key))
    return {key: (points_by_key[key], row) for key, row in zip(points_by_key, rows, strict=True)}


def _reasons(failed: Iterable[tuple[DesignPoint, Row]]) -> list[str]:
    """Return a line for each of the first failed points, with its reason."""
    several = list(failed)
    lines = []
    for point, row in several[:_MOST_FAILURES_SHOWN]:
        swept = "".join(f", {path} = {value}" for path, value in point.swept.items())
        why = row["error"] or "its stored figures are damaged"
        lines.append(f"  {row['model']} on {row['hardware']} under {row['policy']}{swept}: {why}")
    more = len(several) - _MOST_FAILURES_SHOWN
    return [*lines, f"  and {more} more, which the report names"] if more > 0 else lines


@contextmanager
def _progress(planned: int, failed: set[str]) -> Iterator[OnPoint]:
    """Show a progress bar with rate and remaining time on standard error; collect the keys of failed points."""
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"), TimeRemainingColumn(), console=Console(stderr=True),
    ) as progress:  # fmt: skip
        task = progress.add_task("design points", total=planned, rate="")

        def on_point(point: DesignPoint, row: Row) -> None:
            if row["error"] is not None:
                failed.add(point.key)
            speed = progress.tasks[task].speed
            progress.update(task, advance=1, rate=f"{speed:.1f}/s" if speed else "")

        yield on_point
        progress.update(task, completed=progress.tasks[task].total)


def report(arguments: argparse.Namespace) -> Answer:
    """Write the report of a results folder again, or for the first time if its run has not ended."""
    written = write_report(arguments.folder)
    data = {
        "report": str(written.path), "points": written.points, "planned": written.planned,
        "remarks": list(written.remarks),
    }  # fmt: skip
    lines = [str(written.path), *_unfinished(written), *written.remarks]
    return Answer(data, lambda: say(*lines), POINTS_FAILED if written.remarks else 0)


def _unfinished(written: Written) -> list[str]:
    if written.points >= written.planned:
        return []
    return [
        f"{written.points} of {count(written.planned, 'design point')} are there; run the experiment again to go on"
    ]
