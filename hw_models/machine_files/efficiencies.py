"""Rows of the table of libraries' efficiencies, which machine files name in place of stating each value."""

import importlib.resources
from collections.abc import Mapping
from functools import cache
from typing import Any

from dsascape.hw_models.simulation.machine import HardwareError
from dsascape.hw_models.text.messages import listed, nearest, shown
from dsascape.hw_models.text.yaml_file import parse_yaml

KEYS = {"library_efficiency": "kinds", "library_efficiency_of": "of"}
"""Keys of a machine's file that may name a row, and the part of the row that each takes."""
_TABLE = importlib.resources.files("dsascape.hw_models") / "library_efficiencies.yaml"


@cache
def efficiency_rows() -> Mapping[str, Mapping[str, Any]]:
    """Return the rows by name, ``LIBRARY/CLASS OF MACHINE``: ``kinds``, and ``of`` where a dtype has its own."""
    rows: Mapping[str, Mapping[str, Any]] = parse_yaml(table_text(), _TABLE.name)["rows"]
    return rows


def table_text() -> str:
    """Return the file of the table, with its comments."""
    return _TABLE.read_text(encoding="utf-8")


def with_rows(data: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the mapping of a machine's file with the values of the rows that it names; it is left as it is.

    Raises ``HardwareError`` for a row that the table lacks.
    """
    named = {key: part for key, part in KEYS.items() if isinstance(data.get(key), str)}
    if not named:
        return data
    rows, found = efficiency_rows(), dict(data)
    for key, part in named.items():
        row = data[key]
        if row not in rows:
            raise HardwareError(f"{where}: {key}: has {shown(row)}{nearest(row, rows)}; known: {listed(sorted(rows))}")
        found[key] = dict(rows[row].get(part, {}))
    return found
