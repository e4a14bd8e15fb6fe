"""The site: every page is in its navigation, the API reference is complete, and no page loads anything remote."""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from pkgutil import resolve_name
from textwrap import dedent
from typing import Any

import pytest
import yaml

import dsascape
from dsascape.hw_models import load_hardware, preset_names
from dsascape.hw_models.machine_files.load import preset_text
from tests.docs.pages import ROOT, page
from tests.experiments.browser import PROGRAM, browser
from tests.experiments.browser import Page as BrowserPage

DOCS = ROOT / "docs"
CONFIGURED = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
REFERENCE = re.findall(r"^::: (\S+)$", page("api.md").text, re.MULTILINE)


def pages_in(navigation: Any) -> list[str]:
    """Return the pages of a navigation, however deep they stand."""
    if isinstance(navigation, str):
        return [navigation]
    inner = navigation.values() if isinstance(navigation, dict) else navigation
    return [name for each in inner for name in pages_in(each)]


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(pages_in(CONFIGURED["nav"])) == PAGES


@pytest.mark.parametrize("name", PAGES)
def test_links_between_pages_lead_somewhere(name: str) -> None:
    linked = re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", page(name).text)

    assert [target for target, _ in linked if not (DOCS / target).exists()] == []
    headings = [(target, heading) for target, heading in linked if heading and not target.startswith("../")]
    assert [each for each in headings if each[1] not in anchors(each[0] or name)] == []


def anchors(name: str) -> set[str]:
    """Return the anchors of a page's headings, as the site and GitHub name them."""
    headings = re.findall(r"^#+ (.*)$", page(name).text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_leads_to_the_same_pages_as_the_first_one(request: pytest.FixtureRequest) -> None:
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| \| read \|\n(?:\|.*\n)+", page("index.md").text, re.MULTILINE)
    (shown,) = re.findall(r"^\| \| read \|\n(?:\|.*\n)+", text, re.MULTILINE)

    wanted = table.replace("](", "](docs/")
    if request.config.getoption("--update-golden"):
        readme.write_text(text.replace(shown, wanted), encoding="utf-8")
    else:
        assert shown == wanted, "pytest tests/docs --update-golden copies the table of docs/index.md"


def test_every_preset_stands_in_the_list_of_machines_with_its_kind() -> None:
    _, _, rest = page("machine.md").text.partition("\n## Machines that come along\n")
    rows = re.findall(r"^\| `(\w+)`[^|]*\| ([^|]*) \|", rest.partition("\n## ")[0], re.MULTILINE)
    listed = [(name, kind) for kind, names in rows for name in re.findall(r"`(\w+)`", names)]

    kinds = {name: re.findall(r"^kind: (\w+)", preset_text(name), re.MULTILINE)[0] for name in preset_names()}
    assert sorted(listed) == sorted(kinds.items())


@pytest.mark.parametrize("name", ["machine.md", "architecture.md", "tutorial.md"])
def test_machine_files_on_pages_load(name: str, tmp_path: Path) -> None:
    fenced = [content for language, content in page(name).blocks if language == "yaml"]
    indented = re.findall(r"(?:^    .*\n)+", page(name).text, re.MULTILINE)
    files = [each for each in (*fenced, *map(dedent, indented)) if re.search(r"^base: ", each, re.MULTILINE)]

    assert files
    for number, text in enumerate(files):
        (tmp_path / f"machine_{number}.yaml").write_text(text, encoding="utf-8")
        load_hardware(tmp_path / f"machine_{number}.yaml")


def test_figures_of_accuracy_in_the_readme_are_those_of_the_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| predicted \|.*\n.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    cells = [[each.strip() for each in line.strip("| ").split("|")] for line in table.splitlines()]
    rows = page("accuracy.md").text.splitlines()

    assert len(cells) > 5
    for _, _, cases, error, correlation in cells:
        held = re.compile(rf"\| {cases} \| {re.escape(error)} \| [^|]+ \| {re.escape(correlation)} \|")
        assert any(held.search(row) for row in rows), f"no row of docs/accuracy.md has {cases}, {error}, {correlation}"


@pytest.mark.parametrize("name", REFERENCE)
def test_every_name_in_the_reference_exists_and_is_documented(name: str) -> None:
    assert resolve_name(name).__doc__


def test_the_site_builds_loads_nothing_from_elsewhere_and_is_searched_from_disk(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pytest.importorskip("material", reason="pip install -e '.[docs]'")
    pytest.importorskip("mkdocstrings", reason="pip install -e '.[docs]'")

    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr

    fetching = re.compile(r"<(?:script|img|iframe|link)[^>]*?(?:src|href)=\"?(?:https?:)?//", re.IGNORECASE)
    assert [path.name for path in tmp_path.rglob("*.html") if fetching.search(path.read_text(encoding="utf-8"))] == []
    assert "with_values" in (tmp_path / "api.html").read_text(encoding="utf-8")
    if PROGRAM is not None:
        with browser(tmp_path_factory.mktemp("browser")) as opened:
            opened.open(tmp_path / "index.html", query="?q=GraphTurbo")
            assert settled(opened, "document.querySelectorAll('.md-search-result__item').length") > 3


@pytest.mark.skipif(PROGRAM is None, reason="needs a browser")
def test_the_search_of_the_site_has_its_worker_on_pages_opened_from_disk(tmp_path: Path) -> None:
    shutil.copy(DOCS / "site" / "iframe-worker.js", tmp_path)
    (tmp_path / "twice.js").write_text("function twice(text) { return text + text; }")
    (tmp_path / "worker.js").write_text(
        "const loaded = importScripts('twice.js');"
        "addEventListener('message', async (event) => { await loaded; postMessage(twice(event.data)); });"
    )
    (tmp_path / "page.html").write_text(
        "<!DOCTYPE html><body><script src='iframe-worker.js'></script><script>"
        "const worker = new Worker('worker.js'), got = [];"
        "worker.addEventListener('message', (event) => got.push(event.data));"
        "worker.postMessage('ab'); worker.postMessage('cd');</script>"
    )

    with browser(tmp_path / "browser") as opened:
        opened.open(tmp_path / "page.html")
        assert settled(opened, "got.length === 2 && got.join(' ')") == "abab cdcd"
        assert opened.complaints == []


def settled(opened: BrowserPage, script: str) -> Any:
    """Return the value of a script once it is not empty; its last value after a while."""
    until = time.monotonic() + 30
    while not (value := opened.run(script)) and time.monotonic() < until:
        time.sleep(0.1)
    return value


@pytest.mark.parametrize("name", ["api.md", "tutorial.md"])
def test_examples_print_what_the_page_says(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What two examples simulate alike is simulated once."""
    simulate, found = dsascape.simulate, dict[str, Any]()

    def once(*asked: Any, **options: Any) -> Any:
        key = repr((asked, options))
        found[key] = found.get(key) or simulate(*asked, **options)
        return found[key]

    monkeypatch.setattr(dsascape, "simulate", once)
    printed = page(name).printed()
    if request.config.getoption("--update-golden"):
        (DOCS / name).write_text(printed, encoding="utf-8")
    else:
        assert printed == page(name).text, "pytest tests/docs --update-golden writes the page anew"
