"""Predicted times in the metadata of an ONNX file's nodes: each layer's counted once."""

import json
from pathlib import Path

import onnx
import pytest

from tests.experiments.onnx_block import block
from tests.experiments.terminal import Terminal


def notes(node: onnx.NodeProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in node.metadata_props}


def told(model: onnx.ModelProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in model.metadata_props}


def annotate(terminal: Terminal, model: str, out: Path, policy: str = "fixed-pattern") -> onnx.ModelProto:
    terminal.out("simulate", model, "--hardware", "kirin990", "--policy", policy, "--annotate", str(out))
    return onnx.load(str(out), load_external_data=False)


def test_nodes_have_the_time_of_their_kernel_which_counts_once(terminal: Terminal, tmp_path: Path) -> None:
    record = terminal.json("simulate", str(block(tmp_path)), "--hardware", "kirin990", "--policy", "fixed-pattern")
    model = annotate(terminal, str(tmp_path / "block.onnx"), tmp_path / "out.onnx")
    conv, relu, add = map(notes, model.graph.node)

    assert conv["dsascape.layer"] == relu["dsascape.layer"] == add["dsascape.layer"] == record["layers"][0]["name"]
    assert conv["dsascape.time"].endswith(f"in kernel {record['layers'][0]['name']} (3 nodes)")
    seconds = [float(node["dsascape.seconds"]) for node in (conv, relu, add) if "dsascape.seconds" in node]
    assert seconds == [record["latency_s"]]
    assert float(relu["dsascape.layer_seconds"]) == record["latency_s"]


@pytest.mark.parametrize("network", ["dcgan", "bert-tiny"])
@pytest.mark.parametrize("policy", ["unfused", "fixed-pattern"])
def test_times_of_nodes_add_up_to_the_latency(network: str, policy: str, terminal: Terminal, tmp_path: Path) -> None:
    model = annotate(terminal, network, tmp_path / "out.onnx", policy)
    facts = told(model)
    seconds = [float(notes(node).get("dsascape.seconds", 0)) for node in model.graph.node]

    assert sum(seconds) == pytest.approx(float(facts["dsascape.latency_seconds"]))
    layers = json.loads(facts["dsascape.layers"])
    assert sum(layer["seconds"] for layer in layers) == pytest.approx(sum(seconds))
    assert (facts["dsascape.hardware"], facts["dsascape.policy"]) == ("kirin990", policy)


def test_an_older_file_has_them_at_the_model_and_in_descriptions(terminal: Terminal, tmp_path: Path) -> None:
    model = annotate(terminal, str(block(tmp_path, ir_version=8)), tmp_path / "out.onnx")

    assert [notes(node) for node in model.graph.node] == [{}, {}, {}]
    assert model.graph.node[0].doc_string.startswith("dsascape.")
    assert model.graph.node[1].doc_string == "an activation"
    assert json.loads(told(model)["dsascape.layers"])[0]["nodes"] == ["conv", "relu", "add"]


def test_annotating_again_replaces_what_was_written(terminal: Terminal, tmp_path: Path) -> None:
    first = annotate(terminal, str(block(tmp_path)), tmp_path / "first.onnx", "unfused")
    second = annotate(terminal, str(tmp_path / "first.onnx"), tmp_path / "second.onnx")

    assert [len(notes(node)) for node in first.graph.node] == [4, 4, 4]
    assert len(told(first)) == len(told(second))
    assert "in kernel #0 Conv+Relu+Add" in notes(second.graph.node[2])["dsascape.time"]


def test_the_rest_of_the_file_stays(terminal: Terminal, tmp_path: Path) -> None:
    path = block(tmp_path)
    model = annotate(terminal, str(path), tmp_path / "out.onnx")
    onnx.checker.check_model(model)
    for node in model.graph.node:
        del node.metadata_props[:]
    del model.metadata_props[:]

    assert model == onnx.load(str(path))


def test_weights_in_other_files_keep_their_folder(terminal: Terminal, tmp_path: Path) -> None:
    path = block(tmp_path, external=True)
    (tmp_path / "elsewhere").mkdir()
    argv = "simulate", str(path), "--hardware", "kirin990", "--policy", "unfused", "--annotate"

    assert "needs the same folder" in terminal.refused(*argv, str(tmp_path / "elsewhere" / "out.onnx"))
    assert "predicted times of 3 nodes written" in terminal.out(*argv, str(tmp_path / "out.onnx"))
