"""Without the packages that generate and check code, measuring names the missing ones; all else works."""

import sys
from pathlib import Path

import pytest

from dsascape.experiments.shell.cli import main


@pytest.mark.parametrize("missing", ["tvm", "onnxruntime"])
def test_the_missing_package_is_named_with_the_command_that_installs_it(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)

    assert main(["measure", "squeezenet", "--policy", "fixed-pattern"]) == 2
    told = capsys.readouterr().err
    assert missing in told
    assert "pip install 'dsascape[tvm]'" in told


def test_tuning_on_a_simulated_machine_needs_neither(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for missing in ("tvm", "onnxruntime", "lightgbm"):
        monkeypatch.setitem(sys.modules, missing, None)
    asked = ["tune", "squeezenet", "--runner", "simulate", "--hardware", "epyc", "--trials", "26"]
    asked += ["--out", str(tmp_path)]

    assert main([*asked, "--tuner", "random"]) == 0
    assert "26 trials" in capsys.readouterr().out
    assert main([*asked, "--tuner", "ansor"]) == 2
    assert "pip install 'dsascape[tune]'" in capsys.readouterr().err
    for runner in (["local"], ["bundle", "--hardware", "epyc"]):
        asked = ["tune", "squeezenet", "--tuner", "random", "--out", str(tmp_path), "--runner", *runner]
        assert main(asked) == 2
        assert "pip install 'dsascape[tvm]'" in capsys.readouterr().err


def test_planning_needs_neither(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "tvm", None)

    assert main(["fuse", "squeezenet", "--policy", "fixed-pattern"]) == 0
    assert "38 kernels" in capsys.readouterr().out
