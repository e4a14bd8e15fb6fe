"""Without the packages that generate and check code, measuring names the missing ones; all else works."""

import sys

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


def test_planning_needs_neither(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "tvm", None)

    assert main(["fuse", "squeezenet", "--policy", "fixed-pattern"]) == 0
    assert "38 kernels" in capsys.readouterr().out
