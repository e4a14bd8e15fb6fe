"""Comparisons of design points: pure functions from frames to frames.

A *case* is everything that describes a design point except its policy; policies are compared case by case. An *axis* is
a swept quantity with at least two values among the points.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import numpy as np
import numpy.typing as npt
import pandas as pd

from dsascape.experiments.question.combined import MAXIMISED
from dsascape.experiments.results.files import for_terminal

NAMES = ("model", "hardware", "policy", "dtype", "bottleneck", "command", "error", "violates")
FIGURES = (
    "latency_s", "expected_latency_s", "throughput_per_s", "energy_j", "power_w", "area_mm2", "clock_share", "kernels",
    "macs", "peak_macs_per_s",
    "off_chip_bytes_per_s", "is_base", "simulated_events", "wall_s",
)  # fmt: skip
DICTIONARIES = (
    "energy_parts_j.", "traffic_bytes.", "utilisation.", "utilisation_at_work.", "peak_occupancy_bytes.",
    "tensor_scopes.", "critical.", "language.",
)  # fmt: skip
USUAL_BASELINE = "fixed-pattern"

_LARGEST = 1e60
"""Largest magnitude of a plausible figure, and the inverse of the smallest; others would break the scales of charts."""

_TIE = 1e-9
"""Largest relative difference of equal latencies: a picosecond of a millisecond."""

Axes = Mapping[str, tuple[str, ...]]


def prepared(frame: pd.DataFrame, swept: Iterable[str]) -> pd.DataFrame:
    """Return the points with every expected column, names as text, figures as floats, and labels.

    The label ``workload`` is the model, followed by the batch where the model occurs with several of them; ``network``
    is followed by the dtype, too, in the same way. Figures that are not numbers, or too large or small to draw, become
    missing.
    """
    points = frame.reset_index(drop=True)
    named = [*NAMES, "batch", *(path for path in swept if path in points)]
    measured = [*FIGURES, *(name for name in map(str, points) if name.startswith(DICTIONARIES))]
    columns = {str(name): points[name] for name in points}
    absent = pd.Series([None] * len(points), index=points.index, dtype=object)
    columns |= {name: pd.Series([_text(value) for value in columns.get(name, absent)], points.index) for name in named}
    columns |= {name: figures(columns.get(name, absent)) for name in measured}
    points = pd.DataFrame(columns)  # made at once: frames that grow column by column are slow
    ran = points["latency_s"] > 0
    points = points.assign(power_w=(points["energy_j"] / points["latency_s"].where(ran)))
    network = workload = points["model"]
    for column, wording in (("batch", " (batch {})"), ("dtype", " ({})")):
        if column not in swept and len(points):
            stated = points[column].where(points[column] != "")
            several = (stated.groupby(points["model"]).transform("nunique") > 1) & stated.notna()
            network = network.where(~several, network + points[column].map(wording.format))
        workload = network if column == "batch" else workload
    return points.assign(network=network, workload=workload)


def axes_of(points: pd.DataFrame, swept: Axes) -> dict[str, tuple[str, ...]]:
    """Return the axes: swept quantities with at least two values among the points, values in the stated order.

    The hardware is an axis where it differs between points with equal swept values.
    """
    present = {path: _in_order(points[path], stated) for path, stated in swept.items() if path in points}
    axes = {path: values for path, values in present.items() if len(values) > 1}
    if len(points) and "hardware" not in axes:
        same = points.groupby(list(present)) if present else points.groupby(lambda _: 0)
        if same["hardware"].nunique().max() > 1:
            axes["hardware"] = _in_order(points["hardware"], ())
    return axes


def usable(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points that ran and have a latency."""
    return points.loc[(points["error"] == "") & (points["latency_s"] > 0)]


def feasible(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points that ran and keep all constraints of the experiment."""
    ran = usable(points)
    return ran.loc[ran["violates"] == ""]


def failed(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points with an error message or without a latency."""
    return points.loc[~points.index.isin(usable(points).index)]


def names_in(points: pd.DataFrame, column: str) -> tuple[str, ...]:
    """Return the distinct texts of a column, in order of appearance."""
    return tuple(str(name) for name in points[column].unique())


def ranked(table: pd.DataFrame, column: str, figure: str) -> list[str]:
    """Return the distinct texts of a column, ordered by their largest figure, descending."""
    largest = table.groupby(column, sort=False)[figure].max().sort_values(ascending=False, kind="stable")
    return [str(name) for name in largest.index]


def texts(frame: pd.DataFrame, column: str) -> list[str]:
    """Return a column as a list of texts."""
    return [str(value) for value in frame[column]]


def numbers(frame: pd.DataFrame, column: str) -> list[float]:
    """Return a column as a list of floats."""
    return [float(value) for value in frame[column].to_numpy(dtype=float)]


def policies_in(points: pd.DataFrame) -> tuple[str, ...]:
    """Return the policies in order of appearance, the baseline first."""
    names = names_in(points, "policy")
    ran = names_in(usable(points), "policy") or names
    first = USUAL_BASELINE if USUAL_BASELINE in ran else next(iter(ran), "")
    return tuple(sorted(names, key=lambda policy: policy != first))


def speedups(points: pd.DataFrame, baseline: str, axes: Iterable[str]) -> pd.DataFrame:
    """Return the usable points with ``speedup``: latency of the baseline in the same case over their own.

    Cases without a run of the baseline are left out.
    """
    case = list(dict.fromkeys(["network", "hardware", "batch", "dtype", *axes]))
    ran = usable(points).drop_duplicates([*case, "policy"], keep="last")
    reference = ran.loc[ran["policy"] == baseline, [*case, "latency_s"]]
    paired = ran.merge(reference.rename(columns={"latency_s": "baseline_s"}), on=case)
    return paired.assign(speedup=paired["baseline_s"] / paired["latency_s"])


def ratio_summary(ratios: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return geometric mean, least and greatest ``speedup`` of each group, and its number of points."""
    grouped = ratios.assign(log=np.log(ratios["speedup"])).groupby(list(by), sort=False)
    summary = grouped.agg(
        log=("log", "mean"), least=("speedup", "min"), greatest=("speedup", "max"), points=("speedup", "size")
    ).reset_index()
    geomean = np.exp(summary["log"]).clip(summary["least"], summary["greatest"])  # whatever rounding did
    summary.insert(len(by), "geomean", geomean)
    return summary.drop(columns="log")


def best_points(points: pd.DataFrame) -> pd.DataFrame:
    """Return the point with the lowest latency of each network among those that keep all constraints."""
    ran = feasible(points)
    return ran.loc[ran.groupby("network", sort=False)["latency_s"].idxmin()] if len(ran) else ran


def tied_with(points: pd.DataFrame, best: pd.DataFrame) -> list[int]:
    """Return, for each of the best points, the number of other points of its network with an equal latency."""
    ran = usable(points)
    return [
        int(((ran["network"] == row["network"]) & (ran["latency_s"] <= row["latency_s"] * (1 + _TIE))).sum()) - 1
        for _, row in best.iterrows()
    ]


def pareto_front(points: pd.DataFrame, objectives: Sequence[str]) -> pd.Series:
    """Return a mask of the Pareto-optimal points: no other point is as good in all objectives and better in one.

    Points that lack an objective are never on the front and beat no other point.
    """
    signs = [-1.0 if name in MAXIMISED else 1.0 for name in objectives]
    costs: npt.NDArray[np.float64] = points[list(objectives)].to_numpy(dtype=float) * np.array(signs)
    complete = ~np.isnan(costs).any(axis=1)
    distinct, which = np.unique(costs[complete], axis=0, return_inverse=True)
    front: list[npt.NDArray[np.float64]] = []
    kept = np.zeros(len(distinct), dtype=bool)
    # In order of the first objective, then of the next: none beats one before it.
    for place, cost in enumerate(distinct):
        if not front or not bool((np.array(front) <= cost).all(axis=1).any()):
            front.append(cost)
            kept[place] = True
    in_front = np.zeros(len(costs), dtype=bool)
    in_front[complete] = kept[which.reshape(-1)]
    return pd.Series(in_front, index=points.index, dtype=bool)


def against_base(points: pd.DataFrame) -> pd.Series:
    """Return, per usable point, the latency of its network and policy on the base machine over its own.

    Missing where the base machine was not tried with the same network, sizes and policy.
    """
    same = [name for name in ("network", "batch", "sequence", "image", "dtype", "hardware", "policy") if name in points]
    ran = usable(points)
    base = ran.loc[ran["is_base"] == 1].drop_duplicates(same, keep="last").set_index(same)["latency_s"]
    reference = ran[same].merge(base.rename("base_s").reset_index(), on=same, how="left")["base_s"]
    return pd.Series(reference.to_numpy(), index=ran.index) / ran["latency_s"]


def evenly(count: int, most: int) -> list[int]:
    """Return at most ``most`` positions of ``count``, evenly spread from the first to the last."""
    if count <= most or most <= 1:
        return list(range(min(count, most)))
    return sorted({round(step * (count - 1) / (most - 1)) for step in range(most)})


def bound_by(points: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return the numbers of usable points by group (in order of appearance) and bottleneck (most frequent first)."""
    ran = usable(points)
    named = ran.loc[ran["bottleneck"] != ""]
    totals = named["bottleneck"].value_counts()
    kinds = sorted(names_in(named, "bottleneck"), key=lambda kind: (-int(totals[kind]), kind))
    counts = pd.crosstab(named[by], named["bottleneck"])
    return counts.reindex(index=list(names_in(named, by)), columns=kinds, fill_value=0)


def means(points: pd.DataFrame, prefix: str) -> pd.DataFrame:
    """Return the mean of each entry of a flattened mapping per network and policy, without always missing ones."""
    columns = {str(name): str(name).removeprefix(prefix) for name in points if str(name).startswith(prefix)}
    grouped = usable(points).groupby(["network", "policy"], sort=False)[list(columns)].mean()
    return grouped.rename(columns=columns).dropna(axis="columns", how="all").reset_index()


def is_grid(points: pd.DataFrame, axes: Axes) -> bool:
    """Return whether every combination of the axes' values was tried."""
    stated = points.loc[(points[list(axes)] != "").all(axis="columns")]
    return len(stated.drop_duplicates(list(axes))) == prod(len(values) for values in axes.values())


def held_values(axes: Axes, shown: Iterable[str]) -> dict[str, str]:
    """Return the middle value (the lower of two) of each axis not shown."""
    free = set(shown)
    return {axis: values[(len(values) - 1) // 2] for axis, values in axes.items() if axis not in free}


def shared_values(rows: pd.DataFrame, axes: Axes, shown: Iterable[str]) -> dict[str, str] | None:
    """Return the common value of each axis not shown; None if the rows differ in one."""
    free = set(shown)
    hidden = {axis: names_in(rows, axis) for axis in axes if axis not in free}
    return {axis: values[0] for axis, values in hidden.items()} if all(len(v) == 1 for v in hidden.values()) else None


def cut(points: pd.DataFrame, axes: Axes, shown: Sequence[str]) -> pd.DataFrame:
    """Return one usable point per network, policy and value of the shown axes.

    On a full grid the other axes are held at their middle values; otherwise the fastest point is taken.
    """
    ran = usable(points)
    ran = ran.loc[(ran[list(shown)] != "").all(axis="columns")]
    if is_grid(points, axes):
        for axis, value in held_values(axes, shown).items():
            ran = ran.loc[ran[axis] == value]
    ran = ran.sort_values("latency_s", kind="stable")
    return ran.drop_duplicates(["network", "policy", *shown]).sort_index()


def influence(points: pd.DataFrame, axes: Axes) -> dict[str, float]:
    """Return, per axis, the factor between the worst and the best value's mean latency.

    Compares points that differ only in that axis; axes without such points are left out.
    """
    ran = usable(points)
    logs = np.log(ran["latency_s"])
    factors = {}
    for axis in axes:
        case = ["network", "policy", *(other for other in axes if other != axis)]
        others_equal = logs.groupby([ran[name] for name in case])
        compared = ran.groupby(case)[axis].transform("nunique") > 1
        relative = (logs - others_equal.transform("mean")).loc[compared].groupby(ran.loc[compared, axis]).mean()
        if len(relative):
            factors[axis] = float(np.exp(relative.max() - relative.min()))
    return factors


def trend(ratios: pd.DataFrame, axis: str, axes: Axes) -> tuple[float, float] | None:
    """Return the geometric mean of ``speedup`` at the first and last value of an axis, over cases with both."""
    first, last = axes[axis][0], axes[axis][-1]
    others = ["network", *(other for other in axes if other != axis)]
    ends = ratios.assign(log=np.log(ratios["speedup"])).pivot_table(index=others, columns=axis, values="log")
    both = ends.reindex(columns=[first, last]).dropna()
    return (float(np.exp(both[first].mean())), float(np.exp(both[last].mean()))) if len(both) else None


def figures(column: pd.Series) -> pd.Series:
    """Return a column as floats; values that are not plausible numbers become missing."""
    values = pd.to_numeric(column, errors="coerce").astype(float)
    return values.where((values == 0) | values.abs().between(1 / _LARGEST, _LARGEST))


def _text(value: object) -> str:
    """Return a value as one printable line; empty for a missing value, and 8 for 8.0."""
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return for_terminal(" ".join(str(value).split()))


def _in_order(column: pd.Series, stated: Sequence[str]) -> tuple[str, ...]:
    present = [str(value) for value in column.unique() if value != ""]
    one_line = [_text(value) for value in stated]
    return tuple(dict.fromkeys([*(value for value in one_line if value in present), *present]))
