"""Figures computed for one design point: its row, and the rows of its layers and measured kernels."""

from dataclasses import dataclass
from math import isfinite

from dsascape.experiments.question.points import Row
from dsascape.hw_models import HardwareError
from dsascape.workloads.memo import MemoFigures


@dataclass(frozen=True, slots=True)
class Computed:
    """Rows to store for one design point."""

    row: Row
    layers: tuple[Row, ...] = ()
    kernels: tuple[Row, ...] = ()
    """Rows of measured kernels."""
    memos: tuple[MemoFigures, ...] = ()
    """Use of stored results by the process that computed the point, while it did; empty unless that was asked for."""


def check_finite(row: Row) -> None:
    """Raise ``HardwareError`` if a figure is infinite or not a number."""
    for name, value in row.items():
        if isinstance(value, float) and not isfinite(value):
            raise HardwareError(f"{row['hardware']}: {name} comes out as {value}; one of its values is implausible")
