"""A measured experiment stores figures of real code with the simulated ones, and its report compares them."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.experiments.papers.measured_page import TABLES
from dsascape.experiments.question.config import Measuring
from dsascape.experiments.question.reading import read_experiment
from dsascape.experiments.shell.cli import main
from dsascape.tuner.calibrate import host_yaml, local_facts
from tests.graphs import Net
from tests.tuner.runs import written_onnx

pytestmark = [pytest.mark.tvm, pytest.mark.usefixtures("forked_children")]

EXPERIMENT = """
workloads: [net.onnx]
hardware: {base: host.yaml, set: {tuning.threads: 1}}
policies: [unfused, fixed-pattern]
measure: {target: llvm, device: local}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("measured")
    net = Net()
    x = net.relu(net.conv(net.input(1, 8, 12, 12), 16))
    written_onnx(net.graph(net.unary("Tanh", net.conv(x, 8, 1)), dtype="fp32"), here / "net.onnx")
    (here / "host.yaml").write_text(host_yaml(local_facts()), encoding="utf-8")
    (here / "experiment.yaml").write_text(EXPERIMENT, encoding="utf-8")
    assert main(["run", str(here / "experiment.yaml"), "--out", str(here / "out"), "--workers", "1"]) == 0
    return here


def test_measured_figures_are_compared_with_simulated_ones(folder: Path) -> None:
    rows = pd.read_csv(folder / "out" / "results.csv")

    assert len(rows) == 2
    assert (rows["measured_s"] > 0).all()
    assert (rows["latency_s"] > 0).all()
    assert (rows["is_correct"] == 1).all()
    assert json.loads(rows["device_facts"][0])["processor"] == rows["device"][0]


def test_every_kernel_is_predicted_and_measured(folder: Path) -> None:
    kernels = pd.read_csv(folder / "out" / "kernels.csv")

    assert list(kernels["policy"]) == ["unfused"] * 4 + ["fixed-pattern"] * 2
    assert (kernels[["measured_s", "predicted_s", "predicted_parts_s.core"]] > 0).all().all()


def test_the_report_compares(folder: Path) -> None:
    page = (folder / "out" / "report.html").read_text(encoding="utf-8")

    assert "Predicted beside measured" in page
    assert "Which plan the simulator would choose" in page
    assert "predicted [µs]" in page


def test_a_run_that_is_complete_measures_nothing_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["measure", str(folder / "experiment.yaml"), "--out", str(folder / "out"), "--json"]

    assert main(asked) == 0
    assert json.loads(capsys.readouterr().out)["computed"] == 0


def test_a_point_that_is_measured_by_itself_joins_those_of_a_run(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(folder / "out", out)
    alone = ["measure", str(folder / "net.onnx"), "--policy", "fixed-pattern", "--hardware", str(folder / "host.yaml")]
    capsys.readouterr()

    assert main([*alone, "--threads", "1", "--flush-caches", "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stored"] == "added"
    assert list(pd.read_csv(out / "results.csv")["flushed_caches"]) == [0, 0, 1]
    assert main(["run", str(folder / "experiment.yaml"), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["computed"] == 0
    assert main(["report", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["points"], told["planned"], told["remarks"]) == (3, 3, [])


def test_flushed_points_are_points_of_their_own(folder: Path) -> None:
    path = folder / "flushed.yaml"
    path.write_text(EXPERIMENT.replace("device: local", "flush_caches: true"), encoding="utf-8")
    flushed, warm = (read_experiment(each)[1].point(0) for each in (path, folder / "experiment.yaml"))
    _, asked = read_experiment(folder / "experiment.yaml", Measuring(flush_caches=True))

    assert flushed.measured_on is not None
    assert flushed.measured_on.flush_caches
    assert flushed.key == asked.point(0).key != warm.key
    assert flushed.simulated_key == warm.simulated_key


def test_the_shipped_experiment_can_be_read_here(folder: Path) -> None:
    _, grid = read_experiment(TABLES / "cpu.yaml")

    assert grid.size == 24
    assert grid.point(0).measured_on is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (EXPERIMENT.replace("target: llvm", "target: pdp11"), "measure: target has 'pdp11'"),
        (EXPERIMENT.replace("device: local", "device: there"), "measure: device has 'there'"),
        (EXPERIMENT.replace("device: local", "flush_caches: 1"), "measure.flush_caches: has 1"),
        (EXPERIMENT.replace("[net.onnx]", "[{model: net.onnx, dtype: int8}]"), "code is measured in fp32"),
    ],
)
def test_a_point_that_cannot_be_measured_is_reported(
    text: str, message: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("net.onnx", "host.yaml"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    path = tmp_path / "wrong.yaml"
    path.write_text(text, encoding="utf-8")

    assert main(["run", str(path), "--out", str(tmp_path / "out")]) != 0
    told = capsys.readouterr()
    assert message in told.out + told.err
