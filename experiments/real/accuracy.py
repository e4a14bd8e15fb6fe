"""Accuracy of predictions: errors, rank correlations and regret."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

_Numbers = NDArray[np.float64]
_Whole = NDArray[np.intp]
_FEW = 64
"""Largest number of values whose pairs are compared directly."""


def mape(predicted: Sequence[float], measured: Sequence[float]) -> float | None:
    """Return the mean absolute relative error, a fraction; None for empty sequences."""
    if not measured:
        return None
    return float(np.mean([abs(p - m) / m for p, m in zip(predicted, measured, strict=True)]))


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, with mean ranks for ties; None where one side is constant."""
    a, b = _ranks(first), _ranks(second)
    spread = float(a.std() * b.std()) if len(a) else 0.0
    return float(((a - a.mean()) * (b - b.mean())).mean()) / spread if spread else None


def kendall(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Kendall's tau-b: (concordant - discordant pairs) / untied pairs; None where one side is constant.

    Computed by sorting (Knight, 1966) in O(n log² n) steps rather than O(n²) comparisons.
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
    """Return the number of equal pairs."""
    counts = np.unique(numbers, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())


def _inversions(numbers: _Whole) -> int:
    """Return the number of inversions: pairs with the larger number first."""
    if len(numbers) <= _FEW:
        return int((np.triu(numbers[:, None] > numbers[None, :], 1)).sum())
    half = len(numbers) // 2
    left, right = np.sort(numbers[:half]), numbers[half:]
    larger = len(left) - np.searchsorted(left, right, side="right")
    return int(larger.sum()) + _inversions(numbers[:half]) + _inversions(right)


def regret(predicted_s: Mapping[str, float], measured_s: Mapping[str, float]) -> float | None:
    """Return (measured time of the plan with the best prediction) / (best measured time) - 1; None without plans."""
    both = sorted(predicted_s.keys() & measured_s.keys())
    if not both:
        return None
    chosen = min(both, key=lambda name: predicted_s[name])
    return measured_s[chosen] / min(measured_s[name] for name in both) - 1


def _ranks(values: Sequence[float]) -> _Numbers:
    """Return the ranks of ``values``, from 1 with mean ranks for ties."""
    _, inverse, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: _Numbers = (last - (counts - 1) / 2)[inverse]
    return ranks
