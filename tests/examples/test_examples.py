"""The examples run unchanged and print the output that they show."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src"), "MPLBACKEND": "Agg"}


def run(name: str, folder: Path, *before: str) -> str:
    """Run an example from another folder than its own, and return what it prints."""
    command = [sys.executable, *before, str(EXAMPLES / name)]
    ran = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_architects_example_ends_with_a_finding(tmp_path: Path) -> None:
    printed = run("architect_npu.py", tmp_path)

    finding = printed.splitlines()[-1]
    limited_by, helps, gain = re.findall(r"Finding: (\w+) .*, (.*) helps most \(([\d.]+) times", finding)[0]
    rows = re.findall(r"^  ([a-zA-Z ]+?) +([\d.]+) times as", printed, re.MULTILINE)
    gains = {what: float(times) for what, times in rows}
    assert limited_by == "ddr"
    assert gains[helps] == max(gains.values()) == float(gain) > 1


@pytest.mark.tvm
@pytest.mark.slow
def test_the_compiler_engineers_example_ends_with_measured_code(tmp_path: Path) -> None:
    pytest.importorskip("tvm")

    printed = run("own_policy.py", tmp_path)
    assert "all results as onnxruntime's" in printed
    assert re.search(r"greedy +\d+ kernels", printed)


def test_the_compiler_engineers_example_says_so_where_tvm_is_not_installed(tmp_path: Path) -> None:
    script = "import importlib.util, runpy; find = importlib.util.find_spec\n"
    script += "importlib.util.find_spec = lambda name, *rest: None if name == 'tvm' else find(name, *rest)\n"
    script += f"names = runpy.run_path({str(EXAMPLES / 'own_policy.py')!r}); names['measure']()"

    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert "nothing is measured" in ran.stdout, ran.stderr


def test_exploring_prints_a_row_for_each_point(tmp_path: Path) -> None:
    printed = run("explore.py", tmp_path)

    assert printed.count("fixed-pattern  ") == printed.count("graphturbo  ") == 6


@pytest.mark.parametrize("script", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_every_script_says_how_it_is_run(script: str) -> None:
    documented = ast.get_docstring(ast.parse((EXAMPLES / script).read_text(encoding="utf-8")))

    assert documented is not None
    assert f"python examples/{script}" in documented
