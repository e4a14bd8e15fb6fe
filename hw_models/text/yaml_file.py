"""Strict reader of YAML files.

Only mappings, lists and plain values are accepted: no tags, anchors, merge keys or duplicate keys. Plain values follow
YAML 1.2: ``yes`` and ``12:30`` are text, ``1e-3`` is a number. Messages start with the file's name.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from dsascape.hw_models.text.messages import explain, one_line, shown, shown_key
from dsascape.hw_models.text.record_file import RecordError, shown_path
from dsascape.hw_models.text.record_file import read_text as read_record
from dsascape.wording import count

__all__ = ["YamlError", "explain", "parse_yaml", "read_text", "read_yaml", "shown_path"]

_LARGEST_FILE_BYTES = 2**20
_MOST_VALUES = 50_000
_DEEPEST = 32
_NESTED = f"is nested more than {_DEEPEST - 1} levels deep"
_TOO_DEEP = "exceeded maximum nesting depth"
"""Message of libyaml from version 0.2.6 on, which stops at a thousand levels on one line."""
_LONGEST_NUMBER = 40

_WORDS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_ENDLESS = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
"""Numbers of YAML 1.2 that are not finite."""
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")


class YamlError(ValueError):
    """Mistake in a YAML file; the message starts with the file's name."""


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in the file at ``path``; raise ``YamlError`` for any mistake in it."""
    return parse_yaml(read_text(path), shown_path(path))


def read_text(path: Path) -> str:
    """Return the text of the file at ``path``; raise ``YamlError`` if it is missing or not UTF-8 text."""
    try:
        return read_record(path, _LARGEST_FILE_BYTES, "a YAML file")
    except RecordError as error:
        raise YamlError(str(error)) from error


def parse_yaml(text: str, where: str) -> dict[str, Any]:
    """Return the mapping in ``text``; raise ``YamlError``, whose message starts with ``where``, for any mistake."""
    try:
        _check_size(len(text))
        value = _built(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), where)
    except OSError as error:
        raise YamlError(f"{where}: {error}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if mark and error.problem == _TOO_DEEP:
            raise YamlError(f"{where}: line {mark.line + 1}: {_NESTED}") from error
        if mark and "\t" in _indentation(text, mark.line):
            raise YamlError(f"{where}: line {mark.line + 1}: is indented by a tab; YAML takes spaces alone") from error
        line = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = one_line(error.problem or error.context or "")
        raise YamlError(f"{where}: {line}not YAML: {problem}") from error
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise YamlError(f"{where}: not YAML: {one_line(str(error))}") from error
    if value is None:
        raise YamlError(f"{where}: is empty; needs a mapping (key: value)")
    if not isinstance(value, dict):
        raise YamlError(f"{where}: has {shown(value)} at the top; needs a mapping (key: value)")
    return value


def _indentation(text: str, line: int) -> str:
    """Return what stands in front of the first word of a line, counted from 0; empty beyond the end."""
    whole = "".join(text.splitlines()[line : line + 1])
    return whole[: len(whole) - len(whole.lstrip())]


def _check_size(size_bytes: int) -> None:
    if size_bytes > _LARGEST_FILE_BYTES:
        raise OSError(f"has {size_bytes} B; at most {_LARGEST_FILE_BYTES} (1 MiB) are read")


@dataclass
class _Open:
    """Mapping or list that is open (begun and not ended) while the text is parsed."""

    value: dict[str, Any] | list[Any]
    key: str | None = None
    lines: dict[str, int] = field(default_factory=dict)
    """Line number of each key's first occurrence."""


def _built(events: Iterator[yaml.Event], where: str) -> Any:
    """Return the value of the only document; iterative, so that deep nesting gives a message, not a crash."""
    stack = [_Open([])]
    values = 0
    for event in events:
        line = event.start_mark.line + 1 if event.start_mark else 0
        here = f"{where}: line {line}"
        if isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
        elif isinstance(event, yaml.NodeEvent):
            values += 1
            _refuse_specials(event, here)
            top = stack[-1]
            if isinstance(top.value, dict) and top.key is None:
                top.key = _key(event, top, line, here)
                continue
            value = _value(event, here if top.key is None else f"{here}: {shown_key(top.key)}")
            if isinstance(top.value, dict):
                top.value[str(top.key)] = value
                top.key = None
            else:
                top.value.append(value)
            if isinstance(event, yaml.CollectionStartEvent):
                stack.append(_Open(value))
        elif isinstance(event, yaml.DocumentStartEvent) and stack[0].value:
            raise YamlError(f"{here}: a second document begins; needs one")
        if len(stack) > _DEEPEST:
            raise YamlError(f"{here}: {_NESTED}")
        if values > _MOST_VALUES:
            raise YamlError(f"{here}: has more than {_MOST_VALUES} values")
    return next(iter(stack[0].value), None)


def _refuse_specials(event: yaml.NodeEvent, here: str) -> None:
    if isinstance(event, yaml.AliasEvent):
        raise YamlError(f"{here}: alias {shown_key('*' + str(event.anchor))} is not supported; write it out")
    if event.anchor is not None:
        raise YamlError(f"{here}: anchor {shown_key('&' + event.anchor)} is not supported; write values out")
    tag = getattr(event, "tag", None)
    if tag is not None:
        raise YamlError(f"{here}: tag {shown_key(tag)} is not supported; needs a plain value")


def _key(event: yaml.NodeEvent, parent: _Open, line: int, here: str) -> str:
    if not isinstance(event, yaml.ScalarEvent):
        raise YamlError(f"{here}: a key is a list or mapping; needs text")
    key = event.value
    if key == "<<" and not event.style:
        raise YamlError(f"{here}: merge key << is not supported; write the values out")
    if key in parent.lines:
        raise YamlError(f"{here}: key {shown_key(key)} is duplicate; first in line {parent.lines[key]}")
    parent.lines[key] = line
    return key


def _value(event: yaml.NodeEvent, here: str) -> Any:
    if isinstance(event, yaml.MappingStartEvent):
        return {}
    if not isinstance(event, yaml.ScalarEvent):
        return []
    text = event.value
    if event.style:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _ENDLESS.fullmatch(text):
        raise YamlError(f"{here}: has {text}; needs a finite number")
    kind = int if _INTEGER.fullmatch(text) else float if _FLOAT.fullmatch(text) else str
    if kind is str:
        return text
    if len(text) > _LONGEST_NUMBER:
        raise YamlError(f"{here}: has a number of {count(len(text), 'character')}; at most {_LONGEST_NUMBER} are read")
    number = kind(text.replace("_", ""))
    if number in (math.inf, -math.inf):
        raise YamlError(f"{here}: has {text}; needs a finite number")
    return number
