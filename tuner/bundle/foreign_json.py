"""Parsing of untrusted JSON into records, stopping at the first error so that many errors take no memory."""

from collections.abc import Callable
from inspect import signature
from typing import Any, TypeVar, cast

import pydantic
from pydantic_core import SchemaValidator, core_schema

from dsascape.hw_models.text.record_file import RecordError, parse_json
from dsascape.hw_models.text.text_file import decoded
from dsascape.tuner.bundle.contents import BundleError

_Record = TypeVar("_Record")
_MOST_CHARACTERS = 200
_MAKERS: dict[str, Callable[..., Any]] = {
    "tuple": core_schema.tuple_schema, "list": core_schema.list_schema, "dict": core_schema.dict_schema,
}  # fmt: skip
_MANY = [name for name, maker in _MAKERS.items() if "fail_fast" in signature(maker).parameters]
"""Kinds of containers that pydantic can validate up to the first error."""


def validated(kind: type[_Record], content: bytes | str, wrong: str) -> _Record:
    """Parse untrusted JSON as the record ``kind``; raise ``BundleError`` with ``wrong`` in front otherwise."""
    try:
        parse_json(content if isinstance(content, str) else decoded(content), wrong, any_number=True)
        return cast(_Record, _validator(kind).validate_json(content))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "all of it"
        said = f"{place[:80]}: {first['msg'][:_MOST_CHARACTERS]}"
    except RecordError as error:
        raise BundleError(ascii(str(error))[1:-1]) from error
    except (ValueError, OverflowError, RecursionError) as error:
        said = str(error)[:_MOST_CHARACTERS]
    raise BundleError(f"{wrong}: {ascii(said)[1:-1]}")


def _validator(kind: type[Any]) -> SchemaValidator:
    return SchemaValidator(cast(core_schema.CoreSchema, _ending_early(pydantic.TypeAdapter(kind).core_schema)))


def _ending_early(schema: Any) -> Any:
    """Return a pydantic schema in which every tuple, list and mapping stops at its first error."""
    if isinstance(schema, list | tuple):
        return type(schema)(map(_ending_early, schema))
    if not isinstance(schema, dict):
        return schema
    stopping = {name: _ending_early(each) for name, each in schema.items()}
    return stopping | {"fail_fast": True} if schema.get("type") in _MANY else stopping
