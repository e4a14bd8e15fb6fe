"""Comparisons of predicted with true figures, and where measured tables lie."""

import math
from dataclasses import dataclass
from pathlib import Path

from dsascape.experiments.real.accuracy import mape, spearman

MEASURED = Path(__file__).parents[1] / "measured"
_LEAST_RANKED = 4
"""Cases below which a rank correlation says nothing."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Predicted figures beside true ones."""

    what: str
    beside: str
    predicted: tuple[float, ...]
    true: tuple[float, ...]
    roofline: tuple[float, ...] = ()
    """What the roofline of the machine's data sheet predicts of each case (`papers.rooflines`); empty: not compared."""

    @property
    def row_by_roofline(self) -> tuple[object, ...]:
        """`row` with the mean error and the bias of the roofline behind it; empty where there is none."""
        if not self.roofline:
            return *self.row, ""
        _, _, _, error, bias, _ = Compared(self.what, self.beside, self.roofline, self.true).row
        return *self.row, f"{error}, {bias}"

    @property
    def row(self) -> tuple[object, ...]:
        """Row of a table: the two sides, the number of cases, mean error, bias, and Spearman's rank correlation.

        The mean error is that of absolute errors by the true figure; the bias is the geometric mean of the predicted by
        the true figures, less one.
        """
        logs = [math.log(p / t) for p, t in zip(self.predicted, self.true, strict=True)]
        bias = math.exp(sum(logs) / len(logs)) - 1
        ranks = spearman(list(self.predicted), list(self.true)) if len(logs) >= _LEAST_RANKED else None
        error = mape(list(self.predicted), list(self.true)) or 0.0
        shown = "" if ranks is None else f"{ranks:.2f}"
        return self.what, self.beside, len(logs), f"{error:.1%}", f"{bias:+.1%}", shown
