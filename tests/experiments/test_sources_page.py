"""The page of origins, docs/sources.md, is made from the comments in the presets, and every number there has one."""

from pathlib import Path

import pytest

from dsascape.hw_models import load_hardware, preset_names
from dsascape.hw_models.machine_files.origins import (
    DEFINITION,
    MEASURED,
    ORIGINS,
    PUBLISHED,
    Origin,
    legend_of,
    origin,
    origins_of,
)
from dsascape.hw_models.machine_files.sources import ASSUMED, DERIVED, NO_SOURCE, Source
from tests.experiments.terminal import Terminal

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sources.md"
LEGEND = {"spec": "the maker's data sheet", "bench": "measured, a repository of small kernels"}


def test_the_page_in_docs_is_what_the_command_prints(terminal: Terminal) -> None:
    printed = terminal.out("hardware", "--sources")

    assert PAGE.read_text(encoding="utf-8") == printed, "dsascape hardware --sources > docs/sources.md"


@pytest.mark.parametrize(("source", "expected"), [
    (Source("", "[spec] HBM3"), Origin(PUBLISHED, ("spec",))),
    (Source("", "[bench] of a part on the same die"), Origin(MEASURED, ("bench",))),
    (Source("", "[spec] and [bench]"), Origin(PUBLISHED, ("spec", "bench"))),
    (Source("", "measured by its maker [spec]"), Origin(MEASURED, ("spec",))),
    (Source(ASSUMED, "assumed: others have more [bench]"), Origin(ASSUMED, ("bench",))),
    (Source(DERIVED, "derived: 2 x 1"), Origin(DERIVED)),
    (Source("", "as l1"), Origin(DERIVED)),
    (Source("", "ordinary stores fetch their line"), Origin(DEFINITION)),
])  # fmt: skip
def test_a_comment_says_whose_a_number_is(source: Source, expected: Origin) -> None:
    assert origin(source, LEGEND, "mine: clock") == expected


@pytest.mark.parametrize(("source", "message"), [
    (Source(NO_SOURCE), "mine: clock has no comment; needs its source"),
    (Source("", "[sheet]"), r"mine: clock: the head of its file does not explain \[sheet\]"),
])  # fmt: skip
def test_a_number_without_a_known_source_is_refused(source: Source, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        origin(source, LEGEND, "mine: clock")


def test_the_head_of_a_file_explains_its_labels() -> None:
    assert legend_of("# Part\n#   [spec]   the maker's data sheet\n#   [a b] other\nkind: gpu\n") == {
        "spec": "the maker's data sheet", "a b": "other",
    }  # fmt: skip


@pytest.mark.parametrize("name", preset_names())
def test_every_number_of_a_preset_has_an_origin(name: str) -> None:
    found = origins_of(load_hardware(name))

    assert len(found) > 30
    assert {each.kind for each in found.values()} <= ORIGINS.keys()


def test_a_machine_s_values_are_listed_with_their_sources(terminal: Terminal) -> None:
    lines = terminal.out("hardware", "h100").splitlines()

    assert any("l2.latency" in line and "derived" in line for line in lines)
    assert any("dram.efficiency" in line and "assumed" in line for line in lines)
