"""Kernels to search programs of, small ones and those of the paper, and machines to search for."""

from collections.abc import Callable, Mapping

from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.loops.illegal import Limits
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.tuner.search.analysis import SearchMachine
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net

FOUR_CORES = SearchMachine("cpu", 4, 8, Limits(frozenset({"serial", "parallel", "vector", "unrolled"})))


def naive(net: Net, result: str) -> NaiveProgram:
    """Return the naive program of a whole network as one kernel."""
    graph = net.graph(result, dtype="fp32")
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None
    return NaiveProgram(layer)


def matmul(rows: int = 12, columns: int = 20, depth: int = 30) -> NaiveProgram:
    net = Net()
    return naive(net, net.dense(net.input(rows, depth), columns))


def matmul_relu(rows: int = 12, columns: int = 20, depth: int = 30) -> NaiveProgram:
    net = Net()
    return naive(net, net.relu(net.dense(net.input(rows, depth), columns)))


def two_matmuls(size: int = 12) -> NaiveProgram:
    net = Net()
    return naive(net, net.dense(net.dense(net.input(size, size + 8), size + 2), size - 3))


def convolution(channels: int = 6, image: int = 9, width: int = 10) -> NaiveProgram:
    net = Net()
    x = net.conv(net.input(1, channels, image, max(image - 2, 1)), width, 3)
    return naive(net, net.relu(net.batch_norm(x)))


def softmax(rows: int = 6, columns: int = 24) -> NaiveProgram:
    net = Net()
    return naive(net, net.softmax(net.input(rows, columns)))


def max_pool(channels: int = 8, image: int = 10) -> NaiveProgram:
    net = Net()
    return naive(net, net.pool(net.input(1, channels, image, image), 2, 2))


def minimum(rows: int = 10, columns: int = 1024) -> NaiveProgram:
    net = Net()
    x = net.input(rows, columns)
    return naive(net, net.op("ReduceMin", [x, net.integers(1)], (rows,), keepdims=0))


def zero_rank(size: int = 8) -> NaiveProgram:
    net = Net()
    x = net.input(size, size)
    return naive(net, net.op("ReduceSum", [x, net.integers(0, 1)], (), keepdims=0))


def fused_pair(channels: int = 8, image: int = 9) -> NaiveProgram:
    net = Net()
    x = net.relu(net.depthwise(net.input(1, channels, image, image - 2)))
    return naive(net, net.relu(net.conv(x, channels + 4, 1)))


def pair_behind(channels: int = 8, image: int = 9) -> NaiveProgram:
    """Return a pointwise convolution in front of a depthwise one."""
    net = Net()
    x = net.relu(net.conv(net.input(1, channels, image, image - 2), channels + 4, 1))
    return naive(net, net.relu(net.depthwise(x)))


def normalisation() -> NaiveProgram:
    net = Net()
    return naive(net, net.layer_norm(net.input(4, 6, 16)))


def gated(channels: int = 12) -> NaiveProgram:
    net = Net()
    x = net.conv(net.input(1, 8, 7, 5), channels, 1)
    return naive(net, net.binary("Mul", x, net.unary("Sigmoid", x)))


def second_input(rows: int = 8, kept: int = 400, depth: int = 512, columns: int = 4) -> NaiveProgram:
    """Return the second example of the paper's Fig. 5: rectified, padded with zeros, multiplied."""
    net = Net()
    x = net.relu(net.input(rows, kept))
    padded = net.op("Pad", [x, net.integers(0, 0, 0, depth - kept)], (rows, depth))
    return naive(net, net.dense(padded, columns))


SMALL: Mapping[str, Callable[[], NaiveProgram]] = {
    "matmul": matmul_relu, "two matmuls": two_matmuls, "convolution": convolution, "softmax": softmax,
    "max pool": max_pool, "fused pair": fused_pair, "pair behind": pair_behind, "normalisation": normalisation,
    "gated": gated, "padded": lambda: second_input(8, 40, 48), "zero rank": zero_rank,
    "minimum": lambda: minimum(10, 64),
}  # fmt: skip
"""Kernels of every kind of node, small enough to compute."""
