"""Masks of scores that are known at import, recognised as bands: causal ones, and windows of the latest keys.

A mask is a condition under which scores are kept, or what is added to them, 0 where they are kept. It is known as an
array, or by the nodes that make it: a comparison of two numberings, of rows and of columns, a triangle (Trilu), a slice
of a mask, several conditions of which a band is one, a choice between 0 and a low number.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import onnx
from onnx import numpy_helper

from dsascape.workloads.loopnest import Band
from dsascape.workloads.operators.registry import Array, NodeContext

LOWEST_KEPT = -1e4
"""Scores from here downwards become zeros in a softmax beside any that are kept."""
_PAIR = 2


@dataclass(frozen=True, slots=True)
class Mask:
    """Band of scores that an operator keeps, and the inputs that say nothing but that."""

    band: Band
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Diagonals:
    """Condition column <= row + ``upper`` and column > row + ``lower``; None: no condition.

    ``is_all``: whether nothing else is asked.
    """

    upper: int | None = None
    lower: int | None = None
    is_all: bool = True

    def both(self, other: "_Diagonals") -> "_Diagonals":
        """Return the condition that is met where both are."""
        uppers = [each for each in (self.upper, other.upper) if each is not None]
        lowers = [each for each in (self.lower, other.lower) if each is not None]
        return _Diagonals(min(uppers, default=None), max(lowers, default=None), self.is_all and other.is_all)

    def band(self, rows: int, columns: int) -> Band | None:
        """Return the band; None where all pairs are kept, or a row has none."""
        upper = columns - 1 if self.upper is None else self.upper
        lower = -rows if self.lower is None else self.lower
        if upper < 0 or lower >= upper or rows + lower >= columns:
            return None
        if upper >= columns - 1 and rows - 1 + lower < 0:
            return None
        return Band(upper, upper - lower if rows - 1 + lower >= 0 else 0)


class Shaped(Protocol):
    """Type of a tensor."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""


@dataclass(frozen=True, slots=True)
class KnownGraph:
    """Tensors of a file with the nodes that write them and the values that are constant at import, by name."""

    writers: Mapping[str, onnx.NodeProto]
    """Node of each tensor that is computed."""
    values: Mapping[str, Array]
    types: Mapping[str, Shaped]

    def node(self, name: str, kinds: frozenset[str]) -> onnx.NodeProto | None:
        """Return the node that computes ``name`` if it is one of ``kinds``."""
        node = self.writers.get(name)
        return node if node is not None and node.op_type in kinds else None

    def is_all(self, name: str, *, low: bool) -> bool:
        """Whether all elements are the same: low enough for a softmax to make zeros of them, or else not zero."""
        value, node = self.values.get(name), self.node(name, _FILLED)
        if value is None and node is not None:
            if node.op_type == "Expand":
                return self.is_all(node.input[0], low=low)
            value = next((numpy_helper.to_array(each.t) for each in node.attribute if each.name == "value"), None)
        if value is None or not value.size:
            return False
        return bool(np.all(value <= LOWEST_KEPT)) if low else bool(np.all(value != 0))

    def is_zero(self, name: str) -> bool:
        """Whether all elements are known to be zero."""
        value = self.values.get(name)
        return value is not None and bool(value.size) and not value.any()

    def passed_on(self, name: str) -> str | None:
        """Return the tensor of which ``name`` is a copy with the same rows and columns; None if it is none."""
        node = self.node(name, _PASSING_ON)
        if node is None:
            return None
        before, after = [self.types[each].shape if each in self.types else () for each in (node.input[0], name)]
        has_both = len(before) >= _PAIR and before[-_PAIR:] == after[-_PAIR:]
        return node.input[0] if has_both else None

    def sliced(self, name: str) -> tuple[str, int, int] | None:
        """Return the tensor that ``name`` is a slice of, and the rows and columns that are left out before it.

        None if it is none, in steps of one, from places that are known.
        """
        node = self.node(name, frozenset({"Slice"}))
        if node is None or not {*node.input[1:]} <= self.values.keys():
            return None
        starts, _, *rest = [[int(each) for each in self.values[given].reshape(-1)] for given in node.input[1:]]
        shape = self.types[node.input[0]].shape
        axes = [axis % len(shape) for axis in rest[0]] if rest else list(range(len(starts)))
        if len(shape) < _PAIR or any(step != 1 for step in (rest[1] if rest[1:] else ())):
            return None
        first = {axis: min(max(at + shape[axis] if at < 0 else at, 0), shape[axis])
                 for axis, at in zip(axes, starts, strict=True)}  # fmt: skip
        return node.input[0], first.get(len(shape) - 2, 0), first.get(len(shape) - 1, 0)


_Rule = Callable[[onnx.NodeProto, KnownGraph], _Diagonals | None]
_PASSING_ON = frozenset({"Cast", "Expand", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
_FILLED = frozenset({"ConstantOfShape", "Expand"})


def mask_of(context: NodeContext, known: KnownGraph) -> Mask | None:
    """Return the band of scores that an operator keeps; None if it masks none, or another set."""
    names = [tensor.name if tensor is not None else "" for tensor in context.inputs]
    if context.kind == "Where" and len(names) == _PAIR + 1:
        condition, chosen, other = names
        if known.is_all(other, low=True):
            return _mask(context, condition, 1, _condition(condition, known))
        if known.is_all(chosen, low=True):
            return _mask(context, condition, 2, _refused(condition, known))
    if context.kind == "Add" and len(names) == _PAIR:
        for place, name in enumerate(names):
            found = _added(name, known)
            if found is not None:
                return _mask(context, name, 1 - place, found)
    return None


def _mask(context: NodeContext, name: str, scores: int, found: _Diagonals | None) -> Mask | None:
    data = context.inputs[scores]
    mask = next(tensor for tensor in context.inputs if tensor is not None and tensor.name == name)
    if found is None or data is None or len(data.shape) < _PAIR or data.shape != context.output.shape:
        return None
    if mask.shape[-_PAIR:] != data.shape[-_PAIR:] or any(size != 1 for size in mask.shape[:-_PAIR]):
        return None
    band = found.band(*data.shape[-_PAIR:])
    return None if band is None else Mask(band, (name,) if found.is_all else ())


def _condition(name: str, known: KnownGraph) -> _Diagonals | None:
    """Return the diagonals between which a condition is met; None where it has none."""
    if name in known.values:
        return _of_array(known.values[name].astype(bool))
    return _of_source(name, known, _condition, _CONDITIONS)


def _refused(name: str, known: KnownGraph) -> _Diagonals | None:
    """Return the diagonals between which a condition is not met; None where it has none."""
    value = known.values.get(name)
    return _opposite(_condition(name, known)) if value is None else _of_array(~value.astype(bool))


def _added(name: str, known: KnownGraph) -> _Diagonals | None:
    """Return the diagonals between which what is added to scores may be zero, very low elsewhere; None without any."""
    added = known.values.get(name)
    if added is None:
        return _of_source(name, known, _added, _ADDED)
    is_mask = added.ndim >= _PAIR and bool(np.all((added == 0) | (added <= LOWEST_KEPT)))
    return _of_array(added == 0) if is_mask else None


def _of_source(
    name: str, known: KnownGraph, of: Callable[[str, KnownGraph], _Diagonals | None], rules: Mapping[str, _Rule]
) -> _Diagonals | None:
    """Return the diagonals of a tensor that is computed: of what it is a copy or a slice of, else by a node's rule."""
    before, part, node = known.passed_on(name), known.sliced(name), known.writers.get(name)
    if before is not None:
        return of(before, known)
    if part is not None:
        return _moved(of(part[0], known), part)
    return None if node is None or node.op_type not in rules else rules[node.op_type](node, known)


def _of_both(node: onnx.NodeProto, known: KnownGraph) -> _Diagonals | None:
    return _both([_condition(each, known) for each in node.input])


def _of_comparison(node: onnx.NodeProto, known: KnownGraph) -> _Diagonals | None:
    columns, rows = [_numbering(known.values.get(each)) for each in node.input]
    return _compared(node.op_type, columns, rows)


def _of_not(node: onnx.NodeProto, known: KnownGraph) -> _Diagonals | None:
    return _refused(node.input[0], known)


def _of_ones(node: onnx.NodeProto, known: KnownGraph) -> _Diagonals | None:
    return _triangle(node, known) if known.is_all(node.input[0], low=False) else None


def _of_low_triangle(node: onnx.NodeProto, known: KnownGraph) -> _Diagonals | None:
    return _opposite(_triangle(node, known)) if known.is_all(node.input[0], low=True) else None


def _of_choice(node: onnx.NodeProto, known: KnownGraph) -> _Diagonals | None:
    """Return the diagonals of a choice between zero and a low number."""
    condition, chosen, other = node.input
    if known.is_zero(chosen) and known.is_all(other, low=True):
        return _condition(condition, known)
    if known.is_all(chosen, low=True) and known.is_zero(other):
        return _refused(condition, known)
    return None


_CONDITIONS: Mapping[str, _Rule] = {
    "And": _of_both, "Not": _of_not, "Trilu": _of_ones,
    **dict.fromkeys(("LessOrEqual", "Less", "Greater", "GreaterOrEqual"), _of_comparison),
}  # fmt: skip
_ADDED: Mapping[str, _Rule] = {"Where": _of_choice, "Trilu": _of_low_triangle}


def _triangle(node: onnx.NodeProto, known: KnownGraph) -> _Diagonals | None:
    """Return the diagonals between which a Trilu keeps its input; None where they are not known."""
    own = {each.name: each.i for each in node.attribute}
    named = len(node.input) == _PAIR and bool(node.input[1])
    if named and node.input[1] not in known.values:
        return None
    diagonal = int(known.values[node.input[1]].reshape(-1)[0]) if named else 0
    return _Diagonals(lower=diagonal - 1) if own.get("upper", 1) else _Diagonals(upper=diagonal)


def _opposite(found: _Diagonals | None) -> _Diagonals | None:
    """Return the diagonals between which a condition is not met; None for one with two, or one among others."""
    if found is None or not found.is_all or (found.upper is None) is (found.lower is None):
        return None
    return _Diagonals(lower=found.upper) if found.lower is None else _Diagonals(upper=found.lower)


def resized_mask(value: Array, shape: Sequence[int]) -> Array | None:
    """Return a mask of true and false of another ``shape``, between the same diagonals; None if it is between none."""
    found = _of_array(value) if value.dtype == np.bool_ and len(shape) == value.ndim else None
    if found is None or any(size != 1 for size in shape[:-_PAIR]):
        return None
    ahead = np.arange(shape[-1]) - np.arange(shape[-2]).reshape(-1, 1)
    above = True if found.upper is None else ahead <= found.upper
    below = True if found.lower is None else ahead > found.lower
    return np.asarray(np.broadcast_to(above & below, ahead.shape)).reshape(tuple(shape))


def _moved(found: _Diagonals | None, part: tuple[str, int, int]) -> _Diagonals | None:
    """Return the diagonals of a slice, before which rows and columns are left out."""
    if found is None:
        return None
    _, rows, columns = part
    upper, lower = [None if each is None else each + rows - columns for each in (found.upper, found.lower)]
    return _Diagonals(upper, lower, found.is_all)


def _both(parts: Sequence[_Diagonals | None]) -> _Diagonals | None:
    """Return the diagonals of two conditions together, of which one may have none."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    together = known[0] if len(known) == 1 else known[0].both(known[1])
    return together if len(known) == len(parts) else _Diagonals(together.upper, together.lower, is_all=False)


def _compared(
    kind: str, columns: tuple[bool, bool, int] | None, rows: tuple[bool, bool, int] | None
) -> _Diagonals | None:
    """Return the diagonals of a comparison of a numbering of columns with one of rows."""
    if columns is None or rows is None or not columns[1] or not rows[0]:
        return None
    ahead = rows[2] - columns[2]
    return {
        "LessOrEqual": _Diagonals(upper=ahead), "Less": _Diagonals(upper=ahead - 1),
        "Greater": _Diagonals(lower=ahead), "GreaterOrEqual": _Diagonals(lower=ahead - 1),
    }.get(kind)  # fmt: skip


def _numbering(value: Array | None) -> tuple[bool, bool, int] | None:
    """Return whether ``value`` numbers rows, and columns, one after the other, and the first number; else None."""
    if value is None or value.dtype.kind not in "iu" or value.ndim < 1 or not value.size:
        return None
    last, before = value.shape[-1], value.shape[-2] if value.ndim >= _PAIR else 1
    if value.size != last * before or min(last, before) != 1:
        return None
    numbers = value.reshape(-1).astype(np.int64)
    if not np.array_equal(numbers, numbers[0] + np.arange(numbers.size)):
        return None
    return last == 1, before == 1, int(numbers[0])


def _of_array(kept: Array) -> _Diagonals | None:
    """Return the diagonals between which ``kept`` holds; None where it does not hold exactly between two."""
    if kept.ndim < _PAIR or kept.size != kept.shape[-1] * kept.shape[-2] or not kept.size:
        return None
    rows, columns = int(kept.shape[-2]), int(kept.shape[-1])
    matrix = kept.reshape(rows, columns)
    if not matrix.any(axis=1).all():
        return None
    ends = columns - matrix[:, ::-1].argmax(axis=1) - np.arange(rows) - 1
    begins = matrix.argmax(axis=1) - np.arange(rows) - 1
    cut_above, cut_below = np.flatnonzero(~matrix[:, -1]), np.flatnonzero(~matrix[:, 0])
    upper = int(ends[cut_above[0]]) if cut_above.size else None
    lower = int(begins[cut_below[0]]) if cut_below.size else None
    number = np.arange(columns) - np.arange(rows).reshape(-1, 1)
    between = (number <= (columns if upper is None else upper)) & (number > (-rows if lower is None else lower))
    return _Diagonals(upper, lower) if np.array_equal(between, matrix) else None
