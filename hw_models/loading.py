"""Hardware by name: presets, the YAML files of users, and a machine with some of its values changed."""

import importlib.resources
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, get_args

import pydantic

from hw_models.dsa.spec import ClusteredDsa
from hw_models.machine import HardwareError
from hw_models.messages import listed, nearest, shown, shown_key
from hw_models.yaml_file import YamlError, explain, parse_yaml, read_yaml

AnyHardware: TypeAlias = ClusteredDsa
"""Every kind of machine. A new kind is its file and one ``| Kind`` here; YAML picks it by its ``kind``."""

_KINDS: dict[str, type[AnyHardware]] = {
    kind: member
    for member in get_args(AnyHardware) or (AnyHardware,)
    for kind in get_args(member.model_fields["kind"].annotation)
}
_PRESETS = importlib.resources.files("hw_models") / "presets"
_SUFFIX = ".yaml"


def preset_names() -> tuple[str, ...]:
    """Return the names of the machines that come along, sorted."""
    files = (entry.name for entry in _PRESETS.iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in files if name.endswith(_SUFFIX)))


def load_hardware(name_or_path: str | Path) -> AnyHardware:
    """Return the preset of that name, or the machine in the YAML file at that path.

    Text is a path if it ends in .yaml or .yml or has a slash. Raises ``HardwareError``.
    """
    names = preset_names()
    try:
        if name_or_path in names:
            text = (_PRESETS / f"{name_or_path}{_SUFFIX}").read_text(encoding="utf-8")
            return _checked(parse_yaml(text, str(name_or_path)), str(name_or_path))
        if isinstance(name_or_path, Path) or _is_path(name_or_path):
            path = Path(name_or_path)
            return _checked(read_yaml(path), str(path) if str(path).isprintable() else repr(str(path)))
    except YamlError as error:
        raise HardwareError(str(error)) from error
    raise HardwareError(
        f"hardware {shown_key(name_or_path)} is unknown{nearest(name_or_path, names)}; "
        f"known: {listed(names)}; or a path that ends in {_SUFFIX}"
    )


def known_paths(spec: AnyHardware) -> tuple[str, ...]:
    """Return every path that ``with_values`` sets in ``spec``, sorted."""
    return tuple(sorted(path for path in _leaves(_plain(spec), "") if path != "kind"))


def with_values(spec: AnyHardware, values: Mapping[str, object]) -> AnyHardware:
    """Return ``spec`` with ``values`` by path in YAML's words: ``{"local_buffer.capacity": "256 KiB"}``.

    Raises ``HardwareError`` for a path that ``spec`` lacks, a whole section, or a value that does not fit.
    """
    data = _plain(spec)
    for path, value in values.items():
        _set(data, path, value, spec.name)
    return _checked(data, spec.name)


def _is_path(text: str) -> bool:
    return text.endswith((_SUFFIX, ".yml")) or "/" in text or "\\" in text


def _checked(data: dict[str, Any], where: str) -> AnyHardware:
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        has = f"has {shown(kind)}{nearest(str(kind), _KINDS)}" if "kind" in data else "is missing"
        raise HardwareError(f"{where}: kind: {has}; known: {listed(sorted(_KINDS))}")
    try:
        return _KINDS[kind].model_validate(data)
    except pydantic.ValidationError as error:
        raise HardwareError(explain(error, where, model=_KINDS[kind])) from error


def _plain(spec: AnyHardware) -> dict[str, Any]:
    """Return ``spec`` as the mapping that its YAML file would hold."""
    return {key: _with_lists(value) for key, value in spec.model_dump(by_alias=True).items()}


def _with_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_lists(inner) for key, inner in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _leaves(data: dict[str, Any], prefix: str) -> Iterator[str]:
    for key, value in data.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}.")
            continue
        if isinstance(value, list):
            yield from (f"{path}.{index}" for index in range(len(value)))
        if value is not None:
            yield path


def _set(data: dict[str, Any], path: str, value: object, where: str) -> None:
    """Put ``value`` at ``path`` of ``data``; whether it is a good value is checked later."""
    owner: Any = None
    part, here = "", data
    for depth, part in enumerate(path.split(".")):
        owner, entries = here, _entries(here)
        if part not in entries:
            inside = ".".join(path.split(".")[:depth]) or "it"
            has = f"{inside} has: {listed(list(entries))}" if entries else f"{inside} is {shown(here)}"
            missing = f"there is no {shown_key(part)}{nearest(part, entries)}; {has}"
            raise HardwareError(f"{where}: {shown_key(path)}: {missing}")
        here = entries[part]
    if isinstance(here, dict) or here is None or isinstance(value, Mapping):
        inner = f", such as {path}.{next(iter(here))}" if here and isinstance(here, dict) else ""
        raise HardwareError(f"{where}: {path}: is a whole section; needs the path of one value{inner}")
    owner[int(part) if isinstance(owner, list) else part] = value


def _entries(container: Any) -> dict[str, Any]:
    """Return what can be named inside ``container``: keys of a mapping, positions in a list."""
    if isinstance(container, list):
        return {str(index): entry for index, entry in enumerate(container)}
    return container if isinstance(container, dict) else {}
