"""Sources of a machine's values: the comments on their lines in its YAML file and in the files of its bases.

A comment belongs to the values on its line, otherwise to the section on its line and all values inside that have no
comment of their own. Comments are text; nothing in them is evaluated.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from dsascape.hw_models.common.machine_spec import MachineSpec
from dsascape.hw_models.machine_files.efficiencies import KEYS, table_text
from dsascape.hw_models.machine_files.load import (
    is_path,
    load_hardware,
    parameter_paths,
    plain,
    preset_names,
    preset_text,
)
from dsascape.hw_models.machine_files.overrides import value_at
from dsascape.hw_models.text.yaml_file import parse_yaml, read_text, shown_path

ASSUMED, CALIBRATED, DERIVED = "assumed", "calibrated", "derived"
DEFAULT, CHANGED, NO_SOURCE = "default", "set", "no source"
_MARKS = ((ASSUMED, r"\bassum\w+"), (CALIBRATED, r"\bcalibrated on\b"), (DERIVED, r"\bderived\b"))
"""Marks with the words of a comment that give them; the weakest kind of source comes first."""
FOLLOWS = "derived: from the value of the base, by the node and the area that this file states"
"""Comment of a value that no file states (`hw_models.machine_files.followers`)."""
_COMMENT = re.compile(r"[\s,]*#\s*(.*?)\s*$")


@dataclass(frozen=True, slots=True)
class Source:
    """Origin of a value of a machine."""

    mark: str
    """Weakest kind of source: assumed, calibrated, derived, default (not stated in the file), set (changed after
    loading), no source (stated without a comment), or empty for a published or measured value."""
    comment: str = ""
    """Comment in the machine file, without its marker."""


def sources_of(spec: MachineSpec, name_or_path: str = "") -> dict[str, Source]:
    """Return the source of each value of ``spec``, by parameter path.

    Comments are read in the machine's file ``name_or_path`` and in those of its bases, by default in the preset with
    the name of ``spec``; without such a file, all values have the mark ``set``. Raises ``HardwareError`` and
    ``YamlError`` for a file that cannot be read.
    """
    origin = name_or_path or (spec.name if spec.name in preset_names() else "")
    if not origin:
        return dict.fromkeys(parameter_paths(spec), Source(CHANGED))
    comments = dict(_comments(origin))
    loaded, own = plain(load_hardware(origin)), plain(spec)
    sources = {}
    for path in parameter_paths(spec):
        if value_at(loaded, path) != value_at(own, path):
            sources[path] = Source(CHANGED)
        else:
            sources[path] = _source(comments, path)
    return sources


def mark_of(comment: str) -> str:
    """Return the mark of a comment: the weakest kind of source that it names; empty if it names none of them."""
    return next((mark for mark, words in _MARKS if re.search(words, comment, re.IGNORECASE)), "")


def _source(comments: Mapping[str, str], path: str) -> Source:
    key = path.partition(".")[0]
    if path not in comments and key in KEYS and key in comments:
        path = key  # the row of the table that the file names there
    if path not in comments:
        return Source(DEFAULT)
    comment, section = comments[path], path
    while not comment and "." in section:
        section = section.rpartition(".")[0]
        comment = comments.get(section, "")
    return Source(mark_of(comment) if comment else NO_SOURCE, comment)


def _comments(name_or_path: str | Path) -> Iterator[tuple[str, str]]:
    """Yield (path, comment) of the values and sections that a machine's files state, those of bases first."""
    if is_path(name_or_path):
        path = Path(name_or_path)
        text = read_text(path)
        base = parse_yaml(text, shown_path(path)).get("base")
        if isinstance(base, str):
            below = path.parent / base if is_path(base) else base
            yield from _comments(below)
            before, after = plain(load_hardware(below)), load_hardware(path)
            own = plain(after)
            for each in parameter_paths(after):
                if value_at(before, each) != value_at(own, each):
                    yield each, FOLLOWS  # what the file itself states is yielded below
    else:
        text = preset_text(str(name_or_path))
    own = comments_in(text)
    yield from own.items()
    stated = parse_yaml(text, str(name_or_path))
    for key, part in KEYS.items():
        if isinstance(stated.get(key), str) and not own[key]:
            yield from _comments_of_row(stated[key], part, key)


def _comments_of_row(row: str, part: str, key: str) -> Iterator[tuple[str, str]]:
    """Yield (path, comment) of the values that a machine has from a row of the table of libraries' efficiencies."""
    within = f"rows.{row}.{part}."
    for path, comment in _comments_of_table().items():
        if path.startswith(within):
            yield f"{key}.{path.removeprefix(within)}", comment


@cache
def _comments_of_table() -> Mapping[str, str]:
    return comments_in(table_text())


def comments_in(text: str) -> dict[str, str]:
    """Return the comment on the line of each value and section of a valid YAML mapping, by dotted path."""
    by_line = _comments_by_line(text)
    comments: dict[str, str] = {}

    def walk(node: yaml.Node | None, prefix: str) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                path = f"{prefix}{key.value}"
                line = key.start_mark.line if isinstance(value, yaml.CollectionNode) else value.end_mark.line
                comments[path] = by_line.get(line, "")
                walk(value, f"{path}.")
        elif isinstance(node, yaml.SequenceNode):
            for place, value in enumerate(node.value):
                comments[f"{prefix}{place}"] = by_line.get(value.end_mark.line, "")
                walk(value, f"{prefix}{place}.")

    walk(yaml.compose(text, Loader=yaml.SafeLoader), "")
    return comments


def _comments_by_line(text: str) -> dict[int, str]:
    """Return the comments behind values, by line number from 0; a line that is nothing but a comment has none."""
    ends: dict[int, int] = {}
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        mark: Any = token.end_mark
        if mark.index > token.start_mark.index:
            ends[mark.line] = max(ends.get(mark.line, 0), mark.column)
    lines = text.splitlines()
    behind = {line: _COMMENT.match(lines[line], column) for line, column in ends.items() if line < len(lines)}
    return {line: comment[1] for line, comment in behind.items() if comment is not None}
