"""Searches of tuning experiments: those without a result are run, each into a folder of its own, and results read."""

import hashlib
import json
import logging
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, astuple
from functools import lru_cache
from itertools import chain
from math import inf
from multiprocessing import get_context
from pathlib import Path

from dsascape.experiments.papers.tuning_results import SearchResult, curve_of, read_result, summed, write_result
from dsascape.experiments.papers.tuning_study import Wanted
from dsascape.experiments.question.points import content_hash, policy_of
from dsascape.experiments.question.processor import processor_of
from dsascape.experiments.question.shapes import read_shapes
from dsascape.experiments.question.sources import code_hash, measuring_hash
from dsascape.experiments.real.search_options import search_options
from dsascape.experiments.real.tuning import (
    SIMULATE,
    TunedOn,
    TuningTasks,
    network_tasks,
    open_search,
    shape_tasks,
    tuned_on,
    write_results,
)
from dsascape.hw_models import HardwareError, load_hardware
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.scheduler import ScheduleError
from dsascape.tuner.measure import MeasureError
from dsascape.tuner.search.database import DatabaseError
from dsascape.tuner.search.identity import machine_digest
from dsascape.tuner.search.objectives import Objective, SpeedUp, TotalLatency
from dsascape.tuner.search.space import NoProgramError
from dsascape.tuner.search.tasks import joined
from dsascape.tuner.search.tuners import SearchOptions
from dsascape.wording import count
from dsascape.workloads import WorkloadError

_LOG = logging.getLogger(__name__)
RESULT = "result.json"
DTYPE = "fp32"
_FAILURES = (HardwareError, WorkloadError, ScheduleError, MeasureError, DatabaseError, NoProgramError)
"""Exceptions of one search, which leave the others alone."""
_DIGITS = 12


def refusal(wanted: Wanted) -> str:
    """Return why kernels are not tuned for a search's machine; empty where they are."""
    try:
        _on(wanted)
    except HardwareError as error:
        return str(error)
    return ""


def _on(wanted: Wanted) -> TunedOn:
    study = wanted.settings
    return tuned_on(load_hardware(wanted.machine), study.runner, study.target, study.threads or 0)


def folder_of(results: Path, wanted: Wanted) -> Path:
    """Return the folder of a search: its name tells people what it is, its end depends on all that figures do.

    Equal searches of two studies are one.
    """
    named = f"{wanted.label} on {Path(wanted.machine).stem}, {wanted.variant}, seed {wanted.seed}"
    slug = re.sub(r"[^\w.+-]+", "-", named)[:120]
    return results / f"{slug}-{_digest(wanted)}"


def _digest(wanted: Wanted) -> str:
    study = wanted.settings
    how = [study.runner, study.target, study.threads]
    if study.runner != SIMULATE:
        how.append(processor_of(study.target, study.runner))
    content = [
        wanted.label, [[*astuple(each), content_hash(each.model)] for each in wanted.networks],
        _described(wanted.shapes, wanted.label) if wanted.shapes else "", machine_digest(load_hardware(wanted.machine)),
        how, _policy(study.policy), study.objective, study.trials_per_task, asdict(_options(wanted, 1)), code_hash(),
        measuring_hash(),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:_DIGITS]


@lru_cache(maxsize=1024)
def _described(shapes: Path, name: str) -> str:
    """Return what a file of shapes says of one operator."""
    return json.dumps(_read(shapes)["operators"][name])


_read = lru_cache(maxsize=64)(read_yaml)


@lru_cache(maxsize=64)
def _policy(name: str) -> str:
    """Return the name of a policy, or the text of the file that defines it."""
    return Path(name).read_text(encoding="utf-8") if name.endswith(".py") else name


def _options(wanted: Wanted, tasks: int) -> SearchOptions:
    study, variant = wanted.settings, wanted.settings.variants[wanted.variant]
    trials = max(round(study.trials_per_task * tasks * variant.share), 1)
    return search_options(
        variant.tuner, variant.without, trials=trials, seed=wanted.seed, unit=study.unit, population=study.population,
        is_measured=study.runner != SIMULATE,
    )  # fmt: skip


def results_of(results: Path, wanted: Sequence[Wanted]) -> list[SearchResult]:
    """Return the results of those searches that have one, in their order."""
    files = [folder_of(results, each) / RESULT for each in wanted]
    return [read_result(file) for file in files if file.is_file()]


def run_missing(results: Path, wanted: Sequence[Wanted], workers: int = 1) -> int:
    """Run the searches that have no result yet, and return how many could not be run.

    Those of machines that kernels are not tuned for are left out. Simulated ones run in ``workers`` processes, then
    measured ones one after the other. A search that was stopped goes on where it was.
    """
    by_folder = {folder_of(results, each): each for each in wanted if not refusal(each)}
    todo = [each for folder, each in by_folder.items() if not (folder / RESULT).is_file()]
    begin, failed = time.monotonic(), 0
    simulated = [each for each in todo if each.settings.runner == SIMULATE]
    measured = [each for each in todo if each.settings.runner != SIMULATE]
    ended = chain(_in_processes(results, simulated, workers), _in_turn(results, measured))
    for number, (each, reason) in enumerate(ended, 1):
        failed += bool(reason)
        left_s = (time.monotonic() - begin) / number * (len(todo) - number)
        _LOG.info(
            "%d of %s: %s on %s by %s, seed %d%s; %.0f s left", number, count(len(todo), "search"),
            each.label, Path(each.machine).stem, each.variant, each.seed, f": {reason}" if reason else "", left_s,
        )  # fmt: skip
    return failed


def _in_turn(results: Path, wanted: Sequence[Wanted]) -> Iterator[tuple[Wanted, str]]:
    for each in wanted:
        yield each, ran(results, each)


def _in_processes(results: Path, wanted: Sequence[Wanted], workers: int) -> Iterator[tuple[Wanted, str]]:
    if min(workers, len(wanted)) <= 1:
        yield from _in_turn(results, wanted)
        return
    with ProcessPoolExecutor(min(workers, len(wanted)), get_context("spawn")) as pool:
        running = {pool.submit(ran, results, each): each for each in wanted}
        for done in as_completed(running):
            yield running[done], done.result()


def ran(results: Path, wanted: Wanted) -> str:
    """Run one search and store its result; return why it could not be run, or nothing."""
    folder = folder_of(results, wanted)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        result = _searched(wanted, folder)
    except _FAILURES as error:
        return str(error)
    write_result(folder / RESULT, result)
    return ""


def _searched(wanted: Wanted, folder: Path) -> SearchResult:
    study, on, begin = wanted.settings, _on(wanted), time.monotonic()
    asked = _tasks(wanted, on)
    options = _options(wanted, len(asked.tasks))
    runner = on.open_runner(asked.dtype)
    assert runner is not None  # no bundle is among the runners of a study
    search, candidates = open_search(asked, on, runner, folder, _objective(wanted), options)
    try:
        for _ in search.run():
            pass
        curve = curve_of(search, candidates.records())
    finally:
        runner.close()
        candidates.close()
    write_results(folder, search, on, search.curve)
    own = {each.task.key: each.before.seconds for each in search.tasks if each.before is not None}
    before = [own.get(each.task.key) or inf for each in search.tasks]
    return SearchResult(
        wanted.label, Path(wanted.machine).stem, wanted.variant, wanted.seed, len(asked.networks),
        len(asked.tasks), search.trials, search.failed, summed(search, before), tuple(search.latencies()), curve,
        time.monotonic() - begin,
        "" if study.runner == SIMULATE else processor_of(study.target, study.runner),
        {"trials_per_task": study.trials_per_task, "unit": study.unit, "population": study.population},
    )  # fmt: skip


def _objective(wanted: Wanted) -> Objective:
    """Return the objective; references of f3 only scale its slopes, all of them alike, so that each can be a second."""
    return TotalLatency() if wanted.settings.objective == "f1" else SpeedUp([1.0] * max(len(wanted.networks), 1))


def _tasks(wanted: Wanted, on: TunedOn) -> TuningTasks:
    policy = policy_of(wanted.settings.policy)
    if wanted.shapes is not None:
        return shape_tasks({wanted.label: read_shapes(wanted.shapes)[wanted.label]}, policy, on, DTYPE)
    return together([network_tasks(each, policy, on) for each in wanted.networks])


def together(several: Sequence[TuningTasks]) -> TuningTasks:
    """Return the tasks of all networks as those of one search; equal tasks are one."""
    every = joined(task for each in several for task in each.tasks)
    place = {task.key: number for number, task in enumerate(every)}
    weights = [
        {place[each.tasks[task].key]: weight for task, weight in own.items()}
        for each in several
        for own in each.weights
    ]
    costs = {key: own for each in several for key, own in each.costs.items()}
    return TuningTasks(tuple([name for each in several for name in each.networks]), every, tuple(weights), DTYPE, costs)
