"""Loops of a stage on blocks and threads, and the conditions under which a thread has something to do."""

import math
from dataclasses import replace
from functools import cached_property

from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.columns import alike, anywhere, everywhere
from dsascape.scheduler.kernels.loops.nodes import Condition, Loop, LoopKind, Node, Role, reads_of
from dsascape.scheduler.kernels.loops.stage.base import StageBase, State
from dsascape.scheduler.kernels.loops.stage.sums import last_of
from dsascape.scheduler.kernels.loops.steps import Parallel, ShareReduction
from dsascape.wording import count


class OnGrid(StageBase):
    """Loops of a stage on the blocks of a grid, and on the threads of a block."""

    def grid_conditions(self, state: State, role: Role) -> list[Condition]:
        """Return the conditions under which a thread has an element, or an iteration of a reduction."""
        if role == "first":
            return []
        conditions = [*state.conditions, *(self.tree.leader if role == "store" else ())]
        of_block = state.of_block if state.of_block is not None else self.of_block
        is_free = self.stage.kind == "copy" or (role != "store" and self._reads_copies)
        for dim, (each, local) in enumerate(zip(self.box, state.local, strict=True)):
            element, whole = each.first + local, of_block[dim]
            within = element + whole.first * -1
            limit = whole.extent
            if anywhere(within.span(self.tree.extents)[1] > limit):
                conditions.append(Condition(within, limit))
            first, end = element.span(self.tree.extents)
            if not is_free and anywhere(first < 0):
                conditions.append(Condition(element * -1, 1))
            if not is_free and anywhere(end > self.stage.shape[dim]):
                conditions.append(Condition(element, self.stage.shape[dim]))
        for loop, value in state.reduced.items() if role == "update" else ():
            extent = self.reductions[loop]
            gone = value + self.begun.get(loop, Affine()) * -1
            if anywhere(gone.span(self.tree.extents)[1] > extent):
                conditions.append(Condition(gone, extent))
            end = self.stage.nests[0].loops[loop].extent
            if loop in self.begun and anywhere(value.span(self.tree.extents)[1] > end):
                conditions.append(Condition(value, end))
        return conditions

    @cached_property
    def _reads_copies(self) -> bool:
        """Whether all that the stage reads is in buffers of the kernel, which go on beyond the ends of tensors."""
        own = {name for name, plan in self.tree.plans.by_stage.items() if not plan.is_inlined}
        reads = reads_of(self.stage, self.stage.nests)
        return all(read.tensor in self.plan.copies or read.tensor in own for read in reads)

    def fused_loops(self, depth: int, number: int, kind: LoopKind, state: State, role: Role) -> list[Node]:
        """Return so many loops from that at ``depth`` on as one that is split over threads, or blocks."""
        fused: list[tuple[str, int]] = []
        parallel, dealt = self.plan.get(Parallel), ""
        cluster: list[tuple[str, int]] = []
        neighbours = self.bind.cluster if kind == "block" else ()
        for place, slot in enumerate(self.slots[depth : depth + number]):
            named, state = self.step_of(slot, state)
            fused += named
            if neighbours and alike(neighbours[place] > 1):
                if not named or alike(named[-1][1] < neighbours[place]):
                    blocks = count(neighbours[place], "block")
                    raise StepError(f"Bind: {self.stage.name}: its loop {place} has fewer than {blocks} of a cluster")
                cluster.append((named[-1][0], neighbours[place]))
            if kind == "parallel" and parallel is not None and parallel.dealt == slot.axis and named:
                dealt = named[-1][0]
        before, leader = self.tree.spread, self.tree.leader
        if kind in ("block", "thread"):
            shared = self._sharing(kind)
            own = tuple([
                condition for name, number in shared
                for condition in (last_of(Affine(0, ((name, 1),)), number) if kind == "block" else
                                  (Condition(Affine(0, ((name, 1),)), 1),))
            ])  # fmt: skip
            self.last_block = own if kind == "block" else self.last_block
            self.tree.leader = () if kind == "block" else (*self.last_block, *own)
            fused += shared
        whole = math.prod([extent for _, extent in fused])
        label = {"parallel": "p", "block": "block", "thread": "thread"}[kind]
        if len(fused) == 1:
            name, fused = fused[0][0], []
        else:
            name = self.tree.loop_name(label) if fused or kind != "parallel" else ""
        if kind == "thread":
            self.tree.spread = {*before, name, *[each for each, _ in fused]}
        nodes = self.looped(name, whole, kind, depth + number, state, role, tuple(fused))
        self.tree.spread, self.tree.leader = before, leader
        is_plain = not dealt and not cluster
        return [
            each if is_plain or not isinstance(each, Loop) else replace(each, dealt=dealt, cluster=tuple(cluster))
            for each in nodes
        ]

    def _sharing(self, kind: LoopKind) -> list[tuple[str, int]]:
        """Return the innermost of fused loops, that of those who share reductions which are computed inside of them."""
        found: list[tuple[str, int]] = []
        for each in self.tree.plans.by_stage.values():
            step = each.get(ShareReduction)
            if step is None or each.at is None or each.at.consumer != self.stage.name:
                continue
            number = step.count if step.by == kind else step.threads if kind == "thread" else 1
            if alike(number == 1):
                continue
            if not found:
                found = [(self.tree.loop_name("share"), number)]
            if not everywhere(number == found[0][1]):
                raise StepError(f"ShareReduction: {each.stage.name}: others in {self.stage.name} have another count")
            who = self.tree.blocks if kind == "block" and alike(step.threads > 1) else self.tree.shares
            who[each.stage.name] = Affine(0, ((found[0][0], 1),))
        return found
