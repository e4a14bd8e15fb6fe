"""Commands of the pages: those of the guides run as they stand there, all others are such that dsascape takes."""

import contextlib
import io
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import dsascape
from dsascape.experiments.shell.cli import main, parser
from tests.docs.pages import ROOT, Command, Page

PAGES = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
RUN = ["README.md", "docs/index.md", "docs/tutorial.md", "docs/loops.md", "docs/what-if.md"]
"""Pages whose commands run, one after the other."""
AT_NIGHT = [f"docs/{name}.md" for name in ("commands", "compare", "convolutions", "pins", "search", "table")]
"""Pages whose commands run at night only."""
MADE = ("--out", "--schedule-out", "--trace", "--annotate", "--picture")
"""Options whose files the command writes."""
FILE = re.compile(r"[\w./-]+\.(yaml|json|onnx|py|csv|xz)")
PLACEHOLDER = re.compile(r"path/to/|[A-Z]+\b|rpc://")
KNOWN = {"model": dsascape.network_names, "hardware": dsascape.hardware_names, "policy": dsascape.policy_names}
"""Arguments that are names, unless they are files."""


def read(name: str) -> Page:
    return Page((ROOT / name).read_text(encoding="utf-8"))


def of_dsascape(page: Page) -> Iterator[Command]:
    return (each for each in page.commands if each.words[0] == "dsascape")


@pytest.mark.parametrize("name", [*RUN, *(pytest.param(name, marks=pytest.mark.night) for name in AT_NIGHT)])
def test_commands_run_in_a_clone_and_print_what_the_page_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    page = read(name)
    update = request.config.getoption("--update-golden")
    for folder in ("examples", "experiments"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    for file, content in page.files.items():
        (tmp_path / file).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    text, ran = page.text, 0
    for each in of_dsascape(page):
        if any(PLACEHOLDER.match(word) for word in each.words):
            continue
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            assert main(each.words[1:]) == 0, each.line
        ran += 1
        if each.written:
            Path(each.written).write_text(output.getvalue(), encoding="utf-8")
        printed = [line.rstrip() for line in output.getvalue().splitlines()]
        if update:
            text = text.replace(str(each), str(each.refreshed(printed)), 1)
        else:
            assert each.stale(printed) == [], "pytest tests/docs --update-golden takes the most similar lines"
    assert ran
    if update:
        (ROOT / name).write_text(text, encoding="utf-8")


def test_the_files_that_the_tutorial_shows_are_those_of_the_examples() -> None:
    shown = [content for language, content in read("docs/tutorial.md").blocks if language == "yaml"]
    files = [ROOT / "examples" / f"{name}.yaml" for name in ("rk3588_npu", "rk3588_npu_sweep")]

    assert shown == [file.read_text(encoding="utf-8") for file in files]


def test_the_table_of_commands_has_all_of_them() -> None:
    listed = re.findall(r"^    (\w+) ", parser().format_help(), re.MULTILINE)
    rows = re.findall(r"^\| (`[a-z`, ]*`) \|", read("docs/commands.md").text, re.MULTILINE)

    assert sorted(re.findall(r"\w+", " ".join(rows))) == sorted(listed)


@pytest.mark.parametrize("name", PAGES)
def test_every_command_is_one_that_dsascape_takes_with_names_and_files_that_are_there(name: str) -> None:
    page, reads = read(name), parser()
    made = set(page.files)
    for each in page.commands:
        words = each.words
        if words[0] != "dsascape":
            made.update(words)  # other programs make files of theirs
            continue
        arguments = reads.parse_args(words[1:])
        named = {kind: str(getattr(arguments, kind, None) or "") for kind in KNOWN}
        assert {kind: what for kind, what in named.items() if not is_known(kind, what)} == {}, each.line
        needed = {file for file in files_read(words) if not (ROOT / file).exists()}
        assert {file for file in needed if not {file, file.split("/")[0]} & made} == set(), each.line
        made.update(file for option, file in pairwise(words) if option in MADE)
        made.add(each.written or "")


def is_known(kind: str, named: str) -> bool:
    return not named or named in KNOWN[kind]() or bool(FILE.fullmatch(named) or PLACEHOLDER.match(named))


def files_read(words: list[str]) -> list[str]:
    """Return the files and folders that a command reads, as far as they are not placeholders."""
    named = [word for before, word in pairwise(words) if FILE.fullmatch(word) and before not in MADE]
    named += [word for before, word in pairwise(words) if before in ("report", "--kernels")]
    if words[1] == "compare":
        named += words[2:4]
    return [word for word in named if not PLACEHOLDER.match(word)]
