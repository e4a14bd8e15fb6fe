"""Small networks and machines for tests: a builder for networks by hand, and strategies that draw both."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from dsascape.hw_models import ClusteredDsa
from dsascape.workloads import Graph, import_onnx

IMAGE_RANK = 4


class Net:
    """An ONNX model in the making. Methods add an operator and return its name, which is also its output's."""

    def __init__(self, name: str = "net") -> None:
        self._name = name
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._numbers: dict[str, int] = {}
        self.shape: dict[str, tuple[int, ...]] = {}

    def _named(self, kind: str) -> str:
        self._numbers[kind] = self._numbers.get(kind, 0) + 1
        return f"{kind}{self._numbers[kind]}"

    def input(self, *shape: int) -> str:
        name = self._named("in")
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        self.shape[name] = shape
        return name

    def weight(self, *shape: int) -> str:
        name = self._named("w")
        self._weights.append(numpy_helper.from_array(np.full(shape, 0.5, np.float32), name))
        self.shape[name] = shape
        return name

    def integers(self, *values: int) -> str:
        name = self._named("int")
        self._weights.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def scales(self, *values: float) -> str:
        name = self._named("scales")
        self._weights.append(numpy_helper.from_array(np.array(values, np.float32), name))
        return name

    def op(self, kind: str, inputs: list[str], shape: tuple[int, ...], **attributes: Any) -> str:
        """Add an operator whose output has ``shape``."""
        name = self._named(kind.lower())
        self._nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        self.shape[name] = shape
        return name

    def unary(self, kind: str, x: str) -> str:
        return self.op(kind, [x], self.shape[x])

    def relu(self, x: str) -> str:
        return self.unary("Relu", x)

    def binary(self, kind: str, x: str, y: str) -> str:
        return self.op(kind, [x, y], np.broadcast_shapes(self.shape[x], self.shape[y]))

    def add(self, x: str, y: str) -> str:
        return self.binary("Add", x, y)

    def bias(self, x: str) -> str:
        """Add a weight along the channels of images, along the last dimension of anything else."""
        shape = self.shape[x]
        return self.add(x, self.weight(shape[1], 1, 1) if len(shape) == IMAGE_RANK else self.weight(shape[-1]))

    def _slid(self, x: str, kernel: int, stride: int, pad: int) -> tuple[int, ...]:
        return tuple((size + 2 * pad - kernel) // stride + 1 for size in self.shape[x][2:])

    def conv(self, x: str, channels: int, kernel: int = 3, stride: int = 1, *, groups: int = 1, pad: int = -1) -> str:
        """Add a convolution; ``pad`` is half the kernel unless given."""
        pad = kernel // 2 if pad < 0 else pad
        batch, inner = self.shape[x][:2]
        shape = (batch, channels, *self._slid(x, kernel, stride, pad))
        weight = self.weight(channels, inner // groups, kernel, kernel)
        return self.op("Conv", [x, weight], shape, strides=[stride] * 2, pads=[pad] * 4, group=groups)

    def depthwise(self, x: str, kernel: int = 3, stride: int = 1) -> str:
        channels = self.shape[x][1]
        return self.conv(x, channels, kernel, stride, groups=channels)

    def pool(self, x: str, kernel: int = 2, stride: int = 2, kind: str = "MaxPool") -> str:
        shape = (*self.shape[x][:2], *self._slid(x, kernel, stride, 0))
        return self.op(kind, [x], shape, kernel_shape=[kernel] * 2, strides=[stride] * 2)

    def global_pool(self, x: str) -> str:
        return self.op("GlobalAveragePool", [x], (*self.shape[x][:2], 1, 1))

    def batch_norm(self, x: str) -> str:
        channels = self.shape[x][1]
        return self.op("BatchNormalization", [x, *(self.weight(channels) for _ in range(4))], self.shape[x])

    def matmul(self, x: str, y: str) -> str:
        left, right = self.shape[x], self.shape[y]
        return self.op("MatMul", [x, y], (*np.broadcast_shapes(left[:-2], right[:-2]), left[-2], right[-1]))

    def dense(self, x: str, width: int) -> str:
        """Add a product with a weight over the last dimension."""
        return self.matmul(x, self.weight(self.shape[x][-1], width))

    def gemm(self, x: str, width: int) -> str:
        inner = self.shape[x][1]
        weights = [self.weight(width, inner), self.weight(width)]
        return self.op("Gemm", [x, *weights], (self.shape[x][0], width), transB=1)

    def softmax(self, x: str, axis: int = -1) -> str:
        return self.op("Softmax", [x], self.shape[x], axis=axis)

    def layer_norm(self, x: str) -> str:
        width = self.shape[x][-1]
        return self.op("LayerNormalization", [x, self.weight(width), self.weight(width)], self.shape[x], axis=-1)

    def reduce_mean(self, x: str, axis: int) -> str:
        shape = self.shape[x]
        kept = tuple(1 if dim == axis % len(shape) else size for dim, size in enumerate(shape))
        return self.op("ReduceMean", [x, self.integers(axis)], kept, keepdims=1)

    def transpose(self, x: str, *order: int) -> str:
        return self.op("Transpose", [x], tuple(self.shape[x][dim] for dim in order), perm=order)

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("Reshape", [x, self.integers(*shape)], shape)

    def flatten(self, x: str) -> str:
        shape = self.shape[x]
        return self.op("Flatten", [x], (shape[0], math.prod(shape[1:])))

    def concat(self, *xs: str, axis: int = 1) -> str:
        shape = list(self.shape[xs[0]])
        shape[axis] = sum(self.shape[x][axis] for x in xs)
        return self.op("Concat", list(xs), tuple(shape), axis=axis)

    def part(self, x: str, axis: int, begin: int, end: int) -> str:
        """Take elements ``begin`` to ``end`` of a dimension."""
        shape = list(self.shape[x])
        shape[axis] = end - begin
        return self.op("Slice", [x, *map(self.integers, (begin, end, axis))], tuple(shape))

    def halves(self, x: str, axis: int = 1) -> tuple[str, str]:
        """Split a dimension of even extent in the middle: one operator with two outputs."""
        shape = list(self.shape[x])
        shape[axis] //= 2
        names = self._named("half"), self._named("half")
        self._nodes.append(helper.make_node("Split", [x], names, name=self._named("split"), axis=axis, num_outputs=2))
        self.shape |= dict.fromkeys(names, tuple(shape))
        return names

    def model(self, *outputs: str) -> bytes:
        """Return the ONNX file of the network with those outputs."""
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shape[name]) for name in outputs]
        body = helper.make_graph(self._nodes, self._name, self._inputs, results, self._weights)
        model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)])
        return bytes(model.SerializeToString())

    def graph(self, *outputs: str, dtype: str = "fp16") -> Graph:
        """Return the network with those outputs."""
        return import_onnx(self.model(*outputs), name=self._name).with_dtype(dtype)


Block = Callable[[Net, st.DrawFn, str], str]
CHANNELS = st.sampled_from([4, 6, 8, 12, 16])


def _convolution(net: Net, draw: st.DrawFn, x: str) -> str:
    kernel, stride = draw(st.sampled_from([(1, 1), (3, 1), (3, 2), (1, 2)]))
    y = net.conv(x, draw(CHANNELS), kernel, stride)
    for finish in draw(st.sampled_from([(), (net.relu,), (net.batch_norm, net.relu), (net.bias, net.relu)])):
        y = finish(y)
    return y


def _depthwise(net: Net, draw: st.DrawFn, x: str) -> str:
    return net.relu(net.depthwise(x, stride=draw(st.sampled_from([1, 2]))))


def _residual(net: Net, draw: st.DrawFn, x: str) -> str:
    channels = net.shape[x][1]
    inner = net.relu(net.conv(x, draw(CHANNELS), draw(st.sampled_from([1, 3]))))
    return net.relu(net.add(net.conv(inner, channels, 3), x))


def _down_sampling(net: Net, draw: st.DrawFn, x: str) -> str:
    channels = draw(CHANNELS)
    left = net.conv(net.relu(net.conv(x, channels, 3, 2)), channels, 3)
    return net.relu(net.add(left, net.conv(x, channels, 1, 2)))


def _diamond(net: Net, draw: st.DrawFn, x: str) -> str:
    paths = [net.conv(x, draw(CHANNELS), draw(st.sampled_from([1, 3]))) for _ in range(draw(st.integers(2, 3)))]
    return net.concat(*(net.relu(path) for path in paths))


def _branch(net: Net, draw: st.DrawFn, x: str) -> str:
    """A side path that starts at the network's own input."""
    other = net.input(*net.shape[x])
    return net.binary(draw(st.sampled_from(["Add", "Mul"])), x, net.conv(other, net.shape[x][1], 1))


def _squeeze(net: Net, draw: st.DrawFn, x: str) -> str:
    del draw
    return net.binary("Mul", x, net.unary("Sigmoid", net.conv(net.global_pool(x), net.shape[x][1], 1)))


def _pooling(net: Net, draw: st.DrawFn, x: str) -> str:
    if min(net.shape[x][2:]) < 3:
        return net.relu(x)
    kernel, stride = draw(st.sampled_from([(2, 2), (3, 1), (3, 2)]))
    return net.pool(x, kernel, stride, draw(st.sampled_from(["MaxPool", "AveragePool"])))


def _half_passed_by(net: Net, draw: st.DrawFn, x: str) -> str:
    """Return half of the channels behind the other half, which a convolution changes."""
    if net.shape[x][1] % 2:
        return net.relu(x)
    left, right = net.halves(x)
    return net.concat(net.relu(net.conv(left, net.shape[left][1], draw(st.sampled_from([1, 3])))), right)


def _channels_last_and_back(net: Net, draw: st.DrawFn, x: str) -> str:
    del draw
    return net.transpose(net.softmax(net.transpose(x, 0, 2, 3, 1)), 0, 3, 1, 2)


def _feed_forward(net: Net, draw: st.DrawFn, x: str) -> str:
    width = net.shape[x][-1]
    hidden = net.unary(draw(st.sampled_from(["Relu", "Tanh"])), net.bias(net.dense(x, draw(CHANNELS))))
    return net.layer_norm(net.add(net.bias(net.dense(hidden, width)), x))


def _attention(net: Net, draw: st.DrawFn, x: str) -> str:
    batch, length, width = net.shape[x]
    heads = draw(st.sampled_from([h for h in (1, 2, 4) if width % h == 0]))
    parts = (batch, length, heads, width // heads)
    query, key, value = (net.reshape(net.dense(x, width), *parts) for _ in range(3))
    scores = net.softmax(net.matmul(net.transpose(query, 0, 2, 1, 3), net.transpose(key, 0, 2, 3, 1)))
    mixed = net.transpose(net.matmul(scores, net.transpose(value, 0, 2, 1, 3)), 0, 2, 1, 3)
    return net.add(net.dense(net.reshape(mixed, batch, length, width), width), x)


def _gated(net: Net, draw: st.DrawFn, x: str) -> str:
    width = net.shape[x][-1]
    value, gate = net.halves(net.dense(x, 2 * width), 2)
    return net.binary("Mul", value, net.unary(draw(st.sampled_from(["Sigmoid", "Tanh"])), gate))


def _tokens_last_and_back(net: Net, draw: st.DrawFn, x: str) -> str:
    del draw
    return net.transpose(net.dense(net.transpose(x, 0, 2, 1), net.shape[x][1]), 0, 2, 1)


def _centred(net: Net, draw: st.DrawFn, x: str) -> str:
    return net.binary("Sub", x, net.reduce_mean(x, draw(st.sampled_from([1, 2]))))


IMAGE_BLOCKS: tuple[Block, ...] = (
    _convolution, _depthwise, _residual, _down_sampling, _diamond, _branch, _squeeze, _pooling,
    _channels_last_and_back, _half_passed_by,
)  # fmt: skip
TOKEN_BLOCKS: tuple[Block, ...] = (_feed_forward, _attention, _gated, _tokens_last_and_back, _centred)


@st.composite
def networks(draw: st.DrawFn, most_blocks: int = 3, dtype: str = "fp16") -> Graph:
    """Draw a network of a few blocks over images or tokens; sometimes a tensor on the way is a result as well."""
    net = Net("drawn")
    batch, image = draw(st.integers(1, 4)), draw(st.booleans())
    x = net.input(batch, draw(CHANNELS), *[draw(st.integers(5, 12))] * 2) if image else _tokens(net, draw, batch)
    ends = []
    blocks = IMAGE_BLOCKS if image else TOKEN_BLOCKS
    for _ in range(draw(st.integers(1, most_blocks))):
        x = draw(st.sampled_from(blocks))(net, draw, x)
        ends.append(x)
    results = dict.fromkeys([x])
    if image and draw(st.booleans()):
        results = dict.fromkeys([net.gemm(net.flatten(net.global_pool(x)), draw(CHANNELS))])
    if draw(st.integers(0, 3)) == 0:
        results[draw(st.sampled_from(ends))] = None
    return net.graph(*results, dtype=dtype)


def _tokens(net: Net, draw: st.DrawFn, batch: int) -> str:
    return net.input(batch, draw(st.integers(3, 16)), draw(CHANNELS))


@st.composite
def pointwise_chains(draw: st.DrawFn) -> Graph:
    """Draw a chain in which every output needs each input element once: nothing can be computed twice."""
    net = Net("chain")
    x = net.input(draw(st.integers(1, 4)), draw(CHANNELS), *[draw(st.integers(3, 12))] * 2)
    for _ in range(draw(st.integers(1, 4))):
        x = net.conv(x, draw(CHANNELS), 1)
        x = net.unary(draw(st.sampled_from(["Relu", "Tanh"])), x)
    return net.graph(x)


def machine(**changes: object) -> ClusteredDsa:
    """Return a small machine of one cluster with four cores; ``changes`` replace whole entries of it."""
    channel = {"bandwidth": "16 GB/s", "startup": "100 ns"}
    entries: dict[str, object] = {
        "kind": "clustered_dsa", "name": "small", "clock": "1 GHz", "clusters": 1, "cores_per_cluster": 4,
        "units": {
            "matrix": {"kind": "matrix", "macs_per_cycle": {"fp16": 64}, "native_tile": [8, 8, 1], "efficiency": 1.0},
            "vector": {"kind": "vector", "lanes": {"fp16": 8}, "special_cycles": 2.0, "efficiency": 1.0},
        },
        "local_buffer": {"capacity": "64 KiB", "bandwidth": "128 GB/s", "weight_window": 0.2},
        "global_buffer": {"capacity": "1 MiB", "bandwidth": "64 GB/s"},
        "ddr": {"capacity": "1 GiB", "bandwidth": "16 GB/s", "efficiency": 1.0},
        "dma": {"load": channel, "store": channel},
        "on_chip_path": {"bandwidth": "16 GB/s", "startup": "10 ns", "broadcast": True},
        "launch": "1 us",
        "energy": {
            "mac": {"fp16": "1 pJ"}, "vector_op": "1 pJ", "special_op": "2 pJ", "local_buffer": "1 pJ/B",
            "global_buffer": "2 pJ/B", "ddr": "40 pJ/B", "static_power": "1 W",
        },
        "area": {"mac": "400 um2", "sram": "1 mm2/MiB", "other": "1 mm2"},
    }  # fmt: skip
    return ClusteredDsa.model_validate(entries | changes)


@st.composite
def machines(draw: st.DrawFn) -> ClusteredDsa:
    """Draw a machine; its local buffers hold some of the drawn networks whole and of others hardly a row."""
    rates = st.sampled_from(["1 GB/s", "16 GB/s", "100 GB/s"])
    times = st.sampled_from(["0 ps", "100 ns", "2 us"])
    channel = st.fixed_dictionaries({"bandwidth": rates, "startup": times})
    kib = st.sampled_from([2, 4, 8, 16, 64, 512])
    extents = st.sampled_from([1, 4, 16])
    vector = {"kind": "vector", "lanes": {"fp16": draw(st.sampled_from([1, 8, 64]))}, "special_cycles": 2.0}
    units: dict[str, object] = {"vector": vector | {"efficiency": 1.0}}
    if draw(st.booleans()):
        units["matrix"] = {
            "kind": "matrix", "macs_per_cycle": {"fp16": draw(st.sampled_from([16, 256]))}, "efficiency": 0.9,
            "native_tile": [draw(extents), draw(extents), draw(extents)],
        }  # fmt: skip
    shared = {"capacity": f"{draw(st.sampled_from([32, 128, 1024]))} KiB", "bandwidth": draw(rates)}
    local = {"capacity": f"{draw(kib)} KiB", "bandwidth": draw(rates)}
    return machine(
        name="drawn",
        clusters=draw(st.integers(1, 3)),
        cores_per_cluster=draw(st.sampled_from([1, 2, 3, 4, 6, 8])),
        units=units,
        local_buffer=local | {"weight_window": draw(st.sampled_from([0.1, 0.4]))},
        global_buffer=draw(st.sampled_from([shared, None])),
        ddr={"capacity": "1 GiB", "bandwidth": draw(rates), "efficiency": draw(st.sampled_from([1.0, 0.8]))},
        dma={"load": draw(channel), "store": draw(channel), "load_channels": draw(st.integers(1, 2))},
        on_chip_path=draw(channel) | {"broadcast": draw(st.booleans())},
        launch=draw(times),
    )
