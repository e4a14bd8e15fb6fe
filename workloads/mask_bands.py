"""Masks of scores that are known at import, recognised as bands: causal ones, and windows of the latest keys.

A mask is a condition under which scores are kept, or what is added to them, 0 where they are kept. It is known as an
array, or by the comparison of two numberings, of rows and of columns, that makes it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

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


def mask_of(context: NodeContext, writers: Mapping[str, onnx.NodeProto], values: Mapping[str, Array]) -> Mask | None:
    """Return the band of scores that an operator keeps; None if it masks none, or another set.

    ``writers``: node of each tensor that is computed; ``values``: those known at import.
    """
    names = [tensor.name if tensor is not None else "" for tensor in context.inputs]
    if context.kind == "Where" and len(names) == _PAIR + 1:
        condition, chosen, other = names
        if _is_low(values.get(other)):
            return _mask(context, condition, 1, _condition(condition, writers, values))
        if _is_low(values.get(chosen)) and condition in values:
            return _mask(context, condition, 2, _of_array(~values[condition].astype(bool)))
    if context.kind == "Add" and len(names) == _PAIR:
        for place, name in enumerate(names):
            added = values.get(name)
            if added is not None and added.ndim >= _PAIR and bool(np.all((added == 0) | (added <= LOWEST_KEPT))):
                return _mask(context, name, 1 - place, _of_array(added == 0))
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


def _is_low(value: Array | None) -> bool:
    return value is not None and value.size == 1 and float(value.reshape(-1)[0]) <= LOWEST_KEPT


def _condition(name: str, writers: Mapping[str, onnx.NodeProto], values: Mapping[str, Array]) -> _Diagonals | None:
    """Return the diagonals between which a condition is met; None where it has none."""
    if name in values:
        return _of_array(values[name].astype(bool))
    node = writers.get(name)
    if node is None or len(node.input) != _PAIR:
        return None
    if node.op_type == "And":
        return _both([_condition(each, writers, values) for each in node.input])
    return _compared(node.op_type, _numbering(values.get(node.input[0])), _numbering(values.get(node.input[1])))


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
