"""The site: every page is in its navigation, the API reference is complete, and no page loads anything remote."""

import re
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
import yaml

from tests.docs.pages import ROOT, page

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
    linked = re.findall(r"\]\((?!https?:)([^)#\s]+)", page(name).text)

    assert [target for target in linked if not (DOCS / target).exists()] == []


@pytest.mark.parametrize("name", REFERENCE)
def test_every_name_in_the_reference_exists_and_is_documented(name: str) -> None:
    assert resolve_name(name).__doc__


def test_the_site_builds_and_its_pages_load_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="pip install -e '.[docs]'")
    pytest.importorskip("mkdocstrings", reason="pip install -e '.[docs]'")

    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr

    fetching = re.compile(r"<(?:script|img|iframe|link)[^>]*?(?:src|href)=\"?(?:https?:)?//", re.IGNORECASE)
    assert [path.name for path in tmp_path.rglob("*.html") if fetching.search(path.read_text(encoding="utf-8"))] == []
    assert "with_values" in (tmp_path / "api.html").read_text(encoding="utf-8")
