"""The Python interface: simulate one point, sweep many into a pandas DataFrame, measure; schedules, reports.

A wrong type is a ``TypeError`` that names the argument, what it has and what it needs; a wrong value is a
``ValueError``, as are ``WorkloadError``, ``HardwareError``, ``ScheduleError`` and ``SimulationError``.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

import pandas as pd

from dsascape.experiments.api_arguments import (
    OfMeasurement,
    OfSimulation,
    OfSweep,
    WithPins,
    check_choice,
    check_count,
    check_flag,
    check_keywords,
    check_mapping,
    check_policy,
    check_sizes,
    check_text,
    machine_argument,
    network_argument,
    network_name,
    path_argument,
    several,
    shows,
    wrong_type,
)
from dsascape.experiments.engine.run import measured, run_points
from dsascape.experiments.engine.what_if import what_if_of
from dsascape.experiments.point.clusters_in_use import run_on_best_clusters, share_of_cluster
from dsascape.experiments.point.job import Job, Outcome
from dsascape.experiments.point.language import pass_of
from dsascape.experiments.point.replay import run_written
from dsascape.experiments.question.config import ScheduleMode
from dsascape.experiments.question.network import check_dtype, default_dtype
from dsascape.experiments.question.pinned import given_pins, pins_named, pins_on
from dsascape.experiments.question.points import DesignPoint, MeasuredOn, Workload, WrittenPins, policy_of, split_tuning
from dsascape.experiments.question.processor import processor_of
from dsascape.experiments.question.repeated import check_values
from dsascape.experiments.question.schedules import read_document
from dsascape.experiments.real.compared import Comparison
from dsascape.experiments.real.measured_kinds import measured_kind
from dsascape.experiments.report.build import write_report
from dsascape.experiments.results.columns import BOOK_KEEPING
from dsascape.experiments.results.folder import DamagedError, Note, read_note, write_note
from dsascape.experiments.results.frame import read_results
from dsascape.experiments.results.sensitivity import WhatIf
from dsascape.hw_models import AnyHardware, with_values
from dsascape.hw_models.common.spec_types import NETWORK_DTYPES
from dsascape.scheduler import Placing, Policy, kind_of, make_tuning, policy_types
from dsascape.scheduler.kinds.table import KINDS, kind_named
from dsascape.tuner.measure import LOCAL, Budget
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Batch

_OF_POINT = "network", "hardware", "policy", "batch", "dtype"


@shows(OfSimulation)
def simulate(
    network: str | Path | Graph,
    hardware: str | Path | AnyHardware,
    policy: str | Policy = "graphturbo",
    *,
    batch: int | None = None,
    dtype: str | None = None,
    batch_dims: Mapping[str, int] | None = None,
    dims: Mapping[str, int] | None = None,
    **more: Unpack[OfSimulation],
) -> Outcome:
    """Simulate one network on one machine; return its ``record``, ``schedule``, ``program`` and ``result``.

    ``batch`` is the batch of the whole machine, by default the network's own. ``batch_dims`` names the batch dimension
    of each input of a network given by name (empty: the network has no batch); by default it is inferred from the
    data flow. ``dims`` has sizes of open dimensions of such a network, as the ``context`` and ``tokens`` of a language
    model. ``tuning`` has tuned numbers of the machine kind's scheduler. ``pins`` fixes decisions about layers.
    ``schedule`` is a document from `schedule_document`, perhaps edited, or a file of one: it runs in place of the
    policy's, of a network given by name. Raises ``WorkloadError``, ``HardwareError``, ``ScheduleError`` or
    ``SimulationError``, each with what to change.
    """
    check_keywords("simulate", more, (*_OF_POINT, "batch_dims", "dims", "tuning", "pins", "schedule"))
    network, machine = network_argument(network), machine_argument(hardware)
    tuning, schedule = more.get("tuning"), more.get("schedule")
    check_policy(policy)
    check_count("batch", batch, least=0)
    check_text("dtype", dtype, "a dtype, such as 'fp16'")
    check_sizes("dims", dims)
    check_sizes("batch_dims", batch_dims)
    check_mapping("tuning", tuning, "a mapping of tuned numbers to values, such as {'most_tiles': 4}")
    fixed = _pins(more.get("pins"))
    if schedule is not None:
        if fixed is not None:
            raise ValueError("pins: do not go with schedule, which has decided everything")
        workload = Workload(
            network_name(network, "network (with schedule)"), batch, dtype=dtype,
            dims=tuple(sorted((dims or {}).items())),
            batch_dims=None if batch_dims is None else tuple(batch_dims.items()),
        )  # fmt: skip
        return run_written(_document(schedule), workload, machine, tuning or {})
    if isinstance(network, str):
        requested = (batch or None) if network.endswith(".onnx") else None
        graph = load_network(network, batch=requested, dims=dims, batch_dims=batch_dims)
        passed = pass_of(Workload(network, dims=tuple((dims or {}).items())))
    else:
        graph, passed = network, None
    chosen = policy if isinstance(policy, Policy) else policy_of(str(policy))
    batch = graph.batch if batch is None else batch
    own = Batch(graph.batch, graph.batch_dims, graph.no_batch)
    clusters, share = share_of_cluster(batch, kind_of(machine).parts(machine), own)
    dtype = check_dtype(default_dtype(machine) if dtype is None else dtype, machine)
    cast = graph.with_batch(share).with_dtype(dtype)
    placing = Placing(
        hardware=machine, parts=clusters, dtype=dtype, tuning=make_tuning(machine, tuning) if tuning else None,
        pins=None if fixed is None else pins_on(fixed, machine),
    )  # fmt: skip
    return run_on_best_clusters(Analysis(cast), chosen, Job(graph.name, batch, placing, passed=passed))


def schedule_document(outcome: Outcome) -> dict[str, Any]:
    """Return the schedule of an outcome as the document that ``simulate --schedule-out`` writes: all its decisions.

    It may be edited, and given to `simulate` as ``schedule``; derived values are worked out again.
    """
    if not isinstance(outcome, Outcome):
        raise wrong_type("outcome", outcome, "what simulate returns")
    for name in KINDS:
        if isinstance(outcome.schedule, kind_named(name).schedule_type):
            return kind_named(name).write(outcome.schedule)
    raise wrong_type("outcome", outcome.schedule, "a schedule of a built-in machine kind")


@shows(OfSweep)
def sweep(
    networks: str | Path | Sequence[str | Path],
    hardware: str | Path | AnyHardware | Sequence[str | Path | AnyHardware],
    values: Mapping[str, Any] | None = None,
    policies: str | Policy | Sequence[str | Policy] = ("fixed-pattern", "graphturbo"),
    *,
    batch: int | Sequence[int] | None = None,
    workers: int = 0,
    folder: str | Path | None = None,
    **more: Unpack[OfSweep],
) -> pd.DataFrame:
    """Return one row per network, batch, machine, policy and combination of ``values`` (dotted path to values to try).

    Paths that begin with ``tuning.`` are tuned numbers of the scheduler. ``pins`` fixes decisions about layers of all
    points, ``dtype`` what the networks leave open. ``workers`` is the number of processes, by default one per core.
    With a ``folder``, results are stored there and not computed again, and `report` makes a page of them. A point that
    cannot run has its message in the column ``error`` and no figures; docs/results.md has all columns.
    """
    known = "networks", "hardware", "values", "policies", "batch", "dtype", "pins", "workers", "folder"
    check_keywords("sweep", more, known)
    dtype = more.get("dtype")
    names = [network_name(each, "networks") for each in several("networks", networks, "networks' names")]
    machines = [machine_argument(each) for each in several("hardware", hardware, "machines")]
    check_mapping("values", values, "a mapping of paths to the values to try, such as {'clusters': [2, 4]}")
    axes = {path: several(f"values[{path!r}]", tried, "values to try") for path, tried in (values or {}).items()}
    chosen = [_with_file(each) for each in several("policies", policies, "policies")]
    batches: list[int | None] = [None] if batch is None else several("batch", batch, "whole numbers from 1")
    for each in batches:
        check_count("batch", each)
    check_choice("dtype", dtype, NETWORK_DTYPES, is_optional=True)
    check_count("workers", workers, least=0)
    fixed = _pins(more.get("pins"))
    for machine, (path, tried) in itertools.product(machines, axes.items()):
        check_values(machine, {}, path, tried)
    points = []
    for name, size, machine in itertools.product(names, batches, machines):
        for combination in itertools.product(*axes.values()):
            settings = dict(zip(axes, combination, strict=True))
            of_machine, tuning = split_tuning(settings)
            spec = with_values(machine, of_machine) if of_machine else machine
            swept = {path: str(value) for path, value in settings.items()}
            swept |= ({"batch": str(size)} if batches[1:] else {}) | ({} if fixed is None else pins_named(fixed))
            workload = Workload(name, size, dtype=dtype)
            points += [
                DesignPoint(workload, spec, policy, swept, file, tuning, pins=fixed) for policy, file in chosen
            ]  # fmt: skip
    with TemporaryDirectory() as temporary:
        where = "a folder for the results, or None"
        place = Path(temporary) if folder is None else path_argument("folder", folder, where)
        run_points(points, place, workers)
        if folder is not None:
            _note(points, place)
        return read_results(place, (point.key for point in points)).drop(columns=list(BOOK_KEEPING))


def report(folder: str | Path) -> Path:
    """Write ``report.html`` and the tables of a results folder again; return the page's path.

    Raises ``StoreError``, a ``ValueError``, for a folder without results.
    """
    return write_report(path_argument("folder", folder, "the folder of a sweep, or of dsascape run")).path


@shows(WithPins)
def what_if(
    network: str | Path,
    hardware: str | Path | AnyHardware,
    policy: str | Policy = "graphturbo",
    *,
    values: Mapping[str, Any] | Sequence[str] = (),
    batch: int | None = None,
    dtype: str | None = None,
    schedule: ScheduleMode = "anew",
    **more: Unpack[WithPins],
) -> WhatIf:
    """Return the effects on latency and energy of the machine's values, changed one at a time and simulated.

    ``values`` maps paths to the values to try, or lists paths of numbers and sections to halve and double; by default,
    all numbers of the machine are. With ``schedule`` "keep", the schedule of the unchanged machine runs on each
    changed one; with "anew", the policy decides for each. ``pins`` fixes decisions about layers. Raises
    ``HardwareError`` for an unknown path or an invalid value, and what `simulate` raises.
    """
    check_keywords("what_if", more, (*_OF_POINT, "values", "schedule", "pins"))
    machine, name = machine_argument(hardware), network_name(network)
    chosen, file = _with_file(policy, "policy")
    check_count("batch", batch)
    check_choice("dtype", dtype, NETWORK_DTYPES, is_optional=True)
    check_choice("schedule", schedule, ("anew", "keep"))
    if not isinstance(values, Mapping):
        paths = [] if values == () else several("values", values, "paths of the machine's values")
        if not all(isinstance(each, str) for each in paths):
            raise wrong_type("values", values, "paths of the machine's values, or a mapping of them to values")
        values = dict.fromkeys(paths, ())
    check_mapping("values", values, "paths of the machine's values, or a mapping of them to values")
    requests = {path: () if tried == () else tuple(several(f"values[{path!r}]", tried, "values to try"))
                for path, tried in values.items()}  # fmt: skip
    fixed = _pins(more.get("pins"))
    point = DesignPoint(Workload(name, batch, dtype=dtype), machine, chosen, policy_file=file, pins=fixed)
    return what_if_of(point, requests, schedule, str(hardware) if isinstance(hardware, str | Path) else "")


@shows(OfMeasurement, flush_caches=False)
def measure(
    network: str | Path,
    hardware: str | Path | AnyHardware,
    policy: str | Policy = "fixed-pattern",
    *,
    batch: int | None = None,
    target: str = "llvm",
    device: str = LOCAL,
    threads: int | None = None,
    **more: Unpack[OfMeasurement],
) -> Comparison:
    """Generate code for a policy's schedule, measure it, and return the measurement beside the prediction.

    ``hardware`` is the CPU or GPU that tiles are chosen for and that predicts, such as `dsascape calibrate` describes;
    ``device`` runs the code: ``local`` or ``rpc://HOST:PORT``. ``threads``: one per core by default. With
    ``flush_caches`` true, each timed run begins with empty caches; ``pins`` fixes decisions about layers. Needs TVM
    (the extra ``tvm``); raises ``MeasureError``, a ``ValueError``, without it.
    """
    known = *_OF_POINT[:-1], "target", "device", "threads", "flush_caches", "pins"
    check_keywords("measure", more, known)
    flush_caches = more.get("flush_caches", False)
    machine, name = machine_argument(hardware), network_name(network)
    chosen, file = _with_file(policy, "policy")
    check_count("batch", batch)
    check_count("threads", threads)
    check_text("target", target, "a target of code, such as 'llvm'")
    check_text("device", device, "a device, such as 'local'")
    check_flag("flush_caches", flush_caches)
    fixed = _pins(more.get("pins"))
    tuning = measured_kind(machine).tuning(machine, threads, device, "threads: has")
    on = MeasuredOn(target, device, processor_of(target, device), flush_caches)
    point = DesignPoint(
        Workload(name, batch), machine, chosen, policy_file=file, tuning=tuning, measured_on=on, pins=fixed
    )
    return measured(point, Budget())[1]


def policy_names() -> tuple[str, ...]:
    """Return the names of the built-in and installed policies, sorted."""
    return tuple(sorted(policy_types()))


def _pins(pins: object) -> WrittenPins | None:
    """Return pins given as a mapping or as a path; raise ``TypeError`` for anything else."""
    if pins is None:
        return None
    if not isinstance(pins, Mapping | str | Path):
        raise wrong_type("pins", pins, "a mapping of layers to what is fixed for them, or the path of a file of pins")
    return given_pins(pins)


def _document(schedule: object) -> object:
    """Return a schedule's document: the given mapping, as a file would have it, or the content of a file."""
    if isinstance(schedule, Mapping):
        try:
            return json.loads(json.dumps(schedule))
        except (TypeError, ValueError) as error:
            raise ValueError(f"schedule: has values that no file can have: {error}") from error
    return read_document(path_argument("schedule", schedule, "a document, or the path of a file of one"))


def _with_file(policy: object, argument: str = "policies") -> tuple[Policy, str]:
    """Return a policy, and the file that defines it; empty for others."""
    check_policy(policy, argument)
    if isinstance(policy, Policy):
        return policy, ""
    return policy_of(str(policy)), str(policy) if str(policy).endswith(".py") else ""


def _note(points: Sequence[DesignPoint], folder: Path) -> None:
    """Note the points of a sweep in its folder, for `report`; the note of an experiment file is left as it is."""
    try:
        if read_note(folder).experiment is not None:
            return
    except DamagedError:
        pass
    keys = list(dict.fromkeys(point.key for point in points))
    write_note(Note(experiment=None, hardware=[], planned=len(keys), keys=keys, is_finished=True), folder)
