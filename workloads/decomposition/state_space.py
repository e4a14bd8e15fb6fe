"""Selective scan written out as chunks of tokens, each of which begins with the state that the one before ends with."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper

from dsascape.workloads.decomposition.writer import OWN, NodeWriter, decomposed

CHUNK = 256
"""Tokens whose states are held at once; assumed, as Mamba-2 has it (Dao and Gu, 2024)."""


@decomposed(f"{OWN}::SelectiveScan")
def _selective_scan(writer: NodeWriter) -> None:
    """Write the states of each chunk, what leaves them, and the share of the data that skips them.

    Inputs: data and steps [batch, tokens, channels], rates [channels, states], what enters and what leaves
    [batch, tokens, states], the share that skips [channels], the state before [batch, channels, states].
    """
    data, steps, rates, entering, leaving, skipping, state = [writer.input(place) for place in range(7)]
    tokens = writer.shape(data)[1]
    outputs = []
    for first in range(0, tokens, CHUNK):
        length = min(CHUNK, tokens - first)
        operands = data, steps, rates, entering, state
        states = writer.op("ScanChunk", *operands, domain=OWN, first=first, length=length)
        leaves = leaving
        if length < tokens:
            begin, end, axis = writer.ints(first), writer.ints(first + length), writer.ints(1)
            leaves = writer.op("Slice", leaving, begin, end, axis)
        outputs.append(writer.op("Einsum", states, leaves, equation="btdn,btn->btd"))
        last = writer.constant(np.asarray(length - 1, np.int64))
        to = writer.output(1) if first + length == tokens else ""
        state = writer.op("Gather", states, last, axis=1, to=to)
    together = outputs[0] if len(outputs) == 1 else writer.op("Concat", *outputs, axis=1)
    writer.op("Add", together, writer.op("Mul", data, skipping), to=writer.output(0))


def standard_nodes(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Yield the standard's nodes that compute what ``node`` does: a chunk of a scan as a loop, any other as it is."""
    if (node.domain, node.op_type) != (OWN, "ScanChunk"):
        yield node
        return
    own, sizes = node.output[0], {each.name: each.i for each in node.attribute}
    data, steps, rates, entering, state = node.input
    ends = {"first": [sizes["first"]], "end": [sizes["first"] + sizes["length"]], "axis": [1], "last": [-1]}
    for name, value in ends.items():
        yield helper.make_node("Constant", [], [f"{own}:{name}"], value_ints=value)
    scanned = [f"{own}:{part}" for part in ("data", "steps", "entering")]
    for source, to in zip((data, steps, entering), scanned, strict=True):
        yield helper.make_node("Slice", [source, f"{own}:first", f"{own}:end", f"{own}:axis"], [to])
    yield helper.make_node(
        "Scan", [state, *scanned], [f"{own}:state", own], num_scan_inputs=3, scan_input_axes=[1, 1, 1],
        scan_output_axes=[1], body=_one_token(own, rates),
    )  # fmt: skip


def _one_token(own: str, rates: str) -> onnx.GraphProto:
    """Return the step from the state of one token to that of the next: channels [batch, channels, 1] by states."""
    state, data, step, entering = [f"{own}:{name}" for name in ("h", "x", "dt", "enters")]
    wide = {each: f"{each}.wide" for each in (data, step)}
    nodes = [helper.make_node("Unsqueeze", [each, f"{own}:last"], [to]) for each, to in wide.items()]
    nodes += [
        helper.make_node("Unsqueeze", [entering, f"{own}:axis"], [f"{own}:row"]),
        helper.make_node("Mul", [wide[step], rates], [f"{own}:exponent"]),
        helper.make_node("Exp", [f"{own}:exponent"], [f"{own}:decay"]),
        helper.make_node("Mul", [f"{own}:decay", state], [f"{own}:kept"]),
        helper.make_node("Mul", [wide[step], wide[data]], [f"{own}:scaled"]),
        helper.make_node("Mul", [f"{own}:scaled", f"{own}:row"], [f"{own}:new"]),
        helper.make_node("Add", [f"{own}:kept", f"{own}:new"], [f"{own}:next"]),
        helper.make_node("Identity", [f"{own}:next"], [f"{own}:shown"]),
    ]
    entries, results = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
        for names in ((state, data, step, entering), (f"{own}:next", f"{own}:shown"))
    ]
    return helper.make_graph(nodes, f"{own}:token", entries, results)
