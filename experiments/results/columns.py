"""Columns of the result tables, their SQL types, and the columns that identify a design point."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import get_args

from dsascape.experiments.question.points import RunRecord

OF_LAYERS = {"key": "TEXT", "place": "INTEGER", "layer": "TEXT", "runs": "INTEGER", "critical_s": "REAL",
             "name": "TEXT", "operators": "TEXT"}  # fmt: skip
"""Columns that the table of layers always has, with their types."""
TYPES: dict[object, str] = {int: "INTEGER", float: "REAL", str: "TEXT", bool: "INTEGER"}
_SCALARS = {field.name: TYPES[field.type] for field in fields(RunRecord) if field.type in TYPES}
BOOK_KEEPING = {"key": "TEXT PRIMARY KEY", "point": "TEXT", "code": "TEXT", "state": "TEXT DEFAULT 'current'"}
"""Columns about the row itself: key, identity of the point, hash of the code that computed it, state."""
ALWAYS = {**BOOK_KEEPING, **_SCALARS, "area_mm2": "REAL", "error": "TEXT"}
"""Columns that the table of runs always has, with their types."""
OF_ORIGIN = {"is_base": "INTEGER", "command": "TEXT"}
"""Columns of points from an experiment file: whether the machine is the unchanged base, and its command."""
OF_KERNELS = {
    "key": "TEXT", "place": "INTEGER", "kernel": "TEXT", "layer": "TEXT", "operators": "TEXT", "measured_s": "REAL",
    "spread": "REAL", "predicted_s": "REAL", "threads": "INTEGER", "flushed_caches": "INTEGER", "kernel_error": "TEXT",
}  # fmt: skip
"""Columns that the table of measured kernels always has, with their types."""
OF_MEASUREMENT = {
    "measured_s": "REAL", "measured_spread": "REAL", "measured_j": "REAL", "measured_threads": "INTEGER",
    "is_correct": "INTEGER", "mape": "REAL", "spearman": "REAL", "kendall": "REAL", "target": "TEXT",
    "device": "TEXT", "device_facts": "TEXT",
    "measured_at": "TEXT", "warnings": "TEXT", "flushed_caches": "INTEGER",
}  # fmt: skip
"""Columns of measured points."""
OF_AIM = {"power_w": "REAL", "violates": "TEXT"}
"""Columns for objectives and constraints: mean power of the simulated run, and the constraints that a point does not
keep, separated by commas (empty if it keeps all)."""
NUMERIC = ("INTEGER", "REAL")
OF_FIGURES = {
    f"{field.name}.": TYPES[values[1]]
    for field in fields(RunRecord)
    if (values := get_args(field.type)) and values[1] in TYPES
}
"""Types of columns made from the record's mappings, by prefix such as ``traffic_bytes.``."""
TELL_APART = (
    "model", "hardware", "policy", "batch", "dtype", "target", "device", "measured_threads", "flushed_caches",
)  # fmt: skip
"""Columns that identify a point, besides the swept ones."""
_POINT_DIGITS = 16


def type_of(column: str, declared_type: str = "TEXT") -> str:
    """Return a column's SQL type: by its name where that is listed, otherwise as declared."""
    every = {**OF_LAYERS, **OF_KERNELS, **OF_ORIGIN, **OF_MEASUREMENT, **OF_AIM, **ALWAYS}
    listed = every.get(column, "").partition(" ")[0]
    prefixed = next((kind for beginning, kind in OF_FIGURES.items() if column.startswith(beginning)), "")
    return listed or prefixed or (declared_type if declared_type in NUMERIC else "TEXT")


def in_order(columns: Iterable[str]) -> list[str]:
    """Return the columns in an order independent of the order of points.

    Scalars come first, then swept values, mappings by prefix, measurements, what constraints
    compare, and the point's origin.
    """
    beginnings = list(OF_FIGURES)

    def place(column: str) -> tuple[int, str]:
        if column in ALWAYS:
            return -2, ""
        if column in OF_MEASUREMENT:
            return len(beginnings), ""
        if column in OF_AIM:
            return len(beginnings) + 1, column
        if column in OF_ORIGIN:
            return len(beginnings) + 2, ""
        return next((i for i, beginning in enumerate(beginnings) if column.startswith(beginning)), -1), column

    return sorted(columns, key=place)


def names_of_point(row: Mapping[str, object]) -> dict[str, object]:
    """Return the parts of a row that identify its point: names, sizes and swept values, without figures."""
    figures = {*OF_ORIGIN, *OF_MEASUREMENT, *OF_AIM, *ALWAYS}
    return {
        name: value
        for name, value in row.items()
        if value is not None
        and (name in TELL_APART or not (name in figures or name.startswith(tuple(OF_FIGURES))))
    }


def point_of_row(row: Mapping[str, object]) -> str:
    """Return the identity of a row's point: a hash of its names and swept values, without figures."""
    told = {name: str(value) for name, value in names_of_point(row).items()}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:_POINT_DIGITS]
