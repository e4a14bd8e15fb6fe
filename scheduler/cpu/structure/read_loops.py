"""The loops around a kernel's anchor, read off the tree of its program: what the cost model folds over.

The search looks at hundreds of tiles for each kernel, and has these loops of its own tiles without building the tree
(`LoopTiles.tiled`); tests hold that both are the same. Programs that others write, such as a tuner, are read here.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from dsascape.scheduler.cpu.schedule.tiles import TiledLoops
from dsascape.scheduler.cpu.structure.anchors import anchored_nest
from dsascape.scheduler.kernels.layer import DEPTH, Layer
from dsascape.scheduler.kernels.loops.nodes import SUMS, Loop, LoopKind, Nodes, Statement
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import Tile

_FURTHER = -2
"""Stands for a reduction loop that is not the anchor's longest."""


@dataclass(frozen=True, slots=True)
class _AxisLoop:
    """A loop around the statement that is read: what it goes along, and what one iteration covers."""

    axis: int
    inside: int
    extent: int
    kind: LoopKind


def read_loops(layer: Layer, program: LoopProgram) -> TiledLoops:
    """Return the loops around the register tiles of the one anchor of ``layer``, or around its rows.

    Raises ``ValueError`` for a kernel with several anchors, one behind the other.
    """
    nest = anchored_nest(layer)
    sums = "" if nest is None else nest.write.tensor + SUMS
    has_sums = any(stage.name == sums for stage in program.stages)
    if nest is None and sum(stage.kind == "sum" for stage in program.stages) > 1 and layer.contraction is not None:
        raise ValueError(f"{layer.sink.name}: a kernel with several anchors has the loops of each of them")
    around, statement = _found(program, sums if has_sums else layer.sink.name, "update" if has_sums else "store")
    loops = list(_axes(layer, around, statement))
    rank = len(layer.sink.shape)
    held = [loop for loop in loops if loop.kind in ("unrolled", "vector") and loop.axis >= 0]
    register = tuple([math.prod([each.extent for each in held if each.axis == dim]) for dim in range(rank)])
    serial = [loop for loop in loops if loop.kind not in ("unrolled", "vector")]
    is_held = not has_sums or program.buffer(sums).scope == "register"
    last = max(
        [number + 1 for number, loop in enumerate(serial) if loop.axis >= 0 or (loop.inside > 1 and not is_held)],
        default=0,
    )
    outside = serial[:last]
    first_level = _first_level(program, layer.sink.name, layer.sink.shape)
    listed = [loop for loop in outside if loop.axis != _FURTHER]
    parallel = sum(loop.kind == "parallel" for loop in listed)
    of_tile = max(
        [parallel]
        + [number + 1 for number, loop in enumerate(listed) if loop.axis >= 0 and loop.inside >= first_level[loop.axis]]
    )  # fmt: skip
    return TiledLoops(
        tuple([(loop.axis, loop.inside) for loop in listed]),
        parallel, of_tile, register,
        next((loop.axis for loop in held if loop.kind == "vector"), _innermost(layer)),
        math.prod([loop.extent for loop in outside if loop.axis == _FURTHER]),
        math.prod([loop.extent for loop in loops if loop.kind == "unrolled" and loop.axis < 0]),
    )  # fmt: skip


def _found(program: LoopProgram, stage: str, role: str) -> tuple[tuple[Loop, ...], Statement]:
    return next(
        (around, each) for around, each in _statements(program.body) if each.stage == stage and each.role == role
    )


def _statements(nodes: Nodes, around: tuple[Loop, ...] = ()) -> Iterator[tuple[tuple[Loop, ...], Statement]]:
    for node in nodes:
        if isinstance(node, Statement):
            yield around, node
        else:
            yield from _statements(node.body, (*around, node) if isinstance(node, Loop) else around)


def _axes(layer: Layer, around: tuple[Loop, ...], statement: Statement) -> Iterator[_AxisLoop]:
    """Yield the loops around a statement, those that a fused loop stands for one by one."""
    strides = {loop: (dim, stride) for dim, each in enumerate(statement.element) for loop, stride in each.terms}
    for number, each in statement.reduced:
        axis = DEPTH if number == layer.depth_loop else _FURTHER
        strides |= {loop: (axis, stride) for loop, stride in each.terms}
    for loop in around:
        for name, extent in loop.fused or ((loop.name, loop.extent),):
            if name in strides:
                yield _AxisLoop(*strides[name], extent, loop.kind)


def _first_level(program: LoopProgram, sink: str, shape: tuple[int, ...]) -> list[int]:
    """Return the elements of each dimension that the outermost level of the sink's tiles covers."""
    covered = list(shape)
    for step in program.steps:
        if isinstance(step, Tile) and step.stage == sink and step.levels and step.levels[0].sizes is not None:
            for dim, size in zip(step.levels[0].order, step.levels[0].sizes, strict=True):
                covered[dim] = size
    return covered


def _innermost(layer: Layer) -> int:
    """Return the dimension of the sink that lies innermost in memory; -1 if it has one element."""
    sink = layer.sink
    return next((dim for dim in reversed(sink.order) if sink.shape[dim] > 1), -1)
