"""The tree of loops: each stage's levels of tiles around its statements, with what is computed inside of them."""

from dsascape.scheduler.kernels.loops.affine import Affine, Range, Ranges
from dsascape.scheduler.kernels.loops.columns import alike
from dsascape.scheduler.kernels.loops.nodes import Ahead, Buffer, Condition, Node, Nodes, Outlined
from dsascape.scheduler.kernels.loops.plans import Plans, StagePlan
from dsascape.scheduler.kernels.loops.stage.loops import StageLoops
from dsascape.scheduler.kernels.loops.steps import CacheRead, Outline, PartialSums, Prefetch, Scope


class Tree:
    """A tree in the making: buffers and names of loops so far."""

    def __init__(self, plans: Plans) -> None:
        self.plans = plans
        self.buffers: dict[str, Buffer] = {}
        self.extents: dict[str, int] = {}
        self.around: list[str] = []
        """Names of the loops that are being filled, outermost first."""
        self.spread: set[str] = set()
        """Loops of threads, those that a fused loop stands for among them."""
        self.shares: dict[str, Affine] = {}
        """For each stage of sums that threads or blocks share: which of them runs; the thread, where both do."""
        self.blocks: dict[str, Affine] = {}
        """For each stage of sums that blocks share with several threads each: which block runs."""
        self.leader: tuple[Condition, ...] = ()
        """Conditions under which a thread has what several have put together."""
        self.columns: Range | None = None
        """Columns of the part of a softmax that is being computed with running statistics."""
        self._numbers: dict[str, int] = {}

    def nodes(self) -> list[Node]:
        """Return the nodes of all stages that are not computed inside of others, one after the other."""
        body: list[Node] = []
        for name, plan in self.plans.by_stage.items():
            if plan.at is None and self.plans.has_loops(name) and not plan.is_handed_over:
                box = self.plans.whole(plan)
                self.add_buffer(plan, box, "global" if name in self.plans.naive.results else "stack")
                body += StageLoops(self, plan, box, box).nodes()
        return body

    def add_buffer(self, plan: StagePlan, box: Ranges, scope: Scope, count: int = 1) -> None:
        """Add the buffer of a stage's ``box``, of so many partial sums; that of a result holds all of it."""
        stage = plan.stage
        sums, ahead, copied = plan.get(PartialSums), plan.get(Prefetch), plan.get(CacheRead)
        count = count if sums is None else sums.count
        inside = self.around[-1] if self.around else ""
        if scope == "global" and not plan.is_handed_over:
            box, inside = tuple(map(Range.whole, stage.shape)), ""
        shape = [box[dim].extent for dim in stage.order]
        self.buffers[stage.name] = Buffer(
            stage.name, scope, (*shape, *([count] if alike(count > 1) else [])),
            self.plans.naive.element_bytes(stage.tensor),
            tuple([each.first for each in box]), inside, count, 1 if ahead is None else ahead.ahead + 1,
            None if copied is None else copied.rows,
        )  # fmt: skip

    def placed(self, plan: StagePlan, box: Ranges, of_block: Ranges) -> Nodes:
        """Return the nodes of a stage that is computed inside of another one's loops.

        It computes ``box`` there; all threads of a block together need ``of_block`` of it.
        """
        assert plan.at is not None
        own = plan.rounded(of_block if plan.at.scope == "shared" else box, self.extents)
        if self.plans.statistic(plan.stage.name) is None:
            self.add_buffer(plan, own, plan.at.scope)
        nodes = tuple(StageLoops(self, plan, own, of_block).nodes())
        ahead = plan.get(Prefetch)
        if ahead is not None and self.around:
            return (Ahead(self.around[-1], ahead.ahead, nodes),)
        return (Outlined(plan.stage.name, nodes),) if Outline in plan.steps else nodes

    def loop_name(self, label: str) -> str:
        """Return a name for a loop that no other has."""
        number = self._numbers.get(label, 0)
        self._numbers[label] = number + 1
        return f"{label}{number}"
