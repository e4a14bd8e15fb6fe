"""A file of hints for tuning: restrictions on the annotation of single operators."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dsascape.experiments.question.config import ExperimentError
from dsascape.hw_models.text.yaml_file import YamlError, parse_yaml, read_text, shown_path
from dsascape.tuner.search.hints import MOST_INNERMOST, Hint, InnermostHint
from dsascape.tuner.search.settled import UNROLLED

_DIM = re.compile(r"\d{1,2}", re.ASCII)
_HINTS = ("innermost", "reduction", "unroll", "partial_sums")
_SIZES = ("multiple", "most", "size")


def read_hints(path: Path) -> tuple[Hint, ...]:
    """Return the hints of a file: below ``hints``, operators or patterns of their names, and what holds for each.

    ``innermost`` has, by dimension, a size or a mapping with ``multiple``, ``most`` or ``size``; ``reduction`` is
    ``whole``; ``unroll`` one of the values that are drawn; ``partial_sums`` true or false. Raises ``ExperimentError``
    for anything else.
    """
    where = shown_path(path)
    try:
        data = parse_yaml(read_text(path), where)
    except YamlError as error:
        raise ExperimentError(str(error)) from error
    unknown = [key for key in data if key != "hints"]
    entries = data.get("hints")
    if unknown or not isinstance(entries, Mapping) or not entries:
        has = f"{unknown[0]}: is unknown" if unknown else "hints: is missing or empty"
        raise ExperimentError(f"{where}: {has}; needs hints, with names of operators and what holds for each")
    return tuple([_hint(f"{where}: hints.{name}", name, entry) for name, entry in entries.items()])


def _hint(where: str, name: str, entry: Any) -> Hint:
    if not isinstance(entry, Mapping) or not entry:
        raise ExperimentError(f"{where}: has {_shown(entry)}; needs {', '.join(_HINTS)}, or some of these")
    unknown = [key for key in entry if key not in _HINTS]
    if unknown:
        raise ExperimentError(f"{where}.{unknown[0]}: is unknown; needs one of {', '.join(_HINTS)}")
    innermost = entry.get("innermost", {})
    if not isinstance(innermost, Mapping) or not all(_DIM.fullmatch(dim) for dim in innermost):
        needs = "needs numbers of dimensions, from 0, with a size for each"
        raise ExperimentError(f"{where}.innermost: has {_shown(innermost)}; {needs}")
    sizes = [_innermost(f"{where}.innermost.{dim}", int(dim), value) for dim, value in innermost.items()]
    checks: Mapping[str, tuple[Callable[[Any], bool], str]] = {
        "reduction": (lambda value: value == "whole", "whole"),
        "unroll": (lambda value: type(value) is int and value in UNROLLED, f"one of {', '.join(map(str, UNROLLED))}"),
        "partial_sums": (lambda value: isinstance(value, bool), "true or false"),
    }
    for key, (is_right, needs) in checks.items():
        if key in entry and not is_right(entry[key]):
            raise ExperimentError(f"{where}.{key}: has {_shown(entry[key])}; needs {needs}")
    return Hint(name, tuple(sizes), "reduction" in entry, entry.get("unroll"), entry.get("partial_sums"))


def _innermost(where: str, dim: int, value: Any) -> InnermostHint:
    given = value if isinstance(value, Mapping) else {"size": value}
    unknown = [key for key in given if key not in _SIZES]
    if unknown or not given:
        raise ExperimentError(f"{where}: has {_shown(value)}; needs a size, or {', '.join(_SIZES)}")
    for key, number in given.items():
        if type(number) is not int or not 1 <= number <= MOST_INNERMOST:
            needs = f"needs a whole number from 1 to {MOST_INNERMOST}"
            raise ExperimentError(f"{where}: {key} has {_shown(number)}; {needs}")
    return InnermostHint(dim, **given)


def _shown(value: Any) -> str:
    return repr(value)[:60]
