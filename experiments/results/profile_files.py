"""Files of foreign profiles: CSV tables, TensorRT's ``--exportProfile`` and onnxruntime's profile, as rows of seconds.

A CSV file has the columns ``layer`` and ``seconds``. TensorRT writes a JSON list whose first entry counts the runs and
whose others have ``name`` and ``averageMs``. onnxruntime writes a JSON list of trace events, in which every run is an
event ``model_run`` and every kernel one of the category ``Node``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsascape.experiments.results.snapshot import CompareError, csv_rows, number_of, read_json
from dsascape.hw_models.text.messages import shown
from dsascape.hw_models.text.quantities import LONGEST_S

_COLUMNS = ("layer", "seconds")


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """Seconds of one layer in one run, summed over rows of the same name."""

    layer: str
    seconds: float


def is_profile(path: Path) -> bool:
    """Whether a file is a profile: CSV with its columns, or a JSON list; raises ``CompareError`` if unreadable."""
    if path.is_dir():
        return False
    if path.suffix == ".json":
        data = read_json(path)
        return isinstance(data, list) and bool(data)
    return set(_COLUMNS) <= set(csv_rows(path)[0])


def read_profile(path: Path) -> tuple[ProfileRow, ...]:
    """Return the rows of a profile; raise ``CompareError`` for seconds that are no number, or negative."""
    seconds: dict[str, float] = {}
    for place, name, value in _of_json(path) if path.suffix == ".json" else _of_table(path):
        if not name.strip():
            raise CompareError(f"{path}: {place}: name of the layer is empty; needs one")
        number = _number(value)
        if number is None:
            raise CompareError(f"{path}: {place}: time has {shown(value)}; needs a number from 0 to {LONGEST_S:g}")
        seconds[name.strip()] = seconds.get(name.strip(), 0.0) + number
    if not seconds:
        raise CompareError(f"{path}: has no rows; needs one for each layer")
    return tuple(ProfileRow(name, value) for name, value in seconds.items())


_Rows = Iterable[tuple[str, str, object]]
"""Place in the file, name of the layer, and seconds as they stand there."""


def _of_table(path: Path) -> _Rows:
    for line, row in enumerate(csv_rows(path)[1], 2):
        yield f"row {line}", row["layer"], row["seconds"]


def _of_json(path: Path) -> _Rows:
    entries = [entry for entry in read_json(path) if isinstance(entry, dict)]
    runs = sum(entry.get("name") == "model_run" for entry in entries)
    if any("averageMs" in entry for entry in entries):
        return _of_tensorrt(entries)
    if runs:
        return _of_onnxruntime(entries, runs)
    raise CompareError(
        f"{path}: is a list without averageMs or model_run;"
        " needs a profile of TensorRT or onnxruntime, or a CSV file with the columns layer and seconds"
    )


def _of_tensorrt(entries: Iterable[Mapping[str, Any]]) -> _Rows:
    for number, entry in enumerate(entries, 1):
        if "name" in entry or "averageMs" in entry:
            yield f"entry {number}", str(entry.get("name") or ""), _scaled(entry.get("averageMs"), 1e-3)


def _of_onnxruntime(entries: Iterable[Mapping[str, Any]], runs: int) -> _Rows:
    """Mean over the runs; events before and after a kernel (``_fence_before``) take no time of their own."""
    for number, entry in enumerate(entries, 1):
        if entry.get("cat") == "Node" and "_fence_" not in str(entry.get("name")):
            yield f"entry {number}", str(entry.get("name") or ""), _scaled(entry.get("dur"), 1e-6 / runs)


def _scaled(value: object, factor: float) -> object:
    number = _number(value)
    return value if number is None else number * factor


def _number(value: object) -> float | None:
    """Return a value as a number of seconds, milliseconds or microseconds; None for anything that no run takes."""
    number = number_of(value)
    return number if number is not None and 0 <= number <= LONGEST_S else None
