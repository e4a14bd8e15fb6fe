"""How the command starts and ends: versions and help, the modules it imports, a reader of its output that goes."""

import subprocess
import sys
from pathlib import Path

import pytest

from dsascape.experiments.question.version import __version__
from dsascape.hw_models.simulation.engines import available_engines
from tests.experiments.runs import COMMAND, ENVIRONMENT
from tests.experiments.terminal import Terminal


@pytest.mark.parametrize("argv", [["--version"], ["--help"], ["simulate", "--help"], ["run", "--help"]])
def test_help_and_version_end_with_zero(argv: list[str], terminal: Terminal) -> None:
    shown = terminal.out(*argv)
    version = f"dsascape {__version__} (engines: {', '.join(available_engines())})\n"
    assert shown == version if argv == ["--version"] else shown.startswith("usage: dsascape")


def test_help_imports_none_of_the_heavy_libraries() -> None:
    program = (
        "import sys; from dsascape.experiments.shell.cli import parser; parser().format_help(); print(*sys.modules)"
    )
    asked = [sys.executable, "-c", program]
    loaded = subprocess.run(asked, env=ENVIRONMENT, capture_output=True, text=True, check=True)

    heavy = {"pandas", "matplotlib", "optuna", "onnx", "pydantic", "numpy", "simpy", "rich"}
    assert not heavy & set(loaded.stdout.split())


@pytest.mark.parametrize("argv", [["hardware"], ["run", "no-study.yaml"]])
def test_a_system_that_locks_no_files_is_told_in_one_sentence(argv: list[str]) -> None:
    program = "import sys; sys.modules['fcntl'] = None; from dsascape.experiments.shell.cli import main; "
    program += f"sys.exit(main({argv}))"
    asked = [sys.executable, "-c", program]
    ran = subprocess.run(asked, env=ENVIRONMENT, capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stdout) == (2, ""), ran.stderr
    assert ran.stderr.startswith("dsascape: ")
    assert "WSL" in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_point_imports_only_the_modules_it_needs(tmp_path: Path) -> None:
    argv = ["simulate", "bert-tiny", "--hardware", "stcp920", "--policy", "fixed-pattern", "--json"]
    program = f"import sys; from dsascape.experiments.shell.cli import main; main({argv}); print(*sys.modules)"
    place = {**ENVIRONMENT, "DSASCAPE_CACHE": str(tmp_path)}
    asked = [sys.executable, "-c", program]
    first, again = [
        subprocess.run(asked, env=place, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]

    assert "onnx" in first
    ours = {f"dsascape.scheduler.{name}" for name in ("cpu.kind", "gpu.kind", "policies.searched")}
    others = {"onnx", "pandas", *ours}
    assert not others & set(again)


def test_a_reader_that_goes_is_no_crash() -> None:
    for argv in (["hardware", "stcp920", "--json"], ["hardware", "stcp920"]):
        with subprocess.Popen(
            [*COMMAND, *argv], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait() == 141
