"""Reference of all parameters: a table per section, generated from the schemas and docstrings of the specs."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import TypeAdapter

from dsascape.hw_models.common.product_types import ProductType
from dsascape.hw_models.common.spec_types import KernelKind
from dsascape.hw_models.machine_files.meanings import WithMeanings
from dsascape.hw_models.machine_files.schema import Schema, entry, kinds, may_be_null, resolved
from dsascape.hw_models.text.quantities import derived_word, readable, units_of

_MOST_UNITS = 4
_UNIT_OF_PART = "NAME"
_KEY_OF_ENTRY, _OTHER_KEY, _NUMBER_KEY, _KIND_KEY = "DTYPE", "MEMORY", "NUMBER", "KIND"
_NONE = "none"


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of a machine file, which ``--set`` and sweeps can change."""

    path: str
    form: str
    """Accepted values: a quantity with its units, a number with its range, or a choice of words."""
    default: str
    """Default value as text; empty if the parameter is required."""
    meaning: str


@dataclass(frozen=True, slots=True)
class Section:
    """Parameters of one record."""

    path: str
    """Path of the record in the file; empty for the whole machine."""
    about: str
    is_optional: bool
    """Whether the section may be null."""
    parameters: tuple[Parameter, ...]


def sections(record: type[Any], path: str = "") -> Iterator[Section]:
    """Yield the sections of a pydantic record, each before those inside it; ``path`` is its place in the file."""
    whole = TypeAdapter(record).json_schema(by_alias=True, schema_generator=WithMeanings)
    yield from _sections(whole, whole, path)


def markdown(sections: Iterable[Section]) -> str:
    """Return the sections as Markdown: a heading and a table for each."""
    return "\n".join(_section_lines(each) for each in sections)


def _section_lines(section: Section) -> str:
    is_said = "null" in section.about
    optional = " May be null if the machine has none." if section.is_optional and not is_said else ""
    rows = [
        f"| `{each.path}` | {_cell(each.form)} | {_cell(each.default) or 'required'} | {_cell(each.meaning)} |"
        for each in section.parameters
    ]
    head = ["| path | what it is | default | meaning |", "|---|---|---|---|"]
    title = [f"## {section.path or 'The whole machine'}", "", _line(section.about) + optional, ""]
    return "\n".join([*title, *head, *rows]) + "\n"


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")


def _line(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def _sections(
    part: Schema, whole: Schema, path: str, about: str = "", *, is_optional: bool = False
) -> Iterator[Section]:
    prefix = f"{path.partition(' ')[0]}." if path else ""
    below: list[tuple[Schema, str]] = []
    parameters: list[Parameter] = []
    needed = part.get("required", ())
    for name, value in part["properties"].items():
        inside = _record_inside(resolved(value, whole), f"{prefix}{name}", whole)
        if inside is not None:
            below.append((value, inside))
        else:
            parameters.append(_parameter(value, f"{prefix}{name}", whole, is_needed=name in needed))
    yield Section(path, f"{about} {part['description']}".strip(), is_optional, tuple(parameters))
    for value, inside in below:
        of_entries = entry(resolved(value, whole))
        for names, record in kinds(of_entries or value, whole):
            of_kind = f" of kind {' or '.join(names)}" if names else ""
            about = value.get("description", "")
            yield from _sections(record, whole, f"{inside}{of_kind}", about, is_optional=may_be_null(value))


def _record_inside(part: Schema, path: str, whole: Schema) -> str | None:
    """Return the path of the record if ``part`` is one, or a mapping of records; None for a plain value."""
    if "properties" in part:
        return path
    of_entries = entry(part)
    is_mapping = of_entries is not None and any("properties" in each for _, each in kinds(of_entries, whole))
    key = _KEY_OF_ENTRY if "propertyNames" in part and "enum" in part["propertyNames"] else _UNIT_OF_PART
    return f"{path}.{key}" if is_mapping else None


def _parameter(part: Schema, path: str, whole: Schema, *, is_needed: bool) -> Parameter:
    value = resolved(part, whole)
    of_entries = entry(value)
    if of_entries is not None and "patternProperties" in value:
        form = f"{_form(of_entries)}, for one or more numbers of cores"
        return Parameter(f"{path}.{_NUMBER_KEY}", form, "" if is_needed else _NONE, part.get("description", ""))
    if of_entries is not None:
        names = value["propertyNames"]["enum"]
        form = f"{_form(of_entries)}, for one or more of {', '.join(names)}"
        return Parameter(f"{path}.{_key_of(set(names))}", form, "" if is_needed else _NONE, part.get("description", ""))
    default = "" if is_needed else _default(value)
    return Parameter(path, _form(value, is_optional=may_be_null(part)), default, part.get("description", ""))


def _key_of(names: set[str]) -> str:
    """Return the word that stands for the keys of a mapping, which are among ``names``."""
    if names <= set(get_args(ProductType)):
        return _KEY_OF_ENTRY
    return _KIND_KEY if names == set(get_args(KernelKind)) else _OTHER_KEY


def _default(value: Schema) -> str:
    default = value["default"]
    if "unit" in value:
        return _absent(value) if default is None else readable(f"{default!r} {value['unit']}")
    return _word(default)


def _absent(value: Schema) -> str:
    """Return the word for a figure that is not stated: what it is derived from, such as ``by size``, or null."""
    return derived_word(value["unit"]) or "null"




def _word(value: Any) -> str:
    return str(value) if isinstance(value, str) else json.dumps(value)


def _form(value: Schema, *, is_optional: bool = False) -> str:
    if "unit" in value:
        shown = units_of(value["unit"])
        further = ", ..." if len(shown) > _MOST_UNITS else ""
        absent = f", or `{_absent(value)}`" if is_optional else ""
        return f"a number with its unit: {', '.join(shown[:_MOST_UNITS])}{further}{absent}{_range(value)}"
    null = ", or null" if is_optional else ""
    if "const" in value or "enum" in value:
        return " or ".join(f"`{_word(each)}`" for each in value.get("enum", [value.get("const")])) + null
    if "anyOf" in value:
        return " or ".join([_form(each) for each in value["anyOf"] if each.get("type") != "null"]) + null
    if value.get("type") in ("array", "object"):
        return _form_of_many(value) + null
    named = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "string": "text"}
    return f"{named[value['type']]}{_range(value)}{null}"


def _form_of_many(value: Schema) -> str:
    """Return the form of a list, or of a mapping from names that are known."""
    if "prefixItems" in value:
        return f"a list of {len(value['prefixItems'])}: {_form(value['prefixItems'][0])}"
    if value["type"] == "array":
        return f"a list: {_form(value['items'])}"
    return f"a mapping of such numbers by {', '.join(value['propertyNames']['enum'])}"


def _range(value: Schema) -> str:
    least, above = value.get("minimum", value.get("ge")), value.get("exclusiveMinimum")
    most, below = value.get("maximum", value.get("le")), value.get("exclusiveMaximum")
    if value.get("type") == "integer" and above is not None:
        least, above = above + 1, None
    if least is not None and most is not None:
        return f", from {_number(least)} to {_number(most)}"
    ends = {"from": least, "more than": above, "up to": most, "less than": below}
    return "".join(f", {word} {_number(end)}" for word, end in ends.items() if end is not None)


def _number(value: float) -> str:
    return f"{value:,.12g}"
