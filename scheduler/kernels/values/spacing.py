"""Reduction loops over the iterations that compute: of a transposed convolution, the taps that meet an element."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dsascape.scheduler.kernels.values.access import affine
from dsascape.workloads.arithmetic.numbers import Numbers
from dsascape.workloads.arithmetic.reductions import Reduction
from dsascape.workloads.index import Index
from dsascape.workloads.loopnest import LoopNest
from dsascape.workloads.spaced import Spaced, spaced_loops


@dataclass(frozen=True)
class Spacing:
    """Which iterations of a nest's reduction loops are executed: all, or those that may compute."""

    nest: LoopNest
    rule: Reduction

    @cached_property
    def spaced(self) -> Mapping[int, Spaced]:
        """The loops of which it leaves iterations out: what these would add is nothing to a sum."""
        return spaced_loops(self.nest) if self.rule.combine == "sum" and not self.rule.fill else {}

    def extent(self, loop: int) -> int:
        """Return how many iterations of ``loop`` each element goes through."""
        return self.spaced[loop].count if loop in self.spaced else self.nest.loops[loop].extent

    def iterations(
        self, n: Numbers, loops: Mapping[int, Any], turns: Mapping[int, Any]
    ) -> tuple[dict[int, Any], list[Any]]:
        """Return ``loops`` with the iteration that each of ``turns`` stands for, and where there is such a one."""
        found = {**loops, **turns}
        conditions = []
        for loop, each in self.spaced.items():
            rest = affine(n, each.rest, loops)
            found[loop] = iteration_of(n, each, rest, turns[loop])
            conditions += [n.equal(n.floor_modulo(rest, each.common), 0)] if each.common > 1 else []
            conditions += [found[loop] < each.extent] if each.extent % each.period else []
        return found, conditions

    @property
    def dividing(self) -> Sequence[Index]:
        """Indices that are known to divide in all of these iterations."""
        return [each.index for each in self.spaced.values()]


def iteration_of(n: Numbers, spaced: Spaced, rest: Any, turn: Any) -> Any:
    """Return the ``turn``-th iteration of a spaced loop where all else of its index comes to ``rest``."""
    first = n.floor_divide(rest, spaced.common) if spaced.common > 1 else rest
    return n.floor_modulo(first * spaced.factor, spaced.period) + turn * spaced.period
