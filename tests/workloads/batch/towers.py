"""Random networks of two towers, written to ONNX at any two sizes, and their figures by ONNX's own shape inference.

An image tower and a text tower meet in a product of every image with every text, or not at all; images may also meet a
branch that has no batch. Sizes are numbers, or names of open dimensions, or None for open ones without a name.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, shape_inference

FEATURES, TOKENS, ROWS, WORDS = 8, 5, 9, 20
Size = int | str | None


@dataclass(frozen=True)
class Towers:
    """Choices that make a network."""

    images: str
    texts: str | None
    meet: str
    """How images and texts meet, if there are texts."""
    branch: str | None
    """How images meet a branch that has no batch."""
    has_scale: bool
    """Whether the images are scaled by an input of one element."""

    @property
    def bakes_images(self) -> bool:
        """Whether the file has the number of images in its constants, so that it cannot leave it open."""
        return self.images == "groups"


IMAGES = "convolution", "shared weight", "time first", "groups", "queries", "attention"
TEXTS = "words", "features"
MEETINGS = "product", "product of texts", "transposed operand", "einsum", "distances"
BRANCHES = "product", "attention"


def towers() -> st.SearchStrategy[Towers]:
    """Return a strategy for networks of one or two towers."""
    return st.builds(
        Towers, st.sampled_from(IMAGES), st.sampled_from((None, *TEXTS, *TEXTS)), st.sampled_from(MEETINGS),
        st.sampled_from((None, *BRANCHES)), st.booleans(),
    )  # fmt: skip


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: dict[str, Any] = {}
        self.inputs: list[Any] = []

    def op(self, kind: str, *reads: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, reads, [f"v{len(self.nodes)}"], **attributes))
        return str(self.nodes[-1].output[0])

    def constant(self, value: Any) -> str:
        self.weights[f"w{len(self.weights)}"] = np.asarray(value)
        return f"w{len(self.weights) - 1}"

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def weight(self, *shape: int) -> str:
        return self.constant(np.ones(shape, np.float32))

    def input(self, name: str, *shape: Size, of: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, of, shape))
        return name

    def transposed(self, name: str) -> str:
        return self.op("Transpose", name, perm=[1, 0])


def written(net: Towers, images: Size, texts: Size) -> ModelProto:
    """Return the network at its two sizes; its inputs are ``img`` (and ``style``), ``txt``, ``z`` and ``scale``."""
    to = _Writer()
    result = _IMAGES[net.images](to, images)
    if net.has_scale:
        result = to.op("Mul", result, to.input("scale", 1))
    if net.branch is not None:
        result = _with_branch(to, result, net.branch)
    if net.texts is not None:
        result = _met(to, result, _text(to, texts, net.texts), net.meet)
    outputs = [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)]
    weights = [numpy_helper.from_array(value, name) for name, value in to.weights.items()]
    graph = helper.make_graph(to.nodes, "towers", to.inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def _convolution(to: _Writer, images: Size) -> str:
    features = to.op("Conv", to.input("img", images, 3, 8, 8), to.weight(FEATURES, 3, 3, 3), pads=[1] * 4)
    deep = to.op("Conv", features, to.weight(FEATURES, 1, 3, 3), group=FEATURES)
    return to.op("Flatten", to.op("GlobalAveragePool", deep))


def _shared_weight(to: _Writer, images: Size) -> str:
    weight = to.weight(FEATURES, FEATURES)
    return to.op("MatMul", to.op("Relu", to.op("MatMul", to.input("img", images, FEATURES), weight)), weight)


def _time_first(to: _Writer, images: Size) -> str:
    product = to.op("MatMul", to.input("img", TOKENS, images, FEATURES), to.weight(FEATURES, FEATURES))
    return to.op("ReduceMean", to.op("Transpose", product, perm=[1, 0, 2]), axes=[1], keepdims=0)


def _groups(to: _Writer, images: Size) -> str:
    """A convolution with weights of each image's own, as a group of one convolution."""
    assert isinstance(images, int)
    x, style = to.input("img", images, 4, 6, 6), to.input("style", images, FEATURES)
    scales = to.op("Reshape", to.op("MatMul", style, to.weight(FEATURES, 4)), to.ints(images, 1, 4, 1, 1))
    own = to.op("Mul", to.weight(1, FEATURES, 4, 3, 3), scales)
    weights = to.op("Reshape", own, to.ints(images * FEATURES, 4, 3, 3))
    data = to.op("Reshape", x, to.ints(1, images * 4, 6, 6))
    result = to.op("Conv", data, weights, group=images, pads=[1] * 4)
    return to.op("Flatten", to.op("GlobalAveragePool", to.op("Reshape", result, to.ints(images, FEATURES, 6, 6))))


def _queries(to: _Writer, images: Size) -> str:
    """Learned queries, repeated for each image, whose projection depends on no image."""
    x = to.input("img", images, 7, FEATURES)
    sizes = to.op("Concat", to.op("Gather", to.op("Shape", x), to.ints(0)), to.ints(3, FEATURES), axis=0)
    queries = to.op("Mul", to.op("Expand", to.weight(1, 3, FEATURES), sizes), to.input("gain", 1))
    return _attended(to, to.op("MatMul", queries, to.weight(FEATURES, FEATURES)), x)


def _attention(to: _Writer, images: Size) -> str:
    x = to.input("img", images, 6, FEATURES)
    return _attended(to, x, x)


def _attended(to: _Writer, queries: str, x: str) -> str:
    scores = to.op("Softmax", to.op("MatMul", queries, to.op("Transpose", x, perm=[0, 2, 1])), axis=-1)
    return to.op("ReduceMean", to.op("MatMul", scores, x), axes=[1], keepdims=0)


_IMAGES = dict(
    zip(IMAGES, (_convolution, _shared_weight, _time_first, _groups, _queries, _attention), strict=True)
)


def _text(to: _Writer, texts: Size, kind: str) -> str:
    if kind == "features":
        return to.op("MatMul", to.input("txt", texts, FEATURES), to.weight(FEATURES, FEATURES))
    words = to.op("Gather", to.weight(WORDS, FEATURES), to.input("txt", texts, TOKENS, of=TensorProto.INT64))
    wide = to.op("Relu", to.op("MatMul", words, to.weight(FEATURES, 2 * FEATURES)))
    return to.op("ReduceMean", to.op("MatMul", wide, to.weight(2 * FEATURES, FEATURES)), axes=[1], keepdims=0)


def _with_branch(to: _Writer, images: str, kind: str) -> str:
    branch = to.op("Relu", to.op("MatMul", to.input("z", ROWS, FEATURES), to.weight(FEATURES, FEATURES)))
    scores = to.op("MatMul", images, to.transposed(branch))
    return to.op("MatMul", to.op("Softmax", scores, axis=-1) if kind == "attention" else scores, branch)


def _met(to: _Writer, images: str, texts: str, how: str) -> str:
    """Return the score of every image with every text."""
    if how == "product":
        return to.op("Softmax", to.op("MatMul", images, to.transposed(texts)), axis=-1)
    if how == "product of texts":
        return to.transposed(to.op("MatMul", texts, to.transposed(images)))
    if how == "transposed operand":
        return to.op("Gemm", images, texts, transB=1)
    if how == "einsum":
        return to.op("Einsum", images, texts, equation="id,td->it")
    apart = to.op("Sub", to.op("Unsqueeze", images, to.ints(1)), to.op("Unsqueeze", texts, to.ints(0)))
    return to.op("ReduceSum", to.op("Mul", apart, apart), to.ints(2), keepdims=0)


class Figures(NamedTuple):
    """What a network computes and holds."""

    macs: int
    input_elements: int
    weight_elements: int
    """Elements of the floating-point weights in the file."""


def figures_of(model: ModelProto) -> Figures:
    """Return the figures of a network at fixed sizes, from the shapes that ONNX infers."""
    graph = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    shapes = {
        entry.name: [dim.dim_value for dim in entry.type.tensor_type.shape.dim]
        for entry in (*graph.input, *graph.value_info, *graph.output)
    } | {weight.name: list(weight.dims) for weight in graph.initializer}
    macs = sum(math.prod(shapes[node.output[0]]) * _depth(node, shapes) for node in graph.node)
    elements = sum(math.prod(shapes[entry.name]) for entry in graph.input)
    weights = [weight.dims for weight in graph.initializer if weight.data_type == TensorProto.FLOAT]
    return Figures(macs, elements, sum(map(math.prod, weights)))


def _depth(node: NodeProto, shapes: dict[str, list[int]]) -> int:
    """Return the products that are summed for an element of the result; 0 for operators that multiply nothing."""
    if node.op_type == "Conv":
        weight: Sequence[int] = shapes[node.input[1]]
        return math.prod(weight[1:])
    return shapes[node.input[0]][-1] if node.op_type in ("MatMul", "Gemm", "Einsum") else 0
