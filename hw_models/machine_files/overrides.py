"""Changes to a machine as plain data: differences to a base file, and single values by path."""

from collections.abc import Iterator, Mapping
from typing import Any

from dsascape.hw_models.machine_files.schema import Schema, entry, of_kind, resolved
from dsascape.hw_models.simulation.machine import HardwareError
from dsascape.hw_models.text.messages import listed, nearest, shown, shown_key
from dsascape.hw_models.text.quantities import normal_form


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``changes``: mappings are merged key by key, other values and whole lists are replaced.

    A mapping is replaced as a whole if its ``kind`` differs.
    """
    result = dict(base)
    for key, value in changes.items():
        result[key] = merged(result[key], value) if _can_be_merged(result.get(key), value) else value
    return result


def _can_be_merged(before: Any, change: Any) -> bool:
    """Return whether both are mappings of the same ``kind``, or do not state one."""
    if not isinstance(before, dict) or not isinstance(change, dict):
        return False
    return bool(change.get("kind", before.get("kind")) == before.get("kind"))


def without_removed(data: Any, part: Schema, whole: Schema) -> Any:
    """Return ``data`` without null entries in mappings whose keys the user chooses (units, dtypes)."""
    if not isinstance(data, dict):
        return data
    part = of_kind(resolved(part, whole), whole, data.get("kind"))
    of_entries = entry(part)
    if of_entries is not None:
        return {key: without_removed(value, of_entries, whole) for key, value in data.items() if value is not None}
    fields = part.get("properties", {})
    return {key: without_removed(value, fields[key], whole) if key in fields else value for key, value in data.items()}


def leaves(data: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the path of every value of ``data`` that is not null; of lists, the list and each entry."""
    for key, value in data.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from leaves(value, f"{path}.")
            continue
        if isinstance(value, list):
            yield from (f"{path}.{index}" for index in range(len(value)))
        if value is not None:
            yield path


def value_at(data: Any, path: str) -> Any:
    """Return the value at ``path`` in ``data``; None if there is none."""
    for part in path.split("."):
        data = _entries(data).get(part)
    return data


def put(data: dict[str, Any], path: str, value: object, where: str) -> None:
    """Set ``value`` at ``path`` in ``data``, in place; its validity is checked later.

    Raises ``HardwareError`` for a path that ``data`` lacks, and for a section unless ``value`` is None.
    """
    owner: Any = None
    part, here = "", data
    for depth, part in enumerate(normal_form(path).split(".")):
        owner, entries = here, _entries(here)
        if part not in entries:
            inside = ".".join(path.split(".")[:depth]) or "it"
            has = f"{inside} has: {listed(list(entries))}" if entries else f"{inside} is {shown(here)}"
            if here is None:
                has += "; a machine file with a base can give it one"
            meant = nearest(part, entries) or nearest(f".{part}", _endings(data, part)) if here is not None else ""
            missing = f"there is no {shown_key(part)}{meant}; {has}"
            raise HardwareError(f"{where}: {shown_key(path)}: {missing}")
        here = entries[part]
    if isinstance(value, Mapping) or (isinstance(here, dict) and value is not None):
        inner = f", such as {path}.{next(iter(here))}" if here and isinstance(here, dict) else ""
        raise HardwareError(f"{where}: {path}: is a whole section; needs the path of one value{inner}")
    owner[int(part) if isinstance(owner, list) else part] = value


def _endings(data: Mapping[str, Any], part: str) -> list[str]:
    """Return the paths of values whose last key is ``part``, the shortest first."""
    return sorted((path for path in leaves(data) if path.rpartition(".")[2].lower() == part.lower()), key=len)


def _entries(container: Any) -> dict[str, Any]:
    """Return the addressable entries of ``container``: keys of a mapping, positions in a list."""
    if isinstance(container, list):
        return {str(index): entry for index, entry in enumerate(container)}
    return container if isinstance(container, dict) else {}
