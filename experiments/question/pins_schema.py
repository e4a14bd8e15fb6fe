"""JSON Schema of files of pins, for editors, and the reference of their keys for every machine kind."""

from typing import Any

from dsascape.hw_models.machine_files.json_schema import DRAFT
from dsascape.scheduler.kinds.table import KINDS, kind_named
from dsascape.scheduler.pins import LayerPin, pin_schema

_NAMES = {"clustered_dsa": "clustered DSA", "cpu": "CPU", "gpu": "GPU"}


def _pins() -> dict[str, type[LayerPin]]:
    """Return the decisions that can be pinned, by built-in machine kind."""
    found = {name: kind_named(name).pin for name in KINDS}
    return {name: pin for name, pin in found.items() if pin is not None}


def pins_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file of pins: that of any machine kind."""
    every = {name: pin_schema(pin, name) for name, pin in _pins().items()}
    parts: dict[str, Any] = {}
    for each in every.values():
        parts |= each.pop("$defs")
    return {"$schema": DRAFT, "title": "dsascape pins", "anyOf": list(every.values()), "$defs": parts}


def pins_page() -> str:
    """Return the tables of all decisions that can be pinned, as Markdown, by machine kind."""
    lines: list[str] = []
    for name, pin in _pins().items():
        lines += ["", f"On a {_NAMES.get(name, name)}:", "", "| key | what it fixes |", "|---|---|"]
        for key, field in pin.model_fields.items():
            lines.append(f"| `{key}` | {' '.join((field.description or '').split()).replace('``', '`')} |")
    return "\n".join(lines).lstrip() + "\n"
