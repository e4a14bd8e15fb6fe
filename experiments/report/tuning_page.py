"""The tuning curve as a drawing of its own, and the report of a search: the curve and a table of its tasks."""

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dsascape.experiments.report.canvas import INK, Margins, clipped, house_style, looks_for, panels, to_svg
from dsascape.experiments.report.kinds import standalone
from dsascape.experiments.report.page import TEMPLATES
from dsascape.experiments.report.words import MISSING, significant
from dsascape.hw_models.text.quantities import PS_PER_S, format_ps
from dsascape.tuner.search.search import UnitDone
from dsascape.wording import count

_WIDTH, _HEIGHT = 720, 320
_MS = 1e3
_LEAST_SHOWN = 0.05
"""Part of the built-in latency that the curve's axis spans at least: less would make nothing look like much."""
_HEADINGS = (
    "task", "operators", "times", "trials", "failed", "built-in", "tuned", "threads", "rank by the cost model",
)  # fmt: skip


def tuning_curve(title: str, before_s: float, curve: Sequence[UnitDone]) -> str:
    """Return the curve as an SVG file: what the built-in kernels take as a line across, and the best so far below."""
    return standalone(str(_drawn(title, before_s, curve)))


def tuning_page(data: Mapping[str, Any], before_s: float, curve: Sequence[UnitDone]) -> str:
    """Return the report of a search as one self-contained HTML page; ``data`` is what ``tune --json`` prints."""
    names = data["model"] if isinstance(data["model"], str) else ", ".join(data["model"])
    title = f"{clipped(names, 60)} on {data['hardware']}, tuned"
    told = (
        f"{_time(before_s)} with the built-in kernels, {_time(data['seconds_after'])} after"
        f" {count(data['trials'], 'trial')} of {count(len(data['tasks']), 'task')} by {data['tuner']}"
        f" ({data['runner']}, policy {data['policy']}, objective {data['objective']}, seed {data['seed']})."
    )
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    return environment.get_template("tuning.html.j2").render(
        title=title, told=told, answer=" ".join(data["answer"]), curve=_drawn(title, before_s, curve),
        headings=_HEADINGS, rows=[_row(task) for task in data["tasks"]],
    )  # fmt: skip


def _row(task: Mapping[str, Any]) -> tuple[object, ...]:
    times = [MISSING if task[name] is None else _time(task[name]) for name in ("before_s", "after_s")]
    rest = [MISSING if task[name] is None else task[name] for name in ("threads", "rank_by_model")]
    operators = clipped(", ".join(task["operators"]), 90)
    return task["name"], operators, task["weight"], task["trials"], task["failed"], *times, *rest


@house_style
def _drawn(title: str, before_s: float, curve: Sequence[UnitDone]) -> Markup:
    looks = looks_for(["tuned"])
    figure, (axes,) = panels(1, 1, (_WIDTH, _HEIGHT), Margins(left=76))
    trials, latencies = [0, *[each.trials for each in curve]], [before_s, *[each.latency_s for each in curve]]
    axes.axhline(before_s * _MS, color=INK, linewidth=1, linestyle="dotted")
    axes.plot(trials, [_MS * each for each in latencies], color=looks["tuned"].colour, drawstyle="steps-post")
    shown_s = max(_LEAST_SHOWN * before_s, 1.05 * (before_s - min(latencies)))
    axes.set_ylim(_MS * (max(before_s, *latencies) - shown_s), _MS * max(before_s, *latencies) * 1.01)
    axes.set_xlabel("trials")
    axes.set_ylabel("latency [ms]")
    axes.set_title(clipped(title, 90))
    last = significant(latencies[-1] * _MS)
    return to_svg(figure, "tuning", f"{title}: from {significant(before_s * _MS)} ms to {last} ms")


def _time(seconds: float) -> str:
    return format_ps(round(seconds * PS_PER_S))
