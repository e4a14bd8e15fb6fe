"""Selective scan written out as chunks of tokens, each of which begins with the state that the one before ends with."""

from dsascape.workloads.decomposition.writer import OWN, NodeWriter, decomposed

CHUNK = 256
"""Tokens whose states are held at once; assumed, as Mamba-2 has it (Dao and Gu, 2024)."""


@decomposed(f"{OWN}::SelectiveScan")
def _selective_scan(writer: NodeWriter) -> None:
    """Scan of the operands of ``ScanChunk`` (``workloads/operators/state_space.py``): all outputs, the last state."""
    *operands, state = [writer.input(place) for place in range(7)]
    tokens = writer.shape(operands[0])[1]
    outputs = []
    for first in range(0, tokens, CHUNK):
        length = min(CHUNK, tokens - first)
        is_last, is_only = first + length == tokens, length == tokens
        own = writer.output(0) if is_only else writer.fresh("outputs")
        end = writer.output(1) if is_last else writer.fresh("state_")
        writer.split("ScanChunk", *operands, state, to=(own, end), domain=OWN, first=first, length=length)
        outputs.append(own)
        state = end
    if len(outputs) > 1:
        writer.op("Concat", *outputs, to=writer.output(0), axis=1)
