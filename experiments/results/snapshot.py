"""Stored design points to compare: a results folder, a CSV file of results, or the JSON record of one simulation."""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import Any

import pandas as pd

from dsascape.experiments.question.points import RunRecord
from dsascape.experiments.results.columns import NUMERIC, OF_ORIGIN, TELL_APART, names_of_point, type_of
from dsascape.experiments.results.files import without_apostrophe
from dsascape.experiments.results.frame import TIMES, is_figure, read_sound
from dsascape.experiments.results.parts import read_parts
from dsascape.experiments.results.store import DATABASE, LAYERS
from dsascape.hw_models.text.messages import shown
from dsascape.hw_models.text.quantities import LONGEST_S, SHORTEST_S
from dsascape.hw_models.text.record_file import MIB, RecordError, parse_json, read_text

_LARGEST_FILE_BYTES = 256 * MIB
_RECORD = ("model", "hardware", "policy", "batch", "dtype", "latency_s", "energy_j")
"""Keys by which a JSON file is known for the record of a simulation."""
_LABELLED = ("model", "hardware", "policy", "batch", "dtype")
_TABLE = ("model", "policy", "latency_s")
"""Columns by which a CSV file is known for a table of results."""
_NO_FIGURES = (*OF_ORIGIN, *TELL_APART, "is_correct")
"""Numeric columns of which every value is possible, or that are names."""
_DATABASE, _CSV, _LAYERS_CSV = DATABASE, "results.csv", f"{LAYERS}.csv"


class CompareError(ValueError):
    """Inputs that cannot be compared; the message says why."""


@dataclass(frozen=True, slots=True)
class KeptLayer:
    """Figures of one layer of a stored point."""

    layer: str
    critical_s: float
    """Seconds of the layer on the critical path."""
    limited_by: str = ""
    operators: tuple[str, ...] = ()
    """Names of the network's operators that the layer computes; empty where they are not stored."""
    name: str = ""
    """Name of the layer in its plan; empty where it is not stored. ``layer`` is the same under every plan."""

    @property
    def shown(self) -> str:
        """Name to show: the one in the plan, or ``layer``."""
        return self.name or self.layer


@dataclass(frozen=True)
class KeptPoint:
    """A stored design point: what identifies it, and its figures."""

    names: Mapping[str, str]
    """Network, machine, policy, sizes and swept values, by column."""
    figures: Mapping[str, float]
    """Numbers by column; mappings are flattened, as in ``traffic_bytes.ddr``."""
    bottleneck: str = ""
    error: str = ""
    """Reason why the point has no figures; empty if it has."""
    key: str = ""

    @property
    def label(self) -> str:
        """Description of the point: network, sizes, machine, policy, swept values."""
        rest = {name: value for name, value in self.names.items() if name not in _LABELLED}
        sizes = [f"batch {self.names['batch']}"] if "batch" in self.names else []
        sizes += [self.names["dtype"]] if "dtype" in self.names else []
        told = ", ".join([self.names.get("model", "?"), *sizes])
        told += f" on {self.names['hardware']}" if "hardware" in self.names else ""
        told += f" under {self.names['policy']}" if "policy" in self.names else ""
        return told + "".join(f", {name} = {value}" for name, value in rest.items())


Layers = Callable[[KeptPoint], tuple[KeptLayer, ...]]


def _no_layers(point: KeptPoint) -> tuple[KeptLayer, ...]:
    del point
    return ()


@dataclass(frozen=True)
class Snapshot:
    """Stored points of one place."""

    place: str
    points: tuple[KeptPoint, ...]
    layers_of: Layers = field(default=_no_layers)
    """Returns the layers of one of the points; none where they are not stored."""
    remarks: tuple[str, ...] = ()
    """Damage found in the files."""


def read_snapshot(path: Path) -> Snapshot:
    """Read a results folder, a CSV file of results, or a JSON file of ``simulate --json``.

    Raises ``CompareError`` for anything else, and ``StoreError`` for a damaged database.
    """
    if path.is_dir():
        if (path / _DATABASE).is_file():
            return _of_database(path)
        if (path / _CSV).is_file():
            return _of_table(path / _CSV)
        raise CompareError(f"{path}: is no results folder; needs {_DATABASE} or {_CSV} in it")
    if path.suffix == ".json":
        return _of_record(path)
    return _of_table(path)


def read_whole(path: Path) -> str:
    """Return the text of a file; raise ``CompareError`` for one that is missing, too large or not UTF-8 text."""
    try:
        return read_text(path, _LARGEST_FILE_BYTES)
    except RecordError as error:
        raise CompareError(str(error)) from error


def read_json(path: Path) -> Any:
    """Return the value in a JSON file; raise ``CompareError`` for a file that cannot be read or is not JSON."""
    try:
        return parse_json(read_whole(path), str(path))
    except RecordError as error:
        raise CompareError(str(error)) from error


def csv_rows(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Return (columns, rows) of a CSV file; raise ``CompareError`` for one that cannot be read."""
    try:
        reader = csv.DictReader(StringIO(read_whole(path), newline=""), strict=True)
        columns = [without_apostrophe((name or "").strip()) for name in reader.fieldnames or ()]
        reader.fieldnames = columns
        rows = [{name: without_apostrophe(value or "") for name, value in row.items() if name} for row in reader]
    except csv.Error as error:
        raise CompareError(f"{path}: is not CSV ({error})") from error
    return columns, rows


def _of_database(folder: Path) -> Snapshot:
    results = read_sound(folder)
    frame = results.frame
    figures = [str(name) for name in frame if pd.api.types.is_numeric_dtype(frame[name])]
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    points = [_point({str(name): value for name, value in row.items()}, figures) for row in rows]
    return Snapshot(
        str(folder), tuple(points), lambda point: _layers(read_parts(folder, point.key).to_dict("records")),
        results.remarks,
    )  # fmt: skip


def _of_table(path: Path) -> Snapshot:
    columns, rows = csv_rows(path)
    lacking = [name for name in _TABLE if name not in columns]
    if lacking:
        raise CompareError(f"{path}: has no column {lacking[0]}; needs results.csv, or a JSON record")
    unknown = [name for name in columns if _is_unknown(name)]
    numeric = [name for name in unknown if all(number_of(row[name]) is not None for row in rows if row[name])]
    figures = [name for name in columns if type_of(name) in NUMERIC or name in numeric]
    _check_times(path, rows)
    points = [_point(row, figures) for row in rows]
    if len({tuple(point.names.items()) for point in points}) < len(points):  # a swept count looks like a figure
        points = [_point(row, [name for name in figures if name not in numeric]) for row in rows]
    listed = path.with_name(_LAYERS_CSV)
    if not listed.is_file():
        return Snapshot(str(path), tuple(points))
    return Snapshot(str(path), tuple(points), _layers_of_table(listed))


def _layers_of_table(path: Path) -> Layers:
    """Return the function that finds a point's layers in ``layers.csv``, which is read when it is first needed."""
    read: list[dict[str, str]] = []

    def layers_of(point: KeptPoint) -> tuple[KeptLayer, ...]:
        if not read:
            read.extend(csv_rows(path)[1])
        names = point.names.items()
        return _layers([row for row in read if all(_is_same(row.get(name, value), value) for name, value in names)])

    return layers_of


def _is_same(first: str, second: str) -> bool:
    """Return whether two cells are equal as text or as numbers: 4 and 4.0."""
    return first == second or (number_of(first) is not None and number_of(first) == number_of(second))


def _of_record(path: Path) -> Snapshot:
    data = read_json(path)
    if isinstance(data, dict) and isinstance(data.get("error"), str):
        raise CompareError(f"{path}: has an error instead of figures: {data['error'][:200]}")
    lacking = [name for name in _RECORD if not isinstance(data, dict) or name not in data]
    if lacking:
        raise CompareError(f"{path}: has no {lacking[0]}; needs the output of dsascape simulate --json")
    row: dict[str, object] = {}
    for name in RunRecord.__dataclass_fields__.keys() & data.keys():
        value = data[name]
        row |= {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}
    row |= {name: value for name, value in data.items() if isinstance(value, int | float) and name not in row}
    figures = [name for name, value in row.items() if isinstance(value, int | float)]
    _check_times(path, [row])
    point = _point(row, figures)
    if "latency_s" not in point.figures:
        raise CompareError(f"{path}: latency_s has {shown(data['latency_s'])}; needs a number")
    layers = data.get("layers")
    found = _layers([each for each in layers if isinstance(each, dict)]) if isinstance(layers, list) else ()
    return Snapshot(str(path), (point,), lambda _: found)


def _check_times(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Raise ``CompareError`` for a time that no run can take, and for another figure that is impossible.

    A row without a time has an error instead, and is a point without figures.
    """
    for number, row in enumerate(rows, 1):
        place = f"{path}: row {number}" if path.suffix != ".json" else str(path)
        for name in sorted(filter(_is_checked, row), key=lambda each: each not in TIMES):
            value = row[name]
            if value in (None, "") and (name != "latency_s" or row.get("error")):
                continue
            if not is_figure(name, number_of(value)):
                needs = f"{SHORTEST_S:g} to {LONGEST_S:g}" if name in TIMES else "0"
                raise CompareError(f"{place}: {name} has {shown(value)}; needs a number from {needs}")


def _is_checked(column: str) -> bool:
    return type_of(column) in NUMERIC and column not in _NO_FIGURES


def _is_unknown(column: str) -> bool:
    return column in names_of_point({column: "x"}) and type_of(column) == "TEXT" and column not in TELL_APART


def _point(row: Mapping[str, object], figures: Sequence[str]) -> KeptPoint:
    """Return a row as a point; ``figures`` are its columns of numbers."""
    names = {name: _text(value) for name, value in names_of_point(row).items() if value not in (None, "")}
    numbers = {name: number for name in figures if (number := number_of(row.get(name))) is not None}
    sized = {name: value for name, value in names.items() if name in TELL_APART or name not in figures}
    return KeptPoint(
        sized, numbers, str(row.get("bottleneck") or ""), str(row.get("error") or ""), str(row.get("key") or "")
    )


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def number_of(value: object) -> float | None:
    """Return a value as a finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def _layers(rows: Iterable[Mapping[Any, Any]]) -> tuple[KeptLayer, ...]:
    """Return the layers with a sound time."""
    layers = []
    for row in rows:
        seconds, operators = number_of(row.get("critical_s")), row.get("operators")
        if seconds is not None and 0 <= seconds <= LONGEST_S and isinstance(row.get("layer"), str):
            named = operators.split(", ") if isinstance(operators, str) else operators
            kept = tuple(filter(None, map(str, named))) if isinstance(named, list) else ()
            name = row.get("name")
            shown = name if isinstance(name, str) else ""
            layers.append(KeptLayer(row["layer"], seconds, str(row.get("limited_by") or ""), kept, shown))
    return tuple(layers)


def without_names(snapshot: Snapshot, ignored: Sequence[str]) -> Snapshot:
    """Return the snapshot with some columns left out of what identifies a point.

    Raises ``CompareError`` if points could no longer be told apart.
    """
    if not ignored:
        return snapshot
    points = [
        replace(point, names={name: value for name, value in point.names.items() if name not in ignored})
        for point in snapshot.points
    ]
    seen: dict[tuple[tuple[str, str], ...], KeptPoint] = {}
    for point in points:
        other = seen.setdefault(tuple(sorted(point.names.items())), point)
        if other is not point:
            raise CompareError(
                f"--ignore {','.join(ignored)}: {snapshot.place} has several points that differ in nothing else,"
                f" such as {point.label}"
            )
    return replace(snapshot, points=tuple(points))
