"""The loops of one stage around its statements, with what is computed inside of them."""

import math
from collections.abc import Iterable, Mapping

from dsascape.scheduler.kernels.loops.affine import Affine, Range, Ranges, joined_ranges
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.columns import alike, anywhere, distinct, same
from dsascape.scheduler.kernels.loops.nodes import Condition, Guard, Loop, LoopKind, Node, Role
from dsascape.scheduler.kernels.loops.plans import StagePlan
from dsascape.scheduler.kernels.loops.stage.bands import InBands
from dsascape.scheduler.kernels.loops.stage.base import Slot, State, within
from dsascape.scheduler.kernels.loops.stage.grid import OnGrid
from dsascape.scheduler.kernels.loops.stage.running import WithRunning
from dsascape.scheduler.kernels.loops.stage.sums import Sums
from dsascape.scheduler.kernels.loops.stage.vectors import InVectors
from dsascape.scheduler.kernels.loops.steps import Tensorise


class StageLoops(InBands, InVectors, OnGrid, Sums, WithRunning):
    """The loops of one stage around its statements."""

    def nodes(self) -> list[Node]:
        """Return the nodes of the stage."""
        return self._descend(0, self.start, "update" if self.stage.kind == "sum" else "store")

    def _descend(self, depth: int, state: State, role: Role) -> list[Node]:
        """Return what is inside of the outermost ``depth`` loops: what is computed there, then further loops."""
        if self.around_number:
            kind = self.around_number.pop(0)
            inside = state._replace(of_block=self.all_covered(state)) if kind == "thread" else state
            return self.fused_loops(0, 0, kind, inside, role)
        nodes = [] if role in ("first", "rest", "give", "fold", "correct") else self._attached(depth, state)
        if not self.slots and self.is_on_grid and self.stage.kind != "sum":
            conditions = self.grid_conditions(state, role)
            own = self.inner(depth, state, role)
            return [*nodes, Guard(distinct(conditions), tuple(own))] if conditions else [*nodes, *own]
        if role == "update" and depth and depth == self.corrected_at:
            nodes += self.inner(depth, state, "correct")
        if role != "update" or depth != self.first_reduction:
            return nodes + self.inner(depth, state, role)
        if self.sums is not None and any(alike(extent > 1) for extent in state.covered):
            raise StepError(f"PartialSums: {self.stage.name}: has loops of elements inside of its reduction")
        if self.sums is None:
            nodes += self.begin_running(depth, state)
            nodes += [*self.inner(depth, state, "first"), *self.inner(depth, state, "update")]
            return nodes + self.put_together(depth, state)
        count, own = self.sums.count, self.inner(depth, state, "update")
        nodes += [*self.over_places(count, state, "first"), *own]
        while count > 1:
            count //= 2
            nodes += self.over_places(count, state, "fold")
        has_rest = alike(self.run % self.sums.count != 0) or any(self.run_limits(state))
        return nodes + (self.inner(depth, state, "rest") if has_rest else [])

    def inner(self, depth: int, state: State, role: Role) -> list[Node]:
        """Return the loops from that at ``depth`` on."""
        if depth == len(self.slots):
            own = self._innermost(state, role)
            handed_over = role in ("give", "fold") and not self.stage.order  # no loop of elements is guarded
            conditions = self.grid_conditions(state, role) if handed_over else []
            return [Guard(distinct(conditions), tuple(own))] if conditions else own
        number, on = self.groups.get(depth, (0, "serial"))
        if number:
            inside = state._replace(of_block=self.all_covered(state)) if on == "thread" else state
            return self.fused_loops(depth, number, on, inside, role)
        slot = self.slots[depth]
        if role in ("first", "give", "fold", "correct") and not slot.is_space:
            return self._descend(depth + 1, state, role)
        if slot.is_shared:
            return self.shared_turns(depth, state, role)
        if slot.is_inner and self.is_vector(depth, state):
            return self.in_vectors(depth, state, role)
        takes_columns = role == "update" and self.takes_columns(slot)
        return self.sums_in_band(depth, slot, state) if takes_columns else self._single_loop(depth, slot, state, role)

    def _innermost(self, state: State, role: Role) -> list[Node]:
        """Return the statement inside of all loops, or the loops along what partial sums are of."""
        own = self.along_run(state, role) if self.sums is not None else self.going_on(state, role)
        return self.of_row(state, role, own)

    def _single_loop(self, depth: int, slot: Slot, state: State, role: Role) -> list[Node]:
        """Return the loop of a slot around what is inside of it."""
        named, inside = self.step_of(slot, state)
        count = math.prod([number for _, number in named])
        is_unrolled = slot.is_unrolled or (slot.is_inner and self.is_unrolled(count))
        kind: LoopKind = "unrolled" if is_unrolled else "serial"
        if role == "update" and Tensorise in self.plan.steps and depth >= self.first_tensor:
            kind = "tensor"
        fused = tuple(named) if len(named) > 1 else ()
        name = self.tree.loop_name(self.label_of(slot)) if fused else named[0][0] if named else ""
        reach = self.reach_of(slot, state) if kind == "serial" and len(named) == 1 else None
        return within(reach, self.looped(name, count, kind, depth + 1, inside, role, fused))

    def _attached(self, depth: int, state: State) -> list[Node]:
        plans = self.tree.plans.attached(self.stage.name, depth)
        if not plans:
            return []
        box, of_block = self.all_covered(state), self.all_of_block(state)
        reduced = {
            loop: Range(state.reduced.get(loop, Affine()), extent)
            for loop, extent in state.left.items()
            if loop in state.reduced
        }
        names = [plan.stage.name for plan in plans]
        demanded = self.demanded(depth, box, reduced, names)
        of_all = demanded if same(of_block, box) else self.demanded(depth, of_block, reduced, names)
        softmax = self.tree.plans.running.get(self.stage.name)
        if softmax is not None and softmax.exponentials in demanded:
            self.tree.columns = demanded[softmax.exponentials][softmax.columns]  # statistics go along these, too
        nodes: list[Node] = []
        for plan in plans:
            name = plan.stage.name
            if name in self.tree.plans.naive.results:
                own, whole = [
                    self._beside(plan, each, needed.get(name)) for each, needed in ((box, demanded), (of_block, of_all))
                ]  # fmt: skip
                nodes += self.tree.placed(plan, own, whole)
            elif name in demanded:
                nodes += self.tree.placed(plan, demanded[name], of_all[name])
        return nodes

    def loops_from(self, state: State, role: Role) -> list[Node]:
        """Return all loops of the stage around one part of it."""
        return self.inner(0, state, role)

    def _beside(self, plan: StagePlan, box: Ranges, needed: Ranges | None) -> Ranges:
        """Return what is computed of a result: what belongs to ``box``, and what others read of it."""
        own = self.tree.plans.beside(plan.stage.name, self.stage.name, box)
        if own is None:
            assert needed is not None  # read for this stage
            return needed
        if needed is None or plan.is_inlined:
            return own
        return joined_ranges(own, needed, plan.stage.shape, self.tree.extents)

    def demanded(
        self, depth: int, box: Ranges, reduced: Mapping[int, Range], goals: Iterable[str]
    ) -> Mapping[str, Ranges]:
        return self.tree.plans.demanded(self.stage.name, depth, box, reduced, self.tree.extents, goals)

    def looped(
        self, name: str, count: int, kind: LoopKind, depth: int, inside: State, role: Role,
        fused: tuple[tuple[str, int], ...] = (),
    ) -> list[Node]:  # fmt: skip
        """Return a loop around what is inside of it, or that alone where it has one iteration."""
        if name:
            self.tree.around.append(name)
            for each, extent in ((name, count), *fused):
                self.tree.extents[each] = extent
        body = self.guarded(depth, inside, role)
        if not name:
            return body
        self.tree.around.pop()
        return [Loop(name, count, kind, tuple(body), fused, self.bind.width if kind == "thread" else 1)]

    def guarded(self, depth: int, state: State, role: Role) -> list[Node]:
        """Return what is inside of ``depth`` loops, under the conditions that tiles are inside of the box.

        On a GPU these stand around statements alone: all threads take part in what is copied for a block.
        """
        if not self.slots and self.is_on_grid and self.stage.kind != "sum":  # a number
            return self._descend(depth, state, role)
        conditions: list[Condition] = []
        if self.is_on_grid:
            conditions += self.grid_conditions(state, role) if depth == len(self.slots) else []
        elif self._ends_level(depth):
            for dim, local in enumerate(state.local):
                limit = self.box[dim].extent
                if anywhere(local.span(self.tree.extents)[1] > limit):
                    conditions.append(Condition(local, limit))
        conditions += self.beside_the_band(state) if depth and depth == self.parallel else ()
        body = self._descend(depth, state, role)
        return [Guard(distinct(conditions), tuple(body))] if conditions else body

    def _ends_level(self, depth: int) -> bool:
        """Whether the outermost ``depth`` loops end with the last of a level, or are all."""
        return depth == len(self.slots) or depth in self.level_ends
