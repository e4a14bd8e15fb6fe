"""The extensions that ``setup.py`` compiles give the same results as Python, event by event."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from dsascape.hw_models.in_c import is_built
from dsascape.hw_models.simulation.compiled_run import is_compiled
from tests.hw_models.test_simulate import Case, cases
from tests.tiers import examples

ROOT = Path(__file__).parents[1]
PROGRAMS = examples(600)
POINTS = (
    ("mobilenet-v2", "stcp920", "graphturbo"),
    ("squeezenet", "kirin990", "dnnfusion"),
    ("bert-tiny", "v100", "graphturbo"),
)

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")]


def test_the_c_extensions_are_built() -> None:
    assert is_compiled()
    assert is_built("dsascape.scheduler.in_c.columns")
    assert is_built("dsascape.scheduler.in_c.tiles")


def test_every_run_is_the_same(tmp_path: Path) -> None:
    drawn = _drawn(PROGRAMS)

    as_python, as_c = (_told(drawn, pure) for pure in ("1", "0"))

    assert (as_python.pop(), as_c.pop()) == ("False", "True")
    assert len(as_c) == PROGRAMS
    assert as_c == as_python
    for model, hardware, policy in POINTS:
        told = [_point(model, hardware, policy, pure, tmp_path) for pure in ("1", "0")]
        assert told[0] == told[1], f"{model} on {hardware} under {policy}"


def _drawn(count: int) -> list[Case]:
    """Return random machines with random programs."""
    found: list[Case] = []

    @settings(max_examples=count, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(cases())
    def draw(case: Case) -> None:
        found.append(case)

    draw()
    return found


def _told(drawn: Sequence[Case], pure: str) -> list[str]:
    """Return what comes of each of the programs, then whether compiled code was there; ``pure``: 1 leaves it out."""
    script = """
import pickle, sys
from dsascape import hw_models
from dsascape.hw_models.simulation.compiled_run import is_compiled
from tests.hw_models.story import simulated
for spec, program in pickle.load(sys.stdin.buffer):
    try:
        print(repr(repr(simulated(program, spec))))
    except hw_models.SimulationError as error:
        print(repr(str(error)))
print(is_compiled())
"""
    inputs = pickle.dumps([(case.spec, case.program) for case in drawn])
    return _run(["-c", script], pure, inputs).splitlines()


def _point(model: str, hardware: str, policy: str, pure: str, folder: Path) -> tuple[object, str, str]:
    """Return the figures, the schedule and the trace of a design point."""
    schedule, trace = folder / "schedule.json", folder / "trace.json"
    files = ["--schedule-out", str(schedule), "--trace", str(trace)]
    point = ["simulate", model, "--hardware", hardware, "--policy", policy, "--json", *files]
    figures = json.loads(_run(["-m", "dsascape", *point], pure))
    del figures["wall_s"]
    return figures, schedule.read_text(encoding="utf-8"), trace.read_text(encoding="utf-8")


def _run(arguments: Sequence[str], pure: str, given_bytes: bytes = b"") -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DSASCAPE_PURE": pure}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, input=given_bytes, capture_output=True, check=True, env=environment)
    return done.stdout.decode()
