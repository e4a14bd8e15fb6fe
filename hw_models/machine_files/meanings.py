"""Meanings of the fields of pydantic records: the docstrings below them, as descriptions in their JSON schemas."""

import ast
from inspect import cleandoc, getsource
from itertools import pairwise
from textwrap import dedent
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import DataclassSchema, ModelSchema


class WithMeanings(GenerateJsonSchema):
    """Schema generator that describes each field by the docstring below it in the source."""

    def model_schema(self, schema: ModelSchema) -> dict[str, Any]:
        described, fields = super().model_schema(schema), schema["cls"].model_fields
        for name, text in _meanings(schema["cls"]).items():
            described["properties"][fields[name].alias or name]["description"] = text
        return described

    def dataclass_schema(self, schema: DataclassSchema) -> dict[str, Any]:
        described = super().dataclass_schema(schema)
        for name, text in _meanings(schema["cls"]).items():
            described["properties"][name]["description"] = text
        return described


def _meanings(record: type[Any]) -> dict[str, str]:
    """Return the docstrings of a record's fields by name, including inherited ones; read from the source."""
    meanings: dict[str, str] = {}
    for each in reversed(record.__mro__):
        if each.__module__.partition(".")[0] in ("builtins", "pydantic"):
            continue
        (declared,) = ast.parse(dedent(getsource(each))).body
        assert isinstance(declared, ast.ClassDef)
        for value, text in pairwise(declared.body):
            if not (isinstance(value, ast.AnnAssign) and isinstance(value.target, ast.Name)):
                continue
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                meanings[value.target.id] = cleandoc(str(text.value.value))
    return meanings
