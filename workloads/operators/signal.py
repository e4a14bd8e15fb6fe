"""Fourier transforms: every output of a line needs the whole line."""

import math
from collections.abc import Sequence

from dsascape.workloads.loopnest import Access, Index, LoopNest, Operations
from dsascape.workloads.operators.access import all_of, at, everything, space_loops, whole
from dsascape.workloads.operators.registry import Lowered, NodeContext, UnsupportedOperatorError, operator

_AXIS_INPUT_OPSET = 20


def _butterflies(length: int) -> Operations:
    """Return the arithmetic per real number of a fast transform: 5 N log2 N in all, over 2 N numbers."""
    return Operations(simple=max(math.ceil(2.5 * math.log2(max(length, 2))), 1))


@operator("DFT", layout="row_major")
def _fourier(context: NodeContext) -> Lowered:
    data, output = context.input(0), context.output
    rank = len(data.shape)
    axis = int(context.attributes.get("axis", 1))
    if context.opset >= _AXIS_INPUT_OPSET:
        given = context.constant(2)
        if given is None and context.optional_input(2) is not None:
            raise UnsupportedOperatorError("the axis is not known before the network runs")
        axis = -2 if given is None else int(given.reshape(-1)[0])
    axis %= rank
    length = context.constant(1)
    taken = data.shape[axis] if length is None else min(int(length.reshape(-1)[0]), data.shape[axis])
    loops, positions = space_loops(output)
    indices = [at(loop) for loop in positions]
    indices[axis], indices[-1] = everything(taken), everything(data.shape[-1])
    reads = (Access(data.name, data.shape, tuple(indices)), *(all_of(t) for t in context.unknown(1)))
    work = _butterflies(taken)
    return Lowered((LoopNest("DFT", loops, reads, whole(output, positions), per_output=work),))


def _frames(context: NodeContext) -> list[tuple[Sequence[int], str]]:
    signal = context.input(0)
    step = context.constant(1)
    taken = _frame_length(context)
    if step is None:
        raise UnsupportedOperatorError("the frame step is not known before the network runs")
    frames = (signal.shape[1] - taken) // int(step.reshape(-1)[0]) + 1
    bins = taken // 2 + 1 if context.flag("onesided", default=True) else taken
    return [((signal.shape[0], frames, bins, 2), signal.dtype)]


def _frame_length(context: NodeContext) -> int:
    length, window = context.constant(3), context.optional_input(2)
    if length is not None:
        return int(length.reshape(-1)[0])
    if window is None:
        raise UnsupportedOperatorError("the frame length is not known before the network runs")
    return window.shape[0]


@operator("STFT", layout="row_major", shapes=_frames)
def _short_time_fourier(context: NodeContext) -> Lowered:
    """Transform overlapping frames of a signal; frame f starts at f x step."""
    signal, output = context.input(0), context.output
    step, taken = context.constant(1), _frame_length(context)
    if step is None:
        raise UnsupportedOperatorError("the frame step is not known before the network runs")
    loops, positions = space_loops(output)
    frame = Index(((positions[1], int(step.reshape(-1)[0])),), window=taken)
    rest = tuple(everything(size) for size in signal.shape[2:])
    reads = [Access(signal.name, signal.shape, (at(positions[0]), frame, *rest))]
    reads += [all_of(t) for t in context.unknown(2)]
    work = _butterflies(taken)
    return Lowered((LoopNest("STFT", loops, tuple(reads), whole(output, positions), per_output=work),))
