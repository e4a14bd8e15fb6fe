"""A kernel's tensors as values of single elements: what a thread needs is computed where it is needed.

Only reductions are computed on their own. Everything else is an expression of the element's place, worked out once in
each expression that reads it (`tuner.codegen.sharing`).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import tvm_ffi
from tvm import tirx

from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.nodes import SUMS
from dsascape.tuner.codegen.access import Stored, logical, loops_of
from dsascape.tuner.codegen.arithmetic import Operator
from dsascape.tuner.codegen.gpu.phases import index
from dsascape.tuner.codegen.reductions import Reduction, reduction_of
from dsascape.tuner.codegen.spacing import Spacing
from dsascape.tuner.codegen.stage_values import Element, StageValues
from dsascape.workloads.executable import Executable
from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Access, LoopNest

Place = tuple[Any, ...]
"""Indices of an element, in the order in which its tensor lies in memory."""


@dataclass(eq=False)
class Reduced:
    """What a nest with reduction loops accumulates; whoever reads it says from where."""

    op: Operator
    nest: LoopNest
    tensor: Tensor
    rule: Reduction
    dtype: str
    load: Callable[[Place], Any] | None = None
    """How an element is read once it is known where it lies."""
    places: list[Place] = field(default_factory=list)
    """From which it was read, while it is not."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape in memory order."""
        return tuple(self.tensor.shape[dim] for dim in self.tensor.order)

    @property
    def loops(self) -> tuple[int, ...]:
        """Return the reduction loops, outermost first."""
        return tuple(number for number, each in enumerate(self.nest.loops) if each.reduction)

    @property
    def iterations(self) -> tuple[int, ...]:
        """Return the iterations of each reduction loop."""
        return tuple(self.spacing.extent(number) for number in self.loops)

    @cached_property
    def spacing(self) -> Spacing:
        """Return which iterations of the reduction loops there are."""
        return Spacing(self.nest, self.rule)

    @property
    def terms(self) -> tuple[Access, ...]:
        """Return what is read in each iteration."""
        return tuple(read for number, read in enumerate(self.nest.reads) if number not in self.rule.late)

    @property
    def neutral(self) -> Any:
        """Return what an accumulation begins with."""
        bounds = {"sum": lambda: tirx.const(0, self.dtype), "max": lambda: tirx.min_value(self.dtype),
                  "min": lambda: tirx.max_value(self.dtype)}  # fmt: skip
        return bounds[self.rule.combine]()

    def combined(self, one: Any, other: Any) -> Any:
        """Return two accumulations put together."""
        return {"sum": lambda: one + other, "max": lambda: tirx.max(one, other), "min": lambda: tirx.min(one, other)}[
            self.rule.combine
        ]()

    def loop_values(self, place: Place, iteration: Sequence[Any]) -> tuple[dict[int, Any], list[Any]]:
        """Return the values of all loops in one iteration for the element at ``place``, and where there is one."""
        turns = dict(zip(self.loops, iteration, strict=True))
        return self.spacing.iterations(loops_of(self.nest, logical(self.tensor, place)), turns)

    def every_iteration(self, place: Place, values: Sequence[Any]) -> dict[int, Any]:
        """Return the values of all loops for the element at ``place`` where its reduction loops have ``values``."""
        return {**loops_of(self.nest, logical(self.tensor, place)), **dict(zip(self.loops, values, strict=True))}

    def __call__(self, *place: Any) -> Any:
        if self.load is not None:
            return self.load(place)
        self.places.append(place)
        return tirx.const(1, self.dtype)


class Values(StageValues):
    """The tensors of a kernel as values."""

    def __init__(self, layer: Layer, executable: Executable) -> None:
        super().__init__(layer, executable)
        self.reduced: list[Reduced] = []
        """First to last."""
        self.describe(())

    def element_of(self, name: str) -> Element:
        """Return the value of a tensor's elements; an accumulation is taken note of."""
        each = self.computed[name]
        nest = each.nests[0]
        if any(loop.reduction for loop in nest.loops) and len(each.nests) == 1:
            rule = reduction_of(each.op, nest)
            found = Reduced(each.op, nest, each.tensor, rule, self.dtype(each.tensor))
            self.reduced.append(found)
            self.own[name + SUMS] = Stored(found, each.tensor.order)
        return super().element_of(name)

    def added(self, reduced: Reduced, place: Place, iteration: Sequence[Any]) -> Any:
        """Return what one iteration adds to the element at ``place``."""
        loops, conditions = reduced.loop_values(place, iteration)
        fill = tirx.const(reduced.rule.fill, self.dtype(self.described(reduced.terms[0].tensor)))

        def term() -> Any:
            reads, dividing = reduced.terms, reduced.spacing.dividing
            return reduced.rule.term([self.read(reduced.nest, each, loops, fill, dividing=dividing) for each in reads])

        return self.sharing.within(lambda: self.where(conditions, term))

    def written(self, name: str, place: Place) -> Any:
        """Return an element of a tensor that the kernel computes."""
        return self.sharing.within(lambda: self.stored[name].stage(*place))

    def places_read(self, compute: Callable[[], Any]) -> Mapping[int, list[Place]]:
        """Return from where ``compute`` reads each of the reductions, by number."""
        with self._recording():
            self.sharing.unnamed(compute)
            return {number: list(each.places) for number, each in enumerate(self.reduced) if each.places}

    @contextmanager
    def _recording(self) -> Iterator[None]:
        kept = [each.load for each in self.reduced]
        for each in self.reduced:
            each.load, each.places = None, []
        yield
        for each, load in zip(self.reduced, kept, strict=True):
            each.load, each.places = load, []


def variables(extents: Sequence[int], name: str) -> Place:
    """Return a new variable for each dimension."""
    return tuple(index(f"{name}{number}") for number in range(len(extents)))


def same_places(places: Sequence[Place]) -> bool:
    """Whether all ``places`` are the same expressions."""
    first = places[0]
    return all(
        all(tvm_ffi.structural_equal(a, b) for a, b in zip(first, other, strict=True)) for other in places[1:]
    )


def elements(shape: Sequence[int]) -> int:
    """Return the elements of a tensor."""
    return math.prod(shape)
