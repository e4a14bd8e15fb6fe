"""In C, whether written or translated, what ``setup.py`` compiles does what Python does: event by event."""

import importlib.util
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

from hw_models.compiled_run import is_compiled
from tests.hw_models.test_simulate import Case, cases

ROOT = Path(__file__).parents[1]
PROGRAMS = 1000
POINTS = (
    ("mobilenet-v2", "stcp920", "graphturbo"),
    ("squeezenet", "kirin990", "dnnfusion"),
    ("bert-tiny", "v100", "graphturbo"),
)

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the packages with the modules compiled beside their sources."""
    folder = tmp_path_factory.mktemp("compiled")
    for name in ("workloads", "fusion", "hw_models", "scheduler", "tuner", "experiments"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    environment = {**os.environ, "DSASCAPE_COMPILED": "1", "DSASCAPE_OPTIMISE": "0"}
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return folder


def test_what_is_written_in_c_is_there() -> None:
    assert is_compiled()
    assert importlib.util.find_spec("scheduler.in_c.columns") is not None


def test_every_run_is_the_same(compiled: Path, tmp_path: Path) -> None:
    drawn = _drawn(PROGRAMS)

    as_python, as_c = _told(drawn, ROOT), _told(drawn, compiled)

    assert as_python.pop() == "running.py"
    assert as_c.pop().startswith("running.cpython")
    assert len(as_c) == PROGRAMS
    assert as_c == as_python
    for model, hardware, policy in POINTS:
        told = [_point(model, hardware, policy, tree, tmp_path) for tree in (ROOT, compiled)]
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


def _told(drawn: Sequence[Case], tree: Path) -> list[str]:
    """Return what comes of each of the programs with the packages of ``tree``, then which module has simulated them."""
    script = """
import pickle, sys
from pathlib import Path
import hw_models.running
from tests.hw_models.story import simulated
for spec, program in pickle.load(sys.stdin.buffer):
    try:
        print(repr(repr(simulated(program, spec))))
    except hw_models.SimulationError as error:
        print(repr(str(error)))
print(Path(hw_models.running.__file__).name)
"""
    inputs = pickle.dumps([(case.spec, case.program) for case in drawn])
    return _run(["-c", script], tree, inputs).splitlines()


def _point(model: str, hardware: str, policy: str, tree: Path, folder: Path) -> tuple[object, str, str]:
    """Return the figures, the schedule and the trace of a design point with the packages of ``tree``."""
    schedule, trace = folder / "schedule.json", folder / "trace.json"
    files = ["--schedule-out", str(schedule), "--trace", str(trace)]
    point = ["simulate", model, "--hardware", hardware, "--policy", policy, "--json", *files]
    figures = json.loads(_run(["-c", "from experiments.cli import entry_point; entry_point()", *point], tree))
    del figures["wall_s"]
    return figures, schedule.read_text(encoding="utf-8"), trace.read_text(encoding="utf-8")


def _run(arguments: Sequence[str], tree: Path, given_bytes: bytes = b"") -> str:
    pure = "1" if tree == ROOT else "0"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), str(ROOT)]), "DSASCAPE_PURE": pure}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=tree, input=given_bytes, capture_output=True, check=True, env=environment)
    return done.stdout.decode()
