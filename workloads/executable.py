"""A network that can be run: its operators as an ONNX model, with a value for every weight.

The graph itself has shapes and loop nests only. Its operators are looked up in the file that it was imported from,
at the same sizes and after the same simplification, so that each is one node. Weights without a value in the file, and
all large ones, are drawn at random: reproducibly from a seed, their name and their role (`workloads.drawn_values`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from dsascape.workloads.constants import single_node_model
from dsascape.workloads.decomposition.state_space import standard_nodes
from dsascape.workloads.drawn_values import generator, weight_values
from dsascape.workloads.graph import FLOATS, CastRebuild, Graph, Op, Tensor, WorkloadError
from dsascape.workloads.onnx_import import walk_again
from dsascape.workloads.operators.registry import Array
from dsascape.workloads.reimport import Reimport
from dsascape.workloads.walk import schema_opset
from dsascape.workloads.walk_state import DTYPES, ELEMENTS, Walk, attributes_of

_STANDARD = frozenset({"", "ai.onnx"})
_NEWEST_IR_VERSION = 10
"""Newest ONNX IR version that every onnxruntime in use reads."""

@dataclass(frozen=True)
class Executable:
    """A graph's operators as ONNX nodes, and the values of its weights."""

    graph: Graph
    nodes: tuple[onnx.NodeProto, ...]
    """One node per operator of the graph, in its order."""
    values: Mapping[str, Array]
    """Values of the tensors that nodes read and none writes, except the network's inputs."""
    opset: int
    further: tuple[onnx.NodeProto, ...] = ()
    """All nodes that the results need, in the file's order, where the graph leaves out some of them: masks that bounds
    of loops stand for (`workloads.bounded`). Empty where it has them all."""
    drawn: frozenset[str] = frozenset()
    """Names of values that are drawn, or computed from drawn ones: what the file does not say."""

    def attributes(self, position: int) -> dict[str, Any]:
        """Return the attributes of the operator at ``position``."""
        return attributes_of(self.nodes[position])

    def model(self, outputs: Iterable[str] = ()) -> onnx.ModelProto:
        """Return the model with its weights; ``outputs`` are tensors that it returns besides the network's results.

        Nodes are named after the first tensor that they write, because files may give several the same name.
        """
        nodes = self.further or self.nodes
        return self._of(nodes, self.graph.inputs, dict.fromkeys((*self.graph.outputs, *outputs)))

    def operator_model(self, position: int) -> onnx.ModelProto:
        """Return the operator at ``position`` by itself, with its weights."""
        node = self.nodes[position]
        given = [name for name in dict.fromkeys(node.input) if name and name not in self.values]
        return self._of([node], given, [name for name in node.output if name in self.graph.tensors])

    def _of(
        self, nodes: Sequence[onnx.NodeProto], inputs: Sequence[str], outputs: Iterable[str]
    ) -> onnx.ModelProto:
        tensors, read = self.graph.tensors, {name for node in nodes for name in node.input}
        nodes = [each for node in nodes for each in standard_nodes(node)]
        body = helper.make_graph(
            [_named(node) for node in nodes],
            "network",
            [_described(tensors[name]) for name in inputs],
            [_described(tensors[name]) for name in outputs],
            [numpy_helper.from_array(value, name) for name, value in self.values.items() if name in read],
        )
        newest = max([schema_opset(node.op_type, self.opset) for node in nodes])
        opsets = [helper.make_opsetid("", newest)]
        opsets += [helper.make_opsetid(domain, 1) for domain in sorted({node.domain for node in nodes} - _STANDARD)]
        return helper.make_model(body, opset_imports=opsets, ir_version=_NEWEST_IR_VERSION)


def executable(graph: Graph, seed: int = 0) -> Executable:
    """Return ``graph`` with values for its weights, drawn from ``seed``.

    Raises ``WorkloadError`` for a graph that was not imported, because the semantics of its operators are unknown, and
    for one with floating-point numbers other than single precision.
    """
    check_single_precision(graph)
    if not isinstance(graph.rebuild, Reimport):
        raise WorkloadError(f"{graph.name}: was not imported unchanged from an ONNX file, so it cannot be run")
    walk, opset = walk_again(graph.rebuild)
    by_output = {name: node for node in walk.nodes for name in node.output if name}
    nodes = tuple(by_output.get(op.outputs[0]) or _copying(graph, op) for op in graph.ops)
    further = _further(walk, nodes)
    own, drawn = weight_values(walk, further or nodes, seed)
    values, made_up = own | _conditions(walk, opset), set(drawn)
    for node in walk.once:
        operands = {name: values[name] for name in node.input if name}
        results = ReferenceEvaluator(single_node_model(node, opset)).run(None, operands)
        values.update(zip(node.output, map(np.asarray, results), strict=True))
        made_up.update(node.output if made_up & operands.keys() else ())
    read = {name for node in further or nodes for name in node.input}
    values = {name: value for name, value in values.items() if name in read}
    return Executable(graph, nodes, values, opset, further, frozenset(made_up & values.keys()))


def _copying(graph: Graph, op: Op) -> onnx.NodeProto:
    """Return the node of an operator that no file has: a copy of an operand (`workloads.turned_operands`).

    Raises ``WorkloadError`` for any other.
    """
    (nest, *more) = op.nests
    dims = {index.terms: dim for dim, index in enumerate(nest.reads[0].indices)}
    order = [dims.get(index.terms, -1) for index in nest.write.indices]
    if op.kind != "Transpose" or more or sorted(order) != list(range(len(order))):
        raise WorkloadError(f"{graph.name}: operator {op.name!r} ({op.kind}) is not in the file, so it cannot be run")
    return helper.make_node("Transpose", [op.inputs[0]], [op.outputs[0]], op.name, perm=order)


def _further(walk: Walk, nodes: Sequence[onnx.NodeProto]) -> tuple[onnx.NodeProto, ...]:
    """Return ``nodes`` with those that they need besides, in the walk's order; nothing where they need no others."""
    writers = {name: node for node in walk.nodes for name in node.output if name}
    kept, waiting = {node.output[0] for node in nodes}, [name for node in nodes for name in node.input]
    whole = len(kept)
    while waiting:
        writer = writers.get(waiting.pop())
        if writer is not None and writer.output[0] not in kept:
            kept.add(writer.output[0])
            waiting += writer.input
    copies = [node for node in nodes if node.output[0] not in writers]  # no other node reads them
    every = (*[node for node in walk.nodes if node.output[0] in kept], *copies)
    return every if len(kept) > whole else ()


def _conditions(walk: Walk, opset: int) -> dict[str, Array]:
    """Return conditions that a file computes from known values, such as masks that are too large to be kept.

    The rest of the network may depend on what they say (`workloads.mask_bands`).
    """
    found: dict[str, Array] = {}
    for node in walk.of_weights:
        known = {name: found.get(name, walk.values.get(name)) for name in node.input if name}
        operands = {name: value for name, value in known.items() if value is not None}
        is_condition = all(walk.types[name].element == TensorProto.BOOL for name in node.output if name)
        if is_condition and len(operands) == len(known):
            model = single_node_model(node, schema_opset(node.op_type, opset))
            results = ReferenceEvaluator(model).run(None, operands)
            found.update(zip(node.output, map(np.asarray, results), strict=True))
    return found


def check_single_precision(graph: Graph) -> None:
    """Raise ``WorkloadError`` naming a tensor that holds floating-point numbers other than fp32 in its file."""
    rebuild = graph.rebuild
    while isinstance(rebuild, CastRebuild):
        rebuild = rebuild.rebuild
    if not isinstance(rebuild, Reimport):
        return
    if rebuild is graph.rebuild:
        own = [(op, name, graph.tensors[name].dtype) for op in graph.ops for name in (*op.inputs, *op.outputs)]
        kinds = [(op.name, op.kind, name, dtype) for op, name, dtype in own]
    else:
        walk, _ = walk_again(rebuild)
        kinds = [
            (node.name or node.output[0], node.op_type, name, DTYPES.get(walk.types[name].element, ""))
            for node in walk.nodes for name in (*node.input, *node.output) if name in walk.types
        ]  # fmt: skip
    for operator, kind, name, dtype in kinds:
        if dtype in FLOATS and dtype != "fp32":
            raise WorkloadError(
                f"{graph.name}: tensor {name!r} of node {operator!r} ({kind}) is {dtype}; only fp32 is measured: export"
                " the network in fp32"
            )


def _named(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.name = next(name for name in node.output if name)
    return copy


def drawn_inputs(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """Return values for the network's inputs: from 0 to 1 as images have them, zeros and ones for whole numbers."""
    values: dict[str, Array] = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        dtype = helper.tensor_dtype_to_np_dtype(ELEMENTS[tensor.dtype])
        draw = generator(name, seed)
        if np.issubdtype(dtype, np.floating):
            values[name] = draw.uniform(0, 1, tensor.shape).astype(dtype)
        else:
            values[name] = draw.integers(0, 2, tensor.shape).astype(dtype)
    return values


def _described(tensor: Tensor) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(tensor.name, ELEMENTS[tensor.dtype], tensor.shape)
