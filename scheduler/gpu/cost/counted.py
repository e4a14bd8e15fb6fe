"""A loop program of a grid with the counts of its parts, from which follows what a block issues and takes of an SM."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dsascape.scheduler.gpu.cost.shape import GridShape
from dsascape.scheduler.gpu.cost.tensor import TensorWork, tensor_work
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.cost.counted import Part, PartCost
from dsascape.scheduler.kernels.cost.placed import Placed, placed_in
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.cost.registers import part_costs
from dsascape.scheduler.kernels.cost.written_out import written_out, written_out_at_best
from dsascape.scheduler.kernels.loops.columns import by_row
from dsascape.scheduler.kernels.loops.lattice import rows_of
from dsascape.scheduler.kernels.loops.nodes import SHARES, Stage, loops_of, statements_of
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import CacheRead

_MOST_REGISTERS = 1 << 20
"""Registers of a thread here, where none is stored for want of others: a block that needs too many is refused."""


class Counted:
    """A loop program with the counts of its parts on a machine, compiled as that does it.

    Sizes may be columns, one row a candidate, and then so are counts.
    """

    def __init__(self, reads: Reads, shape: GridShape, view: GpuView, *, at_best: bool = False) -> None:
        """``at_best``: with loops written out that are for any candidate; counts of others are lower bounds then."""
        self.layer, self.shape, self.view = reads.naive.layer, shape, view
        if at_best:
            compiled, self.is_exact = written_out_at_best(reads, view.tuning.written_out)
        else:
            compiled, self.is_exact = written_out(reads, view.tuning.written_out), True
        self.program: LoopProgram = reads.program
        in_lockstep = _in_lockstep(reads.program, hands_on=not view.tuning.as_generated)
        self.costs: Mapping[Part, PartCost] = part_costs(compiled, _MOST_REGISTERS, in_lockstep)
        self.stages: Mapping[str, Stage] = {stage.name: stage for stage in self.program.stages}
        self.rows = rows_of(self.program.steps)
        """Number of candidates."""

    def listed(self, numbers: Any) -> list[Any]:
        """Return the number of each candidate."""
        found: list[Any] = np.broadcast_to(numbers, (self.rows,)).tolist()
        return found

    @cached_property
    def tensor(self) -> Mapping[str, TensorWork]:
        """Work of tensor units, by the stage of sums that they accumulate."""
        units, found = self.view.tensor, dict[str, TensorWork]()
        for placed in self.placed:
            statement = placed.statement
            if units is not None and any(loop.kind == "tensor" for loop in placed.around):
                own = self.costs[statement.stage, statement.role].loads
                places = [
                    move.use.place for moved in own.values() for move in moved.moves if move.use.scope != "register"
                ]  # fmt: skip
                work = tensor_work(placed, places[:2], self._staged(statement.stage), units)
                before = found.get(statement.stage)
                found[statement.stage] = work if before is None else before.with_also(work)
        return found

    def share_computed(self, stage: str) -> Any:
        """Return the share of a stage's iterations that are computed where libraries skip what masks leave out.

        Loops of grids go through all of them (`GpuTuning.skips_masked`); copies are made for what is computed of them.
        """
        if not self.layer.is_bounded:
            return 1.0
        own = {step.stage: step.reader for step in self.program.steps if isinstance(step, CacheRead)}.get(stage, stage)
        written = [each.nest.write.tensor for each in reversed(self.layer.nests) if not each.is_view]

        def share(*tile: int) -> float:
            works, shares = nests_of(self.layer).works(self.layer, tile), [1.0]
            for nest in self.stages[own].nests:
                if nest.bound is not None:
                    extents = works[written.index(nest.write.tensor)].extents
                    rows, columns = nest.extents[nest.bound.outer], nest.extents[nest.bound.inner]
                    mean = nest.bound.band.mean_columns(max(extents[nest.bound.outer], 1), rows, columns)
                    shares.append(mean / columns)
            return min(shares)

        return by_row(share, *self.shape.tile)

    @cached_property
    def placed(self) -> Sequence[Placed]:
        """The statements of the program in their places."""
        return placed_in(self.program.body)

    def _staged(self, stage: str) -> frozenset[str]:
        """Return the loops in each iteration of which operands of a stage are staged."""
        copies = self.program.copies(stage).values()
        return frozenset([self.program.buffer(copy).inside for copy in copies])

    def is_product(self, part: Part) -> bool:
        """Whether a part multiplies and accumulates."""
        name, role = part
        stage = self.stages[name]
        return stage.kind == "sum" and role in ("update", "rest") and bool(stage.nests[0].per_iteration.macs)


def _in_lockstep(program: LoopProgram, *, hands_on: bool) -> frozenset[str]:
    """Return the loops of threads whose warps do as much where conditions leave some of their threads out.

    ``hands_on``: libraries pass sums that threads share from thread to thread, so that those that have none left to add
    issue nothing.
    """
    threads = {
        name for loop in loops_of(program.body) if loop.kind == "thread"
        for name in (loop.name, *[each for each, _ in loop.fused])
    }  # fmt: skip
    shares = {
        name for _, each in statements_of(program.body) if each.stage.endswith(SHARES) and each.place is not None
        for name, _ in each.place.terms
    }  # fmt: skip
    return frozenset(threads - shares if hands_on else threads)
