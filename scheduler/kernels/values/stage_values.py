"""Values of a loop program's stages for one element."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from dsascape.scheduler.kernels.loops.nodes import SUMS, Stage
from dsascape.scheduler.kernels.values.access import Stored, inside_conditions, is_whole, loops_of
from dsascape.scheduler.kernels.values.choosing import chooser_of
from dsascape.scheduler.kernels.values.low_bit import OF_OTHER_DOMAINS
from dsascape.scheduler.kernels.values.softmax_in_parts import SoftmaxInParts
from dsascape.scheduler.kernels.values.sources import Sources
from dsascape.scheduler.kernels.values.spacing import Spacing
from dsascape.workloads.arithmetic.elementwise import Operator, UnsupportedKernelError, pointwise_of
from dsascape.workloads.arithmetic.reductions import COMBINE, FIRST, Reduction, reduction_of, says_of_output
from dsascape.workloads.graph import Op, Tensor
from dsascape.workloads.loopnest import LoopNest

Element = Callable[[Sequence[Any]], Any]
"""From the indices of a tensor's dimensions, as the network numbers them, to the value of the element."""


@dataclass(frozen=True)
class Written:
    """A tensor that an operator writes."""

    op: Operator
    nests: tuple[LoopNest, ...]
    tensor: Tensor
    name: str
    """Name of the operator in the network."""


class _NamedError(UnsupportedKernelError):
    """A complaint that names its operator."""


@dataclass
class StageValues(Sources):
    """The values of a kernel's stages; what has no stage of its own is computed where it is read."""

    computed: dict[str, Written] = field(default_factory=dict)
    softmaxes: dict[str, SoftmaxInParts] = field(default_factory=dict)
    """Softmaxes whose statistics run along, by the stages of these and by the stage of sums that they are kept for."""

    def describe(self, kept: Collection[str]) -> None:
        """Take note of what operators compute; tensors that are not ``kept`` are computed where they are read.

        Raises ``UnsupportedKernelError`` naming an operator that has no code.
        """
        for position in self.layer.ops:
            op = self.layer.graph.ops[position]
            for each in _complaining(op.name, op.kind, partial(self._written_by, position, op)):
                self.computed[each.tensor.name] = each
                element = self.element_of(each.tensor.name)
                if each.tensor.name not in kept:
                    self.stored[each.tensor.name] = self._inlined(each.tensor, element)

    def _inlined(self, tensor: Tensor, element: Element) -> Stored:
        def value(*stored: Any) -> Any:
            return self.shared_element(tensor, lambda *place: element(place), stored)

        return Stored(value, tensor.order)

    def _written_by(self, position: int, op: Op) -> list[Written]:
        if any(nest.ordered for nest in op.nests):
            raise UnsupportedKernelError("no arithmetic for what runs in order")
        described = self.operator(position, op)
        op = _without_masking(op)
        described = replace(described, kind=op.kind)
        own = {tensor.name: tensor for tensor in op.internals}
        written: dict[str, list[LoopNest]] = {}
        for nest in op.nests:
            written.setdefault(nest.write.tensor, []).append(nest)
        named = self.executable.nodes[position].output
        for name, nests in written.items():
            place = list(named).index(name) if name in op.outputs else 0
            if place and not all(says_of_output(op.kind, nest.name) for nest in nests):
                raise UnsupportedKernelError(f"no arithmetic for its output {place}, {name!r}")
        return [
            Written(described, tuple(nests), own.get(name) or self.layer.graph.tensors[name], op.name)
            for name, nests in written.items()
        ]

    def operator(self, position: int, op: Op) -> Operator:
        """Return what an operator of the graph computes."""
        node = self.executable.nodes[position]
        values = self.executable.values
        constants = {place: values[name] for place, name in enumerate(node.input) if name in values}
        dtype = self.dtype(self.layer.graph.tensors[op.outputs[0]])
        if node.domain not in ("", "ai.onnx") and op.kind not in OF_OTHER_DOMAINS:
            raise UnsupportedKernelError(f"operator {op.name!r} is of the custom domain {node.domain!r}")
        attributes = self.executable.attributes(position)
        return Operator(op.kind, attributes, tuple(node.input), constants, dtype, self.numbers)

    def element_of(self, name: str) -> Element:
        """Return the value of a tensor's elements.

        Raises ``UnsupportedKernelError`` naming the operator if there is no code for it, then or for an element.
        """
        each = self.computed[name]
        element = _complaining(each.name, each.op.kind, lambda: self._element(name, each))
        return lambda place: _complaining(each.name, each.op.kind, lambda: element(place))

    def _element(self, name: str, each: Written) -> Element:
        op, nest = each.op, each.nests[0]
        if any(loop.reduction for loop in nest.loops):
            if len(each.nests) > 1:
                raise UnsupportedKernelError(f"{op.kind} reduces into parts of a tensor")
            rule = reduction_of(op, nest)
            return lambda place: self.finish(op, nest, rule, place, self._summed(name, nest, place))
        if len(each.nests) > 1 or op.kind == "Pad":
            return self._joined(each)
        return self._pointwise(op, nest)

    def _summed(self, name: str, nest: LoopNest, place: Sequence[Any]) -> Any:
        """Return the sum of an element; of products with parts of a softmax's exponentials, divided by their sum."""
        value, softmax = self.own[name + SUMS].at(place), self.softmaxes.get(name + SUMS)
        return value if softmax is None else softmax.divided(nest, place, value)

    def _pointwise(self, op: Operator, nest: LoopNest) -> Element:
        chooser = chooser_of(op, nest)
        if chooser is not None:
            return lambda element: chooser(self, op, nest, loops_of(self.numbers, nest, element))
        compute = pointwise_of(op, nest)

        def value(element: Sequence[Any]) -> Any:
            loops = loops_of(self.numbers, nest, element)
            return compute([self.read(nest, read, loops) for read in nest.reads if not is_whole(read)])

        return value

    def _joined(self, each: Written) -> Element:
        """Return what several nests write a part of each; what none writes is padding."""
        op, nests, tensor = each.op, each.nests, each.tensor
        filler = self.numbers.const(op.attributes.get("value", op.scalar(2) or 0.0), self.dtype(tensor))
        if op.kind == "Pad" and len(nests) == 1:
            nest = nests[0]
            if any(index.opaque for index in nest.reads[0].indices):
                raise UnsupportedKernelError(f"{op.kind} by amounts that are not known before the network runs")
            return lambda place: self.read(nest, nest.reads[0], loops_of(self.numbers, nest, place), filler)
        parts = [(nest, self._pointwise(op, nest)) for nest in nests]

        def element(place: Sequence[Any]) -> Any:
            value = filler
            for nest, compute in reversed(parts):
                inside = inside_conditions(nest, place, tensor.shape)
                value = self.numbers.where(inside, partial(compute, place), value)
            return value

        return element

    def rule_of(self, stage: Stage) -> Reduction:
        """Return how a stage of sums accumulates."""
        return reduction_of(self.computed[stage.tensor].op, stage.nests[0])

    def first(self, stage: Stage, dtype: str) -> Any:
        """Return what accumulators begin with."""
        return FIRST[self.rule_of(stage).combine](self.numbers, dtype)

    def combined(self, stage: Stage, one: Any, other: Any) -> Any:
        """Return what becomes of an accumulator and a value, or of two accumulators."""
        return self.combine(self.rule_of(stage), one, other)

    def combine(self, rule: Reduction, one: Any, other: Any) -> Any:
        """Return two accumulated values as one."""
        return COMBINE[rule.combine](self.numbers, one, other)

    def term(self, stage: Stage, element: Sequence[Any], reduced: Mapping[int, Any]) -> Any:
        """Return what one iteration of a reduction adds to an element."""
        nest, rule = stage.nests[0], self.rule_of(stage)
        spacing, late = Spacing(nest, rule), set(rule.late)
        at = loops_of(self.numbers, nest, element)
        at = self.named_places(at, {loop for each in spacing.spaced.values() for loop, _ in each.rest.terms})
        loops, conditions = spacing.iterations(self.numbers, at, reduced)
        loops = self.named_places(loops, set(spacing.spaced))
        fill = self.numbers.const(rule.fill, self.dtype(self.described(nest.reads[0].tensor)))

        def added() -> Any:
            return rule.term(self.numbers, [
                self.read(nest, read, loops, fill, dividing=spacing.dividing)
                for number, read in enumerate(nest.reads) if number not in late
            ])  # fmt: skip

        each = self.computed[stage.tensor]
        term = partial(self.numbers.within, lambda: self.numbers.where(conditions, added))
        return self.with_named_places(_complaining(each.name, each.op.kind, term))

    def named_places(self, loops: dict[int, Any], which: Collection[int]) -> dict[int, Any]:
        """Return the values of loops, those of ``which`` with names where expressions need them."""
        del which
        return loops

    def with_named_places(self, value: Any) -> Any:
        """Return ``value`` with what the names in it stand for."""
        return value

    def result(self, stage: Stage, element: Sequence[Any]) -> Any:
        """Return the element of a stage that is no sum and no copy, in the dtype of its tensor."""
        described, compute = self.computed[stage.tensor], self.element_of(stage.tensor)
        return self.numbers.within(lambda: self.cast(described.tensor, compute(element)))

    def fill_of(self, reader: Stage, tensor: Tensor) -> Any:
        """Return what a copy for ``reader`` has where there is padding."""
        fill = self.rule_of(reader).fill if reader.kind == "sum" else 0.0
        return self.numbers.const(fill, self.dtype(tensor))


def _without_masking(op: Op) -> Op:
    """Return an operator that masks scores as what is left of it where its nest's bound says all that it masks.

    Its scores are passed on as they are: what lies outside of the bound is not read.
    """
    nest = op.nests[0]
    if nest.bound is None or not op.masks or set(op.masks) & set(op.inputs):
        return op
    scores = next(read for read in nest.reads if read.uses(nest.bound.outer) and read.uses(nest.bound.inner))
    return replace(op, kind="Identity", nests=(replace(nest, reads=(scores,)),))


_Value = TypeVar("_Value")


def _complaining(name: str, kind: str, compute: Callable[[], _Value]) -> _Value:
    """Return what ``compute`` does; name the operator where it has no code, unless that is named already."""
    try:
        return compute()
    except _NamedError:
        raise
    except UnsupportedKernelError as error:
        raise _NamedError(f"{name} ({kind}): {error}") from None
