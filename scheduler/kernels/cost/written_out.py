"""Loops that compilers write out iteration by iteration of their own accord: innermost ones of a few iterations."""

from collections.abc import Iterator
from dataclasses import replace

from dsascape.scheduler.kernels.loops.columns import Size, alike
from dsascape.scheduler.kernels.loops.nodes import Guard, Loop, Node, Nodes, Outlined, Statement


def written_out(nodes: Nodes, most: int) -> Nodes:
    """Return ``nodes`` with serial loops unrolled as compilers do it.

    They are innermost, whole, of known length, and make at most so many copies of the statements inside of them.
    """
    return tuple([_node(node, most) for node in nodes])


def _node(node: Node, most: int) -> Node:
    if isinstance(node, Statement):
        return node
    own = replace(node, body=written_out(node.body, most))
    if not isinstance(own, Loop) or own.kind != "serial" or own.reach is not None or own.dealt:
        return own
    copies = _copies(own.body)
    is_short = copies is not None and alike(copies * own.extent <= most)
    return replace(own, kind="unrolled") if is_short else own


def _copies(nodes: Nodes) -> Size | None:
    """Return the statements that loops written out make; None where other loops are inside."""
    found: Size = 0
    for copies in _of_each(nodes):
        if copies is None:
            return None
        found = found + copies
    return found


def _of_each(nodes: Nodes) -> Iterator[Size | None]:
    for node in nodes:
        if isinstance(node, Statement):
            yield 1
        elif isinstance(node, Loop) and node.kind in ("unrolled", "vector"):
            inside = _copies(node.body)
            yield None if inside is None else inside * (1 if node.kind == "vector" else node.extent)
        elif isinstance(node, Guard | Outlined):
            yield _copies(node.body)
        else:
            yield None
