"""Numbers as a reader writes them, and the answer of a study in words."""

from collections.abc import Iterable, Sequence
from math import floor, isfinite, log10

import pandas as pd

from experiments.report.frames import (
    Axes, bound_by, failed, influence, policies_in, ratio_summary, speedups, trend, usable,
)  # fmt: skip

MISSING = "–"
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_NO_PREFIX = frozenset({"mm²", "1/s"})
_MEANINGS = {
    "latency_s": ("latency", "s"),
    "energy_j": ("energy", "J"),
    "area_mm2": ("area", "mm²"),
    "throughput_per_s": ("throughput", "1/s"),
}
_PLAIN_MAGNITUDES = range(-6, 10)
_NOTEWORTHY = 1.05
"""Ratios nearer to one than this are called equal."""


def meaning(figure: str) -> tuple[str, str]:
    """A column of figures in words, and its unit."""
    return _MEANINGS.get(figure, (figure, ""))


def significant(value: float, digits: int = 3) -> str:
    """The value to so many significant digits, without an exponent between a millionth and a billion."""
    if not isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    magnitude = floor(log10(abs(value)))
    if magnitude not in _PLAIN_MAGNITUDES:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - magnitude)}f}"


def scale_of(values: Iterable[float], unit: str) -> tuple[float, str]:
    """What to divide values by, and the prefixed unit, so that the middle one is written with few digits."""
    positive = sorted(abs(value) for value in values if isfinite(value) and value != 0)
    if not positive or unit in _NO_PREFIX or not unit:
        return 1.0, unit
    middle = positive[len(positive) // 2]
    divisor, prefix = next((pair for pair in _PREFIXES if middle >= pair[0]), _PREFIXES[-1])
    return divisor, prefix + unit


def quantity(value: float, unit: str) -> str:
    """A value with its unit: ``1.24 ms``."""
    divisor, prefixed = scale_of([value], unit)
    return f"{significant(value / divisor)} {prefixed}".strip() if isfinite(value) else MISSING


def times(ratio: float) -> str:
    """A ratio as a factor: ``1.74×``."""
    return f"{significant(ratio)}×" if isfinite(ratio) else MISSING


def percent(share: float) -> str:
    """A share of one as whole per cent."""
    return f"{share:.0%}" if isfinite(share) else MISSING


def setting(row: pd.Series, axes: Iterable[str]) -> str:
    """Where in the sweep a point lies: ``ddr.bandwidth = 68 GB/s``."""
    return ", ".join(f"{axis} = {row[axis]}" for axis in axes)


def enumeration(parts: Sequence[str]) -> str:
    """Parts joined as in a sentence."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def count(number: int, noun: str) -> str:
    """A number of things: ``1 point``, ``2 points``."""
    plural = noun[:-1] + "ies" if noun.endswith("cy") else noun + "s"
    return f"{number:,} {noun if number == 1 else plural}"


def answer(points: pd.DataFrame, axes: Axes) -> list[str]:
    """The sentences that open a report, computed from its points."""
    ran = usable(points)
    if ran.empty:
        tried = f"None of the {count(len(points), 'design point')} gave a figure" if len(points) else "No point was run"
        return [f"{tried}; there is nothing to compare."]
    baseline, *others = policies_in(points)
    ratios = speedups(points, baseline, axes)
    told = _comparison(ratios, baseline, others, axes) or _latencies(ran, axes)
    return [*told, *_sensitivity(points, axes), *_bottleneck(ran), *_failures(points)]


def _comparison(ratios: pd.DataFrame, baseline: str, others: Sequence[str], axes: Axes) -> list[str]:
    """How much faster each policy is, and where the best one gains most and least."""
    rivals = ratios.loc[ratios["policy"].isin(others)]
    if rivals.empty:
        return []
    summary = ratio_summary(rivals, ["policy"]).sort_values("geomean", ascending=False, kind="stable")
    clauses = []
    for row in summary.itertuples():
        spread = f" ({significant(row.least)} to {significant(row.greatest)} over {row.points:,} cases)" if row.points > 1 else ""
        verb = " " if clauses else " is "
        object_ = "" if clauses else f" as fast as {baseline}{' in the geometric mean' if row.points > 1 else ''}"
        clauses.append(f"{row.policy}{verb}{significant(row.geomean)} times{object_}{spread}")
    best = str(summary["policy"].iloc[0])
    of_best = rivals.loc[rivals["policy"] == best]
    sentences = [f"{enumeration(clauses)}."]
    if len(of_best) > 1:
        most, least = of_best.loc[of_best["speedup"].idxmax()], of_best.loc[of_best["speedup"].idxmin()]
        sentences.append(
            f"The gain of {best} is largest for {_place(most, axes)} ({times(most['speedup'])})"
            f" and smallest for {_place(least, axes)} ({times(least['speedup'])})."
        )
    return sentences + [text for axis in axes if (text := _trend_text(of_best, best, axis, axes))]


def _trend_text(of_best: pd.DataFrame, best: str, axis: str, axes: Axes) -> str:
    ends = trend(of_best, axis, axes)
    if ends is None:
        return ""
    change = ends[1] / ends[0]
    verb = "grows" if change > _NOTEWORTHY else "shrinks" if change < 1 / _NOTEWORTHY else "hardly moves"
    return (
        f"As {axis} goes from {axes[axis][0]} to {axes[axis][-1]}, its lead {verb}"
        f" ({times(ends[0])} to {times(ends[1])})."
    )


def _latencies(ran: pd.DataFrame, axes: Axes) -> list[str]:
    """What there is to say where policies cannot be compared."""
    fast, slow = ran.loc[ran["latency_s"].idxmin()], ran.loc[ran["latency_s"].idxmax()]
    if len(ran) == 1:
        return [f"{fast['policy']} runs {_place(fast, axes)} in {quantity(fast['latency_s'], 's')}."]
    return [
        f"Latency lies between {quantity(fast['latency_s'], 's')} ({fast['policy']}, {_place(fast, axes)})"
        f" and {quantity(slow['latency_s'], 's')} ({slow['policy']}, {_place(slow, axes)})."
    ]


def _sensitivity(points: pd.DataFrame, axes: Axes) -> list[str]:
    factors = sorted(influence(points, axes).items(), key=lambda item: -item[1])
    named = [f"{axis} ({times(factor)})" for axis, factor in factors if factor > _NOTEWORTHY]
    if not axes:
        return []
    if not named:
        return [f"Latency hardly depends on {enumeration(list(axes))}."]
    return [f"Mean latency changes most with {named[0]}" + (f", then {enumeration(named[1:])}." if named[1:] else ".")]


def _bottleneck(ran: pd.DataFrame) -> list[str]:
    counts = bound_by(ran, "policy").sum()
    if counts.empty:
        return []
    commonest, number = str(counts.index[0]), int(counts.iloc[0])
    most = "Most points are" if 2 * number > len(ran) else "The largest share of points is"
    return [f"{most} bound by {commonest} ({number:,} of {len(ran):,})."]


def _failures(points: pd.DataFrame) -> list[str]:
    missing = len(failed(points))
    return [f"{count(missing, 'point')} of {len(points):,} gave no figures and are left out."] if missing else []


def _place(row: pd.Series, axes: Axes) -> str:
    where = setting(row, axes)
    return f"{row['network']} at {where}" if where else str(row["network"])
