"""The command ``tune``: searches for fast programs of a network's kernels, and keeps what it finds."""

import argparse
import json
import logging
import runpy
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from dsascape.experiments.question.config import ExperimentError
from dsascape.experiments.question.hints import read_hints
from dsascape.experiments.question.network import check_dtype, default_dtype
from dsascape.experiments.question.shapes import is_shapes, read_shapes
from dsascape.experiments.real.measured_kind import MEASURED_DTYPE, Asked
from dsascape.experiments.real.measured_kinds import kind_of_target
from dsascape.experiments.real.search_options import search_options
from dsascape.experiments.real.tuning import (
    SIMULATE,
    TunedOn,
    TuningTasks,
    network_tasks,
    open_search,
    shape_tasks,
    task_rows,
    tuned_on,
    tuning_answer,
    write_results,
)
from dsascape.experiments.real.tuning_batches import Waiting
from dsascape.experiments.shell.answers import POINTS_FAILED, Answer, Console, say, shown_text, table
from dsascape.experiments.shell.common_options import sizes_given
from dsascape.experiments.shell.simulate import few_names, requested_policy, requested_workload
from dsascape.experiments.shell.tune_batches import advanced, check_options, show_waiting, waiting_json
from dsascape.hw_models import HardwareError, load_hardware
from dsascape.hw_models.text.folder_lock import FolderLock
from dsascape.hw_models.text.messages import nearest
from dsascape.hw_models.text.quantities import PS_PER_S, format_ps
from dsascape.hw_models.text.whole_file import write_whole
from dsascape.scheduler import policy_label
from dsascape.scheduler.kernels.loops.sources import FILE
from dsascape.tuner.measure import (
    BUNDLE,
    LOCAL,
    MeasureError,
    check_cpu_target,
    check_target,
    remote_address,
)
from dsascape.tuner.search.hints import check_hints
from dsascape.tuner.search.objectives import (
    Objective,
    OwnObjective,
    Requirements,
    SpeedUp,
    StopEarly,
    TotalLatency,
)
from dsascape.tuner.search.reformer.decisions import Decision, decision_json
from dsascape.tuner.search.reuse_search import ReuseSearch, reuse_json
from dsascape.tuner.search.search import Search, UnitDone
from dsascape.tuner.search.tuners import SearchOptions
from dsascape.wording import count

_LOG = logging.getLogger(__name__)
_MOST_TASKS = 20
PICTURE, REPORT = "curve.svg", "report.html"


def tune(arguments: argparse.Namespace) -> Answer:
    """Tune the kernels of a network, or of single operators."""
    arguments.policy = arguments.policy or ("ago" if arguments.tuner == "ago" else "fixed-pattern")
    on = _tuned_on(arguments)
    asked = _tasks(arguments, on)
    check_options(arguments)
    objective, options = _objective(arguments, len(asked.networks)), _options(arguments)
    check_hints(options.space.hints, [task.naive for task in asked.tasks])
    if options.space.hints:
        on.kind.check_hints(on.hardware, arguments.hints)
    with FolderLock(arguments.out):
        return _tuned(arguments, on, asked, objective, options)


def _tuned(
    arguments: argparse.Namespace, on: TunedOn, asked: TuningTasks, objective: Objective, options: SearchOptions
) -> Answer:
    """Search, in a folder that is locked."""
    folder: Path = arguments.out
    dtype = _dtype(arguments, on)
    runner, waiting = on.open_runner(dtype), None
    progress = _Progress(options.trials)
    search, candidates = open_search(asked, on, runner, folder, objective, options)
    try:
        if runner is None:
            waiting = advanced(arguments, on, asked, search, candidates)
        else:
            for unit in search.run():
                progress.show(unit, search)
    finally:
        if runner is not None:
            runner.close()
        candidates.close()
        if search.trials:
            write_results(folder, search, on, search.curve)
    before_s = _before_s(search)
    data = {
        "model": asked.networks[0] if len(asked.networks) == 1 else list(asked.networks),
        "tuner": options.tuner, "runner": on.runner, "hardware": on.hardware.name, "target": on.target,
        "policy": policy_label(requested_policy(arguments)), "objective": arguments.objective, "seed": options.seed,
        "trials": search.trials, "trials_before": search.continued, "failed": search.failed,
        "seconds_before": before_s, "seconds_after": sum(search.latencies()),
        "tasks": list(task_rows(search)),
        "decisions": [json.loads(decision_json(each)) for each in search.decisions], "kernels": str(folder / FILE),
        "curve": str(folder / PICTURE), "report": str(folder / REPORT), "waiting": waiting_json(waiting),
    }  # fmt: skip
    data["answer"] = tuning_answer(data)
    if waiting is not None and not search.trials:
        data |= {"seconds_before": None, "seconds_after": None}
        return Answer(data, lambda: show_waiting(waiting))
    title = f"{', '.join(asked.networks)[:60]} on {on.hardware.name}"
    write_whole(folder / PICTURE, resolve_name(f"{_PAGE}:tuning_curve")(title, before_s, search.curve))
    if isinstance(search, ReuseSearch):
        data["reuse"] = reuse_json(search)
    write_whole(folder / REPORT, resolve_name(f"{_PAGE}:tuning_page")(data, before_s, search.curve))
    if waiting is not None:
        return Answer(data, lambda: _show(data, search.decisions, waiting))
    is_whole = all(task["after_s"] is not None for task in data["tasks"])
    return Answer(data, lambda: _show(data, search.decisions), 0 if is_whole else POINTS_FAILED)


_PAGE = "dsascape.experiments.report.tuning_page"
"""With all that draws a report."""


def _tuned_on(arguments: argparse.Namespace) -> TunedOn:
    """Return machine and runner; raise ``HardwareError``, ``MeasureError`` or ``TargetError`` for wrong ones."""
    if arguments.runner == SIMULATE:
        if arguments.hardware is None:
            raise HardwareError("--hardware is missing: --runner simulate needs a machine")
        return tuned_on(load_hardware(arguments.hardware), SIMULATE, arguments.target, arguments.threads or 0)
    if arguments.runner not in (LOCAL, BUNDLE) and not arguments.runner.startswith("rpc://"):
        meant = nearest(arguments.runner, (SIMULATE, LOCAL, BUNDLE))
        needs = "needs simulate, local, bundle or rpc://HOST:PORT[/KEY]"
        raise MeasureError(f"--runner has {arguments.runner!r}{meant}; {needs}")
    if arguments.runner == BUNDLE:
        check_cpu_target(arguments.target)
    elif remote_address(arguments.runner) is None:
        check_target(arguments.target)
    asked = Asked(arguments.hardware, arguments.target, arguments.runner, arguments.threads)
    setting = kind_of_target(arguments.target).setting(asked)
    threads = setting.tuning.get("threads", 0)
    assert isinstance(threads, int)
    return tuned_on(setting.hardware, arguments.runner, arguments.target, threads)


def _dtype(arguments: argparse.Namespace, on: TunedOn) -> str:
    if on.runner == SIMULATE:
        return check_dtype(default_dtype(on.hardware) if arguments.dtype is None else arguments.dtype, on.hardware)
    if arguments.dtype not in (None, MEASURED_DTYPE):
        raise MeasureError(f"dtype has {arguments.dtype!r}; code is measured in {MEASURED_DTYPE}")
    return MEASURED_DTYPE


def _tasks(arguments: argparse.Namespace, on: TunedOn) -> TuningTasks:
    policy = requested_policy(arguments)
    if is_shapes(arguments.model):
        given = sizes_given(arguments)
        if given:
            raise MeasureError(f"{given[0]} does not go with a file of shapes, which has all sizes")
        return shape_tasks(read_shapes(Path(arguments.model)), policy, on, _dtype(arguments, on))
    arguments.dtype = _dtype(arguments, on)
    return network_tasks(requested_workload(arguments), policy, on)


def _options(arguments: argparse.Namespace) -> SearchOptions:
    """Return the options of the search, with what the ablations leave out."""
    found = search_options(
        arguments.tuner, arguments.without, trials=arguments.trials, seed=arguments.seed, unit=arguments.unit,
        population=arguments.population, is_measured=arguments.runner != SIMULATE,
    )
    hints = () if arguments.hints is None else read_hints(arguments.hints)
    return replace(found, space=replace(found.space, hints=hints))


def _objective(arguments: argparse.Namespace, networks: int) -> Objective:
    """Return the objective of ``--objective``, with the seconds of ``--latency`` for each network."""
    name, given = arguments.objective, tuple(arguments.latency)
    if arguments.tuner == "ago" and name != "f1":
        raise ExperimentError(f"--objective {name}: --tuner ago shares trials out by weight; needs f1")
    if name in ("f2", "f3"):
        if len(given) not in (1, networks) or min(given) <= 0:
            needs = f"needs --latency: one of seconds, or one for each of {count(networks, 'network')}"
            raise ExperimentError(f"--objective {name}: {needs}")
        each = given if len(given) == networks else given * networks
        return Requirements(each) if name == "f2" else SpeedUp(each)
    if given:
        raise ExperimentError(f"--latency does not go with --objective {name}")
    if name == "f1":
        return TotalLatency()
    if name == "f4":
        return StopEarly()
    return _own_objective(name)


_MISTAKES = (ArithmeticError, AttributeError, LookupError, NameError, OSError, SyntaxError, TypeError, ValueError)
"""Exceptions of a user's objective."""


def _own_objective(name: str) -> Objective:
    """Return the objective of a user's file, which defines ``objective(latencies)``."""
    if not name.endswith(".py"):
        raise ExperimentError(f"--objective has {name!r}; needs f1, f2, f3, f4 or a path to a .py file")
    try:
        function = runpy.run_path(name).get("objective")
    except _MISTAKES as error:
        raise ExperimentError(f"--objective {name}: {type(error).__name__}: {error}") from error
    if not callable(function):
        raise ExperimentError(f"--objective {name}: needs a function objective(latencies): seconds of each network")

    def checked(latencies: list[float]) -> float:
        try:
            return float(function(latencies))
        except _MISTAKES as error:
            raise ExperimentError(f"--objective {name}: {type(error).__name__}: {error}") from error

    return OwnObjective(checked)


class _Progress:
    """Progress on standard error: units, the best so far, an estimate of the time left."""

    def __init__(self, trials: int) -> None:
        self._trials, self._begin, self._first = trials, time.monotonic(), -1

    def show(self, unit: UnitDone, search: Search) -> None:
        """Print one line for a unit that has ended."""
        if self._first < 0:
            self._first = search.continued
        spent_s, done = time.monotonic() - self._begin, unit.trials - self._first
        left_s = spent_s / max(done, 1) * (self._trials - unit.trials)
        sys.stderr.write(
            f"{unit.trials:,} of {count(self._trials, 'trial')}: {_time(unit.latency_s)}"
            f" (built-in {_time(_before_s(search))}), {search.failed:,} failed; {left_s:.0f} s left\n"
        )
        sys.stderr.flush()


def _before_s(search: Search) -> float:
    """Return the latency of all networks with the built-in kernels, as far as these have a time."""
    own = [
        each.latency if each.before is None or each.before.seconds is None else each.before.seconds
        for each in search.tasks
    ]
    return sum([weight * own[task] for weights in search.weights for task, weight in weights.items()])


def _show(data: dict[str, Any], decisions: Sequence[Decision], waiting: Waiting | None = None) -> None:
    console, tasks = Console(), data["tasks"]
    names = data["model"] if isinstance(data["model"], str) else ", ".join(data["model"])
    first, *others = data["answer"]
    console.print(f"[bold]{shown_text(first)}[/bold]")
    say(*[f"  {each}" for each in others])
    say(f"  By {data['tuner']} ({data['runner']}), {names} under {data['policy']}")
    say(f"  kernels: {data['kernels']}, report: {data['report']}")
    for decision in decisions[:_MOST_TASKS]:
        console.print(f"  {shown_text(str(decision))}")
    rows: Sequence[Sequence[object]] = [
        (
            task["name"], few_names(task["operators"]), task["weight"], task["trials"],
            "" if task["before_s"] is None else _time(task["before_s"]),
            "" if task["after_s"] is None else _time(task["after_s"]),
        )
        for task in tasks[:_MOST_TASKS]
    ]  # fmt: skip
    some = f", {_MOST_TASKS} of {len(tasks)} (--json has all)" if len(tasks) > _MOST_TASKS else ""
    headings = ("task", "operators", "times", "trials", "built-in", "tuned")
    table(f"Tasks, those that take most time first{some}", headings, rows)()
    say(*[f"{task['name']} was given up: {task['given_up']}" for task in tasks if task["given_up"] is not None])
    if waiting is not None:
        show_waiting(waiting)


def _time(seconds: float) -> str:
    return format_ps(round(seconds * PS_PER_S))
