"""From stored results to a report: the study, its most telling point, the files in the folder."""

import datetime
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.config import Experiment, ExperimentError
from experiments.evaluate import Outcome, evaluate
from experiments.points import DesignPoint
from experiments.report import Span, Study, Timeline, render_report
from experiments.results import read_results, write_csv
from experiments.version import __version__
from hw_models import AnyHardware, HardwareError, SimulationError, known_paths
from hw_models.quantities import readable
from scheduler import ScheduleError, policy_label
from workloads import WorkloadError

EXPERIMENT_COPY = "experiment.json"
TIMELINES = "timelines.json"
REPORT = "report.html"
BASELINE = "fixed-pattern"
_CATEGORIES = {
    "dma_load": "load", "path_load": "load", "broadcast": "load", "dma_store": "store", "path_store": "store",
    "launch": "launch",
}  # fmt: skip
_LANE_ORDER = ("launch", "dma_load", "broadcast", "path_load")


def write_report(experiment: Experiment, points: Sequence[DesignPoint], folder: Path) -> Path:
    """Write CSV and report of ``points``, whose results are in ``folder``; return the report's path.

    What the report needs besides the results is kept in the folder, so that `rewrite_report` works without
    the experiment file.
    """
    frame = read_results(folder, (point.key for point in points))
    timelines = _telling_timelines(frame, points)
    note = {
        "experiment": experiment.model_dump(by_alias=True),
        "keys": [point.key for point in points],
        "hardware": _hardware_rows(points[0].hardware, experiment),
    }
    (folder / EXPERIMENT_COPY).write_text(json.dumps(note, indent=1), encoding="utf-8")
    (folder / TIMELINES).write_text(json.dumps([asdict(t) for t in timelines]), encoding="utf-8")
    return rewrite_report(folder)


def rewrite_report(folder: Path) -> Path:
    """Write CSV and report again from what ``folder`` has; raise ``ExperimentError`` if it is not a run's."""
    try:
        note = json.loads((folder / EXPERIMENT_COPY).read_text(encoding="utf-8"))
        timelines = tuple(_timeline(t) for t in json.loads((folder / TIMELINES).read_text(encoding="utf-8")))
        experiment = Experiment.model_validate(note["experiment"])
        rows = tuple((str(key), str(value)) for key, value in note["hardware"])
        keys = [str(key) for key in note["keys"]]
    except OSError as error:
        raise ExperimentError(f"{folder}: is not the folder of a finished run ({error.strerror})") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ExperimentError(f"{folder}: {EXPERIMENT_COPY} or {TIMELINES} is damaged") from error
    frame = read_results(folder, keys)
    write_csv(frame, folder)
    study = Study(
        name=experiment.name,
        question=experiment.question,
        hardware_name=" and ".join(dict.fromkeys(entry.base for entry in experiment.hardware)),
        hardware_rows=rows,
        swept=experiment.swept(),
        objectives=tuple(experiment.objectives),
        frame=_presented(frame, experiment),
        timelines=timelines,
        provenance=provenance(),
    )
    path = folder / REPORT
    path.write_text(render_report(study), encoding="utf-8")
    return path


def provenance() -> dict[str, str]:
    """Return what made the figures, for whoever wants to make them again."""
    return {
        "dsascape": __version__,
        "Python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "report written": datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def _hardware_rows(machine: AnyHardware, experiment: Experiment) -> list[tuple[str, str]]:
    """Return the machine's values by dotted path; swept ones are in the report's own table."""
    data = machine.model_dump(by_alias=True)
    swept = {path for entry in experiment.hardware for path in entry.sweep}
    return [(path, "swept" if path in swept else readable(str(_at(data, path)))) for path in known_paths(machine)]


def _at(data: Any, path: str) -> Any:
    for part in path.split("."):
        data = data[int(part)] if isinstance(data, Sequence) else data[part]
    return data


def _presented(frame: pd.DataFrame, experiment: Experiment) -> pd.DataFrame:
    """Return the frame with every column that the report expects, also where all points failed."""
    expected = (
        "model", "hardware", "policy", "batch", "dtype", "latency_s", "throughput_per_s", "energy_j",
        "area_mm2", "kernels", "bottleneck", "simulated_events", "wall_s", "error", *experiment.swept(),
    )  # fmt: skip
    added = {name: None for name in expected if name not in frame.columns}
    return frame.assign(**added).drop(columns=["key"], errors="ignore")


def _telling_timelines(frame: pd.DataFrame, points: Sequence[DesignPoint]) -> list[Timeline]:
    """Return two runs of the point where the best policy gains most: the baseline's and its own."""
    latency = {} if "latency_s" not in frame else dict(zip(frame["key"], frame["latency_s"], strict=True))
    places: dict[tuple[Any, ...], dict[str, DesignPoint]] = {}
    for point in points:
        if latency.get(point.key, 0) > 0:
            place = (point.workload, point.hardware.name, *sorted(point.swept.items()))
            places.setdefault(place, {})[policy_label(point.policy)] = point
    best: tuple[float, list[DesignPoint]] = (0.0, [])
    for policies in places.values():
        base = policies.get(BASELINE) or next(iter(policies.values()))
        fastest = min(policies.values(), key=lambda p: (latency[p.key], policy_label(p.policy)))
        gain = latency[base.key] / latency[fastest.key]
        if gain > best[0]:
            best = gain, [base] if base is fastest else [base, fastest]
    found = []
    for point in best[1]:
        try:
            found.append(timeline_of(evaluate(point), point))
        except (WorkloadError, HardwareError, ScheduleError, SimulationError):
            continue
    return found


def timeline_of(outcome: Outcome, point: DesignPoint) -> Timeline:
    """Return who did what when in one run: a lane a unit."""
    trace = outcome.result.trace
    lanes: dict[str, list[Span]] = {}
    for instruction, start, end in zip(trace.instructions, trace.start_ps, trace.end_ps, strict=True):
        if end > start:
            unit = instruction.unit
            category = _CATEGORIES.get(unit) or point.hardware.units[unit].kind
            lanes.setdefault(unit, []).append(Span(start, end, instruction.label, category))
    order = [*_LANE_ORDER, *point.hardware.units, "path_store", "dma_store"]
    swept = ", ".join(f"{path} = {value}" for path, value in point.swept.items())
    record = outcome.record
    title = f"{record.policy}: {record.model}, batch {record.batch}" + (f", {swept}" if swept else "")
    ordered = tuple((unit, tuple(lanes[unit])) for unit in order if unit in lanes)
    return Timeline(title, ordered, trace.makespan_ps)


def _timeline(data: Mapping[str, Any]) -> Timeline:
    lanes: Iterable[tuple[str, list[dict[str, Any]]]] = data["lanes"]
    read = tuple((str(unit), tuple(Span(**span) for span in spans)) for unit, spans in lanes)
    return Timeline(str(data["title"]), read, int(data["makespan_ps"]))
