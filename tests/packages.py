"""Installs packages that offer extensions by entry points, for tests of what they break."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, group: str, offered: Mapping[str, str], modules: Mapping[str, str]
) -> None:
    """Install a package ``theirs``: the place of each extension of a group by its name, and the text of its modules."""
    about = folder / "theirs-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    entries = "".join(f"{name} = {place}\n" for name, place in offered.items())
    (about / "entry_points.txt").write_text(f"[{group}]\n{entries}")
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(folder))
