"""Any ONNX file imports, or says in one message which file, which node and what to do."""

import contextlib
import gc
import itertools
import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from dsascape.workloads import WorkloadError, import_onnx, load_network
from dsascape.workloads.zoo import zoo_entry
from tests.workloads.mutations import bounded
from tests.workloads.onnx_models import OpenedFiles, model, most_bytes_during, read, relu


class TestWhatIsFolded:
    def test_shape_arithmetic_disappears(self) -> None:
        built = model(
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Gather", ["s", "zero"], ["n"]),
            helper.make_node("Concat", ["n", "rest"], ["target"], axis=0),
            helper.make_node("Reshape", ["x", "target"], ["y"]),
            inputs={"x": [2, 3, 4]},
            zero=np.array([0]),
            rest=np.array([-1]),
        )

        assert [op.kind for op in read(built).ops] == ["Reshape"]
        assert read(built, batch=5).tensors["y"].shape == (5, 12)

    @pytest.mark.parametrize(("known", "kind"), [(True, "Relu"), (False, "Neg")])
    def test_a_known_condition_leaves_its_branch(self, known: bool, kind: str) -> None:
        def branch(op_type: str) -> onnx.GraphProto:
            outputs = [helper.make_tensor_value_info("r", TensorProto.FLOAT, None)]
            return helper.make_graph([helper.make_node(op_type, ["x"], ["r"])], op_type, [], outputs)

        node = helper.make_node("If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg"))

        assert [op.kind for op in read(model(node, inputs={"x": [2]}, c=np.array(known))).ops] == [kind]

    def test_a_function_of_the_standard_is_written_out(self) -> None:
        node = helper.make_node("CenterCropPad", ["x", "size"], ["y"], name="crop")
        graph = read(model(node, inputs={"x": [6, 8]}, size=np.array([4, 10])))

        assert graph.tensors["y"].shape == (4, 10)
        assert {op.kind for op in graph.ops} <= {"Pad", "Slice"}
        assert all(op.name.startswith("crop/") for op in graph.ops)

    def test_outputs_nobody_reads_are_dropped_and_the_others_keep_their_place(self) -> None:
        node = helper.make_node("Split", ["x", "sizes"], ["a", "b", "c"], axis=0)
        graph = read(model(node, inputs={"x": [9]}, outputs=("c",), sizes=np.array([2, 3, 4])))

        assert graph.ops[0].outputs == ("c",)
        nest = graph.ops[0].nests[0]
        assert nest.input_region(nest.reads[0], ((0, 1),)) == ((5, 6),)


REFUSED: dict[str, tuple[Callable[[], ModelProto], str]] = {
    "custom domain": (
        lambda: model(
            helper.make_node("Warp", ["x"], ["y"], name="w1", domain="com.acme"), inputs={"x": [2]}
        ),
        r"'w1' \(Warp\) is of the custom domain 'com.acme'.*register a loop nest for 'com.acme::Warp'",
    ),
    "unknown operator": (
        lambda: model(helper.make_node("Warp", ["x"], ["y"], name="w1"), inputs={"x": [2]}),
        r"'w1' \(Warp\) is not an operator of ONNX opset 18",
    ),
    "operator written otherwise": (
        lambda: model(helper.make_node("softMax", ["x"], ["y"], name="s1"), inputs={"x": [2]}),
        r"'s1' \(softMax\) is not an operator of ONNX opset 18 \(did you mean Softmax\?\)",
    ),
    "operator of a later opset": (
        lambda: model(helper.make_node("Gelu", ["x"], ["y"], name="g1"), inputs={"x": [2]}),
        r"'g1' \(Gelu\) is not an operator of ONNX opset 18; it is one from 20 on",
    ),
    "shape from data": (
        lambda: model(helper.make_node("NonZero", ["x"], ["y"], name="nz"), inputs={"x": [2, 3]}),
        r"'nz' \(NonZero\) writes 'y', whose shape \[2, '.*'\] is not known before the network runs; cut",
    ),
    "loop": (
        lambda: model(
            helper.make_node("Loop", ["", "", "x"], ["y"], name="l", body=relu().graph), inputs={"x": [2, 3]}
        ),
        r"'l' \(Loop\) is not supported: loops over sub-graphs",
    ),
    "unknown condition": (
        lambda: model(
            helper.make_node(
                "If", ["x"], ["y"], name="i", then_branch=relu().graph, else_branch=relu().graph
            ),
            inputs={"x": [1]},
        ),
        r"'i' \(If\) has a condition that is not known",
    ),
    "cycle": (
        lambda: model(
            helper.make_node("Add", ["x", "b"], ["a"], name="one"),
            helper.make_node("Relu", ["a"], ["b"], name="two"),
            inputs={"x": [2]},
            outputs=("a",),
        ),
        r"'one' \(Add\) reads 'b', which nothing before it writes: the graph has a cycle or a missing input",
    ),
    "wrong shape": (
        lambda: model(
            helper.make_node("MatMul", ["x", "w"], ["y"], name="m"), inputs={"x": [2, 3], "w": [4, 5]}
        ),
        r"'m' \(MatMul\) does not fit its inputs \[2, 3\], \[4, 5\]",
    ),
    "wrong channels": (
        lambda: model(
            helper.make_node("Conv", ["x", "w"], ["y"], name="c"),
            inputs={"x": [1, 3, 8, 8], "w": [4, 5, 3, 3]},
        ),
        r"'c' \(Conv\).* (channels|fit)",
    ),
    "no operators": (lambda: model(inputs={"x": [2]}), "has no operators"),
    "no inputs": (
        lambda: model(helper.make_node("Relu", ["x"], ["y"]), inputs={}, x=np.ones(3)),
        "has no inputs",
    ),
    "no output": (
        lambda: model(helper.make_node("Relu", ["x"], ["z"]), inputs={"x": [2]}),
        "no output depends on the inputs",
    ),
    "huge shape": (
        lambda: model(
            helper.make_node("Expand", ["x", "s"], ["y"], name="e"), inputs={"x": [1]}, s=np.array([2**50])
        ),
        r"'e' \(Expand\) writes 'y', which has shape .* no machine holds",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_taken_says_which_file_which_node_and_why(name: str) -> None:
    make, message = REFUSED[name]

    with pytest.raises(WorkloadError, match=f"(?s)^test: .*{message}"):
        read(make())


class TestBrokenFiles:
    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(WorkloadError, match=r"gone\.onnx: No such file"):
            import_onnx(tmp_path / "gone.onnx")

    def test_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(WorkloadError, match="is not a file"):
            import_onnx(tmp_path)

    def test_a_truncated_file(self, tmp_path: Path) -> None:
        (tmp_path / "cut.onnx").write_bytes(zoo_entry("squeezenet").read_bytes()[:-100])

        with pytest.raises(WorkloadError, match=r"cut\.onnx: "):
            import_onnx(tmp_path / "cut.onnx")

    def test_random_bytes(self) -> None:
        rng = random.Random(1)
        for size in (0, 1, 10, 1000, 100_000):
            with pytest.raises(WorkloadError, match=r"^model: "):
                import_onnx(rng.randbytes(size))

    @pytest.mark.parametrize("location", ["weights.bin", "../../../etc/passwd", "/etc/passwd"])
    def test_weights_kept_outside_the_file_are_never_opened(self, location: str, tmp_path: Path) -> None:
        """Only the shape of a weight matters, so a missing or hostile file beside the model is no concern."""
        tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3, 4])
        tensor.data_location = TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", location
        built = model(helper.make_node("MatMul", ["x", "w"], ["y"]), inputs={"x": [2, 3]})
        built.graph.initializer.append(tensor)
        path = tmp_path / "model.onnx"
        path.write_bytes(built.SerializeToString())
        (tmp_path / "weights.bin").write_bytes(bytes(3 * 4 * 4))

        with OpenedFiles() as opened:
            assert import_onnx(path).operations.macs == 2 * 3 * 4
        names = {Path(name).name for name in opened}
        assert path.name in names
        assert not names & {"weights.bin", "passwd"}

    def test_a_shape_kept_outside_the_file_is_refused_by_name(self) -> None:
        tensor = TensorProto(name="s", data_type=TensorProto.INT64, dims=[1])
        tensor.data_location = TensorProto.EXTERNAL
        built = model(helper.make_node("Reshape", ["x", "s"], ["y"], name="r"), inputs={"x": [2, 3]})
        built.graph.initializer.append(tensor)

        with pytest.raises(WorkloadError, match=r"'r' \(Reshape\) .*not known"):
            read(built)

    def test_a_claim_of_two_gigabytes_costs_no_memory(self) -> None:
        tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3, 2**28])
        built = model(helper.make_node("MatMul", ["x", "w"], ["y"]), inputs={"x": [2, 3]})
        built.graph.initializer.append(tensor)

        assert most_bytes_during(lambda: read(built)) < 10_000_000
        assert read(built).operations.macs == 2 * 3 * 2**28

    def test_a_constant_that_would_unfold_to_gigabytes_stays_folded(self) -> None:
        built = model(
            helper.make_node("ConstantOfShape", ["s"], ["w"]),
            helper.make_node("MatMul", ["x", "w"], ["y"]),
            inputs={"x": [2, 3]},
            s=np.array([3, 2**28]),
        )

        assert most_bytes_during(lambda: read(built)) < 10_000_000
        assert read(built).operations.macs == 2 * 3 * 2**28

    @pytest.mark.parametrize("from_a_file", [False, True])
    def test_one_that_needs_more_memory_than_there_is_says_so(self, from_a_file: bool, tmp_path: Path) -> None:
        tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3, 2**24], raw_data=bytes(3 * 2**26))
        built = model(helper.make_node("MatMul", ["x", "w"], ["y"]), inputs={"x": [2, 3]})
        built.graph.initializer.append(tensor)
        path = tmp_path / "model.onnx"
        path.write_bytes(built.SerializeToString())
        source = path if from_a_file else path.read_bytes()

        gc.collect()  # what earlier tests left behind makes room, though not for so much
        with bounded(room_bytes=48 * 2**20), pytest.raises(WorkloadError, match="needs more memory"):
            import_onnx(source)
        assert import_onnx(source).operations.macs == 2 * 3 * 2**24

    def test_one_that_is_larger_than_what_is_free_is_not_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "model.onnx"
        path.write_bytes(relu().SerializeToString())
        monkeypatch.setattr("dsascape.workloads.reimport._free_bytes", lambda: 100)

        with pytest.raises(WorkloadError, match=r"model\.onnx: has \d+ B; needs more memory .* 100 are free"):
            import_onnx(path)

    @pytest.mark.parametrize("name", ["squeezenet", "bert-tiny", "shufflenet-v2-raw", "faster-rcnn"])
    def test_flipped_bytes_import_or_are_refused(self, name: str) -> None:
        data = zoo_entry(name).read_bytes()
        rng = random.Random(name)
        for _ in range(int(os.environ.get("FUZZ_ROUNDS", "40"))):
            broken = bytearray(data)
            for _ in range(rng.choice([1, 3, 20])):
                broken[rng.randrange(len(broken))] = rng.randrange(256)
            with contextlib.suppress(WorkloadError):
                import_onnx(bytes(broken), batch=rng.choice([None, 2]))


class TestOrder:
    @pytest.mark.parametrize("backwards", [False, True])
    def test_thousands_of_nodes_import_in_any_order(self, backwards: bool) -> None:
        names = ["x", *(f"t{place}" for place in range(1, 8000)), "y"]
        nodes = [
            helper.make_node("Relu", [before], [after]) for before, after in itertools.pairwise(names)
        ]
        graph = read(model(*(nodes[::-1] if backwards else nodes), inputs={"x": [2]}))

        assert [op.outputs[0] for op in graph.ops] == names[1:]

    def test_nodes_that_are_in_order_stay_so(self) -> None:
        nodes = [helper.make_node("Relu", ["x"], [name]) for name in ("b", "a", "c")]
        graph = read(model(*nodes, inputs={"x": [2]}, outputs=("a", "b", "c")))

        assert [op.outputs[0] for op in graph.ops] == ["b", "a", "c"]


class TestNames:
    def test_a_path_is_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.onnx"
        path.write_bytes(relu().SerializeToString())

        assert load_network(str(path)).name == "mine"
        assert load_network(path, batch=4).batch == 4

    def test_the_zoo_gives_its_sequence(self) -> None:
        graph = load_network("bert-base-256")

        assert graph.tensors[graph.inputs[0]].shape == (1, 256)

    def test_an_unknown_name_is_answered_with_near_ones(self) -> None:
        with pytest.raises(WorkloadError, match="unknown model 'resnet5'; nearest: resnet50"):
            load_network("resnet5")
