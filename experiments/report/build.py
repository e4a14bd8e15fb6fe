"""From stored results to a report: the study, its most telling point, the files in the folder."""

import datetime
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from dsascape.experiments.engine.engines import Engine
from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.point.job import Outcome
from dsascape.experiments.question.config import Experiment
from dsascape.experiments.question.grid import Grid
from dsascape.experiments.question.points import DesignPoint
from dsascape.experiments.question.version import __version__
from dsascape.experiments.report.frames import axes_of, best_points, prepared
from dsascape.experiments.report.leading import leading
from dsascape.experiments.report.page import render_report
from dsascape.experiments.report.study import Study
from dsascape.experiments.report.words import setting
from dsascape.experiments.results.files import write_whole
from dsascape.experiments.results.folder import (
    TRACES,
    DamagedError,
    Note,
    added_keys,
    forget_timelines,
    read_note,
    read_timelines,
    write_note,
    write_timelines,
)
from dsascape.experiments.results.frame import read_results, read_sound, write_csv
from dsascape.experiments.results.parts import read_parts, swept_columns, write_parts_csv
from dsascape.experiments.results.store import KERNELS, ResultStore
from dsascape.experiments.results.timeline import Span, Timeline
from dsascape.hw_models import AnyHardware, ClusteredDsa, known_paths, perfetto_json
from dsascape.hw_models.text.quantities import readable
from dsascape.scheduler import policy_label

REPORT = "report.html"
BASELINE = "fixed-pattern"
_MOST_KEYS_AT_START = 10_000
"""Points that are all made before a run begins: that takes two seconds."""
_CATEGORIES = {
    "dma_load": "load", "path_load": "load", "broadcast": "load", "dma_store": "store", "path_store": "store",
    "launch": "launch",
}  # fmt: skip
_LANE_ORDER = ("launch", "dma_load", "broadcast", "path_load")


@dataclass(frozen=True, slots=True)
class Written:
    """A report on disk."""

    path: Path
    points: int
    """That it is about."""
    planned: int
    """That the run was to compute; more than ``points`` if it has not ended."""
    remarks: tuple[str, ...]
    """What is damaged in the folder, with the remedy."""


def begin_study(experiment: Experiment, grid: Grid, folder: Path, store: ResultStore) -> None:
    """Note in ``folder`` what the run that begins is about, so that a report can be written before its end.

    Rows that it does not ask for, or while that is not known those that other code has made, are no longer current.

    For a large run its points are noted at the end only, as making them all takes a while: until then the report has
    every point of the folder.
    """
    planned = grid.size if experiment.search.budget is None else min(experiment.search.budget, grid.size)
    is_known = experiment.search.method != "nsga2" and planned <= _MOST_KEYS_AT_START
    keys = [point.key for point in grid.chosen(experiment.search)] if is_known else None
    rows, added = _hardware_rows(grid.machines[0].base), added_keys(folder)
    forget_timelines(folder)
    note = Note(experiment=experiment, hardware=rows, planned=planned, keys=keys, is_finished=False, added=added)
    write_note(note, folder)
    store.supersede_other_code(grid.point(0).code, added)
    if keys is not None:
        store.make_current([*keys, *added], _asked_by(experiment))


def end_study(
    experiment: Experiment, grid: Grid, points: Sequence[DesignPoint], store: ResultStore, engine: Engine
) -> None:
    """Note beside ``store`` that all ``points`` of the grid's are there, and the timelines of the most telling one.

    No other rows are current then, but for those of points that were measured one by one.
    """
    folder = store.path.parent
    frame = read_results(folder, (point.key for point in points))
    telling = _telling_points(frame, points)
    found = {point.key: traced for point, traced in engine.results(traced_at, telling)}
    timelines = []
    for name, traced in zip(TRACES, (found[point.key] for point in telling), strict=False):
        if isinstance(traced, Traced):
            write_whole(folder / name, traced.perfetto)
            timelines.append(replace(traced.timeline, trace=name))
    write_timelines(timelines, folder)
    keys = list(dict.fromkeys(point.key for point in points))
    rows, added = _hardware_rows(grid.machines[0].base), added_keys(folder)
    note = Note(experiment=experiment, hardware=rows, planned=len(keys), keys=keys, is_finished=True, added=added)
    write_note(note, folder)
    store.make_current([*keys, *added], _asked_by(experiment))


def _asked_by(experiment: Experiment) -> str:
    return f"experiment {experiment.name}, which does not ask for it"


def write_report(folder: Path) -> Written:
    """Write CSV and report from what ``folder`` has, finished or not; raise ``StoreError`` without results.

    What is damaged there is left out and remarked on.
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
    remarks += results.remarks
    write_csv(results.frame, folder)
    write_parts_csv(results.frame, folder)
    kernels = _measured_kernels(results.frame, folder)
    if kernels is not None:
        write_parts_csv(results.frame, folder, KERNELS)
    planned = len(results.frame) if note is None else note.planned + len(note.added)
    study = _study(folder, note, results.frame, tuple(timelines), tuple(remarks))
    study = replace(study, layers=_layers_of_fastest(results.frame, study.swept, folder), kernels=kernels)
    path = folder / REPORT
    write_whole(path, render_report(study))
    return Written(path, len(results.frame), planned, tuple(remarks))


def _study(
    folder: Path, note: Note | None, frame: pd.DataFrame, timelines: tuple[Timeline, ...], remarks: tuple[str, ...]
) -> Study:
    """Return what the report shows; without a note, as much as the rows say by themselves."""
    if note is None or note.experiment is None:
        swept = {name: tuple(dict.fromkeys(map(str, frame[name].dropna()))) for name in swept_columns(frame)}
        return Study(
            name=folder.resolve().name,
            question="",
            hardware_name=" and ".join(map(str, frame["hardware"].dropna().unique() if "hardware" in frame else ())),
            hardware_rows=(),
            swept=swept,
            objectives=("latency_s",),
            frame=_presented(frame, swept),
            timelines=timelines,
            provenance=provenance(),
            remarks=remarks,
        )
    experiment = note.experiment
    return Study(
        name=experiment.name,
        question=experiment.question,
        hardware_name=" and ".join(dict.fromkeys(entry.base for entry in experiment.hardware)),
        hardware_rows=tuple(note.hardware),
        swept=experiment.swept(),
        objectives=tuple(experiment.objectives),
        search=experiment.search.method,
        frame=_presented(frame, experiment.swept()),
        timelines=timelines,
        provenance=provenance(),
        planned=note.planned + len(note.added),
        remarks=remarks,
    )


def _layers_of_fastest(
    frame: pd.DataFrame, swept: Mapping[str, tuple[str, ...]], folder: Path
) -> tuple[tuple[str, pd.DataFrame], ...]:
    """Return the layers of the fastest point of each network, where they are stored."""
    points = prepared(frame, swept)
    axes = axes_of(points, swept)
    found = []
    for _, row in best_points(points).iterrows():
        layers = read_parts(folder, str(row["key"]))
        where = setting(row, axes)
        title = f"{row['network']} under {row['policy']}" + (f" at {where}" if where else "")
        found += [(title, layers)] if len(layers) else []
    return tuple(found)


def _measured_kernels(frame: pd.DataFrame, folder: Path) -> pd.DataFrame | None:
    """Return the kernels of measured points that have a time and a prediction; None where nothing was measured."""
    if "measured_s" not in frame:
        return None
    found = []
    for _, row in prepared(frame, ()).iterrows():
        kernels = read_parts(folder, str(row["key"]), KERNELS)
        found.append(kernels.assign(network=row["network"], policy=row["policy"]))
    both = pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=["measured_s", "predicted_s"])
    return both.dropna(subset=["measured_s", "predicted_s"]).reset_index(drop=True)


def provenance() -> dict[str, str]:
    """Return what made the figures, for whoever wants to make them again."""
    return {
        "dsascape": __version__,
        "Python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "report written": datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def _hardware_rows(machine: AnyHardware) -> list[tuple[str, str]]:
    """Return the machine's values by dotted path."""
    data = machine.model_dump(by_alias=True)
    return [(path, readable(str(_at(data, path)))) for path in known_paths(machine)]


def _at(data: Any, path: str) -> Any:
    for part in path.split("."):
        data = data[int(part)] if isinstance(data, Sequence) else data[part]
    return data


def _presented(frame: pd.DataFrame, swept: Iterable[str]) -> pd.DataFrame:
    """Return the frame with every column that the report expects, also where all points failed."""
    expected = (
        "model", "hardware", "policy", "batch", "dtype", "latency_s", "throughput_per_s", "energy_j",
        "area_mm2", "kernels", "bottleneck", "simulated_events", "wall_s", "error", *swept,
    )  # fmt: skip
    added = {name: None for name in expected if name not in frame.columns}
    return frame.assign(**added).drop(columns=["key"], errors="ignore")


def _telling_points(frame: pd.DataFrame, points: Sequence[DesignPoint]) -> list[DesignPoint]:
    """Return the point where the best policy gains most, under the baseline and under that policy.

    Gains are those of measured latencies where there are any, and of simulated ones elsewhere.
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
    """One run as the report draws it, and as text for the Perfetto UI."""

    timeline: Timeline
    perfetto: str


def traced_at(point: DesignPoint) -> Traced:
    """Return who did what when at a design point."""
    outcome = evaluate(point)
    trace = perfetto_json(outcome.result, point.hardware.name)
    return Traced(timeline_of(outcome, point), json.dumps(trace, separators=(",", ":")))


def timeline_of(outcome: Outcome, point: DesignPoint) -> Timeline:
    """Return who did what when in one run: a lane a unit, and the critical path."""
    trace = outcome.result.trace
    lanes: dict[str, list[Span]] = {}
    units = point.hardware.units if isinstance(point.hardware, ClusteredDsa) else {}
    kinds: dict[str, str] = {name: unit.kind for name, unit in units.items()}
    for instruction, start, end in zip(trace.instructions, trace.start_ps, trace.end_ps, strict=True):
        if end > start:
            unit = instruction.unit
            category = _CATEGORIES.get(unit, kinds.get(unit, unit))
            lanes.setdefault(unit, []).append(Span(start, end, instruction.label, category))
    order = [*_LANE_ORDER, *kinds, "path_store", "dma_store"]
    order += sorted(lanes.keys() - set(order))
    swept = ", ".join(f"{path} = {value}" for path, value in point.swept.items())
    record = outcome.record
    title = f"{record.policy}: {record.model}, batch {record.batch}" + (f", {swept}" if swept else "")
    ordered = tuple((unit, tuple(lanes[unit])) for unit in order if unit in lanes)
    critical = tuple(
        Span(step.start_ps, step.end_ps, trace.instructions[step.position].label, step.paced_by)
        for step in trace.critical_steps
    )
    return Timeline(title, ordered, trace.makespan_ps, critical)
