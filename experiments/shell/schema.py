"""The command ``schema``: JSON Schemas of the files that people write, and columns of the tables that they read."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from dsascape.experiments.question.config import ExperimentError
from dsascape.experiments.question.experiment_schema import experiment_page, experiment_schema
from dsascape.experiments.question.pins_schema import pins_page, pins_schema
from dsascape.experiments.results.column_meanings import results_columns, results_page
from dsascape.experiments.shell.answers import Answer
from dsascape.experiments.shell.catalogue import parameters_page
from dsascape.hw_models.machine_files.json_schema import machine_schema

_SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "machine": machine_schema, "experiment": experiment_schema, "pins": pins_schema, "results": results_columns,
}  # fmt: skip
_REFERENCES: Mapping[str, Callable[[], str]] = {
    "machine": parameters_page, "experiment": experiment_page, "pins": pins_page, "results": results_page,
}  # fmt: skip


def schema(arguments: argparse.Namespace) -> Answer:
    """Print the JSON Schema of a kind of file, or the columns of results as JSON; or every key as Markdown."""
    if arguments.reference and arguments.json:
        raise ExperimentError("schema: --reference prints text; --json goes without it")
    if arguments.reference:
        return Answer({}, lambda: _write(_REFERENCES[arguments.what]()))
    made = _SCHEMAS[arguments.what]()
    return Answer(made, lambda: _write(json.dumps(made, indent=2) + "\n"))


def _write(text: str) -> None:
    """Write a text unchanged."""
    sys.stdout.write(text)
