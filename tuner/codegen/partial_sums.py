"""Reductions that are not held in register tiles: along what lies together in partial sums, which are then folded.

The partial sums are whole vectors, so that several additions are under way at a time. Half of them is added to the
other half until one is left; the elements that they leave over are added to that.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import te, tirx

from dsascape.scheduler.cpu.structure.nests import lies_apart, summed_run
from dsascape.scheduler.cpu.structure.passes import partial_sums
from dsascape.tuner.codegen.access import logical, loops_of
from dsascape.tuner.codegen.arithmetic import Operator
from dsascape.tuner.codegen.builder import COMBINE, Builder
from dsascape.tuner.codegen.reductions import Reduction, reduction_of
from dsascape.tuner.codegen.spacing import Spacing
from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import LoopNest

_Term = Callable[[Sequence[Any], Mapping[int, Any]], Any]
"""What one iteration adds to an element, by the values of the reduction loops."""
_FOLD: Mapping[str, Callable[[Any, Any], Any]] = {"sum": lambda a, b: a + b, "max": te.max, "min": te.min}


def reduced_stage(builder: Builder, op: Operator, nest: LoopNest, tensor: Tensor) -> Any:
    """Return the last stage of a reduction that is not tiled."""
    rule = reduction_of(op, nest)
    late, data, spacing = set(rule.late), nest.reads[0], Spacing(nest, rule)

    def term(element: Sequence[Any], values: Mapping[int, Any]) -> Any:
        loops, conditions = spacing.iterations(loops_of(nest, element), values)
        fill = tirx.const(rule.fill, builder.dtype(builder.described(data.tensor)))
        terms = [read for number, read in enumerate(nest.reads) if number not in late]

        def added() -> Any:
            return rule.term([builder.read(nest, read, loops, fill, dividing=spacing.dividing) for read in terms])

        return builder.sharing.within(lambda: builder.where(conditions, added))

    run = summed_run(builder.layer, nest)
    extent = math.prod([nest.loops[loop].extent for loop in run])
    stages = _Stages(builder, op, nest, tensor, rule, term, run)
    count = partial_sums(extent, builder.lanes)
    total = stages.folded(extent, count) if count > 1 else stages.summed(0, extent)
    return builder.finished(op, nest, tensor, rule, total)


class _Stages:
    """The stages of one reduction."""

    def __init__(
        self, builder: Builder, op: Operator, nest: LoopNest, tensor: Tensor, rule: Reduction, term: _Term,
        run: Sequence[int],
    ) -> None:  # fmt: skip
        self._builder, self._op, self._tensor, self._rule, self._term = builder, op, tensor, rule, term
        self._is_apart = not run and lies_apart(builder.layer, nest)
        others = [p for p, loop in enumerate(nest.loops) if loop.reduction and p not in run]
        self._others = {p: Spacing(nest, rule).extent(p) for p in others}
        self._run = {p: nest.loops[p].extent for p in run}
        self._shape = [tensor.shape[dim] for dim in tensor.order]

    def summed(self, begin: int, end: int) -> Any:
        """Return the sum over the elements of the run from ``begin`` to ``end``, one after the other."""
        axes, place = self._axes(end - begin)

        def body(*stored: Any) -> Any:
            values = self._values(axes, place + begin)
            return self._over((*axes.values(), place), self._term(logical(self._tensor, stored), values))

        stage = self._stage(self._shape, body, "")
        self._builder.apart += [stage.op.name] if self._is_apart or begin else []
        return stage

    def folded(self, extent: int, count: int) -> Any:
        """Return the sum over all elements of the run, by ``count`` partial sums."""
        axes, turn = self._axes(extent // count)

        def partial(*indices: Any) -> Any:
            *stored, place = indices
            values = self._values(axes, turn * count + place)
            return self._over((*axes.values(), turn), self._term(logical(self._tensor, stored), values))

        fold, rest = _FOLD[self._rule.combine], extent % count
        parts = self._stage([*self._shape, count], partial, "_parts")
        while count > 1:
            count //= 2
            parts = self._halved(parts, count)
        left = self.summed(extent - rest, extent) if rest else None

        def total(*stored: Any) -> Any:
            own = parts(*stored, 0)
            return own if left is None else fold(own, left(*stored))

        return self._stage(self._shape, total, "_total")

    def _halved(self, parts: Any, count: int) -> Any:
        fold = _FOLD[self._rule.combine]

        def body(*indices: Any) -> Any:
            *stored, place = indices
            return fold(parts(*stored, place), parts(*stored, place + count))

        return self._stage([*self._shape, count], body, "_folded")

    def _axes(self, extent: int) -> tuple[dict[int, Any], Any]:
        """Return the axes of the other reduction loops, and one of ``extent``, which stands for the run behind them."""
        axes = {p: te.reduce_axis((0, size), f"k{p}") for p, size in self._others.items()}
        return axes, te.reduce_axis((0, extent), "run")

    def _values(self, axes: Mapping[int, Any], place: Any) -> dict[int, Any]:
        """Return the values of all reduction loops at a place of the run."""
        values, left = dict(axes), place
        for number, (loop, extent) in enumerate(reversed(self._run.items())):
            is_outermost = number == len(self._run) - 1
            values[loop] = left if is_outermost else tirx.floormod(left, extent)
            left = left if is_outermost else tirx.floordiv(left, extent)
        return values

    def _over(self, axes: Sequence[Any], value: Any) -> Any:
        return COMBINE[self._rule.combine](value, axis=list(axes))

    def _stage(self, shape: Sequence[int], body: Callable[..., Any], part: str) -> Any:
        return te.compute(shape, body, name=self._builder.reduction_name(f"{self._op.kind}{part}"))
