"""Sums over parts of a softmax's rows: the maximum and the sum of its exponentials run along (`steps.Running`)."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping

from dsascape.scheduler.kernels.loops.affine import Range, Ranges
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.columns import alike
from dsascape.scheduler.kernels.loops.nodes import FACTOR, Node, Role, Statement
from dsascape.scheduler.kernels.loops.plans import StagePlan
from dsascape.scheduler.kernels.loops.stage.base import StageBase, State
from dsascape.scheduler.kernels.loops.steps import Scope


def scope_of(plan: StagePlan) -> Scope:
    """Return where a running statistic is kept while the sums go on: in memory of the thread, or of the block."""
    return "stack" if plan.at is None else plan.at.scope


class WithRunning(StageBase):
    """Loops of sums that go on with running statistics, and of these."""

    @abstractmethod
    def demanded(
        self, depth: int, box: Ranges, reduced: Mapping[int, Range], goals: Iterable[str]
    ) -> Mapping[str, Ranges]:
        """Return what one iteration of the outermost ``depth`` loops needs of ``goals``, computed inside of them."""

    @abstractmethod
    def loops_from(self, state: State, role: Role) -> list[Node]:
        """Return all loops of the stage around one part of it."""

    @property
    def corrected_at(self) -> int:
        """Number of loops inside of which sums are corrected, behind the exponentials; 0 where they never are."""
        softmax = self.tree.plans.running.get(self.stage.name)
        if softmax is None:
            return 0
        at = self.tree.plans.by_stage[softmax.exponentials].at
        if at is None or at.consumer != self.stage.name or self.tree.plans.depth_of(at) <= self.first_reduction:
            raise StepError(f"Running: {softmax.exponentials!r} is not computed in {self.stage.name!r}'s reduction")
        if alike(self.slots[self.first_reduction].size == 1):
            raise StepError(f"Running: {self.stage.name!r} goes through its reduction one by one; needs longer steps")
        return self.tree.plans.depth_of(at)

    def begin_running(self, depth: int, state: State) -> list[Node]:
        """Return the first values of the statistics of all rows that the sums belong to, in buffers of their own."""
        softmax = self.tree.plans.running.get(self.stage.name)
        if softmax is None or not self.corrected_at:
            return []
        plans = self.tree.plans.by_stage
        scope = scope_of(plans[softmax.maximum])
        statistics = softmax.maximum, softmax.total
        box = self.all_of_block(state) if scope == "shared" else self.all_covered(state)
        found = self.demanded(depth, box, {}, statistics)
        nodes: list[Node] = []
        for name in statistics:
            plan = plans[name]
            self.tree.add_buffer(plan, found[name], scope)
            own = type(self)(self.tree, plan, found[name], found[name])
            nodes += own.loops_from(own.start, "first")
        self.tree.add_buffer(plans[softmax.maximum + FACTOR], found[softmax.maximum], scope)
        return nodes

    def going_on(self, state: State, role: Role) -> list[Node]:
        """Return the statement of a stage; of a running statistic, what puts it together with that of one more part."""
        softmax = self.tree.plans.statistic(self.stage.name)
        if softmax is None or role != "store":
            return [self.statement(state, role)]
        update = self.statement(state, "update")
        factor = Statement(softmax.maximum + FACTOR, "store", update.element)
        return [factor, update] if self.stage.name == softmax.maximum else [update]
