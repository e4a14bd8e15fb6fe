"""A chunk of a selective scan: states of all channels, token by token, each from the one before.

The loops are those that are simulated: tokens outermost in a thread's part of the channels, vectors along states.
"""

from typing import Any

from tvm import tirx

from dsascape.scheduler.kernels.lanes import dividing
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.steps import Steps, Tile, Vectorise
from dsascape.tuner.codegen.local_values import with_local_values
from dsascape.tuner.codegen.tvm_values import values_of_views
from dsascape.workloads.arithmetic.elementwise import scanned_state
from dsascape.workloads.executable import Executable

_LANES = 8
"""Most lanes of a vector where the loops are given as steps, which say nothing of a scan's vectors."""


def scan_chunk(layer: Layer, executable: Executable, chosen: Steps, name: str) -> tuple[Any, tuple[str, ...]]:
    """Return the function ``name`` of a layer that is one chunk of a scan, and its parameters before the result."""
    graph, shape = layer.graph, layer.sink.shape
    values, position = values_of_views(layer, executable)
    op = graph.ops[position]
    data, steps, rates, entering, start = [values.tensor(each) for each in op.inputs]
    dtype = values.dtype(graph.tensors[layer.sink.name])
    written = tirx.decl_buffer(shape, dtype, "states")
    token, begin = tirx.Var("t", "int32"), int(executable.attributes(position)["first"])

    def state(batch: Any, channel: Any, number: Any, *, is_first: bool) -> Any:
        now = token + begin
        before = [batch, channel, number]
        held = start.at(before) if is_first else tirx.BufferLoad(written, [batch, token - 1, channel, number])
        of_channel, of_state = [batch, now, channel], [batch, now, number]
        rate = rates.at([channel, number])
        read = data.at(of_channel), steps.at(of_channel), rate, entering.at(of_state), held
        return scanned_state(values.numbers, *read)

    tile, lanes = _tile(chosen, layer.sink.name, shape)
    part = tirx.Var("p", "int32")
    counts = [-(-size // each) for size, each in zip(shape, tile, strict=True)]

    def of_token(*, is_first: bool) -> Any:
        """Return the loops over a thread's part of one token's states."""
        inner = [tirx.Var(each, "int32") for each in ("b", "d", "v", "lane")]
        rest, first = part, []
        for dim in (3, 2, 0):
            first.append(tirx.floormod(rest, counts[dim]) * tile[dim])
            rest = tirx.floordiv(rest, counts[dim])
        batch, channel = first[2] + inner[0], first[1] + inner[1]
        number = first[0] + inner[2] * lanes + inner[3]
        value = values.numbers.within(lambda: state(batch, channel, number, is_first=is_first))
        body: Any = tirx.BufferStore(written, value, [batch, token, channel, number])
        body = tirx.For(inner[3], 0, lanes, tirx.ForKind.VECTORIZED if lanes > 1 else tirx.ForKind.SERIAL, body)
        body = tirx.For(inner[2], 0, tile[3] // lanes, tirx.ForKind.SERIAL, body)
        for variable, extent, dim, place in ((inner[1], tile[2], 2, channel), (inner[0], tile[0], 0, batch)):
            body = tirx.IfThenElse(place < shape[dim], body, None) if shape[dim] % tile[dim] else body
            body = tirx.For(variable, 0, extent, tirx.ForKind.SERIAL, body)
        return body

    body = tirx.IfThenElse(token < 1, of_token(is_first=True), of_token(is_first=False))
    body = tirx.For(token, 0, shape[1], tirx.ForKind.SERIAL, body)
    parts = counts[0] * counts[2] * counts[3]
    body = tirx.For(part, 0, parts, tirx.ForKind.PARALLEL if parts > 1 else tirx.ForKind.SERIAL, body)
    function = tirx.PrimFunc([*values.inputs.values(), written], body).with_attr("tirx.noalias", True)
    return with_local_values(function).with_attr("global_symbol", name), tuple(values.inputs)


def _tile(steps: Steps, sink: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Return the states that a thread goes through for each token, in whole vectors, and the lanes of these."""
    levels = [step.levels[0] for step in steps if isinstance(step, Tile) and step.stage == sink]
    lanes = [step.lanes for step in steps if isinstance(step, Vectorise) and step.stage == sink]
    if not levels or levels[0].sizes is None:
        return shape, dividing(shape[3], _LANES)
    outermost = dict(zip(levels[0].order, levels[0].sizes, strict=True))
    own = [min(outermost.get(dim, size), size) for dim, size in enumerate(shape)]
    return tuple(own), dividing(own[3], lanes[0]) if lanes else 1
