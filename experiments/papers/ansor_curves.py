"""Curves of Figs. 7 and 10 of Ansor: how fast the found programs are after so many trials, as pictures and tables."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.lines import Line2D

from dsascape.experiments.papers.graphturbo_tables import markdown
from dsascape.experiments.papers.tuning_results import SearchResult
from dsascape.experiments.report.canvas import INK, PAPER, Margins, house_style, line_entry, looks_for, panels, to_svg
from dsascape.experiments.report.kinds import standalone
from dsascape.wording import count

VARIANTS = (
    "ansor", "random", "beam", "limited space", "no fine-tuning", "no task scheduler", "without layouts",
)  # fmt: skip
"""Variants with a colour, a dash and a marker of their own, the same in all pictures."""
_WIDTH, _HEIGHT = 470, 320
_MARKED = 6
"""Markers of a curve; those of each begin a little later, so that curves that coincide can be told apart."""
_SHOWN_FROM = 0.05
"""Part of the trials before which no curve is drawn: the first programs of a search are slow by chance."""


@dataclass(frozen=True)
class Curves:
    """One panel: for each variant, what its runs reach after so many trials; the more the better."""

    title: str
    results: Sequence[SearchResult]
    """All seeds of all variants, of one task or networks on one machine."""

    @property
    def variants(self) -> list[str]:
        """Variants, in the order of the results."""
        return list(dict.fromkeys(each.variant for each in self.results))

    @property
    def trials(self) -> int:
        """Trials of the longest run."""
        return max(each.trials for each in self.results)

    @property
    def seeds(self) -> int:
        """Number of runs of each variant."""
        return len({each.seed for each in self.results})

    def reached(self, variant: str, trials: int) -> list[float]:
        """Return for each seed the speed-up over the built-in choice after ``trials``, the geometric mean of networks.

        It is that of programs that the search itself has found; 0 as long as a task has none.
        """
        return [speed_up(each, trials) for each in self.results if each.variant == variant]

    def median(self, variant: str, trials: int) -> float:
        """Return the median over the seeds of what a variant has reached."""
        return statistics.median(self.reached(variant, trials))

    @property
    def best(self) -> float:
        """The most that any run has reached."""
        return max(max(self.reached(variant, self.trials)) for variant in self.variants)


def speed_up(result: SearchResult, trials: int) -> float:
    """Return the speed-up over the built-in choice of what a search has found by ``trials``; 0 if nothing."""
    points = [point for point in result.curve if point.trials <= trials]
    if not points or not all(map(math.isfinite, points[-1].found_s)):
        return 0.0
    ratios = [one / own for one, own in zip(result.builtin_s, points[-1].found_s, strict=True)]
    return math.prod(ratios) ** (1 / len(ratios))


@house_style
def picture(figure_id: str, several: Sequence[Curves], *, relative: bool) -> str:
    """Return a standalone SVG with a panel for each of ``several``.

    With ``relative``, the axis is the throughput by that of the best program of all runs (Fig. 7), else the speed-up
    over the built-in choice (Fig. 10).
    """
    every = [name for name in VARIANTS if any(name in each.variants for each in several)]
    every += [name for each in several for name in each.variants if name not in every]
    looks = looks_for([*VARIANTS, *[name for name in every if name not in VARIANTS]])
    builtin = Line2D([], [], color=INK, linewidth=1, linestyle="dotted")
    legend = [*[line_entry(looks[name], name) for name in every], (builtin, "built-in choice")]
    margins = Margins(left=70, bottom=50)
    figure, all_axes = panels(len(several), 2, (_WIDTH, _HEIGHT), margins, legend)
    for axes, own in zip(all_axes, several, strict=True):
        scale = 1 / own.best if relative and own.best else 1.0
        steps = [round(own.trials * part / 100) for part in range(round(100 * _SHOWN_FROM), 101)]
        heights = {name: [scale * own.median(name, step) for step in steps] for name in own.variants}
        for number, (name, height) in enumerate(heights.items()):
            there = [(step, each) for step, each in zip(steps, height, strict=True) if each]
            axes.plot(
                [step for step, _ in there], [each for _, each in there], color=looks[name].colour, linewidth=2,
                linestyle=looks[name].dash, marker=looks[name].marker, markersize=8, markeredgecolor=PAPER,
                markevery=(4 * number, max(len(there) // _MARKED, 1)), drawstyle="steps-post", clip_on=False,
            )  # fmt: skip
        axes.axhline(scale, color=INK, linewidth=1, linestyle="dotted")
        tallest = max([scale, *[each for height in heights.values() for each in height]])
        axes.set_ylim(0, 1.05 * tallest)
        axes.set_xlim(0, own.trials)
        axes.set_xlabel("trials")
        axes.set_ylabel("throughput relative to the best program" if relative else "speed-up over the built-in choice")
        axes.set_title(own.title)
    titles = "; ".join(each.title for each in several)
    return standalone(str(to_svg(figure, figure_id, f"What searches have found after so many trials: {titles}")))


def table(several: Sequence[Curves], *, relative: bool) -> str:
    """Return a Markdown table: each variant's median after a quarter, half and all of the trials, and its range."""
    rows: list[Sequence[object]] = []
    for own in several:
        scale = 1 / own.best if relative and own.best else 1.0
        for name in own.variants:
            parts = [own.trials // 4, own.trials // 2, own.trials]
            medians: list[object] = [scale * own.median(name, trials) or None for trials in parts]
            ends = [scale * each for each in own.reached(name, own.trials)]
            spread = "" if len(ends) == 1 else f"{min(ends):.3g} to {max(ends):.3g}"
            rows.append((own.title, name, count(own.trials, "trial"), *medians, spread))
    columns: Sequence[str] = ("what", "search", "in all", "after 1/4", "after 1/2", "in the end", "over the seeds")
    width = len(columns) if any(row[-1] for row in rows) else len(columns) - 1
    return markdown(columns[:width], [row[:width] for row in rows])


def order(own: Curves) -> str:
    """Return the variants in the order of what they have reached in the end, the best first."""
    ends: Mapping[str, float] = {name: own.median(name, own.trials) for name in own.variants}
    return ", ".join(f"{name} ({ends[name]:.3f})" for name in sorted(ends, key=lambda name: -ends[name]))
