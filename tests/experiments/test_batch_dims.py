"""The batch dimension is found automatically, or stated on the command line, in YAML or in Python."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import dsascape
from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.question.config import ExperimentError
from dsascape.experiments.question.points import Workload, stated_batch
from dsascape.experiments.question.reading import read_experiment
from dsascape.workloads import WorkloadError
from tests.experiments.terminal import Terminal
from tests.workloads.onnx_models import model

ON_STCP920 = ["--hardware", "stcp920", "--policy", "fixed-pattern"]


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """Four sentences of six words of eight features: [6, 4, 8], which nothing mixes."""
    built = model(helper.make_node("MatMul", ["x", "w"], ["y"]), inputs={"x": [6, 4, 8]}, w=np.ones((8, 8), np.float32))
    (tmp_path / "tokens.onnx").write_bytes(built.SerializeToString())
    return tmp_path / "tokens.onnx"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An image [3, 10, 10] without a batch."""
    nodes = [helper.make_node("Unsqueeze", ["x", "a"], ["i"]), helper.make_node("Conv", ["i", "w"], ["y"], name="conv")]
    built = model(*nodes, inputs={"x": [3, 10, 10]}, a=np.array([0]), w=np.ones((2, 3, 3, 3), np.float32))
    (tmp_path / "image.onnx").write_bytes(built.SerializeToString())
    return tmp_path / "image.onnx"


class TestCommandLine:
    def test_the_batch_dimension_is_found_unless_stated(self, terminal: Terminal, tokens: Path) -> None:
        found = terminal.json("simulate", str(tokens), *ON_STCP920)
        said = terminal.json("simulate", str(tokens), *ON_STCP920, "--batch-dim", "x:1")

        assert (found["batch"], found["batch_dims"], found["parts_at_work"]) == (6, {"x": 0}, 3)
        assert (said["batch"], said["batch_dims"], said["model"]) == (4, {"x": 1}, "tokens (batch x:1)")
        assert said["macs"] == found["macs"] == 6 * 4 * 8 * 8

    def test_with_none_there_is_one_image(self, terminal: Terminal, tokens: Path) -> None:
        found = terminal.json("simulate", str(tokens), *ON_STCP920, "--batch-dim", "none")

        assert (found["batch"], found["batch_dims"], found["macs"]) == (1, {}, 6 * 4 * 8 * 8)

    @pytest.mark.parametrize("hardware", ["stcp920", "kirin990", "a100"])
    @pytest.mark.parametrize("policy", ["fixed-pattern", "ago", "searched", "dnnfusion"])
    def test_a_network_without_a_batch_runs_everywhere(
        self, terminal: Terminal, image: Path, hardware: str, policy: str
    ) -> None:
        found = terminal.json("simulate", str(image), "--hardware", hardware, "--policy", policy)

        assert (found["batch"], found["macs"]) == (1, 2 * 8 * 8 * 27)
        assert found["no_batch"].startswith("dimension 0 of input 'x' is not a batch: node 'conv' (Conv)")

    def test_it_says_so(self, terminal: Terminal, image: Path) -> None:
        assert "no batch: dimension 0 of input 'x'" in terminal.out("simulate", str(image), *ON_STCP920)
        assert "no batch: dimension 0 of input 'x'" in terminal.out("models", str(image))

    def test_more_images_than_it_can_have_are_refused(self, terminal: Terminal, image: Path) -> None:
        for hardware in ("stcp920", "kirin990"):
            asked = "simulate", str(image), "--hardware", hardware, "--policy", "unfused", "--batch", "4"
            assert "has no batch that can become 4: dimension 0 of input 'x'" in terminal.refused(*asked)

    def test_measured_and_planned_networks_have_the_option(self, terminal: Terminal, tokens: Path) -> None:
        assert terminal.json("fuse", str(tokens), "--policy", "unfused", "--batch-dim", "x:1")["operators"] == 1
        assert terminal.json("models", str(tokens), "--batch-dim", "x:1")["batch_dims"] == {"x": 1}


class TestYaml:
    @pytest.mark.parametrize(
        ("said", "dims", "batch"),
        [("", None, 6), ("x:1", {"x": 1}, 4), ("['x:1']", {"x": 1}, 4), ("none", {}, 1)],
    )
    def test_it_can_be_said(self, said: str, dims: dict[str, int] | None, batch: int, tokens: Path) -> None:
        stated = f", batch_dim: {said}" if said else ""
        file = tokens.with_name("asked.yaml")
        file.write_text(
            f"# Is it fast?\nworkloads: [{{model: tokens.onnx{stated}}}]\nhardware: {{base: stcp920}}\n"
            "policies: [unfused]\n"
        )
        experiment, grid = read_experiment(file)
        (point,) = grid.chosen(experiment.search)

        assert point.workload.batch_dims == (None if dims is None else tuple(dims.items()))
        assert evaluate(point).record.batch == batch
        assert dsascape.simulate(str(tokens), "stcp920", "unfused", batch_dims=dims).record.batch == batch

    def test_a_mistake_names_the_file_and_the_key(self, tokens: Path) -> None:
        file = tokens.with_name("asked.yaml")
        file.write_text(
            "# Is it fast?\nworkloads: [{model: tokens.onnx, batch_dim: first}]\nhardware: {base: stcp920}\n"
            "policies: [unfused]\n"
        )

        with pytest.raises(ExperimentError, match=r"asked\.yaml: .*batch-dim has 'first'; needs INPUT:DIM"):
            read_experiment(file)


@pytest.mark.parametrize("said", ["x", "x:", ":1", "x:-1", "x:one", "x:1 none", "x:1 x:2", "x:9999"])
def test_an_invalid_batch_dim_is_refused(said: str) -> None:
    with pytest.raises(WorkloadError, match="batch-dim has"):
        stated_batch(said.split())


def test_names_may_have_colons() -> None:
    assert stated_batch(["input:0:1"]) == (("input:0", 1),)
    assert Workload("m.onnx", batch_dims=()).label == "m (no batch)"
