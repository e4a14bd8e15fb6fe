"""What-if figures for a report or a page of their own: tornado charts, shares and gains, and all effects."""

from collections.abc import Iterator

import pandas as pd

from dsascape.experiments.report.layout import Figure, Section
from dsascape.experiments.report.tables import Table, table_of
from dsascape.experiments.report.tornado import MOST_BARS, change_text, effect_text, tornado, with_effect
from dsascape.experiments.report.words import MISSING, enumeration, percent, quantity
from dsascape.experiments.results.sensitivity import SMALLEST, TOLERANCE, Gain, WhatIf
from dsascape.wording import count

MARKS_EXPLAINED = (
    "In brackets above: what the comment in the machine file says of a value's source. Assumed: not published. Derived:"
    " from other figures. Calibrated: fitted to measurements. Default: not in the file. Set: changed after loading. No"
    " source: without a comment. Without brackets: published or measured."
)
_MOST_WEAK = 3
_SCHEDULES = {
    "anew": "The policy plans and schedules anew for each changed machine.",
    "keep": "The schedule of the unchanged machine runs on each changed one.",
}


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
            svg=tornado(shown, figure, f"whatif-{figure}"),
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
    """Return the section of a report; empty without a what-if study."""
    return Section("what-if", "What if", () if study is None else tuple(what_if_figures(study)))


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
