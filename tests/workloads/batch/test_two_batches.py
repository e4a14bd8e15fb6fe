"""Two sizes that a file calls a batch stay two; what a user states stays; a branch without a batch counts once."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, helper

from dsascape.workloads import Graph, WorkloadError
from dsascape.workloads.batch.counting import operations_at
from tests.tiers import examples
from tests.workloads.batch.towers import Towers, figures_of, towers, written
from tests.workloads.onnx_models import model, read

WEIGHT = np.ones((8, 8), np.float32)
CLIP = Towers("shared weight", "features", "transposed operand", None, has_scale=False)
"""By hand: 128 multiply-accumulates for each image, 64 for each text, 8 for each of both."""


def clip(images: str = "image_batch_size", texts: str = "text_batch_size") -> ModelProto:
    return written(CLIP, images, texts)


def added(first: str, second: str) -> ModelProto:
    """An encoder and a decoder whose results are added."""
    nodes = (
        helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("MatMul", ["z", "w"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    )  # fmt: skip
    return model(*nodes, inputs={"x": [first, 8], "z": [second, 8]}, w=WEIGHT)


def macs(built: ModelProto, **options: Any) -> int:
    return read(built, **options).operations.macs


class TestTwoTowers:
    def test_stated_sizes_stay(self) -> None:
        graph = read(clip(), dims={"image_batch_size": 2, "text_batch_size": 1000})

        assert (graph.batch, graph.batch_dims) == (2, (("img", 0),))
        assert graph.operations.macs == 2 * 128 + 1000 * 64 + 2 * 1000 * 8
        assert graph.with_batch(1).operations.macs == 128 + 1000 * 64 + 1000 * 8

    def test_the_batch_is_the_size_that_nobody_states(self) -> None:
        of_images = read(clip(), batch=3, dims={"text_batch_size": 5})
        of_texts = read(clip(), batch=3, dims={"image_batch_size": 5})

        assert (of_images.batch_dims, of_texts.batch_dims) == ((("img", 0),), (("txt", 0),))
        assert of_images.operations.macs == 3 * 128 + 5 * 64 + 15 * 8
        assert of_texts.operations.macs == 5 * 128 + 3 * 64 + 15 * 8

    def test_so_it_is_where_the_other_has_that_size_too(self) -> None:
        assert read(clip(), batch=3, dims={"image_batch_size": 3}).batch_dims == (("txt", 0),)

    def test_a_batch_that_may_be_either_is_refused_with_what_to_state(self) -> None:
        with pytest.raises(WorkloadError, match=r"may be .*two sizes; state one, such as --dim text_batch_size="):
            read(clip(), batch=4)

    def test_another_batch_than_the_stated_one_is_refused(self) -> None:
        with pytest.raises(WorkloadError, match=r"'image_batch_size' is stated as 1 .* of which 4 are requested"):
            read(clip(), batch=4, dims={"image_batch_size": 1, "text_batch_size": 4000})

    def test_the_same_batch_as_the_stated_one_is_taken(self) -> None:
        assert read(clip(), batch=4, dims={"image_batch_size": 4, "text_batch_size": 9}).batch == 4

    def test_both_as_one_batch_are_refused(self) -> None:
        with pytest.raises(WorkloadError, match=r"\(Gemm\) combines each of its elements with every other"):
            read(clip(), batch_dims={"img": 0, "txt": 0})

    def test_open_sizes_without_a_name_are_two_as_well(self) -> None:
        unnamed = written(CLIP, None, None)

        assert macs(unnamed, batch=4, dims={"txt[0]": 9}) == 4 * 128 + 9 * 64 + 36 * 8
        with pytest.raises(WorkloadError, match=r"open size 'txt\[0\]' in dimension 0 that is not the batch"):
            read(unnamed, batch=4)


class TestOneName:
    def test_a_size_that_is_multiplied_with_itself_is_kept_and_not_split(self) -> None:
        graph = read(clip("N", "N"), batch=6)

        assert graph.operations.macs == 6 * 128 + 6 * 64 + 36 * 8
        assert (graph.batch, graph.batch_dims) == (6, ())
        assert "combines each of its elements with every other" in graph.no_batch

    def test_names_that_must_agree_are_one_batch(self) -> None:
        graph = read(added("encoder_batch", "decoder_batch"), batch=6)

        assert (graph.batch_dims, graph.operations.macs) == ((("x", 0), ("z", 0)), 2 * 6 * 64)

    def test_unless_they_are_stated_apart(self) -> None:
        graph = read(added("encoder_batch", "decoder_batch"), dims={"encoder_batch": 6, "decoder_batch": 1})

        assert (graph.batch, graph.batch_dims, graph.operations.macs) == (6, (("x", 0),), 7 * 64)


class TestTheFilesOwnBatch:
    def rigid(self, batch: int) -> ModelProto:
        """A reshape that leaves no room for another batch."""
        nodes = helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("MatMul", ["r", "w"], ["y"])
        weight = np.ones((4 * batch, 8), np.float32)
        return model(*nodes, inputs={"x": [batch, 8]}, s=np.array([2, 4 * batch]), w=weight)

    def test_is_accepted_where_it_cannot_change(self) -> None:
        graph = read(self.rigid(4), batch=4)

        assert (graph.batch, graph.operations.macs) == (4, 2 * 16 * 8)
        assert graph.no_batch
        assert read(self.rigid(4)).batch == 1
        with pytest.raises(WorkloadError, match="no batch that can become 8"):
            read(self.rigid(4), batch=8)

    @pytest.mark.parametrize(("own", "wanted"), [(1, 4), (4, 4), (4, 1), (4, 6)])
    def test_groups_that_are_the_images_follow(self, own: int, wanted: int) -> None:
        net = Towers("groups", None, "product", None, has_scale=False)

        assert macs(written(net, own, 0), batch=wanted) == figures_of(written(net, wanted, 0)).macs


class TestABranchWithoutABatch:
    def test_counts_once_at_every_batch(self) -> None:
        graph = read(written(Towers("shared weight", None, "product", "product", has_scale=False), 1, 0))

        assert [operations_at(graph, batch).macs for batch in (1, 4)] == [576 + 128 + 144, 576 + 4 * (128 + 144)]
        assert operations_at(graph, 4) == graph.with_batch(4).operations


@given(
    net=towers(), sizes=st.tuples(st.sampled_from([1, 2, 3, 4, 5, 8]), st.sampled_from([1, 2, 3, 8, 9])),
    way=st.sampled_from(["names", "batch", "no names", "other file"]), own=st.integers(1, 4),
)  # fmt: skip
@settings(deadline=None, max_examples=examples(400))
def test_work_and_bytes_are_those_of_the_file_that_an_exporter_writes_at_these_sizes(
    net: Towers, sizes: tuple[int, int], way: str, own: int
) -> None:
    images, texts = sizes
    wanted = figures_of(written(net, images, texts))
    graph = requested(net, images, texts, "other file" if net.bakes_images else way, own)

    assert graph.operations.macs == wanted.macs
    assert sum(graph.tensors[name].elements for name in graph.inputs) == wanted.input_elements
    if net.images != "queries":  # those are folded to a constant of their own for each image
        assert graph.parameters == wanted.weight_elements
    for batch in (1, 6):
        other = graph.with_batch(batch)
        assert other.operations == operations_at(graph, batch)
        assert other.operations.macs == figures_of(written(net, batch, texts)).macs


def requested(net: Towers, images: int, texts: int, way: str, own: int) -> Graph:
    """Return the network at its two sizes, requested in one of several ways of a file that has others or none."""
    stated = {} if net.texts is None else {"text_batch": texts}
    dims = {"img": int(net.images == "time first")}
    if way == "names":
        return read(written(net, "image_batch", "text_batch"), dims={"image_batch": images, **stated})
    if way == "batch":
        return read(written(net, "image_batch", "text_batch"), batch=images, dims=stated)
    if way == "no names":
        open_texts = {} if net.texts is None else {"txt[0]": texts}
        return read(written(net, None, None), batch=images, dims=open_texts, batch_dims=dims)
    return read(written(net, own, texts), batch=images, batch_dims=None if dims == {"img": 0} else dims)
