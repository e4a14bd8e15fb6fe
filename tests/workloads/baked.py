"""Networks as exported for one batch, with that batch baked into every size.

A network is a list of blocks, each from [batch, tokens, features] to the same; `baked` writes it at any batch, so that
a file rescaled to another batch can be compared with the file that an exporter writes for that batch.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper

from tests.workloads.onnx_models import model

TOKENS, FEATURES, HEADS = 6, 8, 2
DEPTH = FEATURES // HEADS


class Writer:
    """A network being written: its operators, and its constants."""

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.nodes: list[NodeProto] = []
        self.known: dict[str, Any] = {}
        self._random = np.random.default_rng(1)

    def op(self, kind: str, *inputs: str, outputs: int = 1, taken: int = 0, **attributes: Any) -> str:
        """Add an operator; return the name of the output ``taken``, of ``outputs``."""
        names = [f"{kind.lower()}{len(self.nodes)}_{n}" for n in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[taken]

    def weight(self, *shape: int) -> str:
        """Add a weight of random numbers."""
        return self.constant(self._random.standard_normal(shape).astype(np.float32))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def constant(self, value: Any) -> str:
        name = f"c{len(self.known)}"
        self.known[name] = value
        return name


def linear(net: Writer, x: str) -> str:
    return net.op("Add", net.op("MatMul", x, net.weight(FEATURES, FEATURES)), net.weight(FEATURES))


def rows(net: Writer, x: str) -> str:
    """A product of rows: batch and tokens merged, as Gemm needs them."""
    flat = net.op("Reshape", x, net.ints(net.batch * TOKENS, FEATURES))
    product = net.op("Gemm", flat, net.weight(FEATURES, FEATURES))
    return net.op("Reshape", product, net.ints(net.batch, TOKENS, FEATURES))


def attention_by_heads(net: Writer, x: str) -> str:
    """As torch's MultiheadAttention is written: tokens first, the batch merged into the heads."""
    first = net.op("Transpose", x, perm=[1, 0, 2])
    split = net.op("Reshape", first, net.ints(TOKENS, net.batch * HEADS, DEPTH))
    query = net.op("Transpose", split, perm=[1, 0, 2])
    scores = net.op("MatMul", query, net.op("Transpose", split, perm=[1, 2, 0]))
    weights = net.op("Softmax", scores, axis=-1)
    mixed = net.op("Transpose", net.op("MatMul", weights, query), perm=[1, 0, 2])
    flat = net.op("Reshape", mixed, net.ints(TOKENS * net.batch, FEATURES))
    product = net.op("Gemm", flat, net.weight(FEATURES, FEATURES))
    apart = net.op("Reshape", product, net.ints(TOKENS, net.batch, FEATURES))
    return net.op("Transpose", apart, perm=[1, 0, 2])


def attention_in_four_dimensions(net: Writer, x: str) -> str:
    split = net.op("Reshape", x, net.ints(net.batch, TOKENS, HEADS, DEPTH))
    query = net.op("Transpose", split, perm=[0, 2, 1, 3])
    scores = net.op("MatMul", query, net.op("Transpose", split, perm=[0, 2, 3, 1]))
    mask = net.constant(np.zeros((net.batch, 1, TOKENS, TOKENS), np.float32))
    weights = net.op("Softmax", net.op("Add", scores, mask), axis=-1)
    mixed = net.op("Transpose", net.op("MatMul", weights, query), perm=[0, 2, 1, 3])
    return net.op("Reshape", mixed, net.ints(net.batch, -1, FEATURES))


def masked_heads(net: Writer, x: str) -> str:
    """A mask that is repeated for every image and head."""
    first = net.op("Transpose", x, perm=[1, 0, 2])
    split = net.op("Reshape", first, net.ints(TOKENS, net.batch * HEADS, DEPTH))
    query = net.op("Transpose", split, perm=[1, 0, 2])
    scores = net.op("MatMul", query, net.op("Transpose", split, perm=[1, 2, 0]))
    mask = net.constant(np.zeros((net.batch * HEADS, TOKENS, TOKENS), np.float32))
    mixed = net.op("MatMul", net.op("Add", scores, mask), query)
    apart = net.op("Reshape", net.op("Transpose", mixed, perm=[1, 0, 2]), net.ints(TOKENS, net.batch, FEATURES))
    return net.op("Transpose", apart, perm=[1, 0, 2])


def learned_queries(net: Writer, x: str) -> str:
    """Queries repeated to the batch: each image is asked the same."""
    one = np.ones((1, TOKENS, FEATURES), np.float32)
    queries = net.constant(np.repeat(one, net.batch, axis=0))
    scores = net.op("MatMul", queries, net.op("Transpose", x, perm=[0, 2, 1]))
    return net.op("MatMul", net.op("Softmax", scores, axis=-1), x)


def expanded_queries(net: Writer, x: str) -> str:
    queries = net.op("Expand", net.weight(1, TOKENS, FEATURES), net.ints(net.batch, TOKENS, FEATURES))
    return net.op("Add", net.op("MatMul", net.op("MatMul", queries, net.op("Transpose", x, perm=[0, 2, 1])), x), x)


def class_token(net: Writer, x: str) -> str:
    token = net.op("Expand", net.weight(1, 1, FEATURES), net.ints(net.batch, 1, FEATURES))
    joined = net.op("Concat", token, x, axis=1)
    return net.op("Slice", joined, net.ints(1), net.ints(TOKENS + 1), net.ints(1))


def gru(net: Writer, x: str) -> str:
    """A recurrence whose state of zeros has the batch."""
    steps = net.op("Transpose", x, perm=[1, 0, 2])
    state = net.constant(np.zeros((1, net.batch, FEATURES), np.float32))
    gates = net.weight(1, 3 * FEATURES, FEATURES), net.weight(1, 3 * FEATURES, FEATURES)
    whole = net.op("GRU", steps, *gates, "", "", state, hidden_size=FEATURES)
    return net.op("Transpose", net.op("Squeeze", whole, net.ints(1)), perm=[1, 0, 2])


def rnn_of_expanded_state(net: Writer, x: str) -> str:
    """A state of zeros at the batch of the export, expanded to a shape that is computed from the input."""
    steps = net.op("Transpose", x, perm=[1, 0, 2])
    batch = net.op("Gather", net.op("Shape", steps), net.ints(1))
    shape = net.op("Concat", net.ints(1), batch, net.ints(FEATURES), axis=0)
    zeros = net.constant(np.zeros((1, net.batch, FEATURES), np.float32))
    state = net.op("Expand", zeros, shape)
    gates = net.weight(1, FEATURES, FEATURES), net.weight(1, FEATURES, FEATURES)
    whole = net.op("RNN", steps, *gates, "", "", state, hidden_size=FEATURES)
    return net.op("Transpose", net.op("Squeeze", whole, net.ints(1)), perm=[1, 0, 2])


def lstm(net: Writer, x: str) -> str:
    """A recurrence with two states and lengths, all of the batch."""
    steps = net.op("Transpose", x, perm=[1, 0, 2])
    states = [net.constant(np.zeros((1, net.batch, FEATURES), np.float32)) for _ in range(2)]
    lengths = net.constant(np.full(net.batch, TOKENS, np.int32))
    gates = net.weight(1, 4 * FEATURES, FEATURES), net.weight(1, 4 * FEATURES, FEATURES)
    whole = net.op("LSTM", steps, *gates, "", lengths, *states, hidden_size=FEATURES)
    return net.op("Transpose", net.op("Squeeze", whole, net.ints(1)), perm=[1, 0, 2])


def zeros_like_the_batch(net: Writer, x: str) -> str:
    zeros = net.op("ConstantOfShape", net.ints(net.batch, TOKENS, FEATURES))
    return net.op("Add", net.op("Relu", x), zeros)


def whole_slice(net: Writer, x: str) -> str:
    return net.op("Relu", net.op("Slice", x, net.ints(0, 0), net.ints(net.batch, TOKENS), net.ints(0, 1)))


def resized(net: Writer, x: str) -> str:
    image = net.op("Reshape", x, net.ints(net.batch, FEATURES, TOKENS, 1))
    sizes = net.ints(net.batch, FEATURES, 2 * TOKENS, 1)
    large = net.op("Resize", image, "", "", sizes, mode="nearest")
    pooled = net.op("AveragePool", large, kernel_shape=[2, 1], strides=[2, 1])
    return net.op("Reshape", pooled, net.ints(net.batch, TOKENS, FEATURES))


def scaled_by_image(net: Writer, x: str) -> str:
    """Each image divided by its largest value."""
    largest = net.op("ReduceMax", x, net.ints(1, 2), keepdims=1)
    return net.op("Div", x, net.op("Expand", largest, net.ints(net.batch, TOKENS, FEATURES)))


def twice_the_batch(net: Writer, x: str) -> str:
    """With and without a condition in one batch of twice the size, as diffusion models run."""
    both = net.op("MatMul", net.op("Concat", x, x, axis=0), net.weight(FEATURES, FEATURES))
    split = net.op("Split", both, net.ints(net.batch, net.batch), outputs=2)
    return net.op("Add", split, net.nodes[-1].output[1])


def modulated(net: Writer, x: str) -> str:
    """A convolution with weights of each image's own: every image is a group."""
    own = net.op("Reshape", net.op("ReduceMean", x, net.ints(2)), net.ints(net.batch, 1, TOKENS, 1))
    weights = net.op("Mul", net.weight(1, TOKENS, TOKENS, 3), own)
    kernels = net.op("Reshape", weights, net.ints(net.batch * TOKENS, TOKENS, 3))
    data = net.op("Reshape", x, net.ints(1, net.batch * TOKENS, FEATURES))
    result = net.op("Conv", data, kernels, group=net.batch, pads=[1, 1])
    return net.op("Reshape", result, net.ints(net.batch, TOKENS, FEATURES))


Block = Callable[[Writer, str], str]
BLOCKS: Sequence[Block] = (
    linear, rows, attention_by_heads, attention_in_four_dimensions, masked_heads, learned_queries, expanded_queries,
    class_token, gru, rnn_of_expanded_state, lstm, zeros_like_the_batch, whole_slice, resized, scaled_by_image,
    twice_the_batch, modulated,
)  # fmt: skip


def baked(blocks: Sequence[Block], batch: int) -> ModelProto:
    """Return the network of ``blocks`` as exported at ``batch``."""
    net = Writer(batch)
    x = "x"
    for block in blocks:
        x = block(net, x)
    net.nodes.append(helper.make_node("Identity", [x], ["y"]))
    return model(*net.nodes, inputs={"x": [batch, TOKENS, FEATURES]}, **net.known)
