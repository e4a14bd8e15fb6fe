"""The innermost loop of a stage in vectors."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any

from dsascape.scheduler.kernels.lanes import halvings
from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.columns import alike, alike_where, anywhere, common
from dsascape.scheduler.kernels.loops.nodes import Loop, LoopKind, Node, Reach, Role
from dsascape.scheduler.kernels.loops.stage.base import Slot, StageBase, State
from dsascape.scheduler.kernels.structure.row_parts import lengths_of_parts


class InVectors(StageBase):
    """Loops of a stage whose innermost dimension is computed in vectors."""

    @abstractmethod
    def reach_of(self, slot: Slot, state: State) -> Reach | None:
        """Return the part of a loop's iterations that run; None for all."""

    def is_unrolled(self, count: int) -> bool:
        unroll = self.unroll
        return unroll is not None and alike_where((not unroll.most) | (count <= unroll.most), count > 1)

    def is_vector(self, depth: int, state: State) -> bool:
        """Whether the loop at ``depth`` is the innermost one with several iterations, and computed in vectors."""
        if self.vector is None or alike(self.run > 0):
            return False
        is_innermost: Any = state.covered[self.slots[depth].axis] > 1
        for slot in self.slots[depth + 1 :]:
            if is_innermost is False:
                return False
            is_innermost = is_innermost & (state.covered[slot.axis] <= 1)
        return alike(is_innermost)

    def in_vectors(self, depth: int, state: State, role: Role) -> list[Node]:
        """Return the innermost loop cut into vectors."""
        assert self.vector is not None
        dim, lanes = self.slots[depth].axis, self.vector.lanes
        nodes: list[Node] = []
        begin = 0
        for extent in self._rows(dim, state):
            for number, width in pieces(extent, lanes, self.vector.ends):
                nodes += self._piece(depth, state, role, (dim, begin, number, width))
                begin = begin + number * width
        return nodes

    def _rows(self, dim: int, state: State) -> tuple[int, ...]:
        """Return the elements that are cut into vectors each for themselves, one after the other.

        Rows that consist of parts, such as those of a concatenation, are cut at their borders.
        """
        extent, begins_at = state.covered[dim], self.box[dim].first + state.local[dim]
        assert self.vector is not None
        if self.vector.ends != "halved" or not alike(extent == self.stage.shape[dim]):
            return (extent,)
        is_first: Any = begins_at.offset == 0
        for loop, _ in begins_at.terms:
            is_first = is_first & (self.tree.extents[loop] == 1)
        if not alike(is_first):
            return (extent,)
        return lengths_of_parts(self.tree.plans.naive.layer, self.stage.shape, dim)

    def _piece(self, depth: int, state: State, role: Role, piece: tuple[int, int, int, int]) -> list[Node]:
        """Return some of the vectors along a dimension: dimension, first element, vectors, lanes."""
        dim, begin, count, width = piece
        label = self.label_of(self.slots[depth])
        outer = self.tree.loop_name(label) if anywhere(count > 1) else ""
        inner = self.tree.loop_name(label) if width > 1 else ""
        terms = [(name, step) for name, step in ((outer, width), (inner, 1)) if name]
        local, covered = list(state.local), list(state.covered)
        local[dim] += Affine(begin, tuple(terms))
        covered[dim] = 1
        for name, extent in ((outer, count), (inner, width)):
            if name:
                self.tree.extents[name] = extent
        inside = state._replace(local=tuple(local), covered=tuple(covered))
        body = self.guarded(len(self.slots), inside, role)
        if inner:
            body = [Loop(inner, width, "vector", tuple(body))]
        if outer:
            kind: LoopKind = "unrolled" if self.is_unrolled(count) else "serial"
            at = state._replace(local=(*state.local[:dim], state.local[dim].shifted(begin), *state.local[dim + 1 :]))
            reach = self.reach_of(replace(self.slots[depth], size=width), at) if kind == "serial" else None
            body = [Loop(outer, count, kind, tuple(body), reach=reach)]
        return body


def pieces(extent: int, lanes: int, ends: str) -> list[tuple[int, int]]:
    """Return how a dimension is cut into vectors: so many of so many lanes, one piece after the other."""
    if ends == "halved":
        found = []
        for width in halvings(lanes):
            count, extent = extent // width, extent % width
            found += [(count, width)] if alike(count > 0) else []
        return found
    if ends == "dividing":
        lanes = next(each for each in halvings(lanes) if alike(extent % each == 0))
    return [(extent // lanes, lanes)] if alike(extent % lanes == 0) else [(1, common(extent))]
