"""The commands that run an experiment file and write its report."""

import argparse
from collections.abc import Iterator
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

from experiments.answers import Answer, say
from experiments.config import Experiment
from experiments.engines import EngineError, Row, open_engine
from experiments.grid import Grid, read_experiment
from experiments.points import DesignPoint
from experiments.run import OnPoint, Runner
from experiments.search import nsga2
from experiments.store import ResultStore
from experiments.study import rewrite_report, write_report

_MOST_FAILURES_SHOWN = 5


def run(arguments: argparse.Namespace) -> Answer:
    """Run an experiment file, resuming what its folder has, and write the report."""
    if (arguments.engine == "dask") != (arguments.scheduler is not None):
        raise EngineError("--engine dask and --scheduler ADDRESS go together; one of them is missing")
    experiment, grid = read_experiment(arguments.experiment)
    folder = arguments.out or Path("out") / experiment.name
    budget = experiment.search.budget
    planned = grid.size if budget is None else min(budget, grid.size)
    failed: list[Row] = []
    with (
        open_engine(min(arguments.workers, planned) if arguments.workers else 0, arguments.scheduler) as engine,
        ResultStore(folder) as store,
        _progress(planned, failed) as on_point,
    ):
        runner = Runner(store, engine, on_point)
        points = _computed(experiment, grid, runner)
    report_path = write_report(experiment, points, folder)
    data = {
        "experiment": experiment.name, "points": len(points), "computed": runner.computed,
        "failed": len(failed), "folder": str(folder), "report": str(report_path),
    }  # fmt: skip
    reasons = [f"  {row['model']} under {row['policy']}: {row['error']}" for row in failed[:_MOST_FAILURES_SHOWN]]
    summary = f"{len(points)} design points, {runner.computed} computed now, {len(failed)} failed"
    return Answer(data, lambda: say(f"{summary}; {report_path}", *reasons))


def _computed(experiment: Experiment, grid: Grid, runner: Runner) -> list[DesignPoint]:
    """Return the points that the experiment's search chooses, all of them computed."""
    search = experiment.search
    if search.method == "nsga2" and search.budget is not None:
        return nsga2(grid, experiment.objectives, search.budget, search.seed, runner.rows)
    points = grid.chosen(search)
    runner.rows(points)
    return points


@contextmanager
def _progress(planned: int, failed: list[Row]) -> Iterator[OnPoint]:
    """Show a bar with rate and time left on standard error; note the rows of points that fail."""
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"), TimeRemainingColumn(), console=Console(stderr=True),
    ) as progress:  # fmt: skip
        task = progress.add_task("design points", total=planned, rate="")

        def on_point(point: DesignPoint, row: Row) -> None:
            if row["error"] is not None:
                failed.append(row)
            speed = progress.tasks[task].speed
            progress.update(task, advance=1, rate=f"{speed:.1f}/s" if speed else "")

        yield on_point
        progress.update(task, completed=progress.tasks[task].total)


def report(arguments: argparse.Namespace) -> Answer:
    """Write the report of a folder again."""
    path = rewrite_report(arguments.folder)
    return Answer({"report": str(path)}, lambda: say(str(path)))
