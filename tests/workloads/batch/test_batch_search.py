"""The batch is the dimension along which a network repeats itself; without such a dimension it has no batch."""

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper

from dsascape.workloads import WorkloadError
from tests.workloads.onnx_models import model, read

WEIGHT = np.ones((8, 8), np.float32)


def op(kind: str, inputs: str, output: str, **attributes: Any) -> NodeProto:
    return helper.make_node(kind, inputs.split(), [output], **attributes)


def attention(tokens: int, batch: int) -> ModelProto:
    """Tokens first: scores of every token with every other, apart for each image."""
    return model(
        op("Transpose", "x", "q", perm=[1, 0, 2]), op("Transpose", "x", "k", perm=[1, 2, 0]),
        op("MatMul", "q k", "s"), op("Softmax", "s", "p", axis=-1), op("MatMul", "p q", "y"),
        inputs={"x": [tokens, batch, 8]},
    )  # fmt: skip


def of_integers(built: ModelProto, *names: str) -> ModelProto:
    for entry in built.graph.input:
        if entry.name in names:
            entry.type.tensor_type.elem_type = TensorProto.INT64
    return built


def looked_up(rows: int, words: int) -> ModelProto:
    """A table that comes from outside, and words that are looked up in it."""
    nodes = op("Gather", "t i", "e"), op("MatMul", "e w", "y")
    return of_integers(model(*nodes, inputs={"t": [rows, 8], "i": [1, words]}, w=WEIGHT), "i")


def graph_of_nodes(nodes: int) -> ModelProto:
    mixed = op("MatMul", "a h", "y")
    return model(op("MatMul", "x w", "h"), mixed, inputs={"x": [nodes, 8], "a": [nodes, nodes]}, w=WEIGHT)


def image(channels: int) -> ModelProto:
    weight = np.ones((2, channels, 3, 3), np.float32)
    built = [op("Unsqueeze", "x axis", "i"), op("Conv", "i w", "y")]
    return model(*built, inputs={"x": [channels, 10, 10]}, w=weight, axis=np.array([0]))


def gathered_messages(nodes: int) -> ModelProto:
    """Each of as many edges as nodes takes the features of a node."""
    return of_integers(model(op("Gather", "x e", "y"), inputs={"x": [nodes, 8], "e": [nodes]}), "e")


def recurrent(steps: int, batch: int) -> ModelProto:
    gates = np.ones((1, 24, 8), np.float32)
    return model(
        op("GRU", "x w r", "s", hidden_size=8), op("Relu", "s", "y"), inputs={"x": [steps, batch, 8]}, w=gates, r=gates
    )


FOUND = {
    "the first dimension": (model(op("MatMul", "x w", "y"), inputs={"x": [3, 8]}, w=WEIGHT), 3, (("x", 0),)),
    "tokens come first": (attention(16, 1), 1, (("x", 1),)),
    "tokens come first, four images": (attention(16, 4), 4, (("x", 1),)),
    "steps of a recurrence come first": (recurrent(5, 2), 2, (("x", 1),)),
    "one step of a recurrence": (recurrent(1, 1), 1, (("x", 1),)),
    "words, not the table's rows": (looked_up(50, 4), 1, (("i", 0),)),
    "both inputs": (model(op("Add", "x z", "y"), inputs={"x": [2, 8], "z": [2, 8]}), 2, (("x", 0), ("z", 0))),
    "a scalar beside it": (model(op("Mul", "x z", "y"), inputs={"x": [1, 8], "z": [1]}), 1, (("x", 0),)),
    "a state of another layout": (
        model(op("Unsqueeze", "x a", "s"), op("Concat", "z s", "y", axis=0), inputs={"x": [2, 8], "z": [4, 2, 8]},
              a=np.array([0])),
        2, (("x", 0), ("z", 1)),
    ),
}  # fmt: skip

NONE = {
    "nodes of a graph": (graph_of_nodes(20), r"input 'x' is not a batch: node 'y' \(MatMul\)"),
    "channels of an image": (image(3), r"'x' is not a batch: node 'y' \(Conv\) accepts no other size of it"),
    "nodes that edges choose": (gathered_messages(6), r"'x' is not a batch: node 'y' \(Gather\) chooses its"),
    "tokens without images": (
        model(op("Transpose", "x", "k", perm=[1, 0]), op("MatMul", "x k", "s"), op("MatMul", "s x", "y"),
              inputs={"x": [12, 8]}),
        r"node 's' \(MatMul\) combines each of its elements with every other",
    ),
    "normalised over all": (
        model(op("ReduceMean", "x", "m", keepdims=1), op("Sub", "x m", "y"), inputs={"x": [12, 8]}),
        r"node 'm' \(ReduceMean\) sums over it or compares its elements",
    ),
    "a running sum": (model(op("CumSum", "x a", "y"), inputs={"x": [12, 8]}, a=np.array(0)), r"\(CumSum\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_it_is_found_from_how_it_flows(name: str) -> None:
    built, batch, dims = FOUND[name]
    graph = read(built)

    assert (graph.batch, graph.batch_dims, graph.no_batch) == (batch, dims, "")
    assert read(built, batch=3 * batch).operations == graph.operations * 3
    assert read(built, batch=1).operations * batch == graph.operations


@pytest.mark.parametrize("name", NONE)
def test_where_there_is_none_the_network_has_one_image_and_says_why(name: str) -> None:
    built, reason = NONE[name]
    graph = read(built)

    assert (graph.batch, graph.batch_dims) == (1, ())
    with pytest.raises(WorkloadError, match=reason):
        raise WorkloadError(graph.no_batch)
    with pytest.raises(WorkloadError, match=r"no batch that can become 4: .*--batch-dim"):
        read(built, batch=4)
    with pytest.raises(WorkloadError, match="no batch that can become 4"):
        graph.with_batch(4)


class TestStated:
    def test_a_dimension_that_is_said_to_be_the_batch_is(self) -> None:
        built = model(op("Relu", "x", "y"), inputs={"x": [4, 6]})

        assert read(built).batch_dims == (("x", 0),)
        assert read(built, batch_dims={"x": 1}, batch=12).tensors["y"].shape == (4, 12)

    def test_none_is_none(self) -> None:
        graph = read(model(op("Relu", "x", "y"), inputs={"x": [4, 6]}), batch_dims={})

        assert (graph.batch, graph.batch_dims, graph.no_batch) == (1, (), "the user states that it has none")

    def test_one_that_mixes_is_refused_with_the_operator(self) -> None:
        with pytest.raises(WorkloadError, match=r"test: dimension 0 of input 'x' is not a batch: node 's'"):
            read(attention(16, 1), batch_dims={"x": 0})

    def test_another_input_joins_it(self) -> None:
        graph = read(model(op("Add", "x z", "y"), inputs={"x": [2, 8], "z": [2, 8]}), batch_dims={"z": 0}, batch=5)

        assert {graph.tensors[name].shape for name in graph.inputs} == {(5, 8)}

    @pytest.mark.parametrize(
        ("dims", "message"),
        [({"u": 0}, "names input 'u'; the inputs are: 'x'"), ({"x": 2}, "'x'; it has dimensions 0 to 1")],
    )
    def test_one_that_is_not_there_is_refused(self, dims: dict[str, int], message: str) -> None:
        with pytest.raises(WorkloadError, match=message):
            read(model(op("Relu", "x", "y"), inputs={"x": [4, 6]}), batch_dims=dims)


class TestNames:
    def test_an_open_dimension_called_a_batch_is_one_wherever_it_stands(self) -> None:
        built = model(op("Relu", "x", "y"), inputs={"x": [5, "batch_size", 8]})
        graph = read(built, batch=3)

        assert (graph.batch_dims, graph.tensors["y"].shape) == ((("x", 1),), (5, 3, 8))
        assert graph.with_batch(7).tensors["y"].shape == (5, 7, 8)

    @pytest.mark.parametrize("name", ["seq_len", "num_nodes", "T", "pastLength", "height"])
    def test_one_called_something_else_is_asked_for(self, name: str) -> None:
        with pytest.raises(WorkloadError, match=f"open size '{name}' in dimension 0; give it as --dim {name}="):
            read(model(op("Relu", "x", "y"), inputs={"x": [name, 8]}))

    @pytest.mark.parametrize("name", ["batch", "N", "batchSize", "unk__6", "s0", "decoder_batch", None])
    def test_any_other_first_one_is_one_image_unless_asked(self, name: str | None) -> None:
        built = model(op("Relu", "x", "y"), inputs={"x": [name, 8]})

        assert read(built).batch == 1
        assert read(built, batch=4).tensors["y"].shape == (4, 8)
