"""Error messages for files: shortened values, the nearest known name, pydantic errors in plain words."""

import re
import reprlib
import types
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

import pydantic
from pydantic_core import ErrorDetails

from dsascape.wording import did_you_mean

_LONGEST_SHOWN = 60
_LARGEST_SHOWN = 10**40
_MOST_MISTAKES = 5

_NEEDED = "; needs "

_QUOTED = re.compile(r"'([^']*)'")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = _LONGEST_SHOWN
_SHORT.maxlevel = 2

_NEEDS = {
    "Input should be a valid boolean": "true or false",
    "Input should be a valid dictionary": "a mapping (key: value)",
    "Input should be a valid integer": "a whole number",
    "Input should be a valid list": "a list",
    "Input should be a valid number": "a number",
    "Input should be a valid string": "text",
    "Input should be a valid tuple": "a list",
}
"""Expected value in plain words, by the beginning of pydantic's message."""


def shown(value: object) -> str:
    """Return ``value`` for a message, written as in YAML: one short line, control characters escaped."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and abs(value) >= _LARGEST_SHOWN:
        return "a number of more than 40 digits"
    if isinstance(value, dict):
        return f"a mapping with {listed(list(value), 4)}" if value else "an empty mapping"
    text = _SHORT.repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= _LONGEST_SHOWN + 2 else text[:_LONGEST_SHOWN] + "..."


def shown_key(key: object) -> str:
    """Return ``key`` as written in the file, or as ``shown`` does if it is long or unprintable."""
    text = str(key)
    return text if text.isprintable() and 0 < len(text) <= _LONGEST_SHOWN else shown(text)


def one_line(text: str) -> str:
    """Return ``text`` on one line, control characters escaped."""
    line = " ".join(text.split())
    return line if line.isprintable() else repr(line)


def listed(names: Sequence[object], most: int = 50) -> str:
    """Return up to ``most`` names separated by commas, with ``...`` for the rest."""
    return ", ".join([shown_key(name) for name in names[:most]] + ["..."] * (len(names) > most))


def nearest(word: str, known: Iterable[str]) -> str:
    """Return " (did you mean ...?)" with the name in ``known`` that ``word`` may stand for, or an empty string."""
    return did_you_mean(word, map(shown_key, known))


def explain(error: pydantic.ValidationError, where: str, root: str = "", model: Any = None) -> str:
    """Return one line per mistake: ``where: key.path: has this; needs that``.

    ``root`` is the path of the validated part within the file. If ``model``, the validated type, is given, messages for
    unknown keys list the known ones, and paths omit the tags of unions.
    """
    told = _merged([_told(each, root, model) for each in error.errors(include_url=False)])
    lines = [": ".join(filter(None, (where, path, message))) for path, message in told[:_MOST_MISTAKES]]
    if len(told) > _MOST_MISTAKES:
        lines.append(f"and {len(told) - _MOST_MISTAKES} more")
    return "\n".join(lines)


def _merged(mistakes: Sequence[tuple[tuple[str, ...], str]]) -> list[tuple[str, str]]:
    """Return (path, message) of each mistake once, where a union of types tells of it for each of its members.

    What a value has besides is a mistake of the member that it is of; what several members need is one message.
    """
    needs: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for keys, message in mistakes:
        found, separator, needed = message.partition(_NEEDED)
        inside = any(len(other) > len(keys) and other[: len(keys)] == keys for other, _ in mistakes)
        if not (inside and needed in _NEEDS.values()):
            needs.setdefault((keys, found + separator), []).append(needed)
    return [(".".join(keys), beginning + " or ".join(dict.fromkeys(n))) for (keys, beginning), n in needs.items()]


def option_mistake(error: pydantic.ValidationError) -> str:
    """Return the message for the first invalid option: ``order: has 'x'; needs this or that``."""
    mistakes = error.errors(include_url=False)
    first = mistakes[0]
    if not first["loc"]:
        return one_line(first["msg"].removeprefix("Value error, "))
    option = first["loc"][0]
    own = [each for each in mistakes if each["loc"][:1] == (option,)]
    if first["type"] == "value_error":
        return f"{shown_key(option)}: {one_line(first['msg'].removeprefix('Value error, '))}"
    needed = " or ".join(dict.fromkeys(_needs(each["msg"]).removeprefix("to be ") for each in own))
    choices = ", ".join(str(each.get("ctx", {}).get("expected", "")) for each in own)
    return f"{shown_key(option)}: has {shown(first['input'])}{_meant(first['input'], choices)}; needs {needed}"


def _told(details: ErrorDetails, root: str, model: Any) -> tuple[tuple[str, ...], str]:
    """Return the keys that lead to a mistake, and its message."""
    kind, context, has = details["type"], details.get("ctx", {}), shown(details["input"])
    of_key = details["loc"][-1:] == ("[key]",)
    keys, owner, here = _walked(details["loc"][:-1] if of_key else details["loc"], model)
    message = f"has {has}{_meant(details['input'], context.get('expected'))}{_NEEDED}{_needs(details['msg'])}"
    if kind == "value_error":
        message = one_line(details["msg"].removeprefix("Value error, "))
    elif kind in ("missing", "missing_argument"):
        message = "is missing"
    elif kind in ("extra_forbidden", "unexpected_keyword_argument"):
        known = list(_fields(owner))
        message = "is unknown" + (f"{nearest(str(keys[-1]), known)}; known: {listed(known)}" if known else "")
    elif kind == "union_tag_not_found":
        keys.append(context["discriminator"].strip("'"))
        message = f"is missing; needs one of: {listed(_tags(here))}" if here else "is missing"
    elif kind == "union_tag_invalid":
        keys.append(context["discriminator"].strip("'"))
        meant = _meant(context["tag"], context["expected_tags"])
        message = f"has {shown(context['tag'])}{meant}; needs one of: {context['expected_tags']}"
    elif of_key:
        keys = keys[:-1]
        message = f"has key {has}{_meant(details['input'], context.get('expected'))}; needs it {_needs(details['msg'])}"
    return tuple(filter(None, (root, *map(shown_key, keys)))), message


def _meant(given: object, choices: object) -> str:
    """Return the choice that may be meant, as `nearest` does; ``choices``: pydantic's text of them, each in quotes."""
    return nearest(given, _QUOTED.findall(choices)) if isinstance(given, str) and isinstance(choices, str) else ""


def _needs(message: str) -> str:
    for beginning, needed in _NEEDS.items():
        if message.startswith(beginning):
            return needed
    _, _, rest = message.partition(" should ")
    return "to " + rest.replace(" after validation", "") if rest else one_line(message)


def _walked(loc: Sequence[str | int], model: Any) -> tuple[list[str | int], Any, Any]:
    """Return the keys of ``loc`` without union tags, and the types of the last key's owner and value."""
    keys: list[str | int] = []
    owner, here = None, model
    for step in loc:
        members = _members(here)
        if len(members) > 1:
            here = next((each for each in members if step in (*_tags(each), each.__name__)), None)
            continue
        keys.append(step)
        owner = members[0] if members else None
        here = _child(owner, step)
    return keys, owner, here


def _members(model: Any) -> list[Any]:
    """Return the types of a union except ``None``; any other type counts as a union of one."""
    while get_origin(model) is Annotated:
        model = get_args(model)[0]
    if get_origin(model) in (Union, types.UnionType):
        return [inner for each in get_args(model) for inner in _members(each)]
    return [] if model in (None, types.NoneType) else [model]


def _child(owner: Any, step: str | int) -> Any:
    """Return the type of the entry ``step`` of a mapping or list of type ``owner``; None if unknown."""
    if _fields(owner):
        return _fields(owner).get(str(step))
    arguments = [each for each in get_args(owner) if each is not Ellipsis]
    if get_origin(owner) is dict:
        return arguments[1]
    if get_origin(owner) in (list, tuple) and isinstance(step, int):
        return arguments[min(step, len(arguments) - 1)]
    return None


def _fields(model: Any) -> dict[str, Any]:
    """Return the types of a record's fields by their names in YAML."""
    fields = getattr(model, "__pydantic_fields__", {})
    return {info.alias or name: info.annotation for name, info in fields.items()}


def _tags(model: Any) -> list[str]:
    """Return the values of ``kind`` that select ``model``, or a member of it."""
    return [tag for each in _members(model) for tag in get_args(_fields(each).get("kind"))]
