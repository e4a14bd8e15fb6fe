"""The tiled loops of a program's operator, as features of its shapes are counted: read off the tree."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from dsascape.scheduler.kernels.lanes import dividing
from dsascape.scheduler.kernels.layer import DEPTH, Layer
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.nodes import SUMS, Loop, LoopKind, Statement, statements_of
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.structure.anchors import anchored_nest
from dsascape.scheduler.kernels.structure.parts import parts_of
from dsascape.workloads.loopnest import Extents

_FURTHER = -2
"""Stands for a reduction loop that is not the operator's longest."""


@dataclass(frozen=True, slots=True)
class TiledLoops:
    """The loops around an operator's register tiles, outermost first."""

    loops: tuple[tuple[int, int], ...]
    """Axis, and elements or iterations along it that one iteration of the loop covers; the axis is a dimension of the
    result, or `DEPTH` for the longest reduction loop."""
    parallel: int
    """How many of them, the outermost, are split over threads together."""
    register: Extents
    """Elements of each dimension that are computed at once, in vectors."""
    vector_dim: int
    """Dimension along which vectors lie."""
    unrolled: int
    """Iterations of the innermost reduction loop that are written out one by one."""

    def lanes(self, most: int) -> int:
        """Return the lanes of a register tile's vectors, on a machine that has ``most``: as many as divide it."""
        return 1 if self.vector_dim < 0 else dividing(self.register[self.vector_dim], most)


@dataclass(frozen=True, slots=True)
class _AxisLoop:
    """A loop around the statement that is read: what it goes along, and what one iteration covers."""

    axis: int
    inside: int
    extent: int
    kind: LoopKind


def read_loops(layer: Layer, program: LoopProgram) -> TiledLoops:
    """Return the loops around the register tiles of the last operator of ``layer``; raise ``StepError`` without any."""
    part = (parts_of(layer) or (layer,))[-1]
    nest, sink = anchored_nest(part), part.sink
    sums = "" if nest is None else nest.write.tensor + SUMS
    has_sums = any(stage.name == sums for stage in program.stages)
    is_held = not has_sums or program.buffer(sums).scope == "register"
    around, statement = _statement(program, sums if has_sums else sink.name, "update" if has_sums else "store")
    loops = list(_axes(part, around, statement))
    held = [loop for loop in loops if loop.kind in ("unrolled", "vector") and loop.axis >= 0]
    unrolled = math.prod([loop.extent for loop in loops if loop.kind == "unrolled" and loop.axis < 0])
    serial = [loop for loop in loops if loop.kind not in ("unrolled", "vector")]
    ends = [
        number for number, loop in enumerate(serial, 1) if loop.axis >= 0 or (loop.inside > unrolled and not is_held)
    ]
    listed = [loop for loop in serial[: max(ends, default=0)] if loop.axis != _FURTHER]
    register = [math.prod([loop.extent for loop in held if loop.axis == dim]) for dim in range(len(sink.shape))]
    innermost = next((dim for dim in reversed(sink.order) if sink.shape[dim] > 1), -1)
    return TiledLoops(
        tuple([(loop.axis, loop.inside) for loop in listed]), sum(loop.kind == "parallel" for loop in listed),
        tuple(register), next((loop.axis for loop in held if loop.kind == "vector"), innermost), unrolled,
    )  # fmt: skip


def _statement(program: LoopProgram, stage: str, role: str) -> tuple[tuple[Loop, ...], Statement]:
    for around, each in statements_of(program.body):
        if (each.stage, each.role) == (stage, role):
            return around, each
    raise StepError(f"{stage} has no loops of its own")


def _axes(layer: Layer, around: tuple[Loop, ...], statement: Statement) -> Iterator[_AxisLoop]:
    """Yield the loops around a statement that move it, those that a fused loop stands for one by one."""
    strides = {loop: (dim, stride) for dim, each in enumerate(statement.element) for loop, stride in each.terms}
    for number, each in statement.reduced:
        axis = DEPTH if number == layer.depth_loop else _FURTHER
        strides |= {loop: (axis, stride) for loop, stride in each.terms}
    for loop in around:
        for name, extent in loop.fused or ((loop.name, loop.extent),):
            if name in strides:
                yield _AxisLoop(*strides[name], extent, loop.kind)
