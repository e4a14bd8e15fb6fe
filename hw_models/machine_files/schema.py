"""Reading JSON schemas of records: what a section has, which of several kinds it is, what its entries are."""

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]


def resolved(part: Schema, whole: Schema) -> Schema:
    """Return ``part`` with what it refers to in ``whole``; of a part that may be null, what it is otherwise."""
    if "$ref" in part:
        return resolved(whole["$defs"][part["$ref"].rpartition("/")[2]], whole)
    others = [each for each in part.get("anyOf", ()) if each.get("type") != "null"]
    if len(others) == 1:
        return {**resolved(others[0], whole), **{key: value for key, value in part.items() if key != "anyOf"}}
    return part


def may_be_null(part: Schema) -> bool:
    """Return whether null is a value of ``part``."""
    return any(each.get("type") == "null" for each in part.get("anyOf", ()))


def kinds(part: Schema, whole: Schema) -> Iterator[tuple[tuple[str, ...], Schema]]:
    """Yield each record that ``part`` may be, after the values of ``kind`` that choose it: none for one record."""
    part = resolved(part, whole)
    if "oneOf" not in part:
        yield (), part
        return
    chosen: dict[str, list[str]] = {}
    for kind, place in part["discriminator"]["mapping"].items():
        chosen.setdefault(place, []).append(kind)
    for place, names in chosen.items():
        yield tuple(names), resolved({"$ref": place}, whole)


def of_kind(part: Schema, whole: Schema, kind: object) -> Schema:
    """Return the record that ``kind`` chooses among those that ``part`` may be; an empty one for an unknown kind."""
    return next((found for names, found in kinds(part, whole) if not names or kind in names), {})


def entry(part: Schema) -> Schema | None:
    """Return what the entries of a mapping are whose keys the user chooses; None for anything else."""
    for pattern in part.get("patternProperties", {}).values():
        found: Schema = pattern
        return found
    further = part.get("additionalProperties")
    return further if isinstance(further, dict) else None
