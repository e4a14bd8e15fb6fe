"""JSON Schema of machine files, for editors that complete and check YAML while it is written.

It is made from the specs that validate the files. An editor sees what stands in the file: quantities are text with a
unit, the value of ``kind`` decides which keys there are, and a file with a ``base`` needs to state differences only.
"""

import importlib.resources
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from dsascape.hw_models.machine_files.efficiencies import KEYS, efficiency_rows
from dsascape.hw_models.machine_files.kinds import hardware_kinds, spec_of
from dsascape.hw_models.machine_files.load import preset_names
from dsascape.hw_models.machine_files.meanings import WithMeanings
from dsascape.hw_models.simulation.machine import HardwareError
from dsascape.hw_models.text.quantities import NUMBER, derived_word, normal_form, readable, units_of

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_OF_NUMBERS = frozenset({
    "type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "ge", "gt", "le", "lt", "unit", "anyOf",
    "default",
})  # fmt: skip
"""Keywords of a quantity's schema that are of the number in base units, not of the text in a file."""
SCHEMA_FILE = Path(str(importlib.resources.files("dsascape.hw_models"))) / "presets" / "machine.schema.json"
"""The schema as a file, beside the presets, where editors find it by the comment that names it."""
_NAMES_SCHEMA = "# yaml-language-server: $schema="


def for_editors(text: str) -> str:
    """Return the text of a machine file with a comment that names the installed schema; presets name one beside them.

    YAML's language server reads the comment, so that editors complete and check the file wherever it lies. A file that
    names another schema keeps that.
    """
    line = f"{_NAMES_SCHEMA}{SCHEMA_FILE.as_uri()}"
    if _NAMES_SCHEMA not in text:
        return f"{line}\n{text}"
    return text.replace(f"{_NAMES_SCHEMA}{SCHEMA_FILE.name}\n", f"{line}\n")


def machine_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a machine file of any kind."""
    parts: dict[str, Any] = {}
    choices: list[dict[str, Any]] = []
    kinds = _loadable_kinds()
    for kind in kinds:
        generated = TypeAdapter(spec_of(kind)).json_schema(by_alias=True, schema_generator=WithMeanings)
        renamed = _mapped(generated, partial(_prefixed, f"{kind}."))
        parts |= {f"{kind}.{name}": each for name, each in renamed.pop("$defs", {}).items()}
        parts[kind] = renamed
        choices.append({
            "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": {"$ref": f"#/$defs/{kind}"},
        })  # fmt: skip
    whole: dict[str, Any] = {
        "properties": {"kind": {"enum": list(kinds), "description": "Kind of machine: decides which keys there are."}},
        "required": ["kind"],
        "allOf": choices,
    }
    differences = {
        "properties": {
            "base": {
                "type": "string", "examples": list(preset_names()),
                "description": "Machine that the file states the differences to: a preset, or the path of a file.",
            },
            **_any_of(parts, kinds),
        },
        "required": ["base"],
    }  # fmt: skip
    return {
        "$schema": DRAFT, "title": "dsascape machine", "type": "object",
        "if": {"required": ["base"]}, "then": differences, "else": whole,
        "$defs": {name: _with_rows(_as_written(part)) for name, part in parts.items()},
    }  # fmt: skip


def _loadable_kinds() -> tuple[str, ...]:
    """Return the machine kinds, built in or of installed packages, but for those that cannot be imported."""
    found = []
    for kind in hardware_kinds():
        with suppress(HardwareError):
            spec_of(kind)
            found.append(kind)
    return tuple(found)


def _any_of(parts: dict[str, Any], kinds: Iterable[str]) -> dict[str, Any]:
    """Return the keys that some kind has, for completion; what stands below them is checked with the base."""
    found: dict[str, Any] = {}
    for kind in kinds:
        for key, value in parts[kind]["properties"].items():
            found.setdefault(key, {"description": value["description"]} if "description" in value else {})
    return found


def _prefixed(prefix: str, key: str, value: Any) -> Any:
    """Return a reference to a record of one kind with that kind in front of its name; other values unchanged."""
    return value.replace("#/$defs/", f"#/$defs/{prefix}") if key == "$ref" else value


def _mapped(part: Any, change: Callable[[str, Any], Any]) -> Any:
    """Return ``part`` with every value of a mapping in it changed, innermost first."""
    if isinstance(part, dict):
        return {key: change(key, _mapped(value, change)) for key, value in part.items()}
    return [_mapped(each, change) for each in part] if isinstance(part, list) else part


def _with_rows(part: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a machine of a kind that also accepts the name of a row of libraries' efficiencies."""
    stated = part.get("properties", {})
    row = {"type": "string", "enum": sorted(efficiency_rows())}
    named = {
        key: {"description": stated[key].get("description", ""), "anyOf": [stated[key], row]}
        for key in KEYS if key in stated
    }  # fmt: skip
    return {**part, "properties": {**stated, **named}} if named else part


def _as_written(part: Any) -> Any:
    """Return a schema of values as a file has them: quantities as text, and null where the file may switch off."""
    if isinstance(part, list):
        return [_as_written(each) for each in part]
    if not isinstance(part, dict):
        return part
    if isinstance(part.get("unit"), str):
        return _quantity(part)
    made = {key: _as_written(value) for key, value in part.items() if key not in ("ge", "le", "gt", "lt")}
    if isinstance(part.get("default"), dict | list):
        del made["default"]
    return made


def _quantity(part: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a quantity: a number and a unit; where optional, null or a word such as ``by size``."""
    units, base = units_of(part["unit"]), part["unit"]
    written = _longest_first(dict.fromkeys([*units, *map(normal_form, units)]))
    text = {
        "type": "string", "pattern": rf"^\s*{NUMBER}\s*({'|'.join(map(re.escape, written))})\s*$",
        "examples": [f"1 {unit}" for unit in units],
    }  # fmt: skip
    kept = {key: value for key, value in part.items() if key not in _OF_NUMBERS}
    default = part.get("default")
    if isinstance(default, int | float):
        kept["default"] = readable(f"{default!r} {base}")
    if "anyOf" not in part:
        return kept | text
    absent = [{"const": derived_word(base)}] if derived_word(base) else []
    return kept | {"anyOf": [text, *absent, {"type": "null"}]}


def _longest_first(units: Iterable[str]) -> Iterator[str]:
    return iter(sorted(units, key=len, reverse=True))

