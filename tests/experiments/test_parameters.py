"""The parameter reference, docs/parameters.md, is generated from the specs and up to date."""

import re
from functools import cache
from pathlib import Path

import pytest

from dsascape.experiments.shell.catalogue import parameters_page
from dsascape.hw_models import load_hardware, parameter_paths, preset_names
from dsascape.hw_models.machine_files.kinds import SPECS
from dsascape.hw_models.machine_files.reference import Parameter, markdown, sections
from dsascape.scheduler.kinds.table import KINDS, kind_named
from tests.experiments.terminal import Terminal

PAGE = Path(__file__).resolve().parents[2] / "docs" / "parameters.md"


def parameters(kind: str) -> list[Parameter]:
    found = [*sections(SPECS[kind]), *sections(kind_named(kind).tuning, "tuning")]
    return [parameter for section in found for parameter in section.parameters]


@cache
def by_path(kind: str) -> dict[str, Parameter]:
    return {parameter.path: parameter for parameter in parameters(kind)}


def test_the_page_in_docs_is_what_the_command_prints(terminal: Terminal) -> None:
    assert PAGE.read_text(encoding="utf-8") == parameters_page(), "dsascape hardware --reference > docs/parameters.md"
    assert terminal.out("hardware", "--reference") == parameters_page()


@pytest.mark.parametrize(("kind", "path"), [(kind, each.path) for kind in KINDS for each in parameters(kind)])
def test_every_parameter_says_what_it_means(kind: str, path: str) -> None:
    assert len(by_path(kind)[path].meaning) > 10


BY_DTYPE = "macs_per_cycle", "lanes", "mac", "product_instructions", "product_pipes", "library_efficiency_of"


@pytest.mark.parametrize("name", preset_names())
def test_every_value_of_a_machine_is_explained(name: str) -> None:
    spec = load_hardware(name)
    explained = by_path(spec.kind)

    for path in parameter_paths(spec):
        place = path.split(".")
        if place[0] in ("active_clock", "library_region"):
            place[-1] = "NUMBER"
        if place[-1].isdigit():  # an entry of a list
            place.pop()
        if place[0] in ("units", "cores"):
            place[1] = "NAME"
        if place[-2:-1] and place[-2] in BY_DTYPE:
            place[-1] = "DTYPE"
        if place[0] == "library_efficiency":
            place[-1] = "KIND"
        if place[0] == "library_efficiency_of":  # of a dtype as a whole, or of one kind of kernel
            place[1:] = ["DTYPE"]
        if place[1:2] == ["tensor"]:
            place[2] = "DTYPE"
        assert ".".join(place) in explained


@pytest.mark.parametrize("kind", KINDS)
def test_no_description_says_anything_twice(kind: str) -> None:
    found = [*sections(SPECS[kind]), *sections(kind_named(kind).tuning, "tuning")]

    for section in found:
        described = markdown([section]).partition("| path")[0]
        assert described.count("null") <= 1
        for text in (described, *(parameter.meaning for parameter in section.parameters)):
            sentences = [each.strip() for each in re.split(r"[.;]\s", text) if each.strip()]
            assert len(sentences) == len(set(sentences))


def test_an_optional_section_has_its_own_description_and_that_of_its_place() -> None:
    (l3,) = (section for section in sections(SPECS["cpu"]) if section.path == "l3")

    assert l3.is_optional
    assert l3.about.startswith("Cache shared by all cores; null if")
    assert "a hash of the address selects its sets" in l3.about


def test_a_row_has_form_default_and_meaning() -> None:
    found = by_path("clustered_dsa")

    assert found["dma.load.in_flight"].form == "a whole number, from 1 to 256"
    assert found["dma.load.in_flight"].default == "4"
    assert found["ddr.sharing"].form == "`shared` or `private`"
    assert found["energy.local_buffer"].form == "a number with its unit: pJ/B, pJ/bit, nJ/B, or `by size`"
    assert found["energy.node"].form == "a number with its unit: nm, from 3 to 90"
    assert found["local_buffer.weight_window"].form == "a number, more than 0, less than 1"
    assert found["units.NAME.macs_per_cycle.DTYPE"].default == ""
    assert found["tuning.most_tiles"].default == "8"
