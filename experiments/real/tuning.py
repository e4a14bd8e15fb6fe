"""Tuning of networks: their tasks, the search over these, and the files that it leaves."""

import csv
import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dsascape.experiments.point.evaluate import job_of
from dsascape.experiments.point.pipeline import schedule_of
from dsascape.experiments.question.points import Workload
from dsascape.experiments.real.measured_kinds import measured_kind
from dsascape.hw_models import AnyHardware, HardwareError
from dsascape.hw_models.text.quantities import PS_PER_S, format_ps
from dsascape.hw_models.text.whole_file import write_whole
from dsascape.scheduler import Placing, Policy, make_policy, network_of
from dsascape.scheduler.kernels.loops.files import steps_json
from dsascape.scheduler.kernels.loops.sources import FILE
from dsascape.scheduler.kinds.kind import MachineCosts
from dsascape.scheduler.kinds.table import make_tuning
from dsascape.tuner.measure import BUNDLE
from dsascape.tuner.search.database import Candidates, kernel_lines
from dsascape.tuner.search.identity import code_digest, machine_digest
from dsascape.tuner.search.kinds.kind import TunedKind
from dsascape.tuner.search.kinds.table import kind_to_tune
from dsascape.tuner.search.objectives import Objective
from dsascape.tuner.search.reformer.apart import kept_apart
from dsascape.tuner.search.reformer.splitting import Split, splits_of
from dsascape.tuner.search.reuse.kernels import graph_of
from dsascape.tuner.search.reuse.operators import Operator
from dsascape.tuner.search.reuse_search import ReuseSearch
from dsascape.tuner.search.runners import MeasuredRunner, Runner
from dsascape.tuner.search.search import Search, UnitDone, search_label
from dsascape.tuner.search.searching import Searching
from dsascape.tuner.search.tasks import Task, joined
from dsascape.tuner.search.tuners import SearchOptions
from dsascape.wording import count
from dsascape.workloads import Graph, WorkloadError
from dsascape.workloads.analysis import Analysis

_LOG = logging.getLogger(__name__)
CURVE = "curve.csv"
SIMULATE = "simulate"


@dataclass(frozen=True)
class TunedOn:
    """Machine that kernels are tuned for, and who says how long they take."""

    hardware: AnyHardware
    runner: str
    """``simulate``, the address of a device (`tuner.measure.address`), or ``bundle`` for one that is not reached."""
    target: str = "llvm"
    threads: int = 0
    """Threads of a kernel; 0: simulated as many as are best, on a GPU as many as the kernel asks for."""

    @property
    def device(self) -> str:
        """Everything that the times of candidates depend on."""
        how = [self.runner] if self.runner == SIMULATE else [self.runner, self.target, str(self.threads)]
        return " ".join([*how, machine_digest(self.hardware), code_digest()])

    @property
    def kind(self) -> TunedKind:
        """Kind of the machine."""
        return kind_to_tune(self.hardware)

    @property
    def settings(self) -> dict[str, object]:
        """Scheduler tuning of kernels that are tuned: that of generated code on a device, and what the kind needs."""
        of_code = {} if self.runner == SIMULATE else measured_kind(self.hardware).of_code(self.hardware)
        return {**of_code, **self.kind.settings(self.threads)}

    def simulated(self, dtype: str) -> Runner:
        """Return the machine model as a runner, for kernels in ``dtype``."""
        return self.kind.simulated(self.hardware, dtype, self.settings)

    def open_runner(self, dtype: str) -> Runner | None:
        """Return the runner; None where candidates are run elsewhere, from bundles."""
        if self.runner == SIMULATE:
            return self.simulated(dtype)
        if self.runner == BUNDLE:
            return None
        return MeasuredRunner(self.runner, self.target, max(self.threads, 1))


def tuned_on(
    hardware: AnyHardware, runner: str, target: str, threads: int
) -> TunedOn:
    """Return what to tune on; raise ``HardwareError`` for a machine whose kernels have no sketches.

    It is raised too for a number of threads that machines of this kind do not have.
    """
    kind_to_tune(hardware).check(hardware, threads)
    return TunedOn(hardware, runner, target, threads)


@dataclass(frozen=True)
class TuningTasks:
    """Tasks of one network or more."""

    networks: tuple[str, ...]
    tasks: tuple[Task, ...]
    weights: tuple[Mapping[int, int], ...]
    """By network, how often each task occurs."""
    dtype: str
    costs: Mapping[str, MachineCosts] = field(default_factory=dict)
    """By key of a task, what chooses programs for parts of its kernel."""

    def splits(self, options: SearchOptions) -> tuple[Split, ...]:
        """Return for the tuner ``ago`` the mini sub-graphs of all tasks, none of any where the reformer is left out.

        Without intensive fusion, kernels have a built-in choice that has none. Raises ``NoProgramError`` for a kernel
        without such a program.
        """
        if options.tuner != "ago":
            return ()
        found = splits_of(self.tasks, self.costs)
        if not options.space.intensive:
            found = kept_apart(found, options.space)
        if options.reformer.split:
            return found
        return tuple([Split(each.whole, each.weight) for each in found])


def network_tasks(workload: Workload, policy: Policy, on: TunedOn) -> TuningTasks:
    """Return the tasks of a network under a policy.

    Raises what `job_of` raises, and ``WorkloadError`` for a network without kernels that steps describe.
    """
    analysis, job = job_of(workload, on.hardware, on.settings)
    return _tasks({workload.label: analysis}, policy, on, job.placing)


def shape_tasks(graphs: Mapping[str, Graph], policy: Policy, on: TunedOn, dtype: str) -> TuningTasks:
    """Return the tasks of single operators, each of which is a network."""
    placing = Placing(hardware=on.hardware, parts=1, dtype=dtype, tuning=make_tuning(on.hardware, on.settings))
    return _tasks({name: Analysis(graph.with_dtype(dtype)) for name, graph in graphs.items()}, policy, on, placing)


def _tasks(networks: Mapping[str, Analysis], policy: Policy, on: TunedOn, placing: Placing) -> TuningTasks:
    costs: dict[str, MachineCosts] = {}
    by_network = [_of_network(analysis, policy, on, placing, costs) for analysis in networks.values()]
    every = joined(task for tasks in by_network for task in tasks)
    if not every:
        raise WorkloadError(f"{', '.join(networks)}: has no kernel whose loops steps describe")
    place = {task.key: number for number, task in enumerate(every)}
    weights = [{place[task.key]: task.weight for task in tasks} for tasks in by_network]
    return TuningTasks(tuple(networks), every, tuple(weights), placing.dtype, costs)


def _of_network(
    analysis: Analysis, policy: Policy, on: TunedOn, placing: Placing, known: dict[str, MachineCosts]
) -> tuple[Task, ...]:
    """Return the tasks of one network, and keep its costs in ``known`` for each."""
    analysis = on.kind.analysed(analysis)
    schedule = schedule_of(analysis, policy, placing)
    costs = placing.costs(network_of(schedule.plan, analysis))
    tasks = on.kind.tasks(schedule, costs)
    known.update({task.key: costs for task in tasks})
    return tasks


def open_search(
    asked: TuningTasks, on: TunedOn, runner: Runner | None, folder: Path, objective: Objective,
    options: SearchOptions,
) -> tuple[Search, Candidates]:
    """Return a search that goes on with the records of ``folder``, and these.

    Raises ``DatabaseError`` for a folder whose database is none, ``HardwareError`` for a tuner that needs answers
    at once where there are none, and what `TuningTasks.splits` raises.
    """
    splits = asked.splits(options)
    candidates = Candidates(folder, on.device, search_label(options, asked.networks))
    if runner is None and options.tuner in ("ago", "eto", "selective"):
        needs = f"--tuner {options.tuner} needs answers as it goes; --runner bundle has none"
        raise HardwareError(f"{on.hardware.name}: {needs}")
    if options.tuner in ("eto", "selective"):
        assert runner is not None
        bridge_task = partial(_bridge_task, on, asked.dtype)
        search: Search = ReuseSearch(
            asked.tasks, asked.weights, runner, candidates, objective, options, bridge_task
        )  # fmt: skip
    else:
        search = Search(
            splits or asked.tasks, asked.weights, runner, candidates, objective, options,
            on.simulated(asked.dtype),
        )  # fmt: skip
    others = candidates.others()
    if others:
        _LOG.warning("%s: %d records of another machine or other code are ignored", candidates.path, others)
    return search, candidates


def _bridge_task(on: TunedOn, dtype: str, operator: Operator) -> Task:
    """Return the task of an operator alone; raise ``ReuseError`` for one that no single operator computes."""
    (task,) = shape_tasks({str(operator): graph_of(operator)}, make_policy("unfused"), on, dtype).tasks
    return task


def write_results(folder: Path, search: Search, on: TunedOn, curve: Sequence[UnitDone]) -> None:
    """Write the fastest kernels of all tasks, and the tuning curve as CSV."""
    lines = kernel_lines(search.kernels(), machine_digest(on.hardware), code_digest())
    write_whole(folder / FILE, lines)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["trials", "elapsed_s", "latency_s", "task"])
    writer.writerows([[each.trials, f"{each.elapsed_s:.3f}", each.latency_s, each.task] for each in curve])
    write_whole(folder / CURVE, text.getvalue())


def task_rows(search: Search) -> Iterator[dict[str, Any]]:
    """Yield what there is to say of each task, those that take most of the networks' time before first."""
    rows = [_task_row(each, search) for each in search.tasks]
    yield from sorted(rows, key=lambda row: -(row["before_s"] or 0.0) * row["weight"])


_MOST_NAMED = 3
_LEAST_GAIN, _LEAST_MEASURED_GAIN = 0.0005, 0.01
"""Least relative gain that is called one; of measured times, which vary (assumed: by a hundredth)."""
_SEVERAL_TIMES = 1.1
"""Ratio of times from which a gain is told as one, in place of a percentage."""


def tuning_answer(data: Mapping[str, Any]) -> list[str]:
    """Return what a search has brought in sentences: how much, in how many trials, where it came from, what is left.

    ``data`` is what ``tune --json`` has.
    """
    tasks, before_s, after_s = data["tasks"], data["seconds_before"], data["seconds_after"]
    names = data["model"] if isinstance(data["model"], str) else ", ".join(data["model"])
    tried = [task for task in tasks if task["trials"]]
    some = f"{len(tried)} of {count(len(tasks), 'task')}" if len(tried) < len(tasks) else count(len(tasks), "task")
    failed = f", {data['failed']:,} of them failed" if data["failed"] else ""
    spent = f"after {count(data['trials'], 'trial')} of {some}{failed}"
    gains = sorted([(_gained_s(task), task["name"]) for task in tasks], key=lambda gain: -gain[0])
    gained_s = sum([gain_s for gain_s, _ in gains])
    what = f"{names[:60]} on {data['hardware']}"
    least = _LEAST_GAIN if data["runner"] == SIMULATE else _LEAST_MEASURED_GAIN
    if gained_s < least * before_s:
        by = "" if data["runner"] == SIMULATE else f" by {least:.0%} or more"
        told = [f"No program was found that is faster{by}: {what} stays at {_shown(before_s)} {spent}."]
    else:
        ratio = before_s / after_s
        is_much = ratio >= _SEVERAL_TIMES
        faster = f"is {ratio:.2f} times as fast" if is_much else f"takes {100 * (1 - 1 / ratio):.1f} % less time"
        largest = [(name, own / gained_s) for own, name in gains[:_MOST_NAMED]]
        shares = [f"{name} ({share:.0%})" for name, share in largest if share >= _LEAST_SHARE]
        told = [
            f"Tuned, {what} {faster}: {_shown(after_s)} in place of {_shown(before_s)}, {spent}.",
            f"The gain comes from {', '.join(shares)}.",
        ]
    left = [task for task in tasks if not task["trials"] and task["weight"]]
    if left and tried:
        share = sum([(task["before_s"] or 0.0) * task["weight"] for task in left]) / before_s if before_s else 0.0
        told.append(f"{count(len(left), 'task')} with {share:.0%} of the time had no trial: more --trials reach them.")
    lacking = [task["name"] for task in tasks if task["after_s"] is None]
    told += [f"No time of {', '.join(lacking[:_MOST_NAMED])}: no program of it ran."] if lacking else []
    return told


_LEAST_SHARE = 0.01
"""Least share of the gain with which a task is named."""


def _gained_s(task: Mapping[str, Any]) -> float:
    """Return the seconds that a task gains in all networks."""
    times = task["before_s"], task["after_s"]
    return 0.0 if None in times else max(times[0] - times[1], 0.0) * task["weight"]


def _shown(seconds: float) -> str:
    return format_ps(round(seconds * PS_PER_S))


def _task_row(each: Searching, search: Search) -> dict[str, Any]:
    before = None if each.before is None else each.before.seconds
    steps = [] if each.best is None else steps_json(each.best[0].steps)
    return {
        "key": each.task.key, "name": each.task.name, "operators": list(each.task.operators),
        "weight": each.task.weight, "trials": each.trials, "failed": each.failed, "given_up": each.given_up,
        "before_s": before,
        "after_s": None if each.best is None else each.latency,
        "threads": None if each.best is None else each.best[1].threads,
        "rank_by_model": each.rank_of_best(), "steps": steps,
    }  # fmt: skip
