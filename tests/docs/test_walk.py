"""The walk of one design point in docs/architecture.md: its functions return the records that it says."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from dsascape.experiments.point.job import Outcome
from dsascape.experiments.question.points import DesignPoint
from dsascape.scheduler import Evaluated
from tests.docs.pages import page

_LINE = re.compile(r"^\| (`[\w.]+:[\w.]+`.*?) \| `(\w+)` \| (.*?) ?\|$", re.MULTILINE)
_FUNCTION = re.compile(r"`([\w.]+:[\w.]+)`")
_FIELD = re.compile(r"`(\w+): (\w+)`")


@dataclass(frozen=True)
class Step:
    """One line of the walk."""

    functions: tuple[str, ...]
    record: str
    fields: tuple[tuple[str, str], ...]


def steps() -> list[Step]:
    text = page("architecture.md").text
    _, _, rest = text.partition("\n## One design point, function by function\n")
    walk, _, _ = rest.partition("\n## ")
    return [
        Step(tuple(_FUNCTION.findall(functions)), record, tuple(_FIELD.findall(fields)))
        for functions, record, fields in _LINE.findall(walk)
    ]


def classes(annotation: Any) -> list[type]:
    """Return the classes in a type: its own, and those of its arguments if it is a union or generic."""
    own = get_origin(annotation) or annotation
    parts = [own] if isinstance(own, type) and own is not UnionType else []
    return [*parts, *(inner for argument in get_args(annotation) for inner in classes(argument))]


def is_of(annotation: object, name: str) -> bool:
    """Return whether one of the classes in a type is called ``name``, or is derived from one that is."""
    return name in {base.__name__ for each in classes(annotation) for base in each.__mro__}


def returned(path: str) -> object:
    function: Callable[..., object] = resolve_name(f"dsascape.{path}")
    return get_type_hints(function)["return"]


@pytest.mark.parametrize("step", steps(), ids=lambda step: step.functions[0])
class TestEachLine:
    def test_returns_the_record_that_it_names(self, step: Step) -> None:
        assert [path for path in step.functions if not is_of(returned(path), step.record)] == []

    def test_has_records_with_the_fields_that_it_names(self, step: Step) -> None:
        record = next(each for each in classes(returned(step.functions[0])) if is_of(each, step.record))
        declared = get_type_hints(record)

        assert [(name, of) for name, of in step.fields if not is_of(declared.get(name), of)] == []


def test_the_walk_leads_from_the_file_to_the_record_through_every_record_of_the_flow() -> None:
    found = {step.record for step in steps()} | {of for step in steps() for _, of in step.fields}

    assert len(steps()) > 20
    assert {
        "Experiment", "Grid", DesignPoint.__name__, "Analysis", "Job", "Placing", "KernelCosts", "FusionPlan",
        "Schedule", "Program", "SimulationResult", "Trace", Evaluated.__name__, Outcome.__name__, "RunRecord",
    } <= found  # fmt: skip
