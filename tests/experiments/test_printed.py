"""What pages show below a command is what the command prints."""

import shlex
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, page
from tests.experiments.terminal import Terminal


def shown(name: str) -> tuple[list[str], list[str]]:
    """Return arguments and shown lines of the one command in a block of text of a page, without "..."."""
    ((command, *lines),) = [
        content.splitlines() for language, content in page(name).blocks if language == "text" and content[0] == "$"
    ]
    return shlex.split(command)[2:], [line for line in lines if line != "..."]


def test_what_if_ranks_the_values_of_its_page(terminal: Terminal) -> None:
    arguments, lines = shown("what-if.md")
    printed = [line.rstrip() for line in terminal.out(*arguments).splitlines()]

    assert len(lines) > 4
    assert [line for line in lines if line not in printed] == []


def test_compare_writes_the_row_of_its_page(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line.strip() for line in page("compare.md").text.splitlines()]
    written = "before.json", "after.json"
    commands = [line for line in lines if line.startswith("dsascape simul") and line.endswith(written)]
    (compare,) = [line for line in page("compare.md").text.splitlines() if line.startswith("    dsascape compare bef")]
    for command in commands:
        arguments, _, file = command.partition(" > ")
        Path(file).write_text(terminal.out(*shlex.split(arguments)[1:]))

    row = terminal.out(*shlex.split(compare)[1:]).splitlines()[-1]
    assert row.startswith("| squeezenet")
    assert row in page("compare.md").text.splitlines()


def test_the_search_of_its_page_is_of_the_file_that_comes_along() -> None:
    path = "experiments/best-machine.yaml"

    assert ("yaml", (ROOT / path).read_text(encoding="utf-8")) in page("search.md").blocks
    assert shown("search.md")[0] == ["run", path]


@pytest.mark.night
def test_the_search_of_its_page_finds_the_machines_that_it_shows(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, lines = shown("search.md")
    monkeypatch.chdir(tmp_path)
    printed = terminal.out("run", str(ROOT / arguments[1])).splitlines()

    assert len(lines) > 4
    assert [line for line in lines if line not in printed] == []
