"""Symbolic dimensions of a network's file are set by name, on the command line and in YAML."""

from pathlib import Path

import pytest
from onnx import TensorProto, helper

from dsascape.experiments.question.config import ExperimentError
from dsascape.experiments.question.reading import read_experiment
from tests.experiments.terminal import Terminal

ON_STCP920 = ["--hardware", "stcp920", "--policy", "unfused"]


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """A network of tokens [N, L]."""
    return _written(tmp_path / "tokens.onnx", TensorProto.INT64, ["N", "L"])


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A network of images [N, 3, H, W]."""
    return _written(tmp_path / "image.onnx", TensorProto.FLOAT, ["N", 3, "H", "W"])


def _written(path: Path, element: int, shape: list[int | str]) -> Path:
    entry = helper.make_tensor_value_info("x", element, shape)
    nodes = [
        helper.make_node("Cast", ["x"], ["t"], to=TensorProto.FLOAT),
        helper.make_node("Relu", ["t"], ["y"]),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "test", [entry], [output])
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    path.write_bytes(built.SerializeToString())
    return path


class TestCommandLine:
    def test_a_sequence_is_enough_for_open_tokens(self, terminal: Terminal, tokens: Path) -> None:
        found = terminal.json("simulate", str(tokens), *ON_STCP920, "--sequence", "128")

        assert (found["model"], found["batch"]) == ("tokens-128", 1)

    def test_named_sizes_for_every_command(self, terminal: Terminal, image: Path) -> None:
        sizes = ["--dim", "H=32", "--dim", "W=16"]

        assert terminal.json("models", str(image), *sizes)["activation_bytes"] == 3 * 32 * 16 * 4
        assert terminal.json("simulate", str(image), *ON_STCP920, *sizes)["model"] == "image (H=32, W=16)"
        plan = terminal.json("fuse", str(image), "--policy", "unfused", *sizes)
        assert plan["operators"] == 1  # the cast to FP32 changes nothing

    def test_a_named_batch_is_the_batch(self, terminal: Terminal, tokens: Path) -> None:
        found = terminal.json("simulate", str(tokens), *ON_STCP920, "--dim", "L=8", "--dim", "N=4")

        assert found["batch"] == 4

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (["--dim", "H=32"], ["image.onnx", "'W'", "dimension 3", "--dim W=SIZE"]),
            (["--dim", "H=32", "--dim", "H=16"], ["--dim", "'H'", "twice"]),
            (["--dim", "H"], ["--dim", "'H'", "NAME=SIZE"]),
            (["--dim", "H=many"], ["--dim", "'many'", "whole number"]),
            (["--dim", "D=3", "--dim", "H=1", "--dim", "W=1"], ["no open dimension 'D'", "'H', 'N', 'W'"]),
        ],
    )
    def test_mistakes_are_named(self, terminal: Terminal, image: Path, given: list[str], said: list[str]) -> None:
        message = terminal.refused("simulate", str(image), *ON_STCP920, *given)

        assert all(part in message for part in said)


class TestExperimentFiles:
    def test_sizes_by_name(self, tmp_path: Path, image: Path) -> None:
        path = tmp_path / "study.yaml"
        path.write_text(
            "workloads: [{model: image.onnx, dims: {W: 16, H: 32}}, {model: image.onnx, dims: {H: 8, W: 8}}]\n"
            "hardware: stcp920\npolicies: [unfused]\n"
        )
        experiment, grid = read_experiment(path)
        points = grid.chosen(experiment.search)

        assert [point.workload.label for point in points] == ["image (H=32, W=16)", "image (H=8, W=8)"]
        assert len({point.key for point in points}) == 2

    @pytest.mark.parametrize(
        ("dims", "said"),
        [("{H: 32}", ["workloads.0", "'W'"]), ("{H: -1}", ["workloads.0.dims.H"]), ("{Q: 1}", ["open dimension 'Q'"])],
    )
    def test_mistakes_are_named(self, tmp_path: Path, image: Path, dims: str, said: list[str]) -> None:
        path = tmp_path / "study.yaml"
        path.write_text(
            f"workloads: [{{model: image.onnx, dims: {dims}}}]\nhardware: stcp920\npolicies: [unfused]\n"
        )

        with pytest.raises(ExperimentError) as caught:
            read_experiment(path)
        assert all(part in str(caught.value) for part in said)
