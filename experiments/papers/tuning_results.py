"""Results of searches: latencies over the trials, as they are stored and read."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from dsascape.experiments.question.config import ExperimentError
from dsascape.hw_models.text.whole_file import write_whole
from dsascape.tuner.search.database import BUILTIN, CONFIRMED, Record
from dsascape.tuner.search.search import Search


@dataclass(frozen=True)
class Point:
    """Latencies in seconds after so many trials, of each network of a search; infinite where a kernel has no time."""

    trials: int
    kept_s: tuple[float, ...]
    """With the fastest programs, the built-in choices among them."""
    found_s: tuple[float, ...]
    """With the fastest programs that the search has tried, without the built-in choices."""


@dataclass(frozen=True)
class SearchResult:
    """Figures of one search that has ended."""

    label: str
    machine: str
    variant: str
    seed: int
    networks: int
    tasks: int
    trials: int
    failed: int
    builtin_s: tuple[float, ...]
    """Latency of each network with the built-in choices."""
    after_s: tuple[float, ...]
    """Latency of each network with the kernels that are kept; measured: when they were run again in the end."""
    curve: tuple[Point, ...]
    """Points at which a latency became less, and the last."""
    wall_s: float
    processor: str = ""
    """Processor that measured; empty: simulated."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Options of the search, for people."""

    @property
    def found_s(self) -> tuple[float, ...]:
        """Latency of each network with the fastest programs that the search itself has tried."""
        return self.curve[-1].found_s


def curve_of(search: Search, records: Iterable[Record]) -> tuple[Point, ...]:
    """Return the points at which latencies became less, and the last."""
    places = {each.task.key: number for number, each in enumerate(search.tasks)}
    kept, found = [inf] * len(places), [inf] * len(places)
    points: list[Point] = []
    trials = 0
    for record in records:
        place, seconds = places.get(record.task), inf if record.answer.seconds is None else record.answer.seconds
        if place is None or record.unit == CONFIRMED:
            continue
        kept[place] = min(kept[place], seconds)
        if record.unit != BUILTIN:
            trials += 1
            found[place] = min(found[place], seconds)
        point = Point(trials, summed(search, kept), summed(search, found))
        if points and points[-1].trials == trials:
            points[-1] = point
        elif not points or (points[-1].kept_s, points[-1].found_s) != (point.kept_s, point.found_s):
            points.append(point)
    return (*points, Point(trials, summed(search, kept), summed(search, found)))


def summed(search: Search, by_task: Sequence[float]) -> tuple[float, ...]:
    """Return the latency of each network of a search from those of its tasks, in seconds."""
    return tuple([sum([weight * by_task[task] for task, weight in own.items()]) for own in search.weights])


def write_result(file: Path, result: SearchResult) -> None:
    """Store a result as JSON."""
    write_whole(file, json.dumps(asdict(result)))


def read_result(file: Path) -> SearchResult:
    """Read a stored result; raise ``ExperimentError`` for a file that is none."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        curve = tuple([Point(each["trials"], tuple(each["kept_s"]), tuple(each["found_s"])) for each in data["curve"]])
        both = {name: tuple(data[name]) for name in ("builtin_s", "after_s")}
        return SearchResult(**{**data, **both, "curve": curve})
    except (ValueError, KeyError, TypeError) as error:
        raise ExperimentError(f"{file}: is no result of a search; without it, the search is run again") from error
