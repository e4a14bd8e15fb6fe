"""How far predictions are from measurements."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

_Numbers = NDArray[np.float64]
_Whole = NDArray[np.intp]
_FEW = 64
"""Numbers of which all pairs are compared."""


def mape(predicted: Sequence[float], measured: Sequence[float]) -> float | None:
    """Return the mean of the differences, each by its measurement; None of nothing."""
    if not measured:
        return None
    return float(np.mean([abs(p - m) / m for p, m in zip(predicted, measured, strict=True)]))


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, equal values sharing their ranks; None where one side is all the same."""
    a, b = _ranks(first), _ranks(second)
    spread = float(a.std() * b.std()) if len(a) else 0.0
    return float(((a - a.mean()) * (b - b.mean())).mean()) / spread if spread else None


def kendall(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Kendall's tau-b: pairs in the same order less those in the other, by pairs that are not equal.

    By sorting (Knight, 1966): in n log² n steps, where comparing all pairs takes n².
    """
    a, b = (np.unique(np.asarray(x, np.float64), return_inverse=True)[1] for x in (first, second))
    order = np.lexsort((b, a))
    everything = len(a) * (len(a) - 1) // 2
    unequal_a, unequal_b = everything - _equal_pairs(a), everything - _equal_pairs(b)
    equal_in_both = _equal_pairs(a * len(b) + b)
    same_less_other = unequal_a + unequal_b - everything + equal_in_both - 2 * _inversions(b[order])
    pairs = math.sqrt(unequal_a * unequal_b)
    return same_less_other / pairs if pairs else None


def _equal_pairs(numbers: _Whole) -> int:
    """Return how many pairs of ``numbers`` are equal."""
    counts = np.unique(numbers, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())


def _inversions(numbers: _Whole) -> int:
    """Return how many pairs of ``numbers`` have the larger one first."""
    if len(numbers) <= _FEW:
        return int((np.triu(numbers[:, None] > numbers[None, :], 1)).sum())
    half = len(numbers) // 2
    left, right = np.sort(numbers[:half]), numbers[half:]
    larger = len(left) - np.searchsorted(left, right, side="right")
    return int(larger.sum()) + _inversions(numbers[:half]) + _inversions(right)


def regret(predicted_s: Mapping[str, float], measured_s: Mapping[str, float]) -> float | None:
    """Return the time of the plan that predictions choose by that of the really fastest, less one."""
    both = sorted(predicted_s.keys() & measured_s.keys())
    if not both:
        return None
    chosen = min(both, key=lambda name: predicted_s[name])
    return measured_s[chosen] / min(measured_s[name] for name in both) - 1


def _ranks(values: Sequence[float]) -> _Numbers:
    """Return the places of ``values`` in their order, the mean place of equal ones."""
    _, inverse, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    found: _Numbers = (last - (counts - 1) / 2)[inverse]
    return found
