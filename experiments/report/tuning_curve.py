"""The tuning curve: latency of all networks with the best kernels so far, over the trials, as a drawing of its own."""

from collections.abc import Sequence

from markupsafe import Markup

from dsascape.experiments.report.canvas import INK, Margins, clipped, house_style, looks_for, panels, to_svg
from dsascape.experiments.report.kinds import standalone
from dsascape.experiments.report.words import significant
from dsascape.tuner.search.search import UnitDone

_WIDTH, _HEIGHT = 720, 320
_MS = 1e3


def tuning_curve(title: str, before_s: float, curve: Sequence[UnitDone]) -> str:
    """Return the curve as an SVG file: what the built-in kernels take as a line across, and the best so far below."""
    return standalone(str(_drawn(title, before_s, curve)))


@house_style
def _drawn(title: str, before_s: float, curve: Sequence[UnitDone]) -> Markup:
    looks = looks_for(["tuned"])
    figure, (axes,) = panels(1, 1, (_WIDTH, _HEIGHT), Margins(left=76))
    trials, latencies = [0, *[each.trials for each in curve]], [before_s, *[each.latency_s for each in curve]]
    axes.axhline(before_s * _MS, color=INK, linewidth=1, linestyle="dotted")
    axes.plot(trials, [_MS * each for each in latencies], color=looks["tuned"].colour, drawstyle="steps-post")
    axes.set_xlabel("trials")
    axes.set_ylabel("latency in ms")
    axes.set_title(clipped(title, 90))
    last = significant(latencies[-1] * _MS)
    return to_svg(figure, "tuning", f"{title}: from {significant(before_s * _MS)} ms to {last} ms")
