"""Inlining of a model's local functions; the size of the result is computed before anything is expanded.

Thirty functions that call each other twice fit into two kilobytes and stand for a billion nodes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import onnx
from onnx import inliner

from dsascape.wording import count
from dsascape.workloads.expansion import branches
from dsascape.workloads.graph import WorkloadError
from dsascape.workloads.walk_state import node_name

MOST_NODES = 100_000
"""Nodes of a model at most, after its functions are inlined."""
MOST_BYTES = 256 * 2**20
"""Serialized bytes of a model's nodes at most, after its functions are inlined."""
DEEPEST = 32
"""Nesting depth of function calls at most."""

_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Size:
    nodes: int
    size_bytes: int
    depth: int


def expanded(model: onnx.ModelProto, where: str) -> onnx.ModelProto:
    """Return ``model`` with the calls of its own functions replaced by their nodes.

    Raises ``WorkloadError`` naming ``where`` and the function or node for functions that call themselves, that are
    nested deeper than ``DEEPEST``, or that stand for more than ``MOST_NODES`` nodes or ``MOST_BYTES`` bytes.
    """
    if not model.functions:
        return model
    counted = _Count(where, {_key(f.domain, f.name, f.overload): f for f in model.functions})
    total = counted.of_nodes(model.graph.node, ())
    if total.nodes > MOST_NODES or total.size_bytes > MOST_BYTES:
        raise WorkloadError(
            f"{where}: its local functions stand for {count(total.nodes, 'node')} of {total.size_bytes:,} B; at most"
            f" {MOST_NODES:,} nodes of {MOST_BYTES:,} B are supported"
        )
    try:
        written = _written_out(model)
    except (RuntimeError, ValueError, IndexError, onnx.checker.ValidationError) as error:
        raise WorkloadError(f"{where}: its local functions cannot be written out ({error})") from error
    for node in _with_inner(written.graph.node):
        left = counted.functions.get(_key(node.domain, node.op_type, node.overload))
        if left is not None:
            raise WorkloadError(
                f"{where}: node {node_name(node)!r} calls the local function {left.name!r}: the function is written in"
                f" opset {_opset(left.opset_import)}, the network in {_opset(model.opset_import)}"
            )
    return written


def _written_out(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return ``model`` with calls inlined and bodies of other opsets converted, except where the converter fails."""
    try:
        return inliner.inline_local_functions(model, convert_version=True)
    except (RuntimeError, ValueError, IndexError):
        return inliner.inline_local_functions(model)


def _opset(imports: Iterable[onnx.OperatorSetIdProto]) -> int:
    """Return the opset of the standard operators; 0 where none is stated."""
    return next((entry.version for entry in imports if entry.domain in ("", "ai.onnx")), 0)


@dataclass(slots=True)
class _Count:
    """Sizes of functions after inlining, memoized."""

    where: str
    functions: dict[_Key, onnx.FunctionProto]
    sizes: dict[_Key, _Size] = field(default_factory=dict)

    def of_nodes(self, nodes: Iterable[onnx.NodeProto], callers: tuple[_Key, ...]) -> _Size:
        """Return the size of ``nodes`` after inlining, called inside the functions ``callers``, outermost first."""
        count = size_bytes = depth = 0
        for node in _with_inner(nodes):
            key = _key(node.domain, node.op_type, node.overload)
            if key in self.functions:
                inside = self._of_function(key, node, callers)
                count += inside.nodes
                size_bytes += inside.size_bytes
                depth = max(depth, inside.depth + 1)
            else:
                count += 1
                size_bytes += node.ByteSize()
        return _Size(count, size_bytes, depth)

    def _of_function(self, key: _Key, node: onnx.NodeProto, callers: tuple[_Key, ...]) -> _Size:
        called = f"{self.where}: node {node_name(node)!r} calls the local function {key[1]!r}"
        if key in callers:
            raise WorkloadError(f"{called}, which calls itself; a network has no recursion")
        size = self.sizes.get(key)
        if size is None and len(callers) < DEEPEST:
            size = self.sizes[key] = self.of_nodes(self.functions[key].node, (*callers, key))
        if size is None or len(callers) + size.depth >= DEEPEST:
            raise WorkloadError(f"{called} inside {len(callers)} others; at most {DEEPEST} may be nested")
        return size


def _with_inner(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes and those of their sub-graphs."""
    for node in nodes:
        yield node
        for branch in branches(node):
            yield from _with_inner(branch.node)


def _key(domain: str, name: str, overload: str) -> _Key:
    return ("" if domain == "ai.onnx" else domain, name, overload)
