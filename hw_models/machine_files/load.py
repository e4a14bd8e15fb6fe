"""Hardware by name: presets, the YAML files of users, and a machine with some of its values changed.

A file states a whole machine, or with ``base:`` what differs from another: a preset's name, or the path of a file as
seen from its own folder. The base's mappings are merged with the file's, key by key; what is null is switched off where
a machine can be without it (the global buffer), and left out where it is one of several (a unit, a dtype).
"""

import importlib.resources
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast, get_args, overload

import pydantic

from dsascape.hw_models.cpu.spec import Cpu
from dsascape.hw_models.dsa.spec import ClusteredDsa
from dsascape.hw_models.gpu.spec import Gpu
from dsascape.hw_models.machine_files.overrides import leaves, merged, put, without_removed
from dsascape.hw_models.machine_files.schema import Schema
from dsascape.hw_models.simulation.machine import HardwareError
from dsascape.hw_models.text.messages import listed, nearest, shown, shown_key
from dsascape.hw_models.text.yaml_file import YamlError, explain, parse_yaml, read_yaml

AnyHardware: TypeAlias = ClusteredDsa | Cpu | Gpu
"""Every kind of machine. A new kind is its file and one ``| Kind`` here; YAML picks it by its ``kind``."""
_Spec = TypeVar("_Spec", bound=AnyHardware)

_KINDS: dict[str, type[AnyHardware]] = {
    kind: member
    for member in get_args(AnyHardware) or (AnyHardware,)
    for kind in get_args(member.model_fields["kind"].annotation)
}
_PRESETS = importlib.resources.files("dsascape.hw_models") / "presets"
_SUFFIX = ".yaml"
_MOST_BASES = 16
"""Files that stand on one another."""


def hardware_kinds() -> dict[str, type[AnyHardware]]:
    """Return the spec of each kind of machine by its ``kind``."""
    return dict(_KINDS)


def preset_names() -> tuple[str, ...]:
    """Return the names of the machines that come along, sorted."""
    files = (entry.name for entry in _PRESETS.iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in files if name.endswith(_SUFFIX)))


def preset_text(name: str) -> str:
    """Return the file of the preset ``name`` as it is, comments included."""
    return (_PRESETS / f"{name}{_SUFFIX}").read_text(encoding="utf-8")


@overload
def load_hardware(name_or_path: str | Path) -> AnyHardware: ...
@overload
def load_hardware(name_or_path: str | Path, spec: type[_Spec]) -> _Spec: ...
def load_hardware(name_or_path: str | Path, spec: type[_Spec] | None = None) -> AnyHardware | _Spec:
    """Return the preset of that name, or the machine in the YAML file at that path.

    Text is a path if it ends in .yaml or .yml or has a slash. Raises ``HardwareError``, also for a machine that is not
    of the type ``spec``, if one is given.
    """
    found = _loaded(name_or_path, ())
    if spec is not None and not isinstance(found, spec):
        raise HardwareError(f"{found.name}: kind: has {found.kind}; needs one of type {spec.__name__}")
    return found


def is_path(name_or_path: str | Path) -> bool:
    """Return whether ``load_hardware`` takes this for the path of a file, and not for a preset's name."""
    if isinstance(name_or_path, Path):
        return True
    return name_or_path not in preset_names() and (
        name_or_path.endswith((_SUFFIX, ".yml")) or "/" in name_or_path or "\\" in name_or_path
    )


def known_paths(spec: AnyHardware) -> tuple[str, ...]:
    """Return every path that ``with_values`` sets in ``spec``, sorted."""
    return tuple(sorted(path for path in leaves(plain(spec)) if path != "kind"))


def with_values(spec: _Spec, values: Mapping[str, object]) -> _Spec:
    """Return ``spec`` with ``values`` by path in YAML's words: ``{"local_buffer.capacity": "256 KiB"}``.

    None, YAML's null, switches off what a machine can be without: ``{"global_buffer": None}``. Raises ``HardwareError``
    for a path that ``spec`` lacks, any other value for a whole section, or a value that does not fit.
    """
    data = plain(spec)
    for path, value in values.items():
        put(data, path, value, spec.name)
    if None in values.values():
        data = without_removed(data, _schema(spec.kind), _schema(spec.kind))
    return cast(_Spec, _checked(data, spec.name))


def plain(spec: AnyHardware) -> dict[str, Any]:
    """Return ``spec`` as the mapping that its YAML file would hold."""
    return {key: _with_lists(value) for key, value in spec.model_dump(by_alias=True).items()}


def hardware_of_text(text: str, name: str) -> AnyHardware:
    """Return the machine that the YAML ``text`` of a file called ``name`` describes.

    Raises ``HardwareError`` where `load_hardware` does.
    """
    try:
        return _of_file(Path(name), parse_yaml(text, name), ())
    except YamlError as error:
        raise HardwareError(str(error)) from error


def _loaded(name_or_path: str | Path, above: tuple[Path, ...]) -> AnyHardware:
    """Return a machine; ``above`` are the files whose base it is, the first of them first."""
    names = preset_names()
    try:
        if name_or_path in names:
            return _checked(parse_yaml(preset_text(str(name_or_path)), str(name_or_path)), str(name_or_path))
        if is_path(name_or_path):
            path = Path(name_or_path)
            return _of_file(path, read_yaml(path), above)
    except YamlError as error:
        raise HardwareError(str(error)) from error
    raise HardwareError(
        f"hardware {shown_key(name_or_path)} is unknown{nearest(str(name_or_path), names)}; "
        f"known: {listed(names)}; or a path that ends in {_SUFFIX}"
    )


def _of_file(path: Path, data: dict[str, Any], above: tuple[Path, ...]) -> AnyHardware:
    where = str(path) if str(path).isprintable() else repr(str(path))
    if "base" not in data:
        return _checked(data, where)
    changes = {key: value for key, value in data.items() if key != "base"}
    base = data["base"]
    if not isinstance(base, str):
        raise HardwareError(f"{where}: base: has {shown(base)}; needs a machine's name, or the path of a YAML file")
    files = (*above, path.resolve())
    if files[-1] in above:
        ring = " -> ".join(each.name for each in files[above.index(files[-1]) :])
        raise HardwareError(f"{where}: base: goes in a circle: {ring}")
    if len(files) > _MOST_BASES:
        raise HardwareError(f"{where}: base: more than {_MOST_BASES} files stand on it")
    try:
        start = plain(_loaded(path.parent / base if is_path(base) else base, files))
    except HardwareError as error:
        raise HardwareError(f"{where}: base: {error}") from error
    own_name = re.sub(r"[^\w .,:+()/-]", "-", path.stem).lstrip(" .,:+()/-")[:80] or start["name"]
    whole = merged(start, {"name": own_name, **changes})
    kind = whole["kind"]
    return _checked(without_removed(whole, _schema(kind), _schema(kind)) if kind == start["kind"] else whole, where)


@cache
def _schema(kind: str) -> Schema:
    return _KINDS[kind].model_json_schema(by_alias=True)


def _checked(data: dict[str, Any], where: str) -> AnyHardware:
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        has = f"has {shown(kind)}{nearest(str(kind), _KINDS)}" if "kind" in data else "is missing"
        raise HardwareError(f"{where}: kind: {has}; known: {listed(sorted(_KINDS))}")
    try:
        return _KINDS[kind].model_validate(data)
    except pydantic.ValidationError as error:
        raise HardwareError(explain(error, where, model=_KINDS[kind])) from error


def _with_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_lists(inner) for key, inner in value.items()}
    return list(value) if isinstance(value, tuple) else value
