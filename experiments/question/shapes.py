"""A file of shapes: single operators to tune, each a network of its own."""

import re
from collections.abc import Mapping
from pathlib import Path

from dsascape.experiments.question.config import ExperimentError
from dsascape.hw_models.text.yaml_file import YamlError, parse_yaml, read_text, shown_path
from dsascape.workloads import Graph, WorkloadError
from dsascape.workloads.single_operators import described, single_operator

_NAME = re.compile(r"^\w[\w .()+-]{0,79}$")


def is_shapes(model: str) -> bool:
    """Whether an argument is a file of shapes, and no network."""
    return model.endswith((".yaml", ".yml"))


def read_shapes(path: Path) -> dict[str, Graph]:
    """Return the networks that a file of shapes describes, by name.

    It has one key, ``operators``, with an entry for each: its ONNX name as ``op``, the shapes of its ``inputs`` and
    ``weights``, its ``attributes``, ``constants`` and what follows it (``then``). Raises ``ExperimentError`` for
    anything else.
    """
    where = shown_path(path)
    try:
        data = parse_yaml(read_text(path), where)
    except YamlError as error:
        raise ExperimentError(str(error)) from error
    operators = data.get("operators")
    unknown = [key for key in data if key != "operators"]
    if unknown or not isinstance(operators, Mapping) or not operators:
        has = f"{unknown[0]}: is unknown" if unknown else "operators: is missing"
        raise ExperimentError(f"{where}: {has}; needs operators, with a name and a description for each")
    found = {}
    for name, entry in operators.items():
        if not isinstance(name, str) or not _NAME.match(name) or not isinstance(entry, Mapping):
            raise ExperimentError(f"{where}: operators.{name}: needs a name, and op, inputs and so on below it")
        try:
            found[name] = single_operator(described(name, entry))
        except WorkloadError as error:
            raise ExperimentError(f"{where}: operators.{error}") from error
    return found
