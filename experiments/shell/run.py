"""The commands ``run`` and ``report``: run an experiment file, and write its report."""

import argparse
import shlex
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
)
from rich.text import Text

from dsascape.experiments.engine.chosen import compute_chosen, planned_points
from dsascape.experiments.engine.engines import EngineError, open_engine
from dsascape.experiments.engine.limits import read_limits
from dsascape.experiments.engine.run import OnPoint, Runner
from dsascape.experiments.question.config import Experiment, Measuring
from dsascape.experiments.question.constraints import read_constraints
from dsascape.experiments.question.points import DesignPoint, Row
from dsascape.experiments.question.reading import read_experiment
from dsascape.experiments.report.best_of_study import best_of
from dsascape.experiments.report.build import Written, begin_study, end_study, write_report
from dsascape.experiments.report.frames import prepared
from dsascape.experiments.report.measured_section import measured_notes
from dsascape.experiments.report.summary import Summary
from dsascape.experiments.report.what_if_section import answer_of
from dsascape.experiments.results.folder import read_note
from dsascape.experiments.results.store import ResultStore
from dsascape.experiments.shell.answers import POINTS_FAILED, Answer, lines_of, say, show_rows
from dsascape.experiments.shell.answers import Console as Terminal
from dsascape.experiments.shell.places import check_places
from dsascape.experiments.shell.profile import profiled
from dsascape.wording import count
from dsascape.workloads.memo import memo_figures, summed_memo_figures

_MOST_FAILURES_SHOWN = 5
_SAID_EVERY_S = 60.0
"""Seconds between lines on the progress where standard error is not a terminal."""
_STEPS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"))


class Stopped(KeyboardInterrupt):
    """A run that was stopped from the keyboard; the message says what is kept and how to go on."""


def run(arguments: argparse.Namespace, measure: Measuring | None = None) -> Answer:
    """Run an experiment file, resuming stored results, and write the report; ``measure`` adds measuring."""
    if (arguments.engine == "dask") != (arguments.scheduler is not None):
        raise EngineError("--engine dask and --scheduler ADDRESS go together; one of them is missing")
    limits = read_limits(arguments.point_timeout, arguments.point_memory)
    experiment, grid = read_experiment(arguments.experiment, measure, arguments.kernels, arguments.pins)
    if arguments.out is None:
        arguments.out = Path("out") / experiment.name
        check_places(arguments)
    folder: Path = arguments.out
    planned = planned_points(experiment, grid)
    workers = _workers(arguments, experiment, planned)
    failed_now: set[str] = set()
    with (
        open_engine(workers, arguments.scheduler, limits) as engine,
        ResultStore(folder) as store,
    ):
        begin_study(experiment, grid, folder, store)
        try:
            with _progress(planned, _stored(folder, store, arguments), failed_now) as on_point:
                limited = read_constraints(experiment.constraints)
                runner = Runner(
                    store, engine, on_point, retry_failed=arguments.retry_failed, constraints=limited,
                    profiles=arguments.profile,
                )  # fmt: skip
                chosen = compute_chosen(experiment, grid, runner)
        except KeyboardInterrupt:
            kept = f"{_stored(folder, store, arguments):,} of {count(planned, 'design point')} are kept in {folder}"
            so_far = shlex.join(["dsascape", "report", str(folder)])
            raise Stopped(
                f"stopped; {kept}. To go on: {arguments.command_line} -- to see the report so far: {so_far}"
            ) from None
        points = chosen.points
        failed = _failed(points, store)
        end_study(experiment, grid, chosen, store, engine)
        written = write_report(folder)
    earlier = [key for key in failed if key not in failed_now]
    data = {
        "experiment": experiment.name, "points": len(points), "computed": runner.computed,
        "failed": len(failed) - len(earlier), "failed_earlier": len(earlier), "folder": str(folder),
        "report": str(written.path),
    }  # fmt: skip
    best = best_of(written.study)
    data |= {"infeasible": best.infeasible} if experiment.constraints else {}
    data |= {"answer": best.sentence, "best": best.points} if best.sentence else {}
    counts = [f"{count(len(points), 'design point')}", f"{runner.computed} computed now", f"{data['failed']} failed"]
    counts += [f"{len(earlier)} failed earlier (--retry-failed computes them again)"] if earlier else []
    counts += [f"{best.infeasible} beyond a constraint"] if best.infeasible else []
    lines = [f"{', '.join(counts)}; {written.path}", *_reasons(failed.values()), *written.remarks]
    sentence = "" if best.sentence in written.summary.headline else best.sentence
    varied = "" if written.study.what_if is None else " ".join(answer_of(written.study.what_if))
    data |= {"what_if": varied} if varied else {}
    measured = measured_notes(prepared(written.study.frame, written.study.swept))
    what_if = varied and f"What if? {varied}"
    lines += [each for each in (sentence, *best.front, *measured, best.warning, what_if) if each]
    answer = Answer(data, lambda: _show(written.summary, lines), POINTS_FAILED if failed else 0)
    if not arguments.profile:
        return answer
    figures = summed_memo_figures([memo_figures(), runner.memos])
    return profiled(answer, figures, "Stored results of this process and its workers", as_json=arguments.json)


def _show(summary: Summary, lines: Iterable[str]) -> None:
    """Print the headline, the fastest points (a table, or plain lines where nobody sees a terminal), and ``lines``."""
    say(summary.headline)
    if summary.best.rows:
        headings = [cell.text for cell in summary.best.headings]
        rows = [[cell.text for cell in row] for row in summary.best.rows]
        if Terminal().is_terminal:
            numeric = [cell.numeric for cell in summary.best.headings]
            show_rows(headings, rows, numeric, box=None, padding=(0, 1, 0, 0), pad_edge=False)
        else:
            say(*lines_of(headings, rows))
    say(*lines)


def _stored(folder: Path, store: ResultStore, arguments: argparse.Namespace) -> int:
    """Return the number of the run's points that need not be computed; 0 while its points are not known."""
    keys = read_note(folder).keys
    return len(store.keys(failed=not arguments.retry_failed).intersection(keys or ()))


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


def time_left(seconds: float | None) -> str:
    """Return an estimate of the time left in words, such as "about 2 min left"; empty where none can be made."""
    if seconds is None:
        return ""
    for length, unit in _STEPS:
        if seconds >= length:
            return f"about {round(seconds / length)} {unit} left"
    return "about 1 s left" if seconds > 0 else ""


class _TimeLeft(ProgressColumn):
    """Estimate of the time left, with its label."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        return Text(time_left(task.time_remaining))


@contextmanager
def _progress(planned: int, stored: int, failed: set[str]) -> Iterator[OnPoint]:
    """Show the progress with rate and time left on standard error; collect the keys of failed points.

    The run has ``planned`` points, of which ``stored`` need not be computed. A terminal has a bar. Elsewhere a line is
    written once a minute.
    """
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"), _TimeLeft(), console=console, disable=not console.is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task("design points", total=planned, completed=stored, rate="")
        began = said = time.monotonic()
        done = 0

        def on_point(point: DesignPoint, row: Row) -> None:
            nonlocal said, done
            done += 1
            if row["error"] is not None:
                failed.add(point.key)
            speed = progress.tasks[task].speed
            progress.update(task, advance=1, rate=f"{speed:.1f}/s" if speed else "")
            now = time.monotonic()
            if not console.is_terminal and now - said >= _SAID_EVERY_S:
                said = now
                left = time_left((now - began) / done * (planned - stored - done))
                sys.stderr.write(f"{stored + done:,} of {count(planned, 'design point')}, {left}\n")

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
