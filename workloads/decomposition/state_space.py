"""Selective scan written out as chunks of tokens, each of which begins with the state that the one before ends with."""

import numpy as np

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
