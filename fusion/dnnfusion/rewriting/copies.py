"""Operators that hand on a tensor as it is: copies, and movements that undo each other.

The paper's rules speak of arithmetic; a network straight from an exporter also has these. They cost no operations, but
a kernel each, and they part the operators that rules reach over.
"""

from fusion.dnnfusion.rewriting.network import Network
from workloads.edits import Node

_COPIES = frozenset({"Identity", "Dropout"})
_RESHAPES = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
"""Operators that keep all elements in row-major order: two of them undo each other where the shape is as before."""


def drop_copies(network: Network) -> tuple[tuple[str, str], ...]:
    """Make readers of tensors that equal an earlier one read that one; return the pairs (tensor, earlier one).

    A graph's result keeps its operator, which has to write it.
    """
    found = []
    for name in network.outputs():
        earlier = None if network.node(name) is None else _earlier(network, name)
        if earlier is not None and network.can_be_called(name, earlier):
            network.call(name, earlier)
            found.append((name, earlier))
    return tuple(found)


def _earlier(network: Network, name: str) -> str | None:
    """Return the earliest tensor that has the elements of ``name``, in order and shape; None if none has."""
    node = network.node(name)
    assert node is not None
    if node.kind in _COPIES and len(node.inputs) == 1:
        return node.inputs[0]
    if node.kind in _RESHAPES:
        return _before_reshapes(network, name)
    return _before_transposes(network, name) if node.kind == "Transpose" else None


def _before_reshapes(network: Network, name: str) -> str | None:
    earliest, current = None, name
    while (node := network.node(current)) is not None and node.kind in _RESHAPES:
        current = node.inputs[0]
        if network.shape.get(current) == network.shape[name]:
            earliest = current
    return earliest


def _before_transposes(network: Network, name: str) -> str | None:
    rank = len(network.shape[name])
    earliest, current, order = None, name, tuple(range(rank))
    while (node := network.node(current)) is not None and node.kind == "Transpose":
        moved = _permutation(node, rank)
        order = tuple(moved[dim] for dim in order)
        current = node.inputs[0]
        if order == tuple(range(rank)):
            earliest = current
    return earliest


def _permutation(node: Node, rank: int) -> tuple[int, ...]:
    """Return the input's dimension that each dimension of a Transpose's result is."""
    stated = dict(node.attributes).get("perm")
    return stated if isinstance(stated, tuple) else tuple(range(rank))[::-1]
