"""The notebooks hold no outputs, and their cells run from first to last."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import NIGHT

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src"), "MPLBACKEND": "Agg"}
SHORTER = re.compile(r'"(?:squeezenet|mobilenet-v2)"')
"""Networks of the notebooks, in place of which a small one runs by day."""
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 2


@every_notebook
def test_outputs_are_stripped(path: Path) -> None:
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code_cells(path))


@every_notebook
def test_cells_have_names_of_their_own(path: Path) -> None:
    names = [cell["id"] for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]

    assert len(set(names)) == len(names)


@pytest.mark.sampled(1, long=["where_time_goes"])
@every_notebook
def test_cells_run_from_first_to_last(path: Path, tmp_path: Path) -> None:
    script = tmp_path / "cells.py"
    cells = "\n\n".join("".join(cell["source"]) for cell in code_cells(path)) + "\n"
    script.write_text(cells if NIGHT else SHORTER.sub('"bert-tiny"', cells), encoding="utf-8")

    ran = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.sampled(1)
@every_notebook
@pytest.mark.slow
def test_a_kernel_runs_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))

    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in [] if NIGHT else notebook.cells:
        cell.source = SHORTER.sub('"bert-tiny"', cell.source)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    assert any(cell.get("outputs") for cell in notebook.cells)
