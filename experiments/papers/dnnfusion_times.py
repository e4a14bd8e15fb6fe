"""Regression of the times in DNNFusion's Table 6 on layers, operations and bytes of intermediate results.

Each set of quantities, all as printed, is fitted to the printed times of the unfused networks (OurB) with one factor
per quantity by least squares of the relative errors; once over all networks, once without the two R-CNNs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dsascape.experiments.papers.graphturbo_tables import markdown

SETS = (("layers",), ("gflop",), ("irs_mb",), ("gflop", "layers"), ("gflop", "irs_mb"))
_NAMES = {"layers": "layers", "gflop": "operations", "irs_mb": "intermediate results"}
_UNITS = {"layers": "ms each", "gflop": "ms/GFLOP", "irs_mb": "ms/MB"}
_OURB = {"cpu": "ourb_ms", "gpu": "gpu_ourb_ms"}
_OUTLIERS = "rcnn"
"""Part of the names of the networks that the second fit leaves out."""


def explained(paper: Mapping[str, Any]) -> str:
    """Return a table of each fit's factors and of its errors against the printed times, in per cent."""
    rows: list[tuple[object, ...]] = []
    for device, column in _OURB.items():
        timed = {name: printed for name, printed in paper["networks"].items() if printed[column]}
        everything = list(timed.values())
        others = [printed for name, printed in timed.items() if _OUTLIERS not in name]
        outliers = [printed for name, printed in timed.items() if _OUTLIERS in name]
        for quantities in SETS:
            of_others = factors(others, quantities, column)
            printed_factors = ", ".join(f"{f:.3g} {_UNITS[q]}" for q, f in zip(quantities, of_others, strict=True))
            of_all = factors(everything, quantities, column)
            errors = [
                np.abs(times_over(each, quantities, column, own) - 1) * 100
                for each, own in ((others, of_others), (everything, of_all))
            ]
            beyond = 1 / times_over(outliers, quantities, column, of_others)
            named = " and ".join(_NAMES[quantity] for quantity in quantities)
            rows.append(
                (device, named, printed_factors, float(errors[0].mean()), float(errors[0].max()), float(beyond.mean()),
                 float(errors[1].mean()))
            )  # fmt: skip
    columns = (
        "device", "time grows with", "factors without R-CNNs", "mean error [%]", "worst [%]",
        "R-CNNs take, times that", "mean error, fitted to all [%]",
    )  # fmt: skip
    return markdown(columns, rows)


def factors(networks: Sequence[Mapping[str, float]], quantities: Sequence[str], column: str) -> Sequence[float]:
    """Return the fitted milliseconds per unit of each of ``quantities``."""
    solution = np.linalg.lstsq(_shares(networks, quantities, column), np.ones(len(networks)), rcond=None)[0]
    return [float(factor) for factor in solution]


def times_over(
    networks: Sequence[Mapping[str, float]], quantities: Sequence[str], column: str, fitted: Sequence[float]
) -> npt.NDArray[np.float64]:
    """Return for each network the time given by the factors ``fitted``, divided by the printed one."""
    return np.asarray(_shares(networks, quantities, column) @ np.asarray(fitted), np.float64)


def _shares(networks: Sequence[Mapping[str, float]], quantities: Sequence[str], column: str) -> npt.NDArray[np.float64]:
    return np.array([[each[quantity] / each[column] for quantity in quantities] for each in networks], np.float64)
