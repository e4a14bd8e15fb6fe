"""Headline that answers a study's question with yes or no, where latencies decide it.

A question is understood where its subject is clear (names of policies, machines or networks, fusion, keeping tensors on
chip, more or less of a swept quantity) and it asks whether that is faster, slower, or so many times as fast.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd

from dsascape.experiments.question.points import LENGTHS, SIZES
from dsascape.experiments.report.frames import Axes, names_in, numbers, usable
from dsascape.experiments.report.question import Question, of_own, understood
from dsascape.experiments.report.words import (
    NOTEWORTHY,
    by_magnitude,
    enumeration,
    percent,
    significant,
    speed_words,
)
from dsascape.wording import count

_FASTER = re.compile(
    r"\b(pays?|paid|paying|help(s|ed)?|faster|gains?|beat(s|en|ing)?|worth|wins?|benefits?|outperform(s|ed|ing)?|better"
    r"|quicker|sooner|(?:take|need)s? less time|fastest|quickest|speeds? up|outpaces?|surpass(es)?|ahead|profits?)\b"
)
_SLOWER = re.compile(
    r"\b(slower|slows? down|worse|(?:take|need)s? (?:longer|more time)|los(?:e|es|ing)|lost|lags?|behind)\b"
)
_AS_FAST = re.compile(
    r"\b(?:(?P<as>(?:at least )?(?:just )?as (?:fast|quick) as|no slower than|no worse than)"
    r"|times (?:as|so) (?:fast|quick) as)(?=\s|$)"
)
_FACTOR = (
    r"(?:(?P<factor{0}>\d+(?:\.\d+)?)\s*(?:x|\N{{MULTIPLICATION SIGN}}|times|-?\s?fold)"
    r"|(?P<percent{0}>\d+(?:\.\d+)?)\s*(?:%|percent|per cent)|(?P<word{0}>twice|double|thrice|half|\w+ times|\w+fold))"
)
_TIMES = re.compile(
    rf"\b{_FACTOR.format('')}\s+(?:as (?:fast|quick)|faster|slower|quicker|better|worse|less time|more time)\b"
    rf"|\bby (?:at least |more than |over )?{_FACTOR.format('_by')}(?=\W|$)"
)
_FACTORS = {
    "twice": 2.0, "double": 2.0, "thrice": 3.0, "twofold": 2.0, "threefold": 3.0, "fourfold": 4.0, "tenfold": 10.0,
    "two times": 2.0, "three times": 3.0, "four times": 4.0, "five times": 5.0, "ten times": 10.0,
}  # fmt: skip
_EVER = re.compile(r"\b(ever|sometimes|anywhere|somewhere|at all|in any case)\b")
_ALWAYS = re.compile(
    r"\b(always|everywhere|(?:in|for|on|under) (?:all|every|each)(?: \w+)?|consistently|throughout|in general)\b"
)
_POLITE = re.compile(r"\b(really|actually|still|indeed|truly|clearly|at least|in fact)\b")
_RANKED = re.compile(r"\b(faster|fastest|quicker|quickest|slower|slowest|beats?|wins?|ahead|behind)\b")
_OR = re.compile(r"\bor\b")
_UNDECIDED = re.compile(
    r"\b(not|\w+n't|no|never|nothing|neither|nor|hardly|barely|scarcely|stops?|ceases?|without|less|longer|most|least"
    r"|best|worst|slowest|only|enough|much|far|significantly|considerably|substantially|markedly|notably|slightly"
    r"|lot|way|nearly|almost|half|about|how|which|what|why|who|whether"
    r"|energy|power|area|traffic|memory|cost|costs|accuracy|throughput|efficient|cheaper|accurate|joules?|watts?)\b"
)
"""Words that negate a question, or ask for something latencies do not tell."""
_BOUND = re.compile(r"\b(bottleneck|bound|limited?|limits)\b")
_MORE = re.compile(r"\b(larger|bigger|more|higher|wider|greater|additional|increasing|doubling|twice)\b")
_LESS = re.compile(r"\b(smaller|fewer|lower|narrower|halving|half)\b")
_ON_CHIP = re.compile(r"\bonchip\b")
_FUSION = re.compile(r"\bfus(e|es|ed|ing|ion)\b")
_UNFUSED = "unfused"
_OFF_CHIP = ("ddr", "dram")
_MOSTLY = 0.5
_NOUNS = {"policy": "policy", "hardware": "machine", "model": "network"}
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Sides:
    """Two sets of points to compare case by case; the question is about the first."""

    asked: str
    against: str
    """Other set, as it stands behind "than"."""
    ratios: pd.DataFrame
    """One row per case, with ``ratio``: latency of the second set over that of the first."""
    cases: int
    """Number of cases in the study, compared or not."""
    is_plural: bool = False


@dataclass(frozen=True, slots=True)
class _Aim:
    """What a question asks of the ratio of latencies (what it compares with, over what it asks about)."""

    words: str
    """Such as "faster"."""
    least: float = 0.0
    most: float = math.inf
    quantifier: Literal["", "ever", "always"] = ""

    def holds(self, ratio: float) -> bool:
        return self.least <= ratio <= self.most


def verdict(question: str, points: pd.DataFrame, axes: Axes) -> str:
    """Return the answer to a question that latencies decide; empty for other questions."""
    asked = understood(question, points)
    if asked is None or usable(points).empty:
        return ""
    for column, names in asked.only.items():
        points = points.loc[points[column].isin(names)]
    if _BOUND.search(asked.words):
        of_kind = [name for names in asked.asked for name in names]
        ran = usable(points if not of_kind else points.loc[points[asked.kind].isin(of_kind)])
        return _bound_by(asked.words, ran) if len(ran) and not asked.against else ""
    aim = _aim(asked.words)
    if aim is None:
        return ""
    sides = None
    if not asked.against:  # with itself, with more and with less of something
        own = {asked.kind: tuple([name for names in asked.asked for name in names])} if asked.asked else {}
        of_own = points.loc[points[asked.kind].isin(own[asked.kind])] if own else points
        text = asked.words if _RANKED.search(asked.words) else asked.subject
        sides = _more_or_less(text, of_own, axes)
        asked = replace(asked, only={**asked.only, **own}) if sides is not None else asked
    sides = sides or _compared(asked, points, axes)
    return _judged(sides, aim, _where(asked)) if sides is not None and len(sides.ratios) else ""


def _aim(words: str) -> _Aim | None:
    """Return what a question asks of latencies; None where they do not decide it."""
    words = _POLITE.sub(" ", words)
    quantifier: Literal["", "ever", "always"] = "always" if _ALWAYS.search(words) else ""
    quantifier = "ever" if _EVER.search(words) else quantifier
    words = _EVER.sub(" ", _ALWAYS.sub(" ", words))
    equal = _AS_FAST.search(words)
    times = _times(words)
    compared = _AS_FAST.sub(" ", words)
    slower, faster = _SLOWER.search(compared), _FASTER.search(compared)
    rest = _SLOWER.sub(" ", _FASTER.sub(" ", compared))
    if _UNDECIDED.search(rest) or math.isnan(times) or bool(slower) == bool(faster or equal):
        return None
    if slower:
        most = 1 / (times or NOTEWORTHY)
        return _Aim(f"{significant(times)} times slower" if times else "slower", most=most, quantifier=quantifier)
    if times:
        return _Aim(f"{significant(times)} times as fast", least=times, quantifier=quantifier)
    if equal and equal["as"]:
        return _Aim("as fast", least=1 / NOTEWORTHY, quantifier=quantifier)
    if faster and faster[0].endswith("est"):
        return _Aim("the fastest", least=1.0, quantifier=quantifier)
    return _Aim("faster", least=NOTEWORTHY, quantifier=quantifier)


def _times(words: str) -> float:
    """Return the factor that a question names, 0 without any; not a number for one that is not understood."""
    found = _TIMES.search(words)
    if found is None:
        return 0.0
    percents, factor = found["percent"] or found["percent_by"], found["factor"] or found["factor_by"]
    if percents:
        return 1 + float(percents) / 100
    return float(factor) if factor else _FACTORS.get(found["word"] or found["word_by"], math.nan)


def _where(asked: Question) -> str:
    """Return the restriction of a question to some names, such as " on t4"."""
    before = {"policy": "under", "hardware": "on", "model": "for"}
    return "".join(f" {before[kind]} {enumeration(asked.only[kind])}" for kind in before if kind in asked.only)


def _bound_by(asked: str, ran: pd.DataFrame) -> str:
    """Answer whether the named resource is the points' bottleneck; empty if the question is not that simple."""
    resources = {name for name in names_in(ran, "bottleneck") if name} | {"ddr", "matrix", "vector", "launch"}
    named = [name for name in sorted(resources) if re.search(rf"\b{re.escape(name).replace('_', '[_ ]')}\b", asked)]
    if len(named) != 1 or re.search(r"\b(not|no|never|\w+n't|longer)\b", asked):
        return ""
    bound = int((ran["bottleneck"] == named[0]).sum())
    said = "Yes" if bound == len(ran) else "No" if not bound else "In part"
    return f"{said}: {bound:,} of {count(len(ran), 'point')} {'is' if len(ran) == 1 else 'are'} bound by {named[0]}."


def _compared(asked: Question, points: pd.DataFrame, axes: Axes) -> _Sides | None:
    """Return the names that the question is about, and those it names or leaves to compare with."""
    kind, groups, evidence = asked.kind or "policy", asked.asked, ""
    names = names_in(points, kind)
    if not groups and _ON_CHIP.search(asked.subject) and kind == "policy":
        kept = _kept_on_chip(points)
        chosen = tuple(name for name in names if kept.get(name, 0.0) > _MOSTLY and name not in asked.against)
        evidence = f", which keeps {percent(kept[chosen[0]])} of the outputs on chip," if len(chosen) == 1 else ""
        groups = (chosen,) if chosen else ()
    elif not groups and _FUSION.search(asked.subject) and kind == "policy" and _UNFUSED in names:
        fused = tuple(name for name in names if name not in (_UNFUSED, *asked.against))
        groups = (fused,) if fused else ()
        asked = replace(asked, against=asked.against or (_UNFUSED,))
    elif not groups and asked.against:
        groups = of_own(asked, points)
    chosen = tuple(name for group in groups for name in group)
    bases = {name.partition("(")[0] for name in chosen}
    others = tuple(name for name in names if name not in chosen)
    rivals = asked.against or tuple(name for name in others if name.partition("(")[0] not in bases) or others
    if not groups or not rivals or (kind != "policy" and not asked.against and not _RANKED.search(asked.words)):
        return None
    if _OR.search(asked.subject) and len(groups) > 1:
        return None
    case = list(dict.fromkeys(["network", "hardware", "policy", *axes]))
    if kind == "hardware":  # in the dtype, under the policy and with the settings that are fastest on each
        case = ["workload", *(size for size in SIZES if size in axes)]
    elif kind == "model":
        case = list(dict.fromkeys(["dtype", "hardware", "policy", *(axis for axis in axes if axis not in LENGTHS)]))
    case = [name for name in case if name != kind]
    ran = usable(points)

    def fastest(several: Sequence[str]) -> pd.Series:
        return ran.loc[ran[kind].isin(several)].groupby(case)["latency_s"].min()

    against = fastest(rivals)
    ratios = []
    for group in groups:
        paired = pd.DataFrame({"asked": fastest(group), "against": against}).dropna()
        ratios.append(paired.assign(ratio=paired["against"] / paired["asked"]).reset_index())
    involved = points.loc[points[kind].isin([*chosen, *rivals])]
    cases = len(involved.loc[(involved[case] != "").all(axis="columns")].drop_duplicates(case))
    told = enumeration([_listed(group, kind) for group in groups])
    return _Sides(
        f"{told}{evidence}", _listed(rivals, kind), pd.concat(ratios, ignore_index=True), cases * len(groups),
        len(groups) > 1,
    )  # fmt: skip


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
    ends = by_magnitude(axes[axis])
    if not ends:
        return None
    low, high = ends[0], ends[-1]
    asked, against = (high, low) if more else (low, high)
    case = ["network", "policy", *(dict.fromkeys(["hardware", *(other for other in axes if other != axis)]))]
    case = [name for name in case if name != axis]
    both = usable(points).pivot_table(index=case, columns=axis, values="latency_s", aggfunc="min")
    both = both.reindex(columns=[asked, against]).dropna()
    ratios = (both[against] / both[asked]).rename("ratio").reset_index()
    cases = len(points.drop_duplicates(case))
    return _Sides(f"{axis} = {asked}", f"with {against}", ratios, cases)


def _judged(sides: _Sides, aim: _Aim, where: str = "") -> str:
    """Answer yes if the aim holds in all cases, no if it holds in none, otherwise with the number of cases."""
    ratios = numbers(sides.ratios, "ratio")
    held = sum(aim.holds(ratio) for ratio in ratios)
    told = speed_words(min(ratios), max(ratios), sides.against)
    verb = "are" if sides.is_plural else "is"
    cases = f"all {count(len(ratios), 'case')}" if len(ratios) > 1 else "the one case"
    missing = sides.cases - len(ratios)
    where += f" that can be compared ({count(missing, 'other')} cannot)" if missing > 0 else ""
    if held in (0, len(ratios)):
        return f"{'Yes' if held else 'No'}: {sides.asked} {verb} {told}, in {cases}{where}."
    said = {"ever": "Yes", "always": "No"}.get(aim.quantifier, "It depends")
    return f"{said}: {sides.asked} {verb} {aim.words} in {held:,} of {count(len(ratios), 'case')}{where} ({told})."


def _listed(names: Sequence[str], kind: str) -> str:
    """Return names of a kind as what their fastest is called."""
    ordered = sorted(names)
    if not ordered[1:]:
        return ordered[0]
    which = count(len(ordered), _NOUNS[kind]) if len(ordered) > _MOST_NAMED else enumeration(ordered)
    return f"the {'fastest' if ordered[2:] else 'faster'} of {which}"
