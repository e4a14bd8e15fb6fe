"""How far predictions are from measurements."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

_Numbers = NDArray[np.float64]


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
    """Return Kendall's tau-b: pairs in the same order less those in the other, by pairs that are not equal."""
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    upper = np.triu_indices(len(a), 1)
    signs_a, signs_b = (np.sign(x[:, None] - x[None, :])[upper] for x in (a, b))
    pairs = math.sqrt(float(np.abs(signs_a).sum()) * float(np.abs(signs_b).sum()))
    return float((signs_a * signs_b).sum()) / pairs if pairs else None


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
