"""Small networks whose traffic can be counted by hand."""

from dsascape.workloads import Graph
from tests.graphs import Net


def convolution(size: int = 28, channels: int = 64, kernel: int = 3, dtype: str = "fp16") -> Graph:
    net = Net("convolution")
    return net.graph(net.relu(net.bias(net.conv(net.input(1, channels, size, size), channels, kernel))), dtype=dtype)


def product(rows: int, columns: int, depth: int, dtype: str = "fp16") -> Graph:
    net = Net("product")
    return net.graph(net.matmul(net.input(rows, depth), net.weight(depth, columns)), dtype=dtype)


def elementwise(rows: int, dtype: str = "fp16") -> Graph:
    net = Net("elementwise")
    return net.graph(net.add(net.input(rows, 1024), net.input(rows, 1024)), dtype=dtype)


def compulsory_bytes(graph: Graph) -> int:
    """Bytes of what comes from outside and is read, and of what goes there."""
    outside = [name for name, tensor in graph.tensors.items() if tensor.role != "activation"]
    read = [name for name in outside if graph.stored_readers.get(name)]
    return sum(graph.tensors[name].size_bytes for name in {*read, *graph.stored_outputs})
