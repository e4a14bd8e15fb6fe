"""DNNFusion's figures 7 to 10, simulated: gains step by step, bytes through each level, busy cores, older phones.

`dnnfusion_tables` puts them on the page. The paper's text gives only ranges for these figures; they are quoted with
ours.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from dsascape.experiments.papers.graphturbo_tables import Results, geometric_mean, markdown

DEVICES = {"snapdragon865": "cpu", "adreno650": "gpu"}
"""Presets of the paper's phone, and their names in its tables."""
OLDER = {"snapdragon855": "CPU", "adreno640": "GPU", "kirin980": "CPU", "mali_g76": "GPU"}
UNFUSED, REWRITTEN, PARTLY = "unfused", "dnnfusion(most_operands=1)", "dnnfusion(yellow=part)"
WHOLE, WITHOUT_REWRITING, EITHER_ORDER = "dnnfusion", "dnnfusion(rewriting=false)", "dnnfusion(first=faster)"
ALWAYS_REWRITTEN = "dnnfusion(rewriting=true)"
FOUR = ("efficientnet-b0", "yolo-v4", "s3d", "gpt2")
_LEVELS = ("l1", "l2", "l3", "shared", "dram")
_MEMORY_NETWORK = "yolo-v4-raw"
_PERCENT, _MS, _MEGA = 1e2, 1e3, 1e6


def figure(results: Results, column: str, model: str, policy: str, scale: float = 1.0) -> float | None:
    """Return ``column`` times ``scale`` of the newest row of a network under a policy; None if there is none.

    ``policy`` includes its options, as `dsascape run` stores it; a point that failed has no figure.
    """
    frame = results.frame
    chosen = frame[(frame["model"] == model) & (frame["policy"] == policy)]
    if chosen.empty or column not in chosen or pd.isna(chosen.iloc[-1][column]):
        return None
    return float(chosen.iloc[-1][column]) * scale


def ratio(above: float | None, below: float | None) -> float | None:
    """Return ``above / below``, None where one of them is missing."""
    return above / below if above and below else None


def figure7(paper: Mapping[str, Any], results: Mapping[str, Results]) -> str:
    """Return Fig. 7 as a table: the speed-up of each optimisation step over the previous one, and the paper's ranges.

    ``results``: the stored rows by machine.
    """
    rows: list[tuple[object, ...]] = []
    for machine, stored in results.items():
        for name in FOUR:
            steps = (UNFUSED, REWRITTEN, PARTLY, WHOLE, WITHOUT_REWRITING)
            times = [figure(stored, "latency_s", f"{name}-raw", policy, _MS) for policy in steps]
            before, rewritten, fused, whole, plain = times
            gains = (ratio(before, rewritten), ratio(rewritten, fused), ratio(fused, whole))
            rows.append((machine, name, before, *gains, ratio(plain, whole), ratio(before, whole)))
        printed = paper["fig7"][DEVICES[machine]]
        keys = ("rewriting", "fusion", "other", "rewriting_on_top")
        rows.append((machine, "paper, from to", None, *(" to ".join(map(str, printed[key])) for key in keys), None))
    columns = (
        "machine", "network", "unfused [ms]", "rewriting", "then fusion", "then profiled",
        "rewriting on top of the others", "all",
    )  # fmt: skip
    return markdown(columns, rows)


def figure8(results: Mapping[str, Results]) -> str:
    """Return Fig. 8 as a table: traffic of each memory level for YOLO-V4 relative to DNNFusion's, and DRAM in use."""
    rows: list[tuple[object, ...]] = []
    for machine, stored in results.items():
        levels = [level for level in _LEVELS if figure(stored, f"traffic_bytes.{level}", _MEMORY_NETWORK, WHOLE)]
        for policy in (UNFUSED, "fixed-pattern", WHOLE):
            shares = []
            for level in _LEVELS:
                column = f"traffic_bytes.{level}"
                own = figure(stored, column, _MEMORY_NETWORK, policy)
                shares.append(ratio(own, figure(stored, column, _MEMORY_NETWORK, WHOLE)) if level in levels else None)
            dram_mb = figure(stored, "peak_occupancy_bytes.dram", _MEMORY_NETWORK, policy, 1 / _MEGA)
            rows.append((machine, policy, *shares, dram_mb))
    return markdown(("machine", "policy", *(level.upper() for level in _LEVELS), "DRAM in use [MB]"), rows)


def figure9(results: Mapping[str, Results]) -> str:
    """Return Fig. 9a as a table: utilisation of the cores by YOLO-V4, in per cent."""
    rows = []
    for machine, stored in results.items():
        column = "utilisation.core" if DEVICES[machine] == "cpu" else "utilisation.sm"
        policies = (UNFUSED, "fixed-pattern", WHOLE)
        rows.append((machine, *(figure(stored, column, _MEMORY_NETWORK, policy, _PERCENT) for policy in policies)))
    return markdown(("machine", "unfused [%]", "fixed-pattern [%]", "dnnfusion [%]"), rows)


def figure10(results: Mapping[str, Results]) -> str:
    """Return Fig. 10 as a table: two networks on older phones, with DNNFusion's speed-up over fixed patterns."""
    rows = []
    for machine, stored in results.items():
        for name in ("yolo-v4-raw", "gpt2-raw"):
            policies = (UNFUSED, "fixed-pattern", WHOLE)
            times = [figure(stored, "latency_s", name, policy, _MS) for policy in policies]
            rows.append((machine, OLDER[machine], name, *times, ratio(times[1], times[2])))
    columns = (
        "machine", "device", "network", "unfused [ms]", "fixed-pattern [ms]", "dnnfusion [ms]",
        "fixed-pattern ÷ dnnfusion",
    )  # fmt: skip
    return markdown(columns, rows)


def gained(gains: Sequence[float | None], printed: Sequence[float]) -> str:
    """Return a sentence with the range and geometric mean of speed-ups over fixed patterns, and the paper's range."""
    there = [gain for gain in gains if gain] or [0.0]
    return (
        f"Over fixed patterns: {min(there):.2f} to {max(there):.2f} times, geometric mean"
        f" {geometric_mean(there) or 0:.2f} (paper: {printed[0]} to {printed[1]})."
    )
