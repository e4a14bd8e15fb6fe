"""Headline that answers a study's question: yes or no where the points decide it, else the search's front or figures.

A question is understood where it names its subject (a policy, fusion, keeping tensors on chip, more or less of a swept
quantity) and asks whether that is faster. Otherwise the headline states figures without a yes or no.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from dsascape.experiments.report.best import limits_text
from dsascape.experiments.report.frames import Axes, feasible, names_in, numbers, pareto_front, usable
from dsascape.experiments.report.words import (
    NOTEWORTHY,
    enumeration,
    meaning,
    percent,
    quantity,
    scale_of,
    setting,
    significant,
)
from dsascape.hw_models.text.quantities import BYTES, BYTES_PER_S, HERTZ, PICOSECONDS, parse_quantity
from dsascape.wording import count

_POLAR = re.compile(r"^\W*(does|do|did|is|are|was|were|can|could|will|would|should|has|have)\b")
_FASTER = re.compile(
    r"\b(pays?|paid|paying|help(s|ed)?|faster|gains?|beats?|worth|wins?|benefits?|outperforms?|better)\b"
)
_UNDECIDED = re.compile(
    r"\b(not|\w+n't|no|never|nothing|hardly|stops?|ceases?|without|less|worse|slower|longer|most|best|only|always|enough"
    r"|how|which|what|why|energy|power|area|traffic|memory|cost|costs|accuracy|throughput)\b"
)
"""Words that negate a question, or ask for something latencies do not tell."""
_CONDITION = re.compile(r"\b(when|if|where|while|once|even|on|for|with|at|under|in|as)\b")
_BOUND = re.compile(r"\b(bottleneck|bound|limited?|limits)\b")
_MORE = re.compile(r"\b(larger|bigger|more|higher|wider|greater|additional|increasing|doubling|twice)\b")
_LESS = re.compile(r"\b(smaller|fewer|lower|narrower|halving|half)\b")
_ON_CHIP = re.compile(r"\bon[- ]?chip\b")
_FUSION = re.compile(r"\bfus(e|es|ed|ing|ion)\b")
_UNFUSED = "unfused"
_OFF_CHIP = ("ddr", "dram")
_MOSTLY = 0.5
_SAME_UNIT = 1000
"""Ratio of figures above which each has a unit of its own."""
_MOST_NAMED = 3
_MOST_FRONTS = 2
_UNITS: dict[str, float] = {**BYTES, **BYTES_PER_S, **HERTZ, **PICOSECONDS}


@dataclass(frozen=True, slots=True)
class _Sides:
    """Two sets of points to compare case by case; the question is about the first."""

    asked: str
    against: str
    ratios: pd.DataFrame
    """One row per case, with ``ratio``: latency of the second set over that of the first."""
    cases: int
    """Number of cases in the study, compared or not."""


def verdict(question: str, points: pd.DataFrame, axes: Axes) -> str:
    """Return the answer to a question that latencies decide; empty for other questions."""
    asked = _ON_CHIP.sub("onchip", " ".join(question.lower().split()))
    asked = asked[: asked.find("?")] if "?" in asked else asked
    ran = usable(points)
    if not _POLAR.match(asked) or ran.empty:
        return ""
    if _BOUND.search(asked):
        return _bound_by(asked, ran)
    condition = _CONDITION.search(asked)
    subject = asked[: condition.start()] if condition else asked
    if not _FASTER.search(asked) or _UNDECIDED.search(asked):
        return ""
    sides = _policies(asked, subject, points, axes) or _more_or_less(subject, points, axes)
    return _judged(sides) if sides is not None and len(sides.ratios) else ""


def front_sentence(
    points: pd.DataFrame, objectives: Sequence[str], axes: Axes, constraints: Sequence[str] = ()
) -> str:
    """Return a sentence on what is best: the Pareto front of each network, of points that keep the constraints."""
    compared = [name for name in objectives if name in points]
    ran = feasible(points).dropna(subset=compared)
    if ran.empty or not compared:
        return ""
    networks = names_in(ran, "network")
    told = [_front_of(ran.loc[ran["network"] == name], name, compared, axes) for name in networks[:_MOST_FRONTS]]
    rest = len(networks) - _MOST_FRONTS
    more = f"; and those of {count(rest, 'further network')}" if rest > 0 else ""
    opening = "The best found" if len(compared) == 1 else "The front found"
    limits = f" {limits_text(constraints)}" if constraints else ""
    return f"{opening}, by {enumeration([meaning(name)[0] for name in compared])}{limits}: {'; '.join(told)}{more}."


def _front_of(own: pd.DataFrame, network: str, objectives: Sequence[str], axes: Axes) -> str:
    front = own.loc[pareto_front(own, objectives)]
    size = f"{len(front):,} of {count(len(own), 'point')}"
    if len(front.drop_duplicates(list(objectives))) == 1:
        only = front.iloc[0]
        where = setting(only, axes)
        figures = [quantity(float(only[name]), meaning(name)[1]) for name in objectives]
        return f"{network}, {only['policy']}{f' at {where}' if where else ''} ({', '.join(figures)}; {size})"
    return f"{network}, {size} ({', '.join(_range(front[name], name) for name in objectives)})"


def _range(values: pd.Series, name: str) -> str:
    low, high = float(values.min()), float(values.max())
    divisor, unit = scale_of([low, high], meaning(name)[1])
    if significant(low / divisor) != significant(high / divisor) and high / divisor > _SAME_UNIT * low / divisor:
        return f"{quantity(low, meaning(name)[1])} to {quantity(high, meaning(name)[1])}"
    if significant(low / divisor) == significant(high / divisor):
        return f"{significant(low / divisor)} {unit}"
    return f"{significant(low / divisor)} to {significant(high / divisor)} {unit}"


def _bound_by(asked: str, ran: pd.DataFrame) -> str:
    """Answer whether the named resource is the points' bottleneck; empty if the question is not that simple."""
    resources = {name for name in names_in(ran, "bottleneck") if name} | {"ddr", "matrix", "vector", "launch"}
    named = [name for name in sorted(resources) if re.search(rf"\b{re.escape(name).replace('_', '[_ ]')}\b", asked)]
    if len(named) != 1 or re.search(r"\b(not|no|never|\w+n't|longer)\b", asked):
        return ""
    bound = int((ran["bottleneck"] == named[0]).sum())
    said = "Yes" if bound == len(ran) else "No" if not bound else "In part"
    return f"{said}: {bound:,} of {count(len(ran), 'point')} {'is' if len(ran) == 1 else 'are'} bound by {named[0]}."


def _policies(asked: str, subject: str, points: pd.DataFrame, axes: Axes) -> _Sides | None:
    """Return the policies that the question is about, and those it names or leaves to compare with."""
    policies = names_in(points, "policy")
    first, rest = _named(subject, policies), _named(asked, policies)
    evidence = ""
    if first:
        start = min(first.values())
        chosen = [name for name in first if first[name] == start]
        rivals = [name for name in rest if rest[name] != start]
    elif _ON_CHIP.search(subject):
        kept = _kept_on_chip(points)
        chosen = [name for name in policies if kept.get(name, 0.0) > _MOSTLY]
        rivals = []
        evidence = f", which keeps {percent(kept[chosen[0]])} of the outputs on chip," if len(chosen) == 1 else ""
    elif _FUSION.search(subject) and _UNFUSED in policies:
        chosen, rivals = [name for name in policies if name != _UNFUSED], [_UNFUSED]
    else:
        return None
    rivals = rivals or [name for name in policies if name not in chosen]
    if not chosen or not rivals or re.search(r"\bor\b", subject):
        return None
    case = list(dict.fromkeys(["network", "hardware", *axes]))
    ran = usable(points)
    fastest = {
        side: ran.loc[ran["policy"].isin(names)].groupby(case)["latency_s"].min()
        for side, names in (("asked", chosen), ("against", rivals))
    }
    paired = pd.DataFrame(fastest).dropna()
    cases = len(points.loc[(points[case] != "").all(axis="columns")].drop_duplicates(case))
    ratios = paired.assign(ratio=paired["against"] / paired["asked"]).reset_index()
    return _Sides(f"{_listed(chosen)}{evidence}", f"as fast as {_listed(rivals)}", ratios, cases)


def _named(text: str, policies: Sequence[str]) -> dict[str, int]:
    """Return the position at which each policy is named, options ignored; of overlapping names the longest."""
    positions: dict[str, int] = {}
    for base in sorted({name.partition("(")[0] for name in policies}, key=len, reverse=True):
        pattern = re.escape(base.lower()).replace(r"\-", "[- ]")
        place = re.search(rf"(?<![\w-]){pattern}(?![\w-])", text)
        if place:
            positions |= {name: place.start() for name in policies if name.partition("(")[0] == base}
            text = text[: place.start()] + " " * len(place[0]) + text[place.end() :]
    return positions


def _kept_on_chip(points: pd.DataFrame) -> Mapping[str, float]:
    """Return the fraction of kernel outputs that each policy keeps on chip."""
    columns = [str(name) for name in points if str(name).startswith("tensor_scopes.")]
    inside = [name for name in columns if name.partition(".")[2] not in _OFF_CHIP]
    if not inside or len(inside) == len(columns):
        return {}
    sums = usable(points).groupby("policy")[columns].sum()
    shares = sums[inside].sum(axis="columns") / sums.sum(axis="columns")
    return {str(name): float(share) for name, share in shares.items()}


def _more_or_less(subject: str, points: pd.DataFrame, axes: Axes) -> _Sides | None:
    """Return the two ends of the one swept quantity that the question names, the one it asks about first."""
    words = set(re.findall(r"[a-z0-9]+", subject))
    words |= {f"{word}s" for word in words}
    named = [axis for axis in axes if words & set(re.findall(r"[a-z0-9]+", axis.lower()))]
    more, less = _MORE.search(subject), _LESS.search(subject)
    if len(named) != 1 or bool(more) == bool(less):
        return None
    (axis,) = named
    try:
        ends = sorted(axes[axis], key=_magnitude)
    except ValueError:
        return None
    low, high = ends[0], ends[-1]
    asked, against = (high, low) if more else (low, high)
    case = ["network", "policy", *(dict.fromkeys(["hardware", *(other for other in axes if other != axis)]))]
    case = [name for name in case if name != axis]
    both = usable(points).pivot_table(index=case, columns=axis, values="latency_s", aggfunc="min")
    both = both.reindex(columns=[asked, against]).dropna()
    ratios = (both[against] / both[asked]).rename("ratio").reset_index()
    cases = len(points.drop_duplicates(case))
    return _Sides(f"{axis} = {asked}", f"as fast as with {against}", ratios, cases)


def _magnitude(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return parse_quantity(text, _UNITS)


def _judged(sides: _Sides) -> str:
    """Answer yes if all cases are faster, no if none is, otherwise with the number of faster ones."""
    ratios = numbers(sides.ratios, "ratio")
    faster = sum(ratio > NOTEWORTHY for ratio in ratios)
    least, most = significant(min(ratios)), significant(max(ratios))
    factor = f"{least} to {most}" if least != most else least
    where = f"all {count(len(ratios), 'case')}" if len(ratios) > 1 else "the one case"
    missing = sides.cases - len(ratios)
    where += f" that can be compared ({count(missing, 'other')} cannot)" if missing > 0 else ""
    if faster == len(ratios):
        return f"Yes: {sides.asked} is {factor} times {sides.against}, in {where}."
    if not faster:
        return f"No: {sides.asked} is {factor} times {sides.against}, in {where}."
    return (
        f"It depends: {sides.asked} is faster in {faster:,} of {count(len(ratios), 'case')}"
        f" ({factor} times {sides.against})."
    )


def _listed(names: Sequence[str]) -> str:
    several = sorted(names)
    if not several[1:]:
        return several[0]
    which = f"{count(len(several), 'policy')}" if len(several) > _MOST_NAMED else enumeration(several)
    return f"the {'fastest' if several[2:] else 'faster'} of {which}"


