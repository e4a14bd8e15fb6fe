"""Loading of machines: presets by name, YAML files by path, and machines with some values changed.

A file states a whole machine, or with ``base:`` only the differences to another one, given as a preset's name or as a
path relative to the file's folder. Mappings are merged key by key with the base's; null switches off an optional part
(the global buffer), and removes an entry that is one of several (a unit, a dtype).
"""

import importlib.resources
import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast, overload

import pydantic

from dsascape.hw_models.common.machine_spec import MachineSpec
from dsascape.hw_models.machine_files.efficiencies import with_rows
from dsascape.hw_models.machine_files.followers import OF_NODE, OF_SIZE, at_node, by_area, node_of
from dsascape.hw_models.machine_files.kinds import SPECS, hardware_kinds, spec_of
from dsascape.hw_models.machine_files.overrides import leaves, merged, put, without_removed
from dsascape.hw_models.machine_files.schema import Schema
from dsascape.hw_models.simulation.machine import HardwareError
from dsascape.hw_models.text.messages import listed, nearest, shown, shown_key
from dsascape.hw_models.text.quantities import normal_form
from dsascape.hw_models.text.yaml_file import YamlError, explain, parse_yaml, read_yaml

AnyHardware: TypeAlias = MachineSpec
"""Spec of a machine of any kind; YAML selects the kind by ``kind``."""
_Spec = TypeVar("_Spec", bound=AnyHardware)

_PRESETS = importlib.resources.files("dsascape.hw_models") / "presets"
_SUFFIX = ".yaml"
_MOST_BASES = 16
"""Longest chain of files with a ``base``."""


def preset_names() -> tuple[str, ...]:
    """Return the names of the built-in machines, sorted."""
    files = (entry.name for entry in _PRESETS.iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in files if name.endswith(_SUFFIX)))


@cache
def presets_of(kind: str) -> tuple[str, ...]:
    """Return the names of the built-in machines of one kind, sorted; raise ``HardwareError`` for a kind without any."""
    kinds = {name: _loaded(name, ()).kind for name in preset_names()}
    found = tuple([name for name, own in kinds.items() if own == kind])
    if not found:
        known = sorted(set(kinds.values()))
        raise HardwareError(f"has {shown(kind)}{nearest(kind, known)}; known: {listed(known)}")
    return found


def preset_text(name: str) -> str:
    """Return the YAML text of the preset ``name``, including comments."""
    return (_PRESETS / f"{name}{_SUFFIX}").read_text(encoding="utf-8")


@overload
def load_hardware(name_or_path: str | Path) -> AnyHardware: ...
@overload
def load_hardware(name_or_path: str | Path, spec: type[_Spec]) -> _Spec: ...
def load_hardware(name_or_path: str | Path, spec: type[_Spec] | None = None) -> AnyHardware | _Spec:
    """Return the preset of that name, or the machine in the YAML file at that path.

    Text is a path if it ends in .yaml or .yml or contains a slash. Raises ``HardwareError`` for an unknown name, a file
    with a mistake, and a machine that is not of the type ``spec`` if one is given.
    """
    if not isinstance(name_or_path, str | Path):
        kind = type(name_or_path).__name__
        raise TypeError(f"name_or_path: has a {kind}; needs a preset's name, or the path of a machine file")
    machine = _loaded(name_or_path, ())
    if spec is not None and not isinstance(machine, spec):
        raise HardwareError(f"{machine.name}: kind: has {machine.kind}; needs one of type {spec.__name__}")
    return machine


def is_path(name_or_path: str | Path) -> bool:
    """Return whether ``load_hardware`` reads this as the path of a file rather than as a preset's name."""
    if isinstance(name_or_path, Path):
        return True
    return name_or_path not in preset_names() and (
        name_or_path.endswith((_SUFFIX, ".yml")) or "/" in name_or_path or "\\" in name_or_path
    )


def parameter_paths(spec: AnyHardware) -> tuple[str, ...]:
    """Return every parameter path that ``with_values`` accepts for ``spec``, sorted."""
    return tuple(sorted(path for path in leaves(plain(spec)) if path != "kind"))


def with_values(spec: _Spec, values: Mapping[str, object]) -> _Spec:
    """Return ``spec`` with some values changed, by path, as in YAML: ``{"local_buffer.capacity": "256 KiB"}``.

    None (null in YAML) switches off an optional part: ``{"global_buffer": None}``. Raises ``HardwareError`` for a path
    that ``spec`` lacks, a value other than None for a whole section, or an invalid value.

    Values that are not among those given follow them as in `hw_models.machine_files.followers`.
    """
    if not isinstance(spec, MachineSpec):
        has = f"has {shown(spec)} ({type(spec).__name__})"
        raise TypeError(f"spec: {has}; needs a machine: what load_hardware returns for a preset's name or a file")
    if not isinstance(values, Mapping) or not all(isinstance(path, str) for path in values):
        needed = "a mapping of paths to values, such as {'clock': '1 GHz'}"
        raise TypeError(f"values: has {shown(values)}; needs {needed}")

    def changed(start: AnyHardware) -> AnyHardware:
        data = plain(start)
        for path, value in values.items():
            put(data, path, value, spec.name)
        if None in values.values():
            data = without_removed(data, _schema(spec.kind), _schema(spec.kind))
        return _checked(data, spec.name)

    return cast(_Spec, _followed(spec, changed, [normal_form(path) for path in values]))


def _followed(
    start: AnyHardware, change: Callable[[AnyHardware], AnyHardware], stated: Collection[str]
) -> AnyHardware:
    """Return the changed machine, in which values that are not ``stated`` follow its node and its area."""
    changed = change(start)
    if changed.kind != start.kind:
        return changed
    node_nm = node_of(plain(changed))
    if node_nm is not None and (values := at_node(plain(start), node_nm)):
        smaller = _put(start, values)
        start = _put(smaller, by_area(start, smaller, OF_NODE))
        changed = change(start)
    return _put(changed, by_area(start, changed, OF_SIZE, stated))


def _put(spec: AnyHardware, values: Mapping[str, str]) -> AnyHardware:
    """Return ``spec`` with values that follow others; raise ``HardwareError``, which says so, where they do not fit."""
    data = plain(spec)
    for path, value in values.items():
        put(data, path, value, spec.name)
    try:
        return _checked(data, spec.name) if values else spec
    except HardwareError as error:
        raise HardwareError(f"{error} (scaled by the node and the area of the die; the change may state it)") from error


def plain(spec: AnyHardware) -> dict[str, Any]:
    """Return ``spec`` as the mapping that its YAML file contains."""
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
    """Return a machine; ``above`` is the chain of files that lead to it by ``base``, outermost first."""
    names = preset_names()
    name = normal_form(str(name_or_path))
    try:
        if name in names:
            return _checked(parse_yaml(preset_text(name), name), name)
        if is_path(name_or_path):
            path = Path(name_or_path)
            if path.stem in names and not path.exists():
                raise HardwareError(f"{path}: no such file; the preset is {path.stem}, without {path.suffix}")
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
    changes = {key: value for key, value in with_rows(data, where).items() if key != "base"}
    base = data["base"]
    if not isinstance(base, str):
        raise HardwareError(f"{where}: base: has {shown(base)}; needs a machine's name, or the path of a YAML file")
    files = (*above, path.resolve())
    if files[-1] in above:
        ring = " -> ".join(each.name for each in files[above.index(files[-1]) :])
        raise HardwareError(f"{where}: base: forms a cycle: {ring}")
    if len(files) > _MOST_BASES:
        raise HardwareError(f"{where}: base: the chain of base files is longer than {_MOST_BASES}")
    try:
        start = _loaded(path.parent / base if is_path(base) else base, files)
    except HardwareError as error:
        raise HardwareError(f"{where}: base: {error}") from error
    own_name = re.sub(r"[^\w .,:+()/-]", "-", path.stem).lstrip(" .,:+()/-")[:80] or start.name

    def changed(start: AnyHardware) -> AnyHardware:
        own = plain(start)
        own.pop("product", None)  # of the base: this is another machine
        whole = merged(own, {"name": own_name, **changes})
        kind = whole["kind"]
        return _checked(without_removed(whole, _schema(kind), _schema(kind)) if kind == start.kind else whole, where)

    return _followed(start, changed, list(leaves(changes)))


@cache
def _schema(kind: str) -> Schema:
    return spec_of(kind).model_json_schema(by_alias=True)


def _checked(data: dict[str, Any], where: str) -> AnyHardware:
    data = with_rows(data, where)
    kind = data.get("kind")
    if not isinstance(kind, str) or (kind not in SPECS and kind not in hardware_kinds()):
        kinds = hardware_kinds()
        has = f"has {shown(kind)}{nearest(str(kind), kinds)}" if "kind" in data else "is missing"
        raise HardwareError(f"{where}: kind: {has}; known: {listed(sorted(kinds))}")
    spec = spec_of(kind)
    try:
        return spec.model_validate(data)
    except pydantic.ValidationError as error:
        raise HardwareError(explain(error, where, model=spec)) from error


def _with_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_lists(inner) for key, inner in value.items()}
    return list(value) if isinstance(value, tuple) else value
