"""Queries on JSON schemas of records: fields of a section, variants by kind, entries of mappings."""

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]


def resolved(part: Schema, whole: Schema) -> Schema:
    """Return ``part`` with its reference into ``whole`` resolved; for an optional part, the schema when not null.

    An optional value keeps what is said of it where it stands, such as its default; a record is described by itself.
    """
    if "$ref" in part:
        return resolved(whole["$defs"][part["$ref"].rpartition("/")[2]], whole)
    others = [each for each in part.get("anyOf", ()) if each.get("type") != "null"]
    if len(others) == 1:
        inner = resolved(others[0], whole)
        if "properties" in inner:
            return inner
        return {**inner, **{key: value for key, value in part.items() if key != "anyOf"}}
    return part


def may_be_null(part: Schema) -> bool:
    """Return whether ``part`` accepts null."""
    return any(each.get("type") == "null" for each in part.get("anyOf", ()))


def kinds(part: Schema, whole: Schema) -> Iterator[tuple[tuple[str, ...], Schema]]:
    """Yield each record type of ``part`` with the values of ``kind`` that select it; no values for a single type."""
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
    """Return the record type of ``part`` that ``kind`` selects; an empty schema for an unknown kind."""
    return next((record for names, record in kinds(part, whole) if not names or kind in names), {})


def entry(part: Schema) -> Schema | None:
    """Return the entry schema of a mapping whose keys the user chooses; None for anything else."""
    for pattern in part.get("patternProperties", {}).values():
        values: Schema = pattern
        return values
    further = part.get("additionalProperties")
    return further if isinstance(further, dict) else None
