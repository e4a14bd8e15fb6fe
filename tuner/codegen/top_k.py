"""Best elements of each line, sorted (TopK): a merge sort of the places of all of its elements.

Equal elements stay in their order. The first places, and the elements there, are the results.
"""

import math
from collections.abc import Sequence
from typing import Any

from tvm import te, tirx

from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.tuner.codegen.local_values import with_thread_values
from dsascape.tuner.codegen.tvm_values import values_of_views
from dsascape.workloads.arithmetic.elementwise import Operator
from dsascape.workloads.executable import Executable


def top_k(layer: Layer, executable: Executable, _: Steps, name: str) -> tuple[Any, tuple[str, ...]]:
    """Return the function ``name`` of a layer that is one TopK, and its parameter in front of the results."""
    graph = layer.graph
    values, position = values_of_views(layer, executable)
    op = graph.ops[position]
    source, described = graph.tensors[op.inputs[0]], values.operator(position, op)
    axis = int(described.attributes.get("axis", -1)) % len(source.shape)
    data, named = values.tensor(source.name), list(executable.nodes[position].output)
    results = {
        each: tirx.decl_buffer(graph.tensors[each].shape, values.dtype(graph.tensors[each]), f"result{number}")
        for number, each in enumerate(layer.outputs)
    }
    rest = [dim for dim in range(len(source.shape)) if dim != axis]
    line = tirx.Var("line", "int32")

    def place(along: Any) -> list[Any]:
        """Return the indices of an element of the line."""
        found, left = [along] * len(source.shape), line
        for dim in reversed(rest):
            found[dim] = tirx.floormod(left, source.shape[dim])
            left = tirx.floordiv(left, source.shape[dim])
        return found

    size, kept = source.shape[axis], graph.tensors[layer.outputs[0]].shape[axis]
    order = tirx.decl_buffer((2, size), "int32", "order")
    ahead = tirx.decl_buffer((2,), "int32", "ahead")
    levels = max(math.ceil(math.log2(size)), 0)
    result = tirx.Var("result", "int32")
    chosen = tirx.BufferLoad(order, [levels % 2, result])
    stores = [
        tirx.BufferStore(
            buffer,
            values.numbers.within(lambda: data.at(place(chosen))) if named.index(each) == 0 else chosen.astype("int64"),
            place(result),
        )
        for each, buffer in results.items()
    ]
    body = tirx.SeqStmt([
        tirx.AllocBuffer(order), tirx.AllocBuffer(ahead), _numbered(order, size),
        *_merged(order, ahead, (size, levels), lambda at: data.at(place(at)), described),
        tirx.For(result, 0, kept, tirx.ForKind.SERIAL, stores[0] if len(stores) == 1 else tirx.SeqStmt(stores)),
    ])  # fmt: skip
    lines = math.prod([source.shape[dim] for dim in rest])
    whole = tirx.For(line, 0, lines, tirx.ForKind.PARALLEL if lines > 1 else tirx.ForKind.SERIAL, body)
    function = tirx.PrimFunc([*values.inputs.values(), *results.values()], with_thread_values(whole))
    return function.with_attr("tirx.noalias", True).with_attr("global_symbol", name), tuple(values.inputs)


def _numbered(order: Any, size: int) -> Any:
    """Return the loop that numbers the elements of a line."""
    each = tirx.Var("each", "int32")
    return tirx.For(each, 0, size, tirx.ForKind.SERIAL, tirx.BufferStore(order, each, [0, each]))


def _merged(
    order: Any, ahead: Any, sizes: tuple[int, int], value: Any, op: Operator
) -> Sequence[Any]:
    """Return the loops that merge sorted pieces of a line in pairs, level by level; nothing for a line of one."""
    size, levels = sizes
    if not levels:
        return ()
    level, number = tirx.Var("level", "int32"), tirx.Var("number", "int32")
    width = tirx.const(1, "int32") << level
    source, within = tirx.floormod(level, 2), tirx.floormod(number, width * 2)
    begin = number - within
    left, right = (tirx.BufferLoad(ahead, [side]) for side in (0, 1))
    places = begin + left, begin + width + right
    own = [tirx.BufferLoad(order, [source, te.min(each, size - 1)]) for each in places]
    one, other = map(value, own)
    is_better = one < other if op.attributes.get("largest", 1) else other < one
    is_right = tirx.all(right < width, places[1] < size, tirx.any(left >= width, is_better))

    def taken(side: int) -> Any:
        return tirx.SeqStmt([
            tirx.BufferStore(order, own[side], [1 - source, number]),
            tirx.BufferStore(ahead, tirx.BufferLoad(ahead, [side]) + 1, [side]),
        ])

    fresh = tirx.SeqStmt([tirx.BufferStore(ahead, tirx.const(0, "int32"), [side]) for side in (0, 1)])
    step = tirx.SeqStmt([tirx.IfThenElse(within < 1, fresh, None), tirx.IfThenElse(is_right, taken(1), taken(0))])
    inner = tirx.For(number, 0, size, tirx.ForKind.SERIAL, step)
    return (tirx.For(level, 0, levels, tirx.ForKind.SERIAL, inner),)
