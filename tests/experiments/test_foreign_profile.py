"""Profiles of other tools: which files are read, and which rows stand for which simulated layers."""

import csv
import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, save
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

from dsascape.experiments.results.profile import matched
from dsascape.experiments.results.profile_files import ProfileRow, is_profile, read_profile
from dsascape.experiments.results.snapshot import KeptLayer
from tests.experiments.terminal import Terminal

LAYERS = [KeptLayer("r1", 0.3, "ddr", ("conv1", "relu1")), KeptLayer("r2", 0.2, "ddr", ("conv2", "relu2")),
          KeptLayer("sum", 0.1, "ddr", ("add",))]  # fmt: skip


def record(path: Path) -> str:
    """Write the record of a simulated network of one layer."""
    figures = {"model": "net", "hardware": "machine", "policy": "unfused", "batch": 1, "dtype": "fp32", "energy_j": 1.0}
    layers = [{"layer": "r1", "critical_s": 1.0, "limited_by": "ddr", "operators": ["conv1", "relu1"]}]
    path.write_text(json.dumps(figures | {"latency_s": 1.0, "layers": layers}))
    return str(path)


class TestProfile:
    @pytest.mark.parametrize(
        ("rows", "groups"),
        [
            ({"conv1": 1.0}, [(("r1",), ("conv1",))]),
            ({"r1": 1.0}, [(("r1",), ("r1",))]),
            ({"conv1": 1.0, "relu1": 0.5}, [(("r1",), ("conv1", "relu1"))]),
            ({"conv1 + relu1": 1.0, "add": 0.2}, [(("r1",), ("conv1 + relu1",)), (("sum",), ("add",))]),
            ({"conv1 + relu1 + conv2 + relu2": 1.0}, [(("r1", "r2"), ("conv1 + relu1 + conv2 + relu2",))]),
            ({"conv1_kernel_time": 1.0, "fused conv2_nchwc_kernel_time": 0.5},
             [(("r1",), ("conv1_kernel_time",)), (("r2",), ("fused conv2_nchwc_kernel_time",))]),
            ({"PWN(relu2, add)": 1.0}, [(("r2", "sum"), ("PWN(relu2, add)",))]),
            ({"conv10": 1.0, "Reformat": 1.0}, []),
            ({"{ForeignNode[conv1...add]}": 1.0}, [(("r1", "r2", "sum"), ("{ForeignNode[conv1...add]}",))]),
            ({"{ForeignNode[weight + relu1...conv2 + relu2]}": 1.0},
             [(("r1", "r2"), ("{ForeignNode[weight + relu1...conv2 + relu2]}",))]),
            ({"conv1 + {ForeignNode[relu2...add]}": 1.0},
             [(("r1", "r2", "sum"), ("conv1 + {ForeignNode[relu2...add]}",))]),
            ({"{ForeignNode[weight...add]}": 1.0}, []),  # where it begins is not known
        ],
    )  # fmt: skip
    def test_rows_are_matched_by_names_of_tensors_and_operators(
        self, rows: dict[str, float], groups: list[tuple[tuple[str, ...], tuple[str, ...]]]
    ) -> None:
        found = matched(LAYERS, [ProfileRow(name, seconds) for name, seconds in rows.items()])

        assert [(group.layers, group.rows) for group in found.groups] == groups

    @pytest.mark.parametrize("copied", ["conv1", "conv1 + relu1", "PWN(conv1, relu1)", "other + add"])
    @pytest.mark.parametrize(
        "wording", ["Reformatting CopyNode for Input Tensor 0 to {}", "Reformatting CopyNode for Output Tensor 1 to {}",
                    "copied from {}", "{} copy"],
    )  # fmt: skip
    def test_a_copy_beside_a_layer_does_not_count_as_the_layer(self, wording: str, copied: str) -> None:
        row = ProfileRow(wording.format(copied), 1.0)

        found = matched(LAYERS, [row, ProfileRow("conv1 + relu1", 2.0)])

        assert [group.rows for group in found.groups] == [("conv1 + relu1",)]
        assert found.only_profiled == (row,)

    @given(st.lists(st.sampled_from(["conv1", "relu1", "conv2", "add", "r2", "other", "x + add"]), unique=True))
    def test_all_seconds_are_in_one_group_or_in_none(self, names: list[str]) -> None:
        rows = [ProfileRow(name, 2.0**-number) for number, name in enumerate(names)]

        found = matched(LAYERS, rows)

        rest = sum(each.seconds for each in found.only_profiled)
        assert sum(group.profiled_s for group in found.groups) + rest == sum(each.seconds for each in rows)
        simulated = sum(group.simulated_s for group in found.groups) + sum(x.critical_s for x in found.only_simulated)
        assert simulated == pytest.approx(0.6)
        in_groups = [name for group in found.groups for name in group.rows]
        assert sorted([*in_groups, *(each.layer for each in found.only_profiled)]) == sorted(names)

    def test_of_a_simulated_network_matches_its_operators(self, tmp_path: Path, terminal: Terminal) -> None:
        data = terminal.json("simulate", "squeezenet", "--hardware", "stcp920", "--policy", "fixed-pattern")
        (tmp_path / "record.json").write_text(json.dumps(data))
        rows: list[tuple[object, ...]] = [("layer", "seconds", "note"), ("Memcpy", 1e-6, "")]
        for each in data["layers"]:
            share_s = each["critical_s"] / max(len(each["operators"]), 1)
            rows += [(operator, share_s / 2, "x") for operator in each["operators"]]
        profile = tmp_path / "profile.csv"
        with profile.open("w", newline="") as file:
            csv.writer(file).writerows(rows)

        found = terminal.json("compare", str(tmp_path / "record.json"), str(profile))

        assert len(found["groups"]) == sum(bool(each["operators"]) for each in data["layers"])
        assert all(group["ratio"] == pytest.approx(2) for group in found["groups"] if group["profiled_s"])
        assert [each["layer"] for each in found["only_profiled"]] == ["Memcpy"]
        assert [each["layer"] for each in found["only_simulated"]] == ["(kernel launches)"]
        text = terminal.out("compare", str(profile), str(tmp_path / "record.json"), "--markdown")
        assert "Only in the profile" in text

    def test_the_profile_of_tensorrt_has_the_mean_of_its_runs(self, tmp_path: Path) -> None:
        entries = [{"count": 100}, {"name": "conv1 + relu1", "timeMs": 10.0, "averageMs": 0.1, "percentage": 100.0}]
        (tmp_path / "p.json").write_text(json.dumps(entries))

        assert is_profile(tmp_path / "p.json")
        (row,) = read_profile(tmp_path / "p.json")
        assert row.layer == "conv1 + relu1"
        assert row.seconds == pytest.approx(1e-4)

    def test_the_profile_of_onnxruntime_is_divided_by_its_runs(self, tmp_path: Path) -> None:
        network = tmp_path / "relu.onnx"
        x, y = (make_tensor_value_info(name, TensorProto.FLOAT, [8]) for name in "xy")
        graph = make_graph([make_node("Relu", ["x"], ["y"], name="relu")], "g", [x], [y])
        save(make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=8), network)
        options = onnxruntime.SessionOptions()
        options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "ran")
        session = onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
        for _ in range(3):
            session.run(None, {"x": np.ones(8, np.float32)})
        path = Path(session.end_profiling())

        (row,) = read_profile(path)

        events = [each for each in json.loads(path.read_text()) if each.get("cat") == "Node"]
        kernels_us = sum(each["dur"] for each in events if each["name"] == "relu_kernel_time")
        assert row.layer == "relu_kernel_time"
        assert row.seconds == pytest.approx(kernels_us * 1e-6 / 3)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[1, 2]", "needs a profile of TensorRT or onnxruntime, or a CSV file"),
            ('[{"name": "conv1", "averageMs": "fast"}]', "entry 1: time has 'fast'; needs a number from 0"),
            ('[{"name": "conv1", "averageMs": -1}]', "entry 1: time has -1"),
            ('[{"averageMs": 1}]', "entry 1: name of the layer is empty"),
            ("[", "is not JSON"),
        ],
    )
    def test_mistakes_in_a_json_profile_are_named(
        self, text: str, message: str, tmp_path: Path, terminal: Terminal
    ) -> None:
        a = record(tmp_path / "a.json")
        (tmp_path / "p.json").write_text(text)

        assert message in terminal.refused("compare", a, str(tmp_path / "p.json"))

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("layer,seconds\nconv1,fast\n", "row 2: time has 'fast'; needs a number from 0"),
            ("layer,seconds\nconv1,1\nconv2,-1\n", "row 3: time has '-1'"),
            ("layer,seconds\nconv1,nan\n", "row 2: time has 'nan'"),
            ("layer,seconds\n,1\n", "row 2: name of the layer is empty"),
            ("layer,seconds\n", "has no rows"),
            ("layer,seconds\nother,1\n", "none of its layers, such as 'other', has the name of"),
        ],
    )
    def test_mistakes_in_a_profile_are_named(self, text: str, message: str, tmp_path: Path, terminal: Terminal) -> None:
        a = record(tmp_path / "a.json")
        (tmp_path / "p.csv").write_text(text)

        assert message in terminal.refused("compare", a, str(tmp_path / "p.csv"))
        assert "needs a JSON record and a profile" in terminal.refused("compare", *[str(tmp_path / "p.csv")] * 2)
