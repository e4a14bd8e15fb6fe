"""The command ``schema``: JSON Schemas of the files that people write, for editors."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from dsascape.experiments.question.config import ExperimentError
from dsascape.experiments.question.experiment_schema import experiment_page, experiment_schema
from dsascape.experiments.shell.answers import Answer
from dsascape.experiments.shell.catalogue import parameters_page
from dsascape.hw_models.machine_files.json_schema import machine_schema

_SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {"machine": machine_schema, "experiment": experiment_schema}
_REFERENCES: Mapping[str, Callable[[], str]] = {"machine": parameters_page, "experiment": experiment_page}


def schema(arguments: argparse.Namespace) -> Answer:
    """Print the JSON Schema of machine files or of experiment files, or every key as Markdown."""
    if arguments.reference and arguments.json:
        raise ExperimentError("schema: --reference prints text; --json goes without it")
    if arguments.reference:
        return Answer({}, lambda: _write(_REFERENCES[arguments.what]()))
    made = _SCHEMAS[arguments.what]()
    return Answer(made, lambda: _write(json.dumps(made, indent=2) + "\n"))


def _write(text: str) -> None:
    """Write a text unchanged."""
    sys.stdout.write(text)
