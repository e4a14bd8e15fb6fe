"""Tornado charts: what a halved or doubled value of the machine changes, the largest gain on top."""

from collections.abc import Sequence

from markupsafe import Markup

from dsascape.experiments.report.canvas import (
    HATCH,
    INK,
    WIDTH,
    Look,
    Margins,
    clipped,
    house_style,
    panels,
    patch_entry,
    text_width,
    to_svg,
)
from dsascape.experiments.report.words import MISSING
from dsascape.experiments.results.sensitivity import SMALLEST, Effect, Swing

CHANGES = {"latency": "latency_change", "energy": "energy_change"}
"""Figures that charts show, with the field of an effect that has their relative change."""
MOST_BARS = 24
_LESS, _MORE, _OTHER = "less", "more", "another value"
_LOOKS = {_LESS: Look(1, 1), _MORE: Look(0, 0), _OTHER: Look(2, 3)}
_ROW_PX, _BAR, _GAP = 34, 0.36, 0.4
_LONGEST_NAME, _LONGEST_SETTING = 52, 18
_PERCENT = 100
_ROOM = 1.34
"""Length of the axis by that of the bars, so that labels at their ends fit."""


def change_text(change: float) -> str:
    """Format a relative change as a signed percentage with one decimal."""
    return f"{_PERCENT * change:+,.1f} %" if abs(change) >= SMALLEST / 2 else "0 %"


def with_effect(swings: Sequence[Swing], figure: str) -> list[Swing]:
    """Return the values with a noteworthy effect on the ``figure`` (latency or energy), the largest effect first."""
    change = CHANGES[figure]
    ranked = sorted(swings, key=lambda swing: -swing.most(change))
    return [swing for swing in ranked if swing.most(change) >= SMALLEST]


def by_gain(swings: Sequence[Swing], figure: str) -> list[Swing]:
    """Return values in the order of charts: by what they gain, the most first, and then by least loss."""
    return sorted(swings, key=lambda swing: swing.rank(CHANGES[figure]))


def named(swing: Swing) -> str:
    """Return a value's path and base, with the mark of its source if it is weak."""
    mark = f" ({swing.source.mark})" if swing.source.mark else ""
    return f"{swing.path} = {swing.base}{mark}"


def kind_of_effect(effect: Effect) -> str:
    """Return whether an effect is that of less, of more, or of another value than a number."""
    if effect.factor is None:
        return _OTHER
    return _MORE if effect.factor > 1 else _LESS


@house_style
def tornado(swings: Sequence[Swing], figure: str, figure_id: str) -> Markup:
    """Draw the effects on latency or energy: two bars for each value, one for less and one for more of it.

    ``swings`` are the values to show, from top to bottom.
    """
    change = CHANGES[figure]
    kinds = [kind for kind in _LOOKS if any(kind_of_effect(each) == kind for s in swings for each in s.effects)]
    names = [clipped(named(swing), _LONGEST_NAME) for swing in swings]
    margins = Margins(left=24 + max(map(text_width, names)) * 0.92, right=24, top=8, bottom=48)
    height = len(swings) * _ROW_PX + margins.top + margins.bottom
    figure_, (axes,) = panels(1, 1, (WIDTH, height), margins, [patch_entry(_LOOKS[kind], kind) for kind in kinds])
    for row, swing in enumerate(swings):
        ran = [each for each in swing.effects if not each.refusal]
        for place, effect in enumerate(ran):
            look, length = _LOOKS[kind_of_effect(effect)], _PERCENT * getattr(effect, change)
            up = row + (place - (len(ran) - 1) / 2) * min(_GAP, 0.8 / len(ran))
            thick = min(_BAR, 0.72 / len(ran))
            axes.barh(up, length, thick, color=look.colour, edgecolor=HATCH, hatch=look.hatch, linewidth=0)
            text = clipped(effect.setting, _LONGEST_SETTING)
            axes.annotate(
                text, (length, up), (5 if length >= 0 else -5, 0), textcoords="offset points", va="center_baseline",
                ha="left" if length >= 0 else "right", fontsize=10, color=INK,
            )  # fmt: skip
    changes = [_PERCENT * getattr(each, change) for swing in swings for each in swing.effects if not each.refusal]
    lowest, highest = min([0.0, *changes]), max([0.0, *changes])
    spare = (_ROOM - 1) / 2 * (highest - lowest)
    axes.axvline(0, color=INK, linewidth=1)
    axes.set(xlim=(lowest - spare, highest + spare), ylim=(len(swings) - 0.4, -0.6))
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", labelcolor=INK)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"change of the simulated {figure} [%]")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+,.10g}" if value else "0")
    return to_svg(figure_, figure_id, f"Change of the simulated {figure} with each value of the machine")


def effect_text(effect: Effect, figure: str) -> str:
    """Return the change of an effect as text, with a warning if it is an anomaly; a dash where nothing ran."""
    if effect.refusal:
        return MISSING
    return change_text(getattr(effect, CHANGES[figure])) + (" (anomaly)" if effect.is_anomaly else "")
