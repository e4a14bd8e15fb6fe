"""What the times that DNNFusion prints grow with: layers, operations, or bytes handed from layer to layer."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.papers.graphturbo_tables import markdown

_QUANTITIES = {
    "layers": ("layers",), "operations": ("gflop",), "intermediate bytes": ("irs_mb",),
    "operations and layers": ("gflop", "layers"), "operations and intermediate bytes": ("gflop", "irs_mb"),
}  # fmt: skip
_TIMES = {"CPU": "ourb_ms", "GPU": "gpu_ourb_ms"}
_DETECTORS = ("faster-rcnn", "mask-rcnn")


def what_times_grow_with(paper: Mapping[str, Any]) -> str:
    """Return by how much sums of rates times quantities miss the paper's times without fusion, as Markdown.

    A rate for each quantity (seconds per layer, per operation, per byte) is chosen for the least squares of relative
    errors over all networks that have a time, and again over those but the two R-CNNs.
    """
    timed = {name: row for name, row in paper["networks"].items() if row["ourb_ms"] is not None}
    others = {name: row for name, row in timed.items() if name not in _DETECTORS}
    rows = [
        (words, *(_mean_error(networks, columns, time) for time in _TIMES.values() for networks in (timed, others)))
        for words, columns in _QUANTITIES.items()
    ]
    columns = ["time of", *(f"{device}, {which} [%]" for device in _TIMES for which in ("all", "without R-CNNs"))]
    return markdown(columns, rows)


def _mean_error(networks: Mapping[str, Mapping[str, float]], columns: Sequence[str], time: str) -> float:
    """Return the mean of relative errors of the best sum of ``columns``, in per cent."""
    shares = np.array([[row[column] / row[time] for column in columns] for row in networks.values()])
    rates = np.linalg.lstsq(shares, np.ones(len(networks)), rcond=None)[0]
    return float(100 * np.mean(np.abs(shares @ rates - 1)))
