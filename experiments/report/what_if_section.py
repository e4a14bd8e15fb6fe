"""What-if figures for a report or a page of their own: tornado charts, shares and gains, and all effects."""

from collections.abc import Iterator

import pandas as pd

from dsascape.experiments.report.layout import Figure, Section
from dsascape.experiments.report.tables import Table, table_of
from dsascape.experiments.report.tornado import MOST_BARS, by_gain, change_text, effect_text, tornado, with_effect
from dsascape.experiments.report.words import MISSING, enumeration, percent, quantity
from dsascape.experiments.results.sensitivity import SMALLEST, TOLERANCE, Effect, Gain, Swing, WhatIf
from dsascape.wording import count

MARKS_EXPLAINED = (
    "In brackets above: what the comment in the machine file says of a value's source. Assumed: not published. Derived:"
    " from other figures. Calibrated: fitted to measurements. Default: not in the file. Set: changed after loading. No"
    " source: without a comment. Without brackets: published or measured."
)
_MOST_WEAK = 3
_MOST_TIED = 2
"""Changes named beside the best one that gain as much."""
_MOST_FREE = 3
"""Resources named of which less costs no time."""
_SCHEDULES = {
    "anew": "The policy plans and schedules anew for each changed machine.",
    "keep": "The schedule of the unchanged machine runs on each changed one.",
}


def answer_of(study: WhatIf) -> list[str]:
    """Return the answer in sentences: the change that gains most, and the halving that loses least."""
    base, runs = study.base, study.runs
    tried = sum([len(swing.effects) for swing in study.swings])
    where = f"on {base.hardware} under {base.policy}"
    first = f"{base.model}, batch {base.batch}, takes {quantity(base.latency_s, 's')} {where}."
    if not runs:
        return [first, f"No changed machine ran ({count(tried, 'value')} tried): the reasons are listed below."]
    return [first, _gain_told(study), *_loss_told(study)]


def _gain_told(study: WhatIf) -> str:
    best, base = study.gains_most, study.base
    if not best:
        some = count(len(study.runs), "changed value")
        return f"None of {some} makes it faster by {100 * SMALLEST:g} % or more, one at a time."
    (swing, effect), *others = best
    assert effect.latency_s is not None
    share = f"{-100 * effect.latency_change:.1f} % less time, {quantity(effect.latency_s, 's')}"
    then = f"bound by {effect.bottleneck}"
    still = f"still {then}" if effect.bottleneck == base.bottleneck else f"then {then}"
    told = f"{_changed(swing, effect)} gains most: {share}, {still}."
    several = others[: _MOST_TIED + 1]
    if not several:
        return told
    named = [_changed(*each, is_first=False) for each in several[:_MOST_TIED]]
    named += [f"{count(len(others) - _MOST_TIED, 'other value')}"] if len(others) > _MOST_TIED else []
    return f"{told[:-1]}; as much as {enumeration(named)}."


def _loss_told(study: WhatIf) -> Iterator[str]:
    less = study.less_of
    free = [run for run in less if run[1].latency_change < SMALLEST]
    costly = less[len(free) :]
    if free:
        named = [swing.path for swing, _ in free[:_MOST_FREE]]
        named += [count(len(free) - _MOST_FREE, "other value")] if len(free) > _MOST_FREE else []
        named[0] += _saved(free[0][1])
        yield f"Halved one at a time, at no cost in time: {enumeration(named)}."
    if costly:
        swing, effect = costly[0]
        lost = f"{100 * effect.latency_change:.1f} % more time{_saved(effect)}"
        least = "costs" if len(costly) == 1 else f"hurts least{' of the others' if free else ''}:"
        yield f"{_changed(swing, effect)} {least} {lost}."


def _saved(effect: Effect) -> str:
    """Return in brackets what a change saves of area and energy; empty where that is nothing noteworthy."""
    changes = {"area": effect.area_change, "energy": effect.energy_change}
    told = [f"{-100 * change:.1f} % less {name}" for name, change in changes.items() if change <= -SMALLEST]
    return f" ({enumeration(told)})" if told else ""


def _changed(swing: Swing, effect: Effect, *, is_first: bool = True) -> str:
    """Return a change as the subject of a sentence, such as ``Doubling clusters (4 to 8)``."""
    verb = {0.5: "halving", 2.0: "doubling"}.get(effect.factor or 0.0, "setting")
    return f"{verb.capitalize() if is_first else verb} {swing.path} ({swing.base} to {effect.setting})"


def what_if_figures(study: WhatIf) -> Iterator[Figure]:
    """Yield a tornado of the latency and one of the energy, shares and gains, and the table of all effects."""
    base = study.base
    point = f"{base.model}, batch {base.batch}, on {base.hardware} under {base.policy}"
    figures = {"latency": quantity(base.latency_s, "s"), "energy": quantity(base.energy_j, "J")}
    for figure, amount in figures.items():
        effective = with_effect(study.swings, figure)
        if not effective:
            yield Figure(f"No varied value changes the {figure} by {100 * SMALLEST:g} % or more ({amount}).")
            continue
        shown = effective[:MOST_BARS]
        some = f" The {len(shown)} largest of {len(effective)}." if len(shown) < len(effective) else ""
        told = f" {_SCHEDULES[study.schedule]} {dependence(study)}" if figure == "latency" else ""
        yield Figure(
            f"{point}: change of the {figure} ({amount}) with one value of the machine at a time; the new value is at"
            f" the bar.{some}{told}",
            svg=tornado(by_gain(shown, figure), figure, f"whatif-{figure}"),
        )
    if study.gains:
        yield Figure(
            "Share of each resource in the critical path, and what more of it gains. The share bounds the gain only if"
            " nothing else waits behind the resource; the gain is simulated.",
            tables=(_gains_table(study),),
        )
    anomalies = study.anomalies
    if anomalies:
        told = "; ".join(f"{s.path} = {e.setting}: {change_text(e.latency_change)}" for s, e in anomalies)
        yield Figure(
            f"{count(len(anomalies), 'anomaly')}: more of a resource is slower, or less of it faster, by more than"
            f" {100 * TOLERANCE:g} %. Schedules are chosen by estimates. {told}."
        )
    effects = _effects_table(study)
    yield Figure(
        f"All {count(len(effects.rows), 'changed value')}, with the comments of the file. {MARKS_EXPLAINED}",
        numbers=effects,
    )


def dependence(study: WhatIf) -> str:
    """Return a sentence on the values without a published source that change the latency most; empty without any."""
    weak = [swing for swing in with_effect(study.swings, "latency") if swing.source.mark][:_MOST_WEAK]
    told = [f"{s.path} ({s.source.mark}, up to {percent(s.most('latency_change'))})" for s in weak]
    return f"Of the values without a published source, the latency depends most on {enumeration(told)}." if told else ""


def what_if_section(study: WhatIf | None) -> Section:
    """Return the section of a report, the answer first; empty without a what-if study."""
    own = () if study is None else (Figure(" ".join(answer_of(study))), *what_if_figures(study))
    return Section("what-if", "What if", own)


def gain_cells(gain: Gain) -> tuple[str, str, str, str]:
    """Return a gain as text: share, value that makes the resource faster, change with it, change in the limit."""
    if gain.faster is None:
        return percent(gain.share), "none of the varied values", MISSING, MISSING
    limit = gain.limit
    far = MISSING if limit is None else f"{limit.setting}: {effect_text(limit, 'latency')}"
    far += f", then bound by {limit.bottleneck}" if limit is not None and limit.bottleneck else ""
    near = f"{gain.faster.setting}: {effect_text(gain.faster, 'latency')}"
    return percent(gain.share), gain.path, near, far


GAIN_HEADINGS = ("resource", "share of the critical path", "made faster by", "change", "change, a hundredfold")


def _gains_table(study: WhatIf) -> Table:
    rows = [(gain.resource, *gain_cells(gain)) for gain in study.gains]
    return table_of(pd.DataFrame(rows, columns=list(GAIN_HEADINGS)), {})


def _effects_table(study: WhatIf) -> Table:
    rows = [
        (
            swing.path, swing.base, swing.source.mark or "stated", effect.setting, effect_text(effect, "latency"),
            effect_text(effect, "energy"), effect.resource, effect.refusal or swing.source.comment,
        )
        for swing in study.swings
        for effect in swing.effects
    ]  # fmt: skip
    headings = ["value", "base", "source", "set to", "latency", "energy", "through", "comment, or why nothing ran"]
    return table_of(pd.DataFrame(rows, columns=headings), {})
