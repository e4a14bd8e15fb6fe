"""Schedules written to JSON files, and runs of schedules read from files, perhaps edited by hand."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dsascape.experiments.point.evaluate import evaluate, job_of
from dsascape.experiments.point.job import Job, Outcome, replay
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.experiments.question.schedules import policy_in, read_document
from dsascape.hw_models import AnyHardware
from dsascape.hw_models.text.whole_file import write_whole
from dsascape.scheduler import (
    MachineSchedule,
    ScheduleError,
    kind_of,
    labelled_policy,
    make_network,
    simulated_network,
)
from dsascape.workloads.analysis import Analysis


def write_schedule(schedule: MachineSchedule, hardware: AnyHardware, path: Path) -> None:
    """Write a schedule for a machine of this kind as JSON."""
    write_whole(path, json.dumps(kind_of(hardware).write(schedule), indent=1) + "\n")


def simulated(point: DesignPoint, cache: object = None) -> Outcome:
    """Simulate ``point`` under its policy, or with its schedule from a file; ``cache`` as in `evaluate`.

    Raises what `evaluate` and `run_schedule_file` raise.
    """
    if point.schedule is None:
        return evaluate(point, cache)
    return run_schedule_file(Path(point.schedule.path), point.workload, point.hardware, point.tuning)


def run_schedule_file(
    path: Path, workload: Workload, hardware: AnyHardware, tuning: Mapping[str, object]
) -> Outcome:
    """Simulate the schedule in the file at ``path``.

    A cluster runs the schedule's batch as often as its share needs. Raises ``ScheduleError`` for a file that holds no
    schedule of this network and machine, or one that cannot run.
    """
    data = read_document(path)
    try:
        return run_written(data, workload, hardware, tuning)
    except UnusableScheduleError as error:
        raise ScheduleError(f"{path}: {error}") from error


class UnusableScheduleError(ScheduleError):
    """A written schedule that is for another network or machine, or that cannot run."""


def run_written(
    data: object, workload: Workload, hardware: AnyHardware, tuning: Mapping[str, object]
) -> Outcome:
    """Simulate a schedule given as the data of its JSON document.

    Raises ``UnusableScheduleError`` for data that are no schedule of this network and machine, or one that cannot run.
    """
    schedule, network, job = schedule_in(data, workload, hardware, tuning)
    return replay(schedule, network, job)


def schedule_in(
    data: object, workload: Workload, hardware: AnyHardware, tuning: Mapping[str, object]
) -> tuple[MachineSchedule, Analysis, Job]:
    """Return the schedule of a JSON document, its network, and the job that runs it as often as its batch needs.

    Raises ``UnusableScheduleError`` for data that are no schedule of this network and machine, or one that cannot run.
    """
    shares_kernels = _machine(data).get("clusters_share") == "kernels"
    analysis, job = job_of(workload, hardware, tuning, at_work=_clusters(data), shares_kernels=shares_kernels)
    share = analysis.graph.batch
    batch = _batch(data, share)
    at_once = analysis if batch == share else Analysis(analysis.graph.with_batch(batch))
    policy = labelled_policy(policy_in(data))
    at_once = simulated_network(policy, at_once, job.placing)
    at_once = at_once if policy is None else make_network(policy, at_once)
    try:
        schedule = job.placing.kind.read(data, job.placing.costs(at_once))
    except ScheduleError as error:
        raise UnusableScheduleError(str(error)) from error
    return schedule, at_once, replace(job, iterations=-(-share // batch))


def _clusters(data: object) -> int | None:
    """Return the number of clusters that the schedule is for; None if the file has none."""
    clusters = _machine(data).get("clusters")
    return clusters if isinstance(clusters, int) else None


def _machine(data: object) -> dict[str, object]:
    """Return the file's description of the machine; empty if it has none."""
    machine = data.get("machine") if isinstance(data, dict) else None
    return machine if isinstance(machine, dict) else {}


def _batch(data: object, share: int) -> int:
    """Return the schedule's batch if the file has one from 1 to the cluster's share, otherwise the share."""
    network = data.get("network") if isinstance(data, dict) else None
    batch = network.get("batch") if isinstance(network, dict) else None
    return batch if isinstance(batch, int) and 1 <= batch <= share else share
