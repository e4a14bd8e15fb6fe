"""Iterations of a loop that store to neighbours in a GPU's memory, which one instruction of a thread can do."""

from collections.abc import Sequence

from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.nodes import Condition, Loop, Statement
from dsascape.scheduler.kernels.loops.program import LoopProgram

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
