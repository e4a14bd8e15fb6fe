"""Constant folding and expansion are bounded before they start: a small file takes little time and memory."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from dsascape.workloads import WorkloadError, import_onnx
from dsascape.workloads.constants import FOLDED, LARGEST_FOLDED_BYTES, MOST_FOLDED_BYTES, fold
from dsascape.workloads.functions import DEEPEST, MOST_NODES
from tests.workloads.onnx_models import OpenedFiles, model, most_bytes_during, read


def endless_loop() -> onnx.NodeProto:
    """Return a Loop over a known number of steps that no machine finishes."""
    inputs = [
        helper.make_tensor_value_info("step", TensorProto.INT64, []),
        helper.make_tensor_value_info("go", TensorProto.BOOL, []),
        helper.make_tensor_value_info("a", TensorProto.INT64, [1]),
    ]
    outputs = [
        helper.make_tensor_value_info("go", TensorProto.BOOL, []),
        helper.make_tensor_value_info("b", TensorProto.INT64, [1]),
    ]
    body = helper.make_graph([helper.make_node("Add", ["a", "a"], ["b"])], "body", inputs, outputs)
    return helper.make_node("Loop", ["steps", "", "seed"], ["s"], name="forever", body=body)


def functions(nested: int, calls: int, last: str = "Relu") -> ModelProto:
    """Return a model of ``nested`` functions, each calling the one before ``calls`` times; the first is ``last``."""
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    made = []
    for number in range(nested):
        kind, domain, times = (f"f{number - 1}", "own", calls) if number else (last, "own" if "f" in last else "", 1)
        names = ["a", *(f"t{place}" for place in range(1, times)), "b"]
        body = [
            helper.make_node(kind, [names[place]], [names[place + 1]], domain=domain) for place in range(times)
        ]
        made.append(helper.make_function("own", f"f{number}", ["a"], ["b"], body, imports))
    call = helper.make_node(f"f{nested - 1}", ["x"], ["y"], name="call", domain="own")
    built = model(call, inputs={"x": [2]})
    del built.opset_import[:]
    built.opset_import.extend(imports)
    built.functions.extend(made)
    return built


class TestFolding:
    @pytest.mark.parametrize("kind", ["Loop", "Scan", "If", "SequenceMap", "RandomNormal", "Conv", "Einsum"])
    def test_only_listed_operators_are_computed(self, kind: str) -> None:
        assert kind not in FOLDED
        assert fold(helper.make_node(kind, [], ["y"]), {}, [], 18) is None

    def test_a_loop_over_known_values_is_refused_and_never_run(self) -> None:
        built = model(
            endless_loop(),
            helper.make_node("Reshape", ["x", "s"], ["y"]),
            inputs={"x": [2]},
            steps=np.array(2**62),
            seed=np.array([0]),
        )

        assert len(built.SerializeToString()) < 400
        with pytest.raises(WorkloadError, match=r"^test: node 'forever' \(Loop\) is not supported"):
            read(built)

    @pytest.mark.parametrize("kind", ["Add", "Equal", "Where", "Pow", "Less", "Max"])
    def test_a_column_and_a_row_are_not_multiplied_out(self, kind: str) -> None:
        """60,000 x 60,000 elements of 8 bytes would be 27 GiB."""
        operands = ["known", "column", "row"] if kind == "Where" else ["column", "row"]
        built = model(
            helper.make_node(kind, operands, ["wide"]),
            helper.make_node("Cast", ["wide"], ["w"], to=TensorProto.FLOAT),
            helper.make_node("MatMul", ["x", "w"], ["y"]),
            inputs={"x": [2, 60_000]},
            column=np.ones((60_000, 1), np.float32),
            row=np.ones((1, 60_000), np.float32),
            known=np.array([True]),
        )

        assert most_bytes_during(lambda: read(built)) < 20_000_000
        assert read(built).operations.macs == 2 * 60_000**2

    @pytest.mark.parametrize(
        ("kind", "known"),
        [
            ("Expand", [np.ones((1,), np.float32), np.array([2**31, 2**29])]),
            ("Tile", [np.ones((1, 1), np.float32), np.array([2**20, 2**21])]),
            ("ConstantOfShape", [np.array([2**60])]),
            ("Range", [np.array(0), np.array(2**60), np.array(1)]),
            ("HannWindow", [np.array(2**40)]),
            ("MelWeightMatrix", [np.array(2**40), np.array(-2), np.array(9), np.array(1.0), np.array(2.0)]),
            ("Gather", [np.ones((1, 60_000), np.float32), np.zeros(60_000, np.int64)]),
            ("GatherND", [np.ones((1, 60_000), np.float32), np.zeros((60_000, 1), np.int64)]),
            ("Split", [np.ones(4, np.float32)]),
        ],
    )
    def test_what_would_be_large_is_not_computed(self, kind: str, known: list[np.ndarray]) -> None:
        names = [f"i{place}" for place in range(len(known))]
        attributes: dict[str, Any] = {"num_outputs": 2**40} if kind == "Split" else {}
        node = helper.make_node(kind, names, ["y"], **attributes)

        assert most_bytes_during(lambda: fold(node, attributes, known, 18)) < 1_000_000
        assert fold(node, attributes, known, 18) is None

    def test_the_bound_is_in_bytes_and_that_of_the_whole_network_stops_it_too(self) -> None:
        """65,536 elements of up to 16 bytes are folded, one more is not."""
        node = helper.make_node("ConstantOfShape", ["s"], ["y"])
        most = LARGEST_FOLDED_BYTES // 16

        (folded,) = fold(node, {}, [np.array([most])], 18) or (None,)
        assert folded is not None
        assert folded.size == most
        assert fold(node, {}, [np.array([most + 1])], 18) is None
        assert fold(node, {}, [np.array([most])], 18, room_bytes=16 * most - 1) is None

    def test_many_folds_stay_within_the_bound_of_the_network(self) -> None:
        """Each alone would be kept: 700 x 512 KiB are 350 MiB."""
        folds = [helper.make_node("Add", ["known", "one"], [f"k{n}"]) for n in range(700)]
        keep = [helper.make_node("Gather", ["x", f"k{n}"], [f"y{n}"]) for n in range(700)]
        outputs = tuple(f"y{n}" for n in range(700))
        values: dict[str, Any] = {"known": np.zeros(65_536, np.int64), "one": np.array([1])}
        built = model(*folds, *keep, inputs={"x": [8]}, outputs=outputs, **values)

        assert most_bytes_during(lambda: read(built)) < 1.2 * MOST_FOLDED_BYTES


class TestSubgraphs:
    @pytest.mark.parametrize("kept_in", ["loop", "branch"])
    def test_what_a_body_keeps_outside_the_file_is_not_known(
        self, kept_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The file beside the model holds the shape [2] that would let both networks import."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "outside.bin").write_bytes(np.array([2]).tobytes())
        outside = TensorProto(name="held", data_type=TensorProto.INT64, dims=[1])
        outside.data_location = TensorProto.EXTERNAL
        entry = outside.external_data.add()
        entry.key, entry.value = "location", "outside.bin"
        constant = helper.make_node("Constant", [], ["held"], value=outside)
        node = endless_loop()
        if kept_in == "loop":
            body = node.attribute[0].g
            body.node[0].input[1] = "held"
            body.node.insert(0, constant)
        else:
            result = helper.make_tensor_value_info("held", TensorProto.INT64, [1])
            branch = helper.make_graph([constant], "branch", [], [result])
            node = helper.make_node("If", ["yes"], ["s"], then_branch=branch, else_branch=branch)
        known: dict[str, Any] = {"steps": np.array(1), "seed": np.array([0]), "yes": np.array(True)}
        reshape = helper.make_node("Reshape", ["x", "s"], ["y"], name="shaped")
        (tmp_path / "model.onnx").write_bytes(model(node, reshape, inputs={"x": [2]}, **known).SerializeToString())

        with OpenedFiles() as opened, pytest.raises(WorkloadError, match=r"node 'forever'|node 'shaped'"):
            import_onnx(tmp_path / "model.onnx")
        assert "outside.bin" not in {Path(name).name for name in opened}


class TestFunctions:
    def test_functions_are_written_out(self) -> None:
        assert [op.kind for op in read(functions(nested=4, calls=2)).ops] == ["Relu"] * 8

    def test_a_billion_nodes_are_counted_and_not_made(self) -> None:
        built = functions(nested=31, calls=2)

        assert len(built.SerializeToString()) < 4_000
        refused = rf"^test: its local functions stand for {2**30:,} nodes .* at most {MOST_NODES:,} nodes"
        with pytest.raises(WorkloadError, match=refused):
            read(built)

    def test_a_function_that_calls_itself_is_refused(self) -> None:
        with pytest.raises(WorkloadError, match=r"^test: node 'b' calls the local function 'f2', which calls itself"):
            read(functions(nested=3, calls=1, last="f2"))

    def test_functions_nested_too_deep_are_refused(self) -> None:
        assert len(read(functions(nested=DEEPEST, calls=1)).ops) == 1
        with pytest.raises(WorkloadError, match=rf"at most {DEEPEST} may be nested"):
            read(functions(nested=DEEPEST + 1, calls=1))
