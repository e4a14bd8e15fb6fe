"""Number formatting, and the answer of a study in sentences."""

from collections.abc import Iterable, Sequence
from math import floor, isfinite, log10

import pandas as pd

from dsascape.experiments.report.frames import (
    Axes,
    bound_by,
    failed,
    influence,
    numbers,
    policies_in,
    ratio_summary,
    speedups,
    texts,
    trend,
    usable,
)
from dsascape.hw_models.text.quantities import BYTES, BYTES_PER_S, HERTZ, PICOSECONDS, parse_quantity
from dsascape.wording import count

MISSING = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"
_PREFIXES = (
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
)
HELD_BYTES = "B held"
"""Unit of bytes held and of capacities, shown in KiB, MiB and GiB; bytes moved have the unit B and decimal prefixes."""
_BINARY = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
_NO_PREFIX = frozenset({"mm²", "1/s"})
_MEANINGS = {
    "latency_s": ("latency", "s"),
    "expected_latency_s": ("latency expected of libraries", "s"),
    "energy_j": ("energy", "J"),
    "power_w": ("power", "W"),
    "clock_share": ("clock that power allows", ""),
    "area_mm2": ("area", "mm²"),
    "throughput_per_s": ("throughput", "1/s"),
    "language.tokens_per_s": ("tokens per second", "1/s"),
}
MEASURED, SIMULATED = "measured", "simulated"
"""Sources of figures: real devices, or the simulator."""
_MEASURABLE = frozenset({"latency_s", "throughput_per_s"})
_NEITHER = frozenset({"area_mm2"})
_LONGEST_REASON = 300
_MOST_NAMED = 3
"""Largest number of swept quantities or policies named in a sentence."""
_PLAIN_MAGNITUDES = range(-6, 10)
_UNITS: dict[str, float] = {**BYTES, **BYTES_PER_S, **HERTZ, **PICOSECONDS}
NOTEWORTHY = 1.05
"""Smallest ratio that is called a difference."""


def meaning(figure: str, source: str = "") -> tuple[str, str]:
    """Return (words, unit) of a column of figures.

    With the ``source`` of latencies, ``MEASURED`` or ``SIMULATED``, the words begin with it: only latency and
    throughput are ever measured, and area has no source.
    """
    words, unit = _MEANINGS.get(figure, (figure, ""))
    if not source or figure not in _MEANINGS or figure in _NEITHER:
        return words, unit
    return f"{source if figure in _MEASURABLE else SIMULATED} {words}", unit


def significant(value: float, digits: int = 3) -> str:
    """Format a value to ``digits`` significant digits, without an exponent from a millionth to a billion."""
    if not isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    magnitude = floor(log10(abs(float(f"{value:.{digits - 1}e}"))))
    if magnitude not in _PLAIN_MAGNITUDES:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - magnitude)}f}"


def scale_of(values: Iterable[float], unit: str) -> tuple[float, str]:
    """Return (divisor, prefixed unit) that suit the middle one of the values."""
    positive = sorted(abs(value) for value in values if isfinite(value) and value != 0)
    if not positive and unit == HELD_BYTES:
        return 1.0, "B"
    if not positive or unit in _NO_PREFIX or not unit:
        return 1.0, unit
    middle = positive[len(positive) // 2]
    if unit == HELD_BYTES:
        return next((pair for pair in _BINARY if middle >= pair[0]), _BINARY[-1])
    divisor, prefix = next((pair for pair in _PREFIXES if middle >= pair[0]), _PREFIXES[-1])
    return divisor, prefix + unit


def quantity(value: float, unit: str) -> str:
    """Format a value with its prefixed unit, such as ``1.24 ms``."""
    divisor, prefixed = scale_of([value], unit)
    return f"{significant(value / divisor)} {prefixed}".strip() if isfinite(value) else MISSING


def times(ratio: float) -> str:
    """Format a ratio as a factor, followed by a multiplication sign."""
    return f"{significant(ratio)}{TIMES}" if isfinite(ratio) else MISSING


def speed_words(least: float, greatest: float, than: str) -> str:
    """Return a range of speed-ups over ``than`` in words, with factors of slowness where they are below 1.

    Such as "2.00 to 8.00 times as fast as A", "20.0 to 47.0 times slower than A", "from 2.00 times slower to 3.00 times
    as fast as A", or "as fast as A".
    """
    factors, relation = _factors(least, greatest)
    return f"{factors} {relation} {than}".strip()


def _factors(least: float, greatest: float) -> tuple[str, str]:
    """Return (factors, what they mean) of a range of speed-ups; without factors if it is as fast."""
    equal = significant(1.0)
    is_slower = [each < 1 and significant(1 / each) != equal for each in (least, greatest)]
    ends = [significant(1 / each if each < 1 else each) for each in (least, greatest)]
    if is_slower == [True, False]:
        return f"from {ends[0]} times slower to {ends[1]} times", "as fast as"
    several = list(dict.fromkeys(reversed(ends) if is_slower[1] else ends))
    if several == [equal]:
        return "", "as fast as"
    return " to ".join(several), "times slower than" if is_slower[1] else "times as fast as"


def percent(share: float) -> str:
    """Format a fraction as a whole percentage."""
    return f"{share:.0%}" if isfinite(share) else MISSING


def setting(row: pd.Series, axes: Iterable[str]) -> str:
    """Return a point's position in the sweep, such as ``ddr.bandwidth = 68 GB/s``."""
    return ", ".join(f"{axis} = {row[axis]}" for axis in axes)


def enumeration(parts: Sequence[str]) -> str:
    """Join parts into an enumeration with commas and "and"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def by_magnitude(values: Iterable[str]) -> tuple[str, ...]:
    """Return swept values by size; empty where one is no number or quantity, so that they have no order."""

    def magnitude(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            return parse_quantity(text, _UNITS)

    try:
        return tuple(sorted(values, key=magnitude))
    except ValueError:
        return ()


def named_or_counted(names: Iterable[str], noun: str) -> str:
    """Enumerate distinct names, or give their number if they are many."""
    distinct = list(dict.fromkeys(names))
    return enumeration(distinct) if len(distinct) <= _MOST_NAMED + 1 else count(len(distinct), noun)


def answer(points: pd.DataFrame, axes: Axes) -> list[str]:
    """Return the opening sentences of a report, computed from its points."""
    ran = usable(points)
    if ran.empty:
        if points.empty:
            return ["No point was run: there is nothing to compare."]
        return [
            f"{count(len(points), 'design point')} tried, none with a figure: there is nothing to compare.",
            _commonest_reason(points),
        ]
    baseline, *others = policies_in(points)
    ratios = speedups(points, baseline, axes)
    told = _comparison(ratios, baseline, others, axes) or _latencies(ran, axes)
    return [*told, *_sensitivity(points, axes), *_bottleneck(ran), *_failures(points)]


def _comparison(ratios: pd.DataFrame, baseline: str, others: Sequence[str], axes: Axes) -> list[str]:
    """Return sentences on each policy's speed-up, and where the best one gains most and least."""
    rivals = ratios.loc[ratios["policy"].isin(others)]
    if rivals.empty:
        return []
    summary = ratio_summary(rivals, ["policy"]).sort_values("geomean", ascending=False, kind="stable")
    columns = [numbers(summary, name) for name in ("geomean", "least", "greatest", "points")]
    clauses: list[str] = []
    opening = "" if numbers(summary, "geomean")[0] > 1 else f"On the whole no policy beats {baseline}: "
    for policy, geomean, least, greatest, cases in zip(texts(summary, "policy"), *columns, strict=True):
        factors, _ = _factors(least, greatest)
        mean = "" if clauses else " in the geometric mean"
        is_range = significant(least) != significant(greatest)
        spread = f"{mean} ({factors or 'equal'} over {count(int(cases), 'case')})" if is_range else ""
        clauses.append(f"{policy} is {speed_words(geomean, geomean, 'it' if clauses else baseline)}{spread}")
    if len(clauses) > _MOST_NAMED + 1:
        clauses[_MOST_NAMED:] = [f"{count(len(clauses) - _MOST_NAMED, 'other policy')} are slower"]
    best = texts(summary, "policy")[0]
    of_best = rivals.loc[rivals["policy"] == best]
    sentences = [f"{opening}{enumeration(clauses)}."]
    if of_best["speedup"].nunique() > 1:
        ranked = of_best.sort_values("speedup", kind="stable")
        lowest, highest = ranked.iloc[0], ranked.iloc[-1]
        most, least = highest["speedup"], lowest["speedup"]
        where = [f"{_place(point, axes)} ({times(point['speedup'])})" for point in (highest, lowest)]
        if least >= 1:
            sentences.append(f"The gain of {best} is largest for {where[0]} and smallest for {where[1]}.")
        elif most > 1:
            sentences.append(f"Most is gained by {best} for {where[0]}, and most lost for {where[1]}.")
        else:
            sentences.append(f"Least is lost by {best} for {where[0]}, and most for {where[1]}.")
    ends = {axis: both for axis in axes if by_magnitude(axes[axis]) and (both := trend(of_best, axis, axes))}
    telling = sorted(ends, key=lambda axis: -abs(log10(ends[axis][1] / ends[axis][0])))[:_MOST_NAMED]
    return sentences + [_trend_text(axis, axes[axis], ends[axis]) for axis in axes if axis in telling]


def _trend_text(axis: str, values: Sequence[str], ends: tuple[float, float]) -> str:
    """Return a sentence on how the best policy's speed-up changes along an axis."""
    change = ends[1] / ends[0]
    verb = "grows" if change > NOTEWORTHY else "shrinks" if change < 1 / NOTEWORTHY else "hardly moves"
    return (
        f"As {axis} goes from {values[0]} to {values[-1]}, its {'lead' if max(ends) > 1 else 'speed-up'} {verb}"
        f" ({times(ends[0])} to {times(ends[1])})."
    )


def _latencies(ran: pd.DataFrame, axes: Axes) -> list[str]:
    """Return sentences on latency for points without policies to compare."""
    ranked = ran.sort_values("latency_s", kind="stable")
    fast, slow = ranked.iloc[0], ranked.iloc[-1]
    if len(ran) == 1:
        return [f"{fast['policy']} runs {_place(fast, axes)} in {quantity(fast['latency_s'], 's')}."]
    return [
        f"Latency lies between {quantity(fast['latency_s'], 's')} ({fast['policy']}, {_place(fast, axes)})"
        f" and {quantity(slow['latency_s'], 's')} ({slow['policy']}, {_place(slow, axes)})."
    ]


def _sensitivity(points: pd.DataFrame, axes: Axes) -> list[str]:
    factors = sorted(influence(points, axes).items(), key=lambda item: -item[1])
    named = [f"{axis} ({times(factor)})" for axis, factor in factors if factor > NOTEWORTHY][:_MOST_NAMED]
    if not factors:
        return []
    if not named:
        return [f"Latency hardly depends on {enumeration([axis for axis in axes if axis in dict(factors)])}."]
    rest = f", then {enumeration(named[1:])}" if named[1:] else ""
    return [f"Mean latency changes most with {named[0]}{rest}."]


def _bottleneck(ran: pd.DataFrame) -> list[str]:
    counts = bound_by(ran, "policy").sum()
    if counts.empty:
        return []
    if len(ran) == 1:
        return [f"It is bound by {counts.index[0]}."]
    commonest, number = str(counts.index[0]), int(counts.iloc[0])
    most = "Most points are" if 2 * number > len(ran) else "The largest share of points is"
    return [f"{most} bound by {commonest} ({number:,} of {len(ran):,})."]


def _failures(points: pd.DataFrame) -> list[str]:
    missing = len(failed(points))
    if not missing:
        return []
    verb = "is" if missing == 1 else "are"
    return [f"{missing:,} of {count(len(points), 'point')} gave no figures and {verb} left out."]


def _commonest_reason(points: pd.DataFrame) -> str:
    reasons = [reason or "no latency" for reason in texts(points, "error")]
    commonest = max(dict.fromkeys(reasons), key=reasons.count)
    shown = commonest if len(commonest) <= _LONGEST_REASON else f"{commonest[:_LONGEST_REASON]}..."
    how_often = "" if len(set(reasons)) == 1 else f" ({reasons.count(commonest):,} of {len(points):,})"
    return f"{'The' if not how_often else 'The commonest'} reason{how_often}: {shown}"


def _place(row: pd.Series, axes: Axes) -> str:
    where = setting(row, axes)
    return f"{row['network']} at {where}" if where else str(row["network"])
