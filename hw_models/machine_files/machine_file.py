"""Export of a machine as the text of a YAML file that can be edited and loaded again."""

from pathlib import Path
from typing import Any

import yaml

from dsascape.hw_models.machine_files.load import AnyHardware, is_path, load_hardware, plain, preset_text
from dsascape.hw_models.text.quantities import readable
from dsascape.hw_models.text.yaml_file import parse_yaml, read_text, shown_path


def machine_file(name_or_path: str) -> str:
    """Return the text of the machine's file, including comments and sources.

    A file with a ``base`` states only differences; for it, the whole machine is returned, without comments. Raises
    ``HardwareError`` as `load_hardware` does.
    """
    spec = load_hardware(name_or_path)
    if not is_path(name_or_path):
        return preset_text(name_or_path)
    path = Path(name_or_path)
    text = read_text(path)
    base = parse_yaml(text, shown_path(path)).get("base")
    if base is None:
        return text
    about = f"# {path.name} with all that it takes over from its base, {base}, where the comments are.\n"
    return about + machine_yaml(spec)


def machine_yaml(spec: AnyHardware) -> str:
    """Return the whole machine as YAML text; loading it gives a spec equal to ``spec``."""
    data = plain(spec)
    whole = {key: _Name(value) if key == "name" else _readable(value) for key, value in data.items()}
    return yaml.dump(whole, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)


_WIDTH = 120


def _readable(data: Any) -> Any:
    """Return ``data`` with quantities in the units that make them shortest."""
    if isinstance(data, dict):
        return {key: _readable(value) for key, value in data.items()}
    return readable(data) if isinstance(data, str) else data


class _Name(str):
    """Text that is not a quantity; quoted if it begins with a digit."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """YAML dumper without aliases, and with lists on one line as in the presets."""

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True


def _list_node(dumper: _Dumper, data: list[Any]) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)


def _name_node(dumper: _Dumper, name: _Name) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(name), style='"' if name[:1].isdigit() else None)


_Dumper.add_representer(list, _list_node)
_Dumper.add_representer(_Name, _name_node)
