"""What the times that DNNFusion's Table 6 prints grow with: layers, operations, bytes of intermediate results.

Each set of quantities, all as printed, is fitted to the printed times of the unfused networks (OurB): one factor each,
so that the squares of relative errors are least. Once to all networks, once to those that are no R-CNNs.
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
_APART = "rcnn"


def explained(paper: Mapping[str, Any]) -> str:
    """Return how far the printed times of the unfused networks are from what is fitted to them."""
    rows: list[tuple[object, ...]] = []
    for device, column in _OURB.items():
        timed = {name: printed for name, printed in paper["networks"].items() if printed[column]}
        everything = list(timed.values())
        others = [printed for name, printed in timed.items() if _APART not in name]
        apart = [printed for name, printed in timed.items() if _APART in name]
        for quantities in SETS:
            found = factors(others, quantities, column)
            said = ", ".join(f"{f:.3g} {_UNITS[q]}" for q, f in zip(quantities, found, strict=True))
            of_all = factors(everything, quantities, column)
            errors = [
                np.abs(times_over(each, quantities, column, own) - 1) * 100
                for each, own in ((others, found), (everything, of_all))
            ]
            beyond = 1 / times_over(apart, quantities, column, found)
            named = " and ".join(_NAMES[quantity] for quantity in quantities)
            rows.append(
                (device, named, said, float(errors[0].mean()), float(errors[0].max()), float(beyond.mean()),
                 float(errors[1].mean()))
            )  # fmt: skip
    columns = (
        "device", "time grows with", "factors without R-CNNs", "mean error [%]", "worst [%]",
        "R-CNNs take, times that", "mean error, fitted to all [%]",
    )  # fmt: skip
    return markdown(columns, rows)


def factors(networks: Sequence[Mapping[str, float]], quantities: Sequence[str], column: str) -> Sequence[float]:
    """Return what one unit of each of ``quantities`` takes, in milliseconds."""
    found = np.linalg.lstsq(_shares(networks, quantities, column), np.ones(len(networks)), rcond=None)[0]
    return [float(factor) for factor in found]


def times_over(
    networks: Sequence[Mapping[str, float]], quantities: Sequence[str], column: str, found: Sequence[float]
) -> npt.NDArray[np.float64]:
    """Return for each network the time by the factors ``found``, over the printed one."""
    return np.asarray(_shares(networks, quantities, column) @ np.asarray(found), np.float64)


def _shares(networks: Sequence[Mapping[str, float]], quantities: Sequence[str], column: str) -> npt.NDArray[np.float64]:
    return np.array([[each[quantity] / each[column] for quantity in quantities] for each in networks], np.float64)
