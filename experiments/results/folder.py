"""Files in a results folder from which a report can be written again: the experiment and the timelines."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, TypeVar

import pydantic
from pydantic import BaseModel, Field

from dsascape.experiments.question.config import STRICT, Experiment, ExperimentError
from dsascape.experiments.results.sensitivity import WhatIf
from dsascape.experiments.results.timeline import Timeline
from dsascape.hw_models.text.record_file import MIB, RecordError, parse_json, read_text
from dsascape.hw_models.text.whole_file import write_whole

T = TypeVar("T")
EXPERIMENT_COPY = "experiment.json"
TIMELINES = "timelines.json"
WHAT_IF = "what_if.json"
TRACES = ("perfetto-1.json", "perfetto-2.json")
"""File names of the timelines' runs in Perfetto's format."""


class SearchNote(BaseModel):
    """Designs that a search evaluated, in order."""

    model_config = STRICT

    method: str
    designs: list[list[str]]
    """Keys of each design's points: one, or one per network where networks are combined."""


class Note(BaseModel):
    """State of a results folder: its experiment, planned and stored points."""

    model_config = STRICT

    experiment: Experiment | None
    """None in a folder that has only individually measured points."""
    hardware: list[tuple[str, str]]
    """(dotted path, value) of the first base machine."""
    planned: Annotated[int, Field(ge=0)]
    """Number of points of the run."""
    keys: list[str] | None
    """Keys of the run's points, in order; None while a search has not chosen them."""
    is_finished: bool
    units: dict[str, str] = Field(default_factory=dict)
    """Kinds of the compute units of all machines by name; names with several kinds are left out."""
    added: list[str] = Field(default_factory=list)
    """Keys of points that were measured one by one."""
    searches: list[SearchNote] = Field(default_factory=list)
    """What each search method evaluated; empty while the run has not ended."""
    base: list[str] = Field(default_factory=list)
    """Keys of the base design's points, where networks are combined."""
    weights: list[float] = Field(default_factory=list)
    """Weights of the networks, in the order of a design's points."""


class DamagedError(ExperimentError):
    """A file of the results folder that is damaged or missing."""


def write_note(note: Note, folder: Path) -> None:
    """Write ``experiment.json`` to the folder."""
    text = note.model_dump_json(indent=1, by_alias=True)
    write_whole(folder / EXPERIMENT_COPY, f"{text}\n")


def read_note(folder: Path) -> Note:
    """Read ``experiment.json``; raise ``DamagedError`` if it cannot be read."""
    return _read(folder / EXPERIMENT_COPY, pydantic.TypeAdapter(Note), "run the experiment again")


def added_keys(folder: Path) -> list[str]:
    """Return the keys of individually measured points; empty if the folder has no readable ``experiment.json``."""
    try:
        return read_note(folder).added
    except DamagedError:
        return []


def note_added(folder: Path, key: str, superseded: Collection[str] = ()) -> None:
    """Add the individually measured point ``key`` to ``experiment.json``, replacing the ``superseded`` keys.

    A damaged file is left unchanged, so that the report mentions it.
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
    """Write the report's timelines to the folder."""
    write_whole(folder / TIMELINES, f"{_TIMELINES.dump_json(timelines).decode()}\n")


def read_timelines(folder: Path) -> list[Timeline]:
    """Read the report's timelines; raise ``DamagedError`` if they cannot be read."""
    timelines = _read(folder / TIMELINES, _TIMELINES, "run the experiment again for its timelines")
    for timeline in timelines:
        if timeline.trace not in ("", *TRACES):
            raise DamagedError(
                f"{folder / TIMELINES}: is damaged (a trace is not called {' or '.join(TRACES)});"
                " run the experiment again for its timelines"
            )
        for _, spans in (*timeline.lanes, ("", timeline.critical)):
            if any(not 0 <= span.start_ps <= span.end_ps <= timeline.makespan_ps <= _LATEST_PS for span in spans):
                raise DamagedError(
                    f"{folder / TIMELINES}: is damaged (a span ends before it begins, or too late);"
                    " run the experiment again for its timelines"
                )
    return timelines


def write_what_if(study: WhatIf, folder: Path) -> None:
    """Write the effects of changed machine values to the folder."""
    write_whole(folder / WHAT_IF, f"{_WHAT_IF.dump_json([study], indent=1).decode()}\n")


def read_what_if(folder: Path) -> WhatIf | None:
    """Read the effects of changed machine values, None where there are none; raise ``DamagedError``."""
    if not (folder / WHAT_IF).exists():
        return None
    studies = _read(folder / WHAT_IF, _WHAT_IF, "run the experiment again for its what-if section")
    return studies[0] if studies else None


def forget_drawn(folder: Path) -> None:
    """Remove the timelines, traces and what-if effects of an earlier run."""
    for name in (TIMELINES, WHAT_IF, *TRACES):
        (folder / name).unlink(missing_ok=True)


_LATEST_PS = 2**62
_LARGEST_BYTES = 256 * MIB
_WHAT_IF = pydantic.TypeAdapter(list[WhatIf], config={"strict": True, "allow_inf_nan": False})
_TIMELINES = pydantic.TypeAdapter(list[Timeline], config={"strict": True})


def _read(path: Path, form: "pydantic.TypeAdapter[T]", remedy: str) -> T:
    try:
        text = read_text(path, _LARGEST_BYTES, "a file of a results folder")
    except RecordError as error:
        is_there = path.exists()
        raise DamagedError(f"{path}: is damaged ({error}); {remedy}" if is_there else f"{error}; {remedy}") from error
    try:
        parse_json(text, "all of it")
        return form.validate_json(text)
    except RecordError as error:
        raise DamagedError(f"{path}: is damaged ({error}); {remedy}") from error
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"][:4]))
        place = f" at {where}" if where else ""
        raise DamagedError(f"{path}: is damaged{place}; {remedy}") from error
