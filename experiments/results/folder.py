"""What a run leaves beside its results, so that its report can be written again: the experiment, the timelines."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, TypeVar

import pydantic
from pydantic import BaseModel, Field

from dsascape.experiments.question.config import STRICT, Experiment, ExperimentError
from dsascape.experiments.results.files import write_whole
from dsascape.experiments.results.timeline import Timeline
from dsascape.hw_models.text.text_file import BYTE_ORDER_MARK

T = TypeVar("T")
EXPERIMENT_COPY = "experiment.json"
TIMELINES = "timelines.json"
TRACES = ("perfetto-1.json", "perfetto-2.json")
"""What the timelines' runs are called as files for the Perfetto UI."""


class Note(BaseModel):
    """An experiment under way or done."""

    model_config = STRICT

    experiment: Experiment | None
    """None in a folder of points that were measured one by one."""
    hardware: list[tuple[str, str]]
    """Dotted path and value of the first machine that sweeps start from."""
    planned: Annotated[int, Field(ge=0)]
    """How many points the run computes, or computed."""
    keys: list[str] | None
    """Of those points, in order; None while a search goes on that has yet to choose them."""
    is_finished: bool
    added: list[str] = Field(default_factory=list)
    """Keys of further points, which were measured one by one."""


class DamagedError(ExperimentError):
    """A file of a run's folder that is not what a run leaves there."""


def write_note(note: Note, folder: Path) -> None:
    """Write the copy of the experiment."""
    text = note.model_dump_json(indent=1, by_alias=True)
    write_whole(folder / EXPERIMENT_COPY, f"{text}\n")


def read_note(folder: Path) -> Note:
    """Return the copy of the experiment; raise ``DamagedError`` if there is none that can be read."""
    return _read(folder / EXPERIMENT_COPY, pydantic.TypeAdapter(Note), "run the experiment again")


def added_keys(folder: Path) -> list[str]:
    """Return the keys of points that were measured one by one, as far as the copy of the experiment tells."""
    try:
        return read_note(folder).added
    except DamagedError:
        return []


def note_added(folder: Path, key: str, superseded: Collection[str] = ()) -> None:
    """Note that the point ``key`` was measured by itself, in the place of those ``superseded``.

    What is damaged stays as it is, for the report to say so.
    """
    if (folder / EXPERIMENT_COPY).exists():
        try:
            note = read_note(folder)
        except DamagedError:
            return
    else:
        note = Note(experiment=None, hardware=[], planned=0, keys=[], is_finished=True)
    keys = None if note.keys is None else list(dict.fromkeys(key if k in superseded else k for k in note.keys))
    added = [k for k in note.added if k not in superseded]
    if key not in (*added, *(keys or ())):
        added.append(key)
    if (keys, added) != (note.keys, note.added) or not (folder / EXPERIMENT_COPY).exists():
        write_note(note.model_copy(update={"keys": keys, "added": added}), folder)


def write_timelines(timelines: list[Timeline], folder: Path) -> None:
    """Write the timelines of the report."""
    write_whole(folder / TIMELINES, f"{_TIMELINES.dump_json(timelines).decode()}\n")


def read_timelines(folder: Path) -> list[Timeline]:
    """Return the timelines of the report; raise ``DamagedError`` if there are none that can be read."""
    timelines = _read(folder / TIMELINES, _TIMELINES, "run the experiment again for its timelines")
    for timeline in timelines:
        if timeline.trace not in ("", *TRACES):
            raise DamagedError(
                f"{folder / TIMELINES}: is damaged (a trace has another name than {' or '.join(TRACES)});"
                " run the experiment again for its timelines"
            )
        for _, spans in (*timeline.lanes, ("", timeline.critical)):
            if any(not 0 <= span.start_ps <= span.end_ps <= timeline.makespan_ps <= _LATEST_PS for span in spans):
                raise DamagedError(
                    f"{folder / TIMELINES}: is damaged (a span ends before it begins, or too late);"
                    " run the experiment again for its timelines"
                )
    return timelines


def forget_timelines(folder: Path) -> None:
    """Remove the timelines of an earlier run, and their traces."""
    for name in (TIMELINES, *TRACES):
        (folder / name).unlink(missing_ok=True)


_LATEST_PS = 2**62
_TIMELINES = pydantic.TypeAdapter(list[Timeline], config={"strict": True})


def _read(path: Path, form: "pydantic.TypeAdapter[T]", remedy: str) -> T:
    try:
        return form.validate_json(path.read_bytes().removeprefix(BYTE_ORDER_MARK))
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise DamagedError(f"{path}: {problem}; {remedy}") from error
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"][:4]))
        place = f" at {where}" if where else ""
        raise DamagedError(f"{path}: is damaged{place}; {remedy}") from error
