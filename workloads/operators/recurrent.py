"""LSTM, GRU and RNN: a product with all inputs at once, then steps that each need the ones before."""

from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Access, Index, Loop, LoopNest, Operations
from dsascape.workloads.operators.access import all_of, anything, at, everything, whole
from dsascape.workloads.operators.registry import Lowered, NodeContext, operator

_MAC = Operations(macs=1)
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_PER_STATE = {
    "LSTM": Operations(simple=10, special=8), "GRU": Operations(simple=8, special=5),
    "RNN": Operations(simple=1, special=2),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Sizes:
    steps: int
    directions: int
    batch: int
    hidden: int
    depth: int
    gates: int
    batch_first: bool

    def data(self, step: Index, batch: Index) -> tuple[Index, Index]:
        return (batch, step) if self.batch_first else (step, batch)


@operator("LSTM", "GRU", "RNN", layout="row_major", partial=True)
def _recurrent(context: NodeContext) -> Lowered:
    """Compute gates of all inputs, then states step by step, then the outputs as copies of the states.

    State t needs the gates up to t, or from t on in a reversed direction: a window that reaches to the end.
    """
    data, weight, recurrence = (context.input(place) for place in range(3))
    batch_first = context.flag("layout")
    steps, batch = (data.shape[1], data.shape[0]) if batch_first else data.shape[:2]
    directions, _, depth = weight.shape
    gates = _GATES[context.kind]
    sizes = _Sizes(steps, directions, batch, recurrence.shape[2], depth, gates, batch_first)
    _check_operands(context, sizes, data)
    name = context.results[0].name
    summed = Tensor(f"{name}:gates", (steps, directions, batch, gates, sizes.hidden), data.dtype, "activation")
    shape = (steps, batch, sizes.hidden)
    states = [Tensor(f"{name}:states{number or ''}", shape, data.dtype, "activation") for number in range(directions)]
    project = _projection(context, sizes, data, weight, summed)
    walks = [_states(context, sizes, direction, summed, own) for direction, own in enumerate(states)]
    outputs = [*_every_state(context, sizes, states), *_last_states(context, sizes, states)]
    return Lowered((project, *walks, *outputs), (summed, *states))


def _check_operands(context: NodeContext, sizes: _Sizes, data: Tensor) -> None:
    both = context.text("direction", "forward") == "bidirectional"
    rows, lead = sizes.gates * sizes.hidden, (2 if both else 1,)
    context.expect(0, *(data.shape[:2]), sizes.depth)
    context.expect(1, *lead, rows, sizes.depth)
    context.expect(2, *lead, rows, sizes.hidden)
    context.expect(3, *lead, 2 * rows)
    context.expect(4, sizes.batch)
    start = (sizes.batch, *lead) if sizes.batch_first else (*lead, sizes.batch)
    context.expect(5, *start, sizes.hidden)
    context.expect(6, *start, sizes.hidden)
    context.expect(7, *lead, 3 * sizes.hidden)


def _projection(
    context: NodeContext, sizes: _Sizes, data: Tensor, weight: Tensor, summed: Tensor
) -> LoopNest:
    loops = (
        Loop("t", sizes.steps), Loop("d", sizes.directions), Loop("b", sizes.batch),
        Loop("j", sizes.gates), Loop("h", sizes.hidden), Loop("i", sizes.depth, reduction=True),
    )  # fmt: skip
    t, d, b, j, h, i = range(6)
    rows = ((j, sizes.hidden), (h, 1))
    reads = [
        Access(data.name, data.shape, (*sizes.data(at(t), at(b)), at(i))),
        Access(weight.name, weight.shape, (at(d), Index(rows), at(i))),
    ]
    bias = context.optional_input(3)
    if bias is not None:  # two vectors, one behind the other: for the input and for the state
        halves = (Index(rows, offset=offset) for offset in (0, sizes.gates * sizes.hidden))
        reads += [Access(bias.name, bias.shape, (at(d), half)) for half in halves]
    last = Operations(simple=2 * int(bias is not None))
    return LoopNest("project", loops, tuple(reads), whole(summed, (t, d, b, j, h)), _MAC, last)


def _states(context: NodeContext, sizes: _Sizes, direction: int, summed: Tensor, states: Tensor) -> LoopNest:
    """Return the steps of one direction: unit h at time t needs its gates, and all units of the step before.

    With sequence lengths, the backward direction begins at a time that depends on data.
    """
    recurrence = context.input(2)
    loops = (
        Loop("t", sizes.steps), Loop("b", sizes.batch), Loop("h", sizes.hidden),
        Loop("j", sizes.gates, reduction=True), Loop("k", sizes.hidden, reduction=True),
    )  # fmt: skip
    t, b, h, j, k = range(5)
    backward = direction == 1 or context.text("direction", "forward") == "reverse"
    lengths = context.optional_input(4)
    time = anything((t,)) if lengths is not None and backward else at(t)
    way = Index(offset=direction)
    rows = Index(((j, sizes.hidden), (h, 1)))
    reads = [
        Access(recurrence.name, recurrence.shape, (way, rows, at(k))),
        Access(summed.name, summed.shape, (time, way, at(b), at(j), at(h))),
    ]
    if lengths is not None:
        reads.append(Access(lengths.name, lengths.shape, (at(b),)))
    for place in (5, 6):  # initial hidden state; initial cell state
        start = context.optional_input(place)
        if start is not None:
            lead = (at(b), way) if sizes.batch_first else (way, at(b))
            reads.append(Access(start.name, start.shape, (*lead, everything(sizes.hidden))))
    peepholes = context.optional_input(7)
    if peepholes is not None:
        reads.append(Access(peepholes.name, peepholes.shape, (way, everything(peepholes.shape[1]))))
    bias = context.optional_input(3)
    if bias is not None and context.flag("linear_before_reset"):
        reads.append(all_of(bias))
    write = whole(states, (t, b, h))
    before = Access(states.name, states.shape, (Index(((t, 1),), offset=1 if backward else -1), at(b), at(k)))
    return LoopNest("step", loops, tuple(reads), write, _MAC, _PER_STATE[context.kind], before)


def _every_state(context: NodeContext, sizes: _Sizes, states: Sequence[Tensor]) -> list[LoopNest]:
    output = context.optional_output(0)
    if output is None:
        return []
    nests = []
    t, b, h = range(3)
    for direction, own in enumerate(states):
        loops = tuple(Loop(name, size) for name, size in zip("tbh", own.shape, strict=True))
        way = Index(offset=direction)
        order = (at(b), at(t), way, at(h)) if sizes.batch_first else (at(t), way, at(b), at(h))
        reads = [whole(own, (t, b, h))]
        lengths = context.optional_input(4)
        if lengths is not None:
            reads.append(Access(lengths.name, lengths.shape, (at(b),)))
        nests.append(LoopNest("copy", loops, tuple(reads), Access(output.name, output.shape, order)))
    return nests


def _last_states(context: NodeContext, sizes: _Sizes, states: Sequence[Tensor]) -> list[LoopNest]:
    """Return the copies of the last state of each direction; with lengths, the last one depends on them.

    The cell state of an LSTM is computed together with the hidden state and needs the same operands.
    """
    nests = []
    lengths = context.optional_input(4)
    for output in (context.optional_output(1), context.optional_output(2)):
        if output is None:
            continue
        for direction, own in enumerate(states):
            backward = direction == 1 or context.text("direction", "forward") == "reverse"
            last = (
                everything(sizes.steps)
                if lengths is not None
                else Index(offset=0 if backward else sizes.steps - 1)
            )
            way = Index(offset=direction)
            loops = (Loop("b", sizes.batch), Loop("h", sizes.hidden))
            reads = [Access(own.name, own.shape, (last, at(0), at(1)))]
            if lengths is not None:
                reads.append(Access(lengths.name, lengths.shape, (at(0),)))
            lead: Sequence[Index] = (at(0), way) if sizes.batch_first else (way, at(0))
            write = Access(output.name, output.shape, (*lead, at(1)))
            nests.append(LoopNest("last", loops, tuple(reads), write))
    return nests
