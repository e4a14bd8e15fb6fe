"""Report section that compares predictions with measurements: kernels, networks, and the plan that would be chosen."""

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from dsascape.experiments.real.accuracy import kendall, mape, regret, spearman
from dsascape.experiments.report.canvas import (
    INK,
    MUTED,
    PAPER,
    WIDTH,
    Looks,
    Margins,
    clipped,
    house_style,
    marker_entry,
    panels,
    to_panels,
)
from dsascape.experiments.report.frames import names_in, usable
from dsascape.experiments.report.layout import Evaluation, Figure
from dsascape.experiments.report.tables import Format, Table, table_of
from dsascape.experiments.report.words import percent, quantity, significant
from dsascape.experiments.results.files import for_terminal
from dsascape.wording import count

_COLUMNS = 3
_MOST_WORST = 25
_NAMES = ("network", "policy")
_PARTS = "predicted_parts_s."


def measured_sections(evaluation: Evaluation) -> Iterator[Figure]:
    """Yield predicted and measured times of kernels and networks, where there are any."""
    kernels = evaluation.study.kernels
    points = _measured_points(evaluation)
    if kernels is None or kernels.empty or points.empty:
        return
    policies = {name: look for name, look in evaluation.looks.items() if (kernels["policy"] == name).any()}
    yield Figure(
        "Whole networks: the median of the measured times, with its spread, beside what was predicted; how well the"
        " times of its kernels by themselves are predicted; and what disturbed the measurement.",
        tables=(table_of(_quality(points, evaluation), _QUALITY),),
    )
    yield Figure(
        f"Every point is a kernel, run again and again by itself ({count(len(kernels), 'kernel')}); on the line the"
        f" simulator is right. {_said(kernels)}",
        svg=measured_scatter(kernels, policies, "measured"),
    )
    choices = pd.DataFrame(_choices(points, evaluation))
    if not choices.empty:
        worst = float(choices["regret"].max())
        yield Figure(
            "Which plan the simulator would choose, and what it costs: regret is the time of that plan by the time of"
            f" the really fastest, less one. The most is {percent(worst)}.",
            tables=(table_of(choices, _CHOICES),),
        )
    yield Figure(
        "The kernels whose predictions are off by the most time, and what a core would take for each thing alone: to"
        " issue its instructions, and to move what each memory moves.",
        tables=(_worst(kernels),),
    )


def measured_notes(points: pd.DataFrame) -> list[str]:
    """Return sentences on what was predicted of measured points, on wrong outputs, and on disturbed measurements.

    ``points`` have simulated latencies beside measured ones.
    """
    ran = _measured(points)
    if ran.empty:
        return []
    errors = ran["latency_s"] / ran["measured_s"] - 1
    if len(ran) == 1:
        (spread,), (error,), (predicted,) = _spreads(ran), errors, ran["latency_s"]
        about = f"; the spread of the measured times is {spread:.1%}" if np.isfinite(spread) else ""
        told = [f"The simulator predicts {quantity(float(predicted), 's')} ({_signed(error)}){about}."]
    else:
        told = [
            f"Predictions of the {count(len(ran), 'measured point')} are off by {errors.abs().mean():.1%} in the mean"
            f" ({_signed(errors.min())} to {_signed(errors.max())})."
        ]
    wrong = int((_column(ran, "is_correct") == 0).sum())
    if wrong:
        whose = "its outputs" if len(ran) == 1 else f"the outputs of {_of_all(wrong, len(ran))}"
        told.append(f"Careful: {whose} differ from onnxruntime's.")
    disturbed: dict[str, list[str]] = {}
    for text in _warnings(ran):
        for each in filter(None, text.split("; ")):
            disturbed.setdefault(re.sub(r"[\d.,]+", "#", each), []).append(each)
    for several in disturbed.values():
        where = "" if len(ran) == 1 else f" ({_of_all(len(several), len(ran))})"
        told.append(f"Careful: {several[0] if len(set(several)) == 1 else f'{several[0]}, or alike'}{where}.")
    return told


def _of_all(number: int, every: int) -> str:
    return f"{number:,} of {count(every, 'measured point')}"


def _column(points: pd.DataFrame, name: str) -> pd.Series:
    """Return a column as numbers; missing ones where the points have none."""
    return pd.to_numeric(points[name], errors="coerce") if name in points else pd.Series(np.nan, points.index)


def _spreads(points: pd.DataFrame) -> pd.Series:
    return _column(points, "measured_spread")


def _warnings(points: pd.DataFrame) -> list[str]:
    """Return what disturbed each measurement; empty texts for nothing."""
    stored = points["warnings"] if "warnings" in points else [""] * len(points)
    return [for_terminal(" ".join(text.split())) if isinstance(text, str) else "" for text in stored]


def _measured_points(evaluation: Evaluation) -> pd.DataFrame:
    return _measured(evaluation.every)


def _measured(every: pd.DataFrame) -> pd.DataFrame:
    points = usable(every)
    return points.loc[points["measured_s"].notna()] if "measured_s" in points else points.iloc[:0]


def _said(kernels: pd.DataFrame) -> str:
    """Return a sentence on the accuracy of all kernels' predictions."""
    predicted, measured = list(kernels["predicted_s"]), list(kernels["measured_s"])
    ranks = [spearman(predicted, measured), kendall(predicted, measured)]
    words = [f"{name} {significant(rank)}" for name, rank in zip(("Spearman", "Kendall"), ranks, strict=True) if rank]
    return f"Mean error {percent(mape(predicted, measured) or 0.0)}; rank correlation {', '.join(words) or 'unknown'}."


def _quality(points: pd.DataFrame, evaluation: Evaluation) -> pd.DataFrame:
    """Return a row per measured point: times, error, and the accuracy of its kernels' predictions."""
    shown = [*_NAMES, *evaluation.axes]
    table = points[shown].copy()
    table["measured"], table["spread"] = points["measured_s"] * 1e3, _spreads(points)
    table["predicted"] = points["latency_s"] * 1e3
    table["error"] = points["latency_s"] / points["measured_s"] - 1
    for name in ("mape", "spearman", "kendall"):
        table[name] = _column(points, name)
    table["outputs"] = _column(points, "is_correct").map({1.0: "right", 0.0: "wrong"}).fillna("unknown")
    table["disturbed by"] = [text or "nothing" for text in _warnings(points)]
    return table


def _choices(points: pd.DataFrame, evaluation: Evaluation) -> Iterator[dict[str, object]]:
    """Yield, per network and setting with several plans, the predicted best, the measured best, and the regret."""
    by = ["network", *evaluation.axes]
    for place, own in points.groupby(by, sort=False):
        if own["policy"].nunique() == 1:
            continue
        predicted = dict(zip(own["policy"], own["latency_s"], strict=True))
        measured = dict(zip(own["policy"], own["measured_s"], strict=True))
        yield {
            **dict(zip(by, place, strict=True)), "chosen": _least(predicted),
            "fastest": _least(measured), "regret": regret(predicted, measured),
        }  # fmt: skip


def _least(seconds: Mapping[str, float]) -> str:
    """Return the name with the least time; of a tie all names."""
    return " or ".join(name for name, time in seconds.items() if time == min(seconds.values()))


def _worst(kernels: pd.DataFrame) -> Table:
    missed = (kernels["predicted_s"] - kernels["measured_s"]).abs()
    own = kernels.loc[missed.sort_values(ascending=False, kind="stable").index[:_MOST_WORST]]
    parts = [name for name in own if str(name).startswith(_PARTS)]
    shown = own[list(_NAMES)].copy()
    shown["kernel"] = own["layer"].fillna(own["kernel"]) if "layer" in own else own["kernel"]
    shown["measured"], shown["spread"] = own["measured_s"] * 1e6, _column(own, "spread")
    shown["predicted"] = own["predicted_s"] * 1e6
    shown["error"] = own["predicted_s"] / own["measured_s"] - 1
    for name in parts:
        shown[str(name).removeprefix(_PARTS)] = own[name].astype(float) * 1e6
    micro = {str(name).removeprefix(_PARTS): (f"{str(name).removeprefix(_PARTS)} [µs]", significant) for name in parts}
    return table_of(shown, {**_WORST, **micro})


def _signed(value: float) -> str:
    return f"{value:+.1%}"


def _one_digit(share: float) -> str:
    return f"{share:.1%}"


_QUALITY: dict[str, tuple[str, Format]] = {
    "measured": ("measured [ms]", significant), "spread": ("spread", _one_digit),
    "predicted": ("predicted [ms]", significant),
    "error": ("error", _signed), "mape": ("mean error of kernels", percent), "spearman": ("Spearman", significant),
    "kendall": ("Kendall", significant),
}  # fmt: skip
_CHOICES: dict[str, tuple[str, Format]] = {"regret": ("regret", percent)}
_WORST: dict[str, tuple[str, Format]] = {
    "measured": ("measured [µs]", significant), "spread": ("spread", _one_digit),
    "predicted": ("predicted [µs]", significant),
    "error": ("error", _signed),
}  # fmt: skip


@house_style
def measured_scatter(kernels: pd.DataFrame, looks: Looks, figure_id: str) -> Markup:
    """Draw predicted over measured times of kernels, a panel per network, on common axes."""
    networks = names_in(kernels, "network")
    columns = min(_COLUMNS, len(networks))
    legend = [marker_entry(look, name) for name, look in looks.items()]
    margins = Margins(left=70, bottom=50)
    figure, all_axes = panels(len(networks), columns, (WIDTH / _COLUMNS, 320), margins, legend)
    micro = kernels[["measured_s", "predicted_s"]].to_numpy(float) * 1e6
    ends = float(np.nanmin(micro)) / 1.5, float(np.nanmax(micro)) * 1.5
    for axes, network in zip(all_axes, networks, strict=True):
        axes.plot(ends, ends, color=MUTED, linewidth=1.2, zorder=1)
        for name, look in looks.items():
            own = kernels.loc[(kernels["network"] == network) & (kernels["policy"] == name)]
            axes.plot(
                own["measured_s"].to_numpy(float) * 1e6, own["predicted_s"].to_numpy(float) * 1e6, linestyle="none",
                color=look.colour, marker=look.marker, markersize=6, markeredgecolor=PAPER, markeredgewidth=0.6,
                zorder=2,
            )  # fmt: skip
        _log_axes(axes, ends)
        axes.set_title(clipped(network, 40))
        axes.set_ylabel("predicted [µs]")
        axes.set_xlabel("measured [µs]")
    return to_panels(figure, margins, figure_id, "Predicted over measured time of every kernel, for each network")


def _log_axes(axes: Axes, ends: Sequence[float]) -> None:
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=7))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.tick_params(axis="both", labelcolor=INK)
