"""Curves of Figs. 7 and 10 of Ansor: how fast the found programs are after so many trials, as pictures and tables."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from matplotlib.lines import Line2D

from dsascape.experiments.papers.graphturbo_tables import markdown
from dsascape.experiments.papers.tuning_results import SearchResult
from dsascape.experiments.report.canvas import (
    INK,
    PAPER,
    Margins,
    clipped,
    house_style,
    line_entry,
    looks_for,
    panels,
    to_svg,
)
from dsascape.experiments.report.kinds import standalone
from dsascape.wording import count

VARIANTS = (
    "ansor", "random", "beam", "limited space", "no fine-tuning", "no task scheduler", "without layouts",
)  # fmt: skip
"""Variants with a colour, a dash and a marker of their own, the same in all pictures."""
_WIDTH, _HEIGHT = 470, 320
_MARKED = 6
"""Markers of a curve; those of each begin a little later, so that curves that coincide can be told apart."""
_SHOWN_FROM = 5
"""Per cent of the trials before which nothing is drawn of what was found: the first programs are slow by chance."""


@dataclass(frozen=True)
class Curves:
    """One panel: for each variant, what its runs reach after so many trials; the more the better."""

    title: str
    results: Sequence[SearchResult]
    """All seeds of all variants, of one task or networks on one machine."""
    kept: bool = False
    """Whether built-in choices count where nothing faster has been found; else only what a search has tried counts."""

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
        """Return for each seed the speed-up over the built-in choice after ``trials``, as `speed_up` does."""
        return [speed_up(each, trials, kept=self.kept) for each in self.results if each.variant == variant]

    def median(self, variant: str, trials: int) -> float:
        """Return the median over the seeds of what a variant has reached."""
        return statistics.median(self.reached(variant, trials))

    @property
    def scale(self) -> float:
        """Factor from speed-ups to what is shown: those of kept programs, or throughputs by the best of all."""
        return 1.0 if self.kept else 1 / (self.best or 1.0)

    @property
    def best(self) -> float:
        """The most that any run has reached."""
        return max(max(self.reached(variant, self.trials)) for variant in self.variants)


def speed_up(result: SearchResult, trials: int, *, kept: bool = False) -> float:
    """Return the speed-up over the built-in choice of what a search has found by ``trials``; 0 if a task has nothing.

    With ``kept``, a task that has nothing faster has its built-in choice. Of several networks it is the geometric mean.
    """
    points = [point for point in result.curve if point.trials <= trials]
    reached = () if not points else points[-1].kept_s if kept else points[-1].found_s
    if not reached or not all(map(math.isfinite, reached)):
        return 0.0
    ratios = [one / own for one, own in zip(result.builtin_s, reached, strict=True)]
    return math.prod(ratios) ** (1 / len(ratios))


@house_style
def picture(figure_id: str, several: Sequence[Curves]) -> str:
    """Return a standalone SVG with a panel for each of ``several``.

    It shows the throughput by that of the best program of all runs (Fig. 7); of what is kept, the speed-up over the
    built-in choice, from 1 on (Fig. 10).
    """
    every = [name for name in VARIANTS if any(name in each.variants for each in several)]
    every += [name for each in several for name in each.variants if name not in every]
    looks = looks_for([*VARIANTS, *[name for name in every if name not in VARIANTS]])
    builtin = Line2D([], [], color=INK, linewidth=1, linestyle="dotted")
    legend = [*[line_entry(looks[name], name) for name in every], (builtin, "built-in choice")]
    margins = Margins(left=70, bottom=50)
    figure, all_axes = panels(len(several), 2, (_WIDTH, _HEIGHT), margins, legend)
    for axes, own in zip(all_axes, several, strict=True):
        scale = own.scale
        steps = [round(own.trials * part / 100) for part in range(0 if own.kept else _SHOWN_FROM, 101)]
        heights = {name: [scale * own.median(name, step) for step in steps] for name in own.variants}
        for number, (name, height) in enumerate(heights.items()):
            there = [(step, each) for step, each in zip(steps, height, strict=True) if each]
            axes.plot(
                [step for step, _ in there], [each for _, each in there], color=looks[name].colour, linewidth=2,
                linestyle=looks[name].dash, marker=looks[name].marker, markersize=8, markeredgecolor=PAPER,
                markevery=(4 * number, max(len(there) // _MARKED, 1)), drawstyle="steps-post", clip_on=False,
            )  # fmt: skip
        axes.axhline(scale, color=INK, linewidth=1, linestyle="dotted")
        tallest = max([1.001 * scale, *[each for height in heights.values() for each in height]])
        axes.set_ylim(*((1 - 0.06 * (tallest - 1), 1 + 1.06 * (tallest - 1)) if own.kept else (0, 1.05 * tallest)))
        axes.set_xlim(0, own.trials)
        axes.set_xlabel("trials")
        axes.set_ylabel("speed-up over the built-in choice" if own.kept else "throughput relative to the best program")
        axes.set_title(clipped(own.title, 56))
    titles = "; ".join(each.title for each in several)
    return standalone(str(to_svg(figure, figure_id, f"What searches have found after so many trials: {titles}")))


def table(several: Sequence[Curves]) -> str:
    """Return a Markdown table: each variant's median after a quarter, half and all of the trials, and its range."""
    rows: list[Sequence[object]] = []
    for own in several:
        scale = own.scale
        for name in own.variants:
            parts = [own.trials // 4, own.trials // 2, own.trials]
            medians = [f"{scale * own.median(name, trials):.3f}" for trials in parts]
            ends = [scale * each for each in own.reached(name, own.trials)]
            spread = "" if len(ends) == 1 else f"{min(ends):.3f} to {max(ends):.3f}"
            rows.append((own.title, name, count(own.trials, "trial"), *medians, spread))
    columns: Sequence[str] = ("what", "search", "in all", "after 1/4", "after 1/2", "in the end", "over the seeds")
    width = len(columns) if any(row[-1] for row in rows) else len(columns) - 1
    return markdown(columns[:width], [row[:width] for row in rows])


def order(own: Curves) -> str:
    """Return the variants in the order of what they have found by themselves in the end, the best first."""
    found = replace(own, kept=False)
    ends: Mapping[str, float] = {name: found.median(name, own.trials) for name in own.variants}
    return ", ".join(f"{name} ({ends[name]:.3f})" for name in sorted(ends, key=lambda name: -ends[name]))
