"""A network at another batch, sequence length or image size than that of its file."""

import pickle

import pytest
from onnx import TensorProto, helper

from dsascape.workloads import WorkloadError, exported_names, load_network
from tests.workloads.onnx_models import model, read, relu

SEQUENCE_NETWORKS = ("bert-base", "bert-tiny", "tinybert", "distilbert", "mobilebert", "albert", "gpt2")
FIXED_BATCH = ("faster-rcnn", "mask-rcnn", "faster-rcnn-raw", "mask-rcnn-raw")


class TestSizes:
    @pytest.mark.sampled(12)
    @pytest.mark.parametrize("name", exported_names())
    def test_twice_the_batch_is_twice_the_work(self, name: str) -> None:
        one = load_network(name)
        if name in FIXED_BATCH:
            pytest.skip("one image and its regions")
        two = one.with_batch(2 * one.batch)

        assert two.operations.macs == 2 * one.operations.macs
        assert two.batch == 2 * one.batch
        assert len(two.ops) == len(one.ops)
        assert two.activation_bytes == pytest.approx(2 * one.activation_bytes, rel=0.02)

    @pytest.mark.parametrize("name", SEQUENCE_NETWORKS)
    def test_half_the_sequence_is_less_than_half_the_work(self, name: str) -> None:
        whole = load_network(name)
        length = next(t.shape[1] for t in whole.tensors.values() if t.role == "input")
        half = load_network(name, sequence=length // 2)

        assert half.operations.macs < whole.operations.macs / 2
        assert half.operations.macs > whole.operations.macs / 4
        assert len(half.ops) == len(whole.ops)

    def test_the_lengths_of_bert_differ_in_the_square_of_attention(self) -> None:
        """12 x (12 x 768^2 x n + 2 x 768 x n^2) multiply-accumulates."""
        for name, n in (("bert-base-128", 128), ("bert-base-256", 256), ("bert-base-512", 512)):
            assert load_network(name).operations.macs == pytest.approx(
                12 * (12 * 768**2 * n + 2 * 768 * n**2), rel=1e-3
            )

    def test_batch_and_sequence_together(self) -> None:
        graph = load_network("bert-tiny", batch=3, sequence=32)

        assert graph.with_batch(6).operations.macs == 2 * graph.operations.macs
        assert graph.operations.macs == 3 * load_network("bert-tiny", sequence=32).operations.macs

    @pytest.mark.parametrize("name", ["mobilenet-v2", "shufflenet-v2", "squeezenet"])
    def test_images_of_half_the_side_are_about_a_quarter_of_the_work(self, name: str) -> None:
        whole, half = load_network(name), load_network(name, image=112)

        assert [half.tensors[entry].shape for entry in half.inputs] == [(1, 3, 112, 112)]
        assert len(half.ops) == len(whole.ops)
        assert half.operations.macs == pytest.approx(whole.operations.macs / 4, rel=0.15)
        assert half.with_batch(3).operations.macs == 3 * half.operations.macs

    def test_position_tables_follow_the_images(self) -> None:
        graph = load_network("vit-b16", image=160)  # 10 x 10 patches and the class token

        assert {t.shape[1] for t in graph.tensors.values() if len(t.shape) == 3 and t.shape[-1] == 768} >= {101}

    def test_a_network_that_does_not_follow_to_an_image_says_so(self) -> None:
        with pytest.raises(WorkloadError, match=r"vgg16: node 'node_linear'.*cannot be resized to images of 112 x 112"):
            load_network("vgg16", image=112)
        with pytest.raises(WorkloadError, match="bert-tiny: has no input of square images"):
            load_network("bert-tiny", image=112)

    def test_an_open_batch_is_one_unless_asked(self) -> None:
        built = model(helper.make_node("Relu", ["x"], ["y"]), inputs={"x": ["N", 3]})

        assert read(built).tensors["y"].shape == (1, 3)
        assert read(built, batch=5).tensors["y"].shape == (5, 3)
        assert read(built).with_batch(7).tensors["y"].shape == (7, 3)

    def test_an_open_size_elsewhere_is_refused(self) -> None:
        built = model(helper.make_node("Relu", ["x"], ["y"]), inputs={"x": [1, 3, "H"]})

        with pytest.raises(WorkloadError, match=r"test: input 'x' has an open size 'H' in dimension 2; .* --dim H="):
            read(built)

    def test_an_open_size_is_given_by_its_name_wherever_it_stands(self) -> None:
        add = helper.make_node("Add", ["x", "z"], ["y"])
        built = model(add, inputs={"x": ["N", 3, "H", "W"], "z": ["H", "W"]})

        assert read(built, dims={"H": 5, "W": 7}).tensors["y"].shape == (1, 3, 5, 7)
        assert read(built, dims={"H": 5, "W": 7, "N": 2}).with_batch(6).tensors["y"].shape == (6, 3, 5, 7)
        assert read(built, dims={"H": 5, "W": 7}, batch=4).batch == 4

    def test_one_without_a_name_is_called_after_its_place(self) -> None:
        built = model(helper.make_node("Relu", ["x"], ["y"]), inputs={"x": [1, None]})

        with pytest.raises(WorkloadError, match=r"open size 'x\[1\]' in dimension 1"):
            read(built)
        assert read(built, dims={"x[1]": 9}).tensors["y"].shape == (1, 9)

    def test_the_sequence_is_what_its_name_stands_for_elsewhere(self) -> None:
        """Tokens [N, L] and a mask [N, L, L]: the length of the tokens is that of the mask."""
        built = model(
            helper.make_node("Cast", ["x"], ["t"], to=TensorProto.FLOAT),
            helper.make_node("MatMul", ["m", "t"], ["y"]),
            inputs={"x": ["N", "L", 2], "m": ["N", "L", "L"]},
        )
        built.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64

        assert read(built, sequence=6).tensors["y"].shape == (1, 6, 2)

    def test_a_name_that_the_file_does_not_have_is_refused_with_those_that_it_has(self) -> None:
        built = model(helper.make_node("Relu", ["x"], ["y"]), inputs={"x": ["N", "H"]})

        with pytest.raises(WorkloadError, match=r"^test: has no open dimension 'Q'; open dimensions: 'H', 'N'"):
            read(built, dims={"H": 2, "Q": 3})
        with pytest.raises(WorkloadError, match=r"^test: dim H has -1; needs a whole number from 0"):
            read(built, dims={"H": -1})

    @pytest.mark.parametrize("option", ["batch", "sequence", "image"])
    def test_a_size_below_one_is_refused(self, option: str) -> None:
        with pytest.raises(WorkloadError, match=f"{option} has 0; needs a whole number from 1"):
            read(relu(), **{option: 0})

    def test_a_sequence_needs_tokens(self) -> None:
        with pytest.raises(WorkloadError, match="no input of tokens"):
            read(relu(), sequence=4)

    def test_a_pickled_graph_still_changes_its_batch(self) -> None:
        graph = pickle.loads(pickle.dumps(load_network("squeezenet")))

        assert graph.with_batch(4).operations.macs == 4 * graph.operations.macs
