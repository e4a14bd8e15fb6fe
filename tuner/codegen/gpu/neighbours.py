"""Iterations of a loop that store to neighbours in memory or copy them, which one instruction of a thread can do."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.nodes import Condition, Guard, Loop, Statement, strides_of
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.workloads.graph import Tensor

_LANES = 4, 2
"""Elements that one store of a thread may take, the most first."""


def place_in_memory(statement: Statement, program: LoopProgram, order: Sequence[int]) -> Affine:
    """Return the place in a buffer that a statement stores to; ``order``: dimensions as they lie there."""
    buffer, place = program.buffer(statement.stage), Affine()
    for dim, stride in zip(order, buffer.strides, strict=False):
        place = place + (statement.element[dim] + buffer.first[dim] * -1) * stride
    return place


def lanes_of(loop: Loop, place: Affine, conditions: Sequence[Condition]) -> int:
    """Return how many iterations of ``loop`` store to neighbours at a time: 4, 2, or 1 where none do.

    The first of them has to store to a multiple of that number, and ``conditions`` have to hold for all of them or for
    none.
    """
    return next((lanes for lanes in _LANES if _are_neighbours(loop, place, conditions, lanes)), 1)


def copied_lanes(
    node: Loop, program: LoopProgram, from_outside: Callable[[str], Tensor | None]
) -> tuple[int, int]:
    """Return how many neighbours of a tensor one instruction may bring into its copy: 4, 2, or 1.

    And along how many of the innermost loops that ``node`` fuses, which goes over all elements of the copy: those that
    both memories go through as one. ``from_outside`` returns a tensor that lies in memory as it is described.
    """
    guard = node.body[0] if len(node.body) == 1 and isinstance(node.body[0], Guard) else None
    (inside, *others) = node.body if guard is None else guard.body
    if others or not isinstance(inside, Statement):
        return 1, 1
    stage = next(each for each in program.stages if each.name == inside.stage)
    if stage.kind != "copy" or any(each.name == stage.source for each in program.stages):
        return 1, 1
    tensor, there = from_outside(stage.source), Affine()
    if tensor is None:
        return 1, 1
    strides = strides_of([tensor.shape[dim] for dim in tensor.order], None)
    for dim, stride in zip(tensor.order, strides, strict=True):
        there = there + inside.element[dim] * stride
    spans = [each.span(program.extents) for each in inside.element]
    begins = [each for each, (first, _) in zip(inside.element, spans, strict=True) if first < 0]
    ends = [
        Condition(each, size)
        for each, size, (_, end) in zip(inside.element, tensor.shape, spans, strict=True) if end > size
    ]  # fmt: skip
    conditions = [*ends, *(() if guard is None else guard.conditions)]
    place = place_in_memory(inside, program, stage.order)
    loops = list(node.fused or ((node.name, node.extent),))
    best, own, merged = (1, 1), loops[-1][0], 1
    for number, (name, extent) in enumerate(reversed(loops), 1):
        steps = {_apart(each, name)[0] for each in (place, there)}
        if steps != {merged} or any(_apart(each, name)[0] for each in begins):
            break
        if number > 1:
            place, there = _apart(place, name)[1], _apart(there, name)[1]
            if any(_apart(each.value, name)[0] for each in conditions):
                break
        merged *= extent
        whole = replace(node, name=own, extent=merged, fused=())
        lanes = min(lanes_of(whole, place, conditions), lanes_of(whole, there, conditions))
        best = max(best, (lanes, number), key=lambda each: each[0])
    return best


def _are_neighbours(loop: Loop, place: Affine, conditions: Sequence[Condition], lanes: int) -> bool:
    own, rest = _apart(place, loop.name)
    together = own == 1 and loop.extent % lanes == 0 and rest.divides(lanes)
    return together and all(_holds_for_all(each, loop.name, lanes) for each in conditions)


def _holds_for_all(condition: Condition, loop: str, lanes: int) -> bool:
    own, rest = _apart(condition.value, loop)
    return own == 0 or (own == 1 and rest.divides(lanes) and condition.limit % lanes == 0)


def _apart(value: Affine, loop: str) -> tuple[int, Affine]:
    """Return the stride of a loop in an expression, and the rest of it."""
    strides = dict(value.terms)
    return strides.pop(loop, 0), Affine(value.offset, tuple(strides.items()))
