"""Expansion of nodes into other nodes: functions of the ONNX standard, and branches whose condition is known."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import onnx
from onnx import helper, inliner

from dsascape.workloads.walk_state import Typed, node_name

Rename = Callable[[str], str]


def function_body(
    node: onnx.NodeProto, types: Mapping[str, Typed], opset: int
) -> list[onnx.NodeProto] | None:
    """Return the nodes by which the ONNX standard defines ``node``; None if it defines no such function.

    Inner tensors get names that begin with that of the node's first result, which no other node writes.
    """
    complete = _with_defaults(node, opset)
    inputs = [
        helper.make_value_info(name, types[name].proto) for name in dict.fromkeys(node.input) if name in types
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([complete], "body", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    try:
        body = inliner.inline_selected_functions(model, [("", node.op_type)], inline_schema_functions=True)
    except (RuntimeError, ValueError, IndexError):
        return None
    nodes = list(body.graph.node)
    if not nodes or any(inner.op_type == node.op_type for inner in nodes):
        return None
    return _renamed(nodes, node, {})


def _with_defaults(node: onnx.NodeProto, opset: int) -> onnx.NodeProto:
    """Return ``node`` with default values for omitted attributes, which a function body may refer to."""
    complete = onnx.NodeProto()
    complete.CopyFrom(node)
    try:
        schema = onnx.defs.get_schema(node.op_type, max_inclusive_version=opset, domain="")
    except onnx.defs.SchemaError:
        return complete
    given = {attribute.name for attribute in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.name:
            complete.attribute.append(attribute.default_value)
    return complete


def branch_body(node: onnx.NodeProto, branch: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Return the nodes of ``branch`` with the outputs of the If ``node``; constants become nodes."""
    constants = []
    for tensor in branch.initializer:
        constant = helper.make_node("Constant", [], [tensor.name])
        attribute = constant.attribute.add()
        attribute.name, attribute.type = "value", onnx.AttributeProto.TENSOR
        attribute.t.CopyFrom(tensor)
        constants.append(constant)
    nodes = [*constants, *branch.node]
    written = {name for inner in nodes for name in inner.output}
    targets: dict[str, str] = {}
    for entry, output in zip(branch.output, node.output, strict=True):
        if entry.name in written and entry.name not in targets:
            targets[entry.name] = output
        else:
            nodes.append(helper.make_node("Identity", [entry.name], [output]))
            targets[output] = output
    return _renamed(nodes, node, targets)


def _renamed(
    nodes: Sequence[onnx.NodeProto], outer: onnx.NodeProto, fixed: Mapping[str, str]
) -> list[onnx.NodeProto]:
    """Return copies whose inner tensors are named after the first result of ``outer``.

    Names that are keys of ``fixed`` become its values.
    """
    prefix = node_name(outer)
    result = next((name for name in outer.output if name), prefix)
    outside = {*outer.output, *outer.input}
    inner_names = {name for node in nodes for name in node.output if name and name not in outside}
    names = {name: f"{result}/{name}" for name in inner_names} | dict(fixed)
    copies = []
    for number, node in enumerate(nodes):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        _rename(copy, lambda name: names.get(name, name))
        copy.name = f"{prefix}/{node.name or f'{node.op_type}_{number}'}"
        copies.append(copy)
    return copies


def _rename(node: onnx.NodeProto, rename: Rename) -> None:
    """Rename the tensors of ``node`` and the outer tensors that its branches read."""
    node.input[:] = [rename(name) for name in node.input]
    node.output[:] = [rename(name) for name in node.output]
    for branch in branches(node):
        own = _defined(branch)

        def inside(name: str, own: frozenset[str] = own) -> str:
            return name if name in own else rename(name)

        for inner in branch.node:
            _rename(inner, inside)
        for entry in branch.output:
            entry.name = inside(entry.name)


def branches(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs among the attributes of ``node``."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def _defined(graph: onnx.GraphProto) -> frozenset[str]:
    inside = [*(entry.name for entry in graph.input), *(tensor.name for tensor in graph.initializer)]
    return frozenset((*inside, *(name for node in graph.node for name in node.output)))


def reads_of(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the tensors that ``node`` reads, including outer tensors read by its branches."""
    yield from (name for name in node.input if name)
    for branch in branches(node):
        own = _defined(branch)
        for inner in branch.node:
            yield from (name for name in reads_of(inner) if name not in own)
        yield from (entry.name for entry in branch.output if entry.name not in own)
