"""`dsascape bundle`: a network built, run and brought back, and what is no result of one."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.experiments.shell.cli import main
from dsascape.tuner.bundle.linking import architecture_of
from tests.tuner.runs import written_onnx
from tests.tuner.test_bundle import job

pytestmark = [pytest.mark.tvm, pytest.mark.usefixtures("forked_children")]


def test_build_run_and_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive, results = tmp_path / "tiny.tar.xz", tmp_path / "results.json"
    written_onnx(job().plan.graph, tmp_path / "net.onnx")
    network = [str(tmp_path / "net.onnx"), "--policy", "fixed-pattern", "--threads", "1"]

    assert main(["bundle", "build", *network, "--out", str(archive), "--json"]) == 0
    built = json.loads(capsys.readouterr().out)
    assert main(["bundle", "run", str(archive), "--out", str(results), "--json"]) == 0
    ran = json.loads(capsys.readouterr().out)
    assert main(["bundle", "import", str(results), "--out", str(tmp_path / "store"), "--json"]) == 0
    taken = json.loads(capsys.readouterr().out)

    assert built["missing"] == []
    assert built["size_bytes"] < 60e6
    assert len(ran["kernels"]) == built["kernels"]
    assert ran["correct"] is True
    assert ran["predicted_s"] > 0
    assert {key: value for key, value in taken.items() if key in ran and key != "file"} == {
        key: value for key, value in ran.items() if key != "file"
    }


@pytest.mark.parametrize("text", ["", "{}", '{"format": "dsascape results 1"}', "\x80"])
def test_other_files_are_no_results(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.json"
    path.write_text(text, encoding="latin-1")

    assert main(["bundle", "import", str(path), "--out", str(tmp_path / "store")]) == 2
    assert str(path) in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


def test_a_runtime_of_another_architecture_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = ["bundle", "build", "bert-tiny", "--policy", "unfused", "--target", "aarch64-cortex-a76"]

    assert main([*build, "--out", str(tmp_path / "arm.tar.xz")]) == 2
    assert f"is for {architecture_of(Path(sys.executable))}, the code for aarch64" in capsys.readouterr().err
