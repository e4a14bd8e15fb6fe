"""Design points come to the same with the extensions that ``setup.py`` compiles and without."""

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from dsascape.experiments.shell.cli import main
from dsascape.hw_models.in_c import is_built

ROOT = Path(__file__).parents[1]
POINTS = (
    ("squeezenet", "stcp920", "graphturbo"),
    ("dcgan", "kirin990", "dnnfusion"),
    ("bert-tiny", "v100", "graphturbo"),
)

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")]


def test_the_c_extensions_are_built() -> None:
    assert is_built("dsascape.hw_models.in_c.handler")
    assert is_built("dsascape.scheduler.in_c.columns")
    assert is_built("dsascape.scheduler.in_c.tiles")


@pytest.mark.parametrize(("model", "hardware", "policy"), POINTS)
def test_every_point_is_the_same(model: str, hardware: str, policy: str, tmp_path: Path) -> None:
    in_c, in_python = (_point(model, hardware, policy, pure, tmp_path) for pure in ("0", "1"))

    assert in_c == in_python


def _point(model: str, hardware: str, policy: str, pure: str, folder: Path) -> tuple[object, str, str]:
    """Return the figures, the schedule and the trace of a design point."""
    schedule, trace = folder / "schedule.json", folder / "trace.json"
    files = ["--schedule-out", str(schedule), "--trace", str(trace)]
    point = ["simulate", model, "--hardware", hardware, "--policy", policy, "--json", *files]
    figures = json.loads(_run(["-m", "dsascape", *point], pure) if pure == "1" else _here(point))
    del figures["wall_s"]
    dispatches = hardware != "stcp920"  # blocks or chunks, which only the reference engine hands out
    assert figures.pop("engine") == ("simpy" if pure == "1" or dispatches else "compiled")
    return figures, schedule.read_text(encoding="utf-8"), trace.read_text(encoding="utf-8")


def _here(arguments: Sequence[str]) -> str:
    """Return what the command prints in this process, which has the extensions."""
    with redirect_stdout(io.StringIO()) as printed:
        assert main(arguments) == 0
    return printed.getvalue()


def _run(arguments: Sequence[str], pure: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "DSASCAPE_PURE": pure}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, env=environment)
    return done.stdout.decode()
