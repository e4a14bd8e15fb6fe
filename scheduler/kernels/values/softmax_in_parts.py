"""A softmax of which parts of rows are computed at a time: its running statistics, and sums that go on with them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsascape.scheduler.kernels.loops.nodes import FACTOR, SUMS, Stage
from dsascape.scheduler.kernels.loops.steps import Running
from dsascape.scheduler.kernels.values.access import affine, loops_of
from dsascape.workloads.arithmetic.elementwise import pointwise_of
from dsascape.workloads.arithmetic.reductions import reduction_of
from dsascape.workloads.loopnest import LoopNest

if TYPE_CHECKING:
    from dsascape.scheduler.kernels.values.stage_values import StageValues


@dataclass(frozen=True)
class SoftmaxInParts:
    """The softmax of one kernel's sums of products."""

    values: "StageValues"
    step: Running

    def factor(self, element: Sequence[Any]) -> Any:
        """Return by what sums of a row change as its maximum rises: the exponential of the old one with the new one."""
        exponentials = self.values.computed[self.step.exponentials]
        old, new = self.values.own[self.step.maximum].at(element), self.updated(self.step.maximum, element)
        return pointwise_of(exponentials.op, exponentials.nests[0])([old, new])

    def updated(self, name: str, element: Sequence[Any]) -> Any:
        """Return a running statistic of a row with that of one more part."""
        values, each = self.values, self.values.computed[name]
        before, more = values.own[name].at(element), values.own[name + SUMS].at(element)
        if name == self.step.total:
            before = before * values.own[self.step.maximum + FACTOR].at(element)
        return values.combine(reduction_of(each.op, each.nests[0]), before, more)

    def corrected(self, stage: Stage, element: Sequence[Any], value: Any) -> Any:
        """Return the sum of an element as it is with the maximum that its row has now."""
        factor = self.values.own[self.step.maximum + FACTOR].at(self._row(stage.nests[0], element))
        return value * self._as(value, factor)

    def divided(self, nest: LoopNest, element: Sequence[Any], value: Any) -> Any:
        """Return the sum of products with exponentials as that with the softmax."""
        values, row = self.values, self._row(nest, element)
        total, rows = values.computed[self.step.total], values.computed[self.step.tensor]
        found, rule = values.own[self.step.total].at(row), reduction_of(total.op, total.nests[0])
        by = values.finish(total.op, total.nests[0], rule, row, found)
        return pointwise_of(rows.op, rows.nests[0])([value, self._as(value, by)])

    def _as(self, value: Any, other: Any) -> Any:
        """Return ``other`` in the dtype of ``value``."""
        n = self.values.numbers
        return other if n.dtype_of(other) == n.dtype_of(value) else n.cast(other, n.dtype_of(value))

    def _row(self, nest: LoopNest, element: Sequence[Any]) -> list[Any]:
        """Return the element of the statistics that an element of a product belongs to."""
        rows = self.values.computed[self.step.tensor].nests[0]
        read = next(each for each in nest.reads if each.tensor == self.step.tensor)
        n = self.values.numbers
        loops = {loop: n.const(0, "int32") for loop in range(len(nest.loops))} | loops_of(n, nest, element)
        place = [affine(n, index, loops) for index in read.indices]
        total = next(each for each in rows.reads if each.tensor == self.step.total)
        return [affine(n, index, loops_of(n, rows, place)) for index in total.indices]
