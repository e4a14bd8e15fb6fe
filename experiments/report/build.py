"""Writing a report from stored results: the study, timelines of its most telling point, and the files."""

import datetime
import json
import logging
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from dsascape.experiments.engine.chosen import Chosen, planned_points
from dsascape.experiments.engine.engines import Engine
from dsascape.experiments.engine.what_if import what_if_of
from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.layers import instruction_names
from dsascape.experiments.question.combined import figures_of
from dsascape.experiments.question.config import Experiment, ScheduleMode
from dsascape.experiments.question.constraints import read_constraints, violated
from dsascape.experiments.question.grid import Grid
from dsascape.experiments.question.points import DesignPoint
from dsascape.experiments.question.variations import read_requests
from dsascape.experiments.question.version import __version__
from dsascape.experiments.report.frames import axes_of, best_points, prepared
from dsascape.experiments.report.leading import leading
from dsascape.experiments.report.page import render_report
from dsascape.experiments.report.study import Study
from dsascape.experiments.report.summary import Summary, summary_of
from dsascape.experiments.report.together import courses_of, together_of
from dsascape.experiments.report.words import named_or_counted, setting
from dsascape.experiments.results.folder import (
    TRACES,
    DamagedError,
    Note,
    SearchNote,
    added_keys,
    forget_drawn,
    read_note,
    read_timelines,
    read_what_if,
    write_note,
    write_timelines,
    write_what_if,
)
from dsascape.experiments.results.frame import read_results, read_sound, write_csv
from dsascape.experiments.results.parquet import PARQUET, write_parquet
from dsascape.experiments.results.parts import read_parts, swept_columns, write_parts_csv
from dsascape.experiments.results.sensitivity import WhatIf
from dsascape.experiments.results.store import KERNELS, VIOLATES, ResultStore
from dsascape.experiments.results.timeline import Span, Timeline
from dsascape.hw_models import AnyHardware, parameter_paths, perfetto_json
from dsascape.hw_models.machine_files.overrides import value_at
from dsascape.hw_models.text.quantities import readable
from dsascape.hw_models.text.whole_file import write_whole
from dsascape.scheduler import policy_label

_log = logging.getLogger(__name__)
REPORT = "report.html"
BASELINE = "fixed-pattern"
_MOST_KEYS_AT_START = 10_000
"""Largest number of points whose keys are computed before a run begins, which takes about two seconds."""
_KIND_OF_UNIT = re.compile(r"units\.(\w+)\.kind")
_NONE = "none"
"""Text for a part that the machine does not have."""


@dataclass(frozen=True, slots=True)
class Written:
    """A written report, with the number of its points."""

    path: Path
    points: int
    """Number of points in the report."""
    planned: int
    """Number of points of the run; more than ``points`` if it has not ended."""
    remarks: tuple[str, ...]
    """Damage found in the folder, with what to do about it."""
    study: Study
    """Study that the report shows."""
    summary: Summary
    """Headline and fastest points."""


def begin_study(experiment: Experiment, grid: Grid, folder: Path, store: ResultStore) -> None:
    """Note in ``folder`` which points a new run will compute, so that a report can be written before its end.

    Rows outside the run, or rows of other code while its points are not known, are no longer current.

    A large run notes its points only at the end, because computing their keys takes time; until then the report has
    every point of the folder.
    """
    planned = planned_points(experiment, grid)
    is_chosen = experiment.combine is None and experiment.search.methods[0] in ("grid", "random")
    is_known = is_chosen and not experiment.search.compare_with and planned <= _MOST_KEYS_AT_START
    keys = [point.key for point in grid.chosen(experiment.search)] if is_known else None
    rows, added = _hardware_rows(grid.machines[0].base), added_keys(folder)
    units = unit_kinds([machine.base for machine in grid.machines])
    forget_drawn(folder)
    note = Note(
        experiment=experiment, hardware=rows, units=units, planned=planned, keys=keys, is_finished=False, added=added
    )
    write_note(note, folder)
    store.supersede_other_code(grid.point(0).code, added)
    if keys is not None:
        store.make_current([*keys, *added], _asked_by(experiment))


def end_study(experiment: Experiment, grid: Grid, chosen: Chosen, store: ResultStore, engine: Engine) -> None:
    """Note that all points of a run are stored; write timelines and what-if effects of the most telling one.

    Other rows are no longer current, except points that were measured one by one.
    """
    folder, points = store.path.parent, chosen.points
    frame = with_violations(read_results(folder, (point.key for point in points)), experiment.constraints)
    beyond = frame["violates"] if VIOLATES in frame else pd.Series("", frame.index)
    store.mark_violations(dict(zip(frame["key"], beyond.fillna(""), strict=True)))
    telling = _telling_points(frame, points)
    traces = {point.key: traced for point, traced in engine.results(traced_at, telling)}
    timelines = []
    for name, traced in zip(TRACES, (traces[point.key] for point in telling), strict=False):
        if isinstance(traced, Traced):
            write_whole(folder / name, traced.perfetto)
            timelines.append(replace(traced.timeline, trace=name))
    write_timelines(timelines, folder)
    if experiment.what_if is not None and telling:
        vary = partial(varied_at, values=tuple(experiment.what_if.values), schedule=experiment.what_if.schedule)
        for _, study in engine.results(vary, telling[-1:]):
            if isinstance(study, WhatIf):
                write_what_if(study, folder)
            else:
                _log.warning("what_if: %s", study.reason)
    keys = list(dict.fromkeys(point.key for point in points))
    rows, added = _hardware_rows(grid.machines[0].base), added_keys(folder)
    searches = [
        SearchNote(method=method, designs=[[point.key for point in design] for design in designs])
        for method, designs in chosen.designs
    ]
    base = [point.key for point in chosen.base or ()]
    units = unit_kinds([machine.base for machine in grid.machines])
    note = Note(
        experiment=experiment, hardware=rows, units=units, planned=len(keys), keys=keys, is_finished=True, added=added,
        searches=searches, base=base, weights=list(grid.weights),
    )  # fmt: skip
    write_note(note, folder)
    store.make_current([*keys, *added], _asked_by(experiment))


def _asked_by(experiment: Experiment) -> str:
    return f"experiment {experiment.name}, which does not ask for it"


def write_report(folder: Path) -> Written:
    """Write CSV files and the report from the contents of ``folder``; raise ``StoreError`` without results.

    The run may be unfinished. Damaged contents are left out and mentioned in the remarks.
    """
    remarks: list[str] = []
    note: Note | None = None
    timelines: list[Timeline] = []
    try:
        note = read_note(folder)
    except DamagedError as error:
        remarks.append(str(error))
    results = read_sound(folder, None if note is None or note.keys is None else [*note.keys, *note.added], current=True)
    if note is None or (note.experiment is not None and note.is_finished):
        try:
            timelines = [
                each if (folder / each.trace).is_file() else replace(each, trace="") for each in read_timelines(folder)
            ]
        except DamagedError as error:
            remarks.append(str(error))
    what_if: WhatIf | None = None
    try:
        what_if = read_what_if(folder)
    except DamagedError as error:
        remarks.append(str(error))
    remarks += results.remarks
    limits = () if note is None or note.experiment is None else note.experiment.constraints
    frame = with_violations(results.frame, limits)
    write_csv(frame, folder)
    write_parquet(frame, folder / PARQUET)
    write_parts_csv(frame, folder)
    kernels = _measured_kernels(frame, folder)
    if kernels is not None:
        write_parts_csv(frame, folder, KERNELS)
    planned = len(frame) if note is None else note.planned + len(note.added)
    study = _study(folder, note, frame, tuple(timelines), tuple(remarks))
    layers = _layers_of_fastest(frame, study.swept, folder)
    study = replace(study, layers=layers, kernels=kernels, what_if=what_if)
    path = folder / REPORT
    write_whole(path, render_report(study))
    return Written(path, len(frame), planned, tuple(remarks), study, summary_of(study))


def _study(
    folder: Path, note: Note | None, frame: pd.DataFrame, timelines: tuple[Timeline, ...], remarks: tuple[str, ...]
) -> Study:
    """Return the study that the report shows; without a note it has only what the rows tell."""
    if note is None or note.experiment is None:
        swept = {name: tuple(dict.fromkeys(map(str, frame[name].dropna()))) for name in swept_columns(frame)}
        return Study(
            name=folder.resolve().name,
            question="",
            hardware_name=named_or_counted(map(str, frame.get("hardware", pd.Series(dtype=str)).dropna()), "machine"),
            hardware_rows=(),
            swept=swept,
            objectives=("latency_s",),
            frame=_presented(frame, swept),
            timelines=timelines,
            provenance=provenance(),
            remarks=remarks,
        )
    experiment = note.experiment
    rows = {str(row["key"]): row for row in _rows(frame)} if note.searches else {}
    return Study(
        name=experiment.name,
        question=experiment.question,
        hardware_name=named_or_counted([entry.label for entry in experiment.hardware], "machine"),
        hardware_rows=tuple(note.hardware),
        units=note.units or _stated_kinds(note.hardware),
        swept=experiment.swept(),
        objectives=tuple(experiment.objectives),
        search=experiment.search.method,
        frame=_presented(frame, experiment.swept()),
        timelines=timelines,
        provenance=provenance(),
        planned=note.planned + len(note.added),
        remarks=remarks,
        constraints=tuple(experiment.constraints),
        together=together_of(note, rows, list(experiment.swept())),
        courses=courses_of(note, rows),
        tuned=experiment.kernels or "",
    )


def with_violations(frame: pd.DataFrame, constraints: Sequence[str]) -> pd.DataFrame:
    """Return the frame with ``violates``: the constraints that each point which ran does not keep."""
    limits = read_constraints(constraints)
    without = frame.drop(columns=[VIOLATES], errors="ignore")
    if not limits:
        return without
    beyond = [
        None if isinstance(row["error"], str) else violated(figures_of(row), limits) or None
        for row in _rows(without)
    ]
    return without.assign(**{VIOLATES: pd.Series(beyond, without.index, dtype=object)})


def _rows(frame: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Yield the rows of a frame."""
    for row in frame.to_dict("records"):
        yield {str(name): value for name, value in row.items()}


def _layers_of_fastest(
    frame: pd.DataFrame, swept: Mapping[str, tuple[str, ...]], folder: Path
) -> tuple[tuple[str, pd.DataFrame], ...]:
    """Return (title, layers) of the fastest point of each network, where layers are stored."""
    points = prepared(frame, swept)
    axes = axes_of(points, swept)
    titled = []
    for _, row in best_points(points).iterrows():
        layers = read_parts(folder, str(row["key"]))
        where = setting(row, axes)
        title = f"{row['network']} under {row['policy']}" + (f" at {where}" if where else "")
        titled += [(title, layers)] if len(layers) else []
    return tuple(titled)


def _measured_kernels(frame: pd.DataFrame, folder: Path) -> pd.DataFrame | None:
    """Return the measured kernels with a time and a prediction; None where nothing was measured."""
    if "measured_s" not in frame:
        return None
    kernels_of_points = []
    for _, row in prepared(frame, ()).iterrows():
        kernels = read_parts(folder, str(row["key"]), KERNELS)
        kernels_of_points.append(kernels.assign(network=row["network"], policy=row["policy"]))
    columns = ["measured_s", "predicted_s"]
    both = pd.concat(kernels_of_points, ignore_index=True) if kernels_of_points else pd.DataFrame(columns=columns)
    return both.dropna(subset=columns).reset_index(drop=True)


def provenance() -> dict[str, str]:
    """Return the versions and machine that the figures were computed with, by label."""
    return {
        "dsascape": __version__,
        "Python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "report written": datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def _hardware_rows(machine: AnyHardware) -> list[tuple[str, str]]:
    """Return the machine's values as (dotted path, text); entries of lists are shown with their list."""
    data = machine.model_dump(by_alias=True)
    values = {path: value_at(data, path) for path in parameter_paths(machine)}
    inside = {path for path in values if isinstance(values.get(path.rpartition(".")[0]), list | tuple)}
    told = {path: value for path, value in values.items() if path not in inside}
    return [(path, _NONE if value is None else readable(str(value))) for path, value in told.items()]


def unit_kinds(machines: Iterable[AnyHardware]) -> dict[str, str]:
    """Return the kind of each named compute unit, such as ``matrix``; names with several kinds are left out."""
    known: dict[str, set[str]] = {}
    for machine in machines:
        for name, kind in machine.unit_kinds.items():
            known.setdefault(name, set()).add(kind)
    return {name: next(iter(kinds)) for name, kinds in known.items() if len(kinds) == 1}


def _stated_kinds(rows: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the kinds of compute units from the rows of a machine, for folders that do not have them apart."""
    found = ((_KIND_OF_UNIT.fullmatch(path), value) for path, value in rows)
    return {path[1]: value for path, value in found if path is not None}


def _presented(frame: pd.DataFrame, swept: Iterable[str]) -> pd.DataFrame:
    """Return the frame with every column that the report expects, even if all points failed."""
    expected = (
        "model", "hardware", "policy", "batch", "dtype", "latency_s", "throughput_per_s", "energy_j",
        "power_w", "area_mm2", "kernels", "bottleneck", "simulated_events", "wall_s", "error", *swept,
    )  # fmt: skip
    added = {name: None for name in expected if name not in frame.columns}
    return frame.assign(**added).drop(columns=["key"], errors="ignore")


def _telling_points(frame: pd.DataFrame, points: Sequence[DesignPoint]) -> list[DesignPoint]:
    """Return the baseline and the best policy at the point where the latter gains most.

    Gains are ratios of measured latencies if there are any, otherwise of simulated ones.
    """
    compared = leading(frame) if "latency_s" in frame else frame
    latency = dict(zip(compared["key"], compared["latency_s"], strict=True)) if "latency_s" in compared else {}
    places: dict[tuple[Any, ...], dict[str, tuple[float, int]]] = {}
    for number, point in enumerate(points):
        if latency.get(point.key, 0) > 0:
            place = (point.workload, point.hardware.name, *sorted(point.swept.items()))
            places.setdefault(place, {})[policy_label(point.policy)] = latency[point.key], number
    best_gain = 0.0
    best: list[int] = []
    for policies in places.values():
        base = BASELINE if BASELINE in policies else next(iter(policies))
        fastest = min(policies, key=lambda policy: (policies[policy][0], policy))
        gain = policies[base][0] / policies[fastest][0]
        if gain > best_gain:
            best_gain, best = gain, list(dict.fromkeys((policies[base][1], policies[fastest][1])))
    return [points[number] for number in best]


@dataclass(frozen=True, slots=True)
class Traced:
    """One run as a timeline of the report, and as JSON text for the Perfetto UI."""

    timeline: Timeline
    perfetto: str


def traced_at(point: DesignPoint) -> Traced:
    """Simulate a design point and return its timeline and trace."""
    outcome = evaluate(point)
    trace = perfetto_json(outcome.result, point.hardware.name, instruction_names(outcome))
    return Traced(timeline_of(outcome, point), json.dumps(trace, separators=(",", ":")))


def varied_at(point: DesignPoint, values: Sequence[str], schedule: ScheduleMode) -> WhatIf:
    """Simulate a design point with single values of its machine changed, as an experiment file requests them."""
    source = "" if point.origin is None else point.origin.hardware
    return what_if_of(point, read_requests(values), schedule, source)


def timeline_of(outcome: Outcome, point: DesignPoint) -> Timeline:
    """Return a run's timeline: one lane per unit, and the critical path."""
    trace, names = outcome.result.trace, instruction_names(outcome)
    lanes: dict[str, list[Span]] = {}
    categories = point.hardware.activities
    for instruction, name, start, end in zip(trace.instructions, names, trace.start_ps, trace.end_ps, strict=True):
        if end > start:
            unit = instruction.unit
            lanes.setdefault(unit, []).append(Span(start, end, name, categories.get(unit, unit)))
    order = [*categories, *sorted(lanes.keys() - categories.keys())]
    swept = ", ".join(f"{path} = {value}" for path, value in point.swept.items())
    record = outcome.record
    title = f"{record.policy}: {record.model}, batch {record.batch}" + (f", {swept}" if swept else "")
    ordered = tuple((unit, tuple(lanes[unit])) for unit in order if unit in lanes)
    critical = tuple(
        Span(step.start_ps, step.end_ps, names[step.position], step.paced_by)
        for step in trace.critical_steps
    )
    return Timeline(title, ordered, trace.makespan_ps, critical)
