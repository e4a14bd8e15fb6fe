"""Machines ranked by latency, across dtypes: one bar for each, with its power, its area, and whose code runs.

A machine stands with its fastest point of each workload (a network at its sizes, in whatever dtype), and is ranked if
it ran all of them; the figure of several workloads is their geometric mean. Machines that lack one are named with the
reason.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.patches import Patch

from dsascape.experiments.question.points import SIZES
from dsascape.experiments.report.canvas import (
    BAR_PX,
    HATCH,
    INK,
    MUTED,
    PAPER,
    WIDTH,
    Look,
    Margins,
    Spot,
    clipped,
    house_style,
    panels,
    patch_entry,
    text_width,
    to_svg,
)
from dsascape.experiments.report.curves import spread, value_scale
from dsascape.experiments.report.frames import Axes, failed, feasible, names_in, usable
from dsascape.experiments.report.layout import Evaluation, Figure
from dsascape.experiments.report.leading import source_of
from dsascape.experiments.report.looks import policy_looks
from dsascape.experiments.report.phones import at_both_widths
from dsascape.experiments.report.tables import Cell, Table
from dsascape.experiments.report.words import (
    MEASURED,
    enumeration,
    meaning,
    quantity,
    scale_of,
    setting,
    significant,
    speed_words,
    times,
)
from dsascape.wording import count

UNKNOWN = "unknown"
_ROW_PX, _TALL_ROW_PX = 23, 42
_LOG_FROM_RATIO = 60
_MOST_DRAWN = 60
_MOST_WORKLOADS = 6
"""Most workloads with a column each."""
_LONGEST_NAME = 32
_COLUMNS = {"dtype": 46, "power": 74, "area": 82, "libraries' code": 118}
"""Widths in pixels of the columns of text behind the bars."""
_MEANS = ("latency_s", "expected_latency_s", "power_w")


@dataclass(frozen=True, slots=True)
class Ranking:
    """Machines of a study, the fastest first, and those that are not ranked."""

    machines: pd.DataFrame
    """One row per machine: ``hardware``, ``latency_s``, ``expected_latency_s`` and ``power_w`` (geometric means over
    the workloads), ``area_mm2``, ``dtype``, ``policy``, ``at``, ``bottleneck``, ``number`` (of a lone point, else -1),
    and the latency of each workload under its name."""
    workloads: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    """(machine, reason) of those that did not run all workloads."""


def ranking(points: pd.DataFrame, axes: Axes) -> Ranking | None:
    """Return the ranked machines of prepared points; None for a study of one machine."""
    names = names_in(points, "hardware")
    if not names[1:]:
        return None
    label = points["workload"]
    for size in (each for each in SIZES if each in axes):
        label = label + points[size].map(lambda value, size=size: f" ({size} {value})" if value else "")
    labelled = points.assign(workload=label)
    workloads = names_in(usable(labelled), "workload")
    ran = feasible(labelled).sort_values("latency_s", kind="stable").drop_duplicates(["hardware", "workload"])
    settings = [axis for axis in axes if axis != "hardware" and axis not in SIZES]
    rows, left_out = [], []
    for name in names:
        own = ran.loc[ran["hardware"] == name]
        if workloads and len(own) == len(workloads):
            rows.append(_row(name, own, settings))
        else:
            left_out.append((name, _reason(points.loc[points["hardware"] == name], len(own), len(workloads))))
    machines = pd.DataFrame(rows, columns=None if rows else ["hardware", *_MEANS, "area_mm2"])
    return Ranking(machines.sort_values("latency_s", kind="stable"), workloads, tuple(left_out))


def _row(name: str, own: pd.DataFrame, settings: Sequence[str]) -> dict[str, object]:
    """Return a machine's row from its fastest point of every workload."""
    at = [setting(row, [axis for axis in settings if row[axis]]) for _, row in own.iterrows()]
    return {
        "hardware": name, **{figure: _geometric_mean(own[figure]) for figure in _MEANS},
        "area_mm2": float(own["area_mm2"].iloc[0]), "at": "; ".join(dict.fromkeys([each for each in at if each])),
        **{column: ", ".join(sorted(set(own[column]))) for column in ("dtype", "policy", "bottleneck")},
        "number": int(own.index[0]) if len(own) == 1 else -1,
        **dict(zip(own["workload"], own["latency_s"], strict=True)),
    }  # fmt: skip


def _geometric_mean(figures: pd.Series) -> float:
    """Return the geometric mean of positive figures; not a number where one is missing."""
    values = figures.to_numpy(dtype=float)
    return float(np.exp(np.log(values).mean())) if (values > 0).all() else float("nan")


def _reason(own: pd.DataFrame, ran: int, workloads: int) -> str:
    """Return why a machine has no figure of every workload."""
    reasons = [str(error) or "no latency" for error in failed(own)["error"]]
    reasons += [f"does not keep {limit}" for limit in own["violates"] if limit]
    reasons += ["was not tried with all networks"]
    return f"{f'ran {ran} of {workloads}: ' if ran else ''}{reasons[0]}"


def machine_sentence(points: pd.DataFrame, axes: Axes) -> str:
    """Return the sentence that names the fastest machine; empty where fewer than two can be compared."""
    ranked = ranking(points, axes)
    if ranked is None or len(ranked.machines) <= 1:
        return ""
    latencies = ranked.machines["latency_s"].to_numpy(dtype=float)
    names = list(ranked.machines["hardware"])
    tied = [name for name, each in zip(names, latencies, strict=True) if each <= latencies[0] * (1 + 1e-9)]
    several = ranked.workloads[1:]
    of_all = f" that ran {'all' if several else 'it'}" if ranked.left_out else ""
    mean = f" in the geometric mean over {count(len(ranked.workloads), 'network')}" if several else ""
    verb = "are" if tied[1:] else "is"
    relation = f"{enumeration(tied)} {verb} the fastest of {count(len(names), 'machine')}{of_all}"
    behind = [*dict.fromkeys([len(tied), len(names) - 1])] if len(tied) < len(names) else []
    told = [speed_words(latencies[at] / latencies[0], latencies[at] / latencies[0], names[at]) for at in behind]
    told = [f"{words}, {role}" for words, role in zip(told, ("the next", "the slowest"), strict=False)]
    return ", ".join([f"{relation}{mean}", *([", and ".join(told)] if told else [])]) + "."


def ranking_figures(evaluation: Evaluation) -> Iterator[Figure]:
    """Yield the chart of ranked machines with its table, and the machines that are not ranked."""
    ranked = ranking(evaluation.every, evaluation.axes)
    if ranked is None:
        return
    source, every = source_of(evaluation.every), ranked.machines
    if not every.empty:
        drawn = every.head(_MOST_DRAWN)
        looks = policy_looks(names_in(drawn, "policy"))
        draw = partial(_bars, drawn, looks, source)
        several = len(ranked.workloads) > 1
        mean = f", the geometric mean over {count(len(ranked.workloads), 'network')}" if several else ""
        best = " each with its fastest policy and setting," if _is_chosen(evaluation) else ""
        some = f" The fastest {_MOST_DRAWN} of {len(every)} are drawn." if len(every) > _MOST_DRAWN else ""
        scale = " The scale is logarithmic." if _is_wide(drawn) else ""
        yield Figure(
            f"Machines by {source} latency{mean},{best} in the dtype that each computes in.{scale}{some}"
            f" {_code_words(evaluation, source)} Power is the mean of the simulated run; area is that of the die, as"
            " far as the machine's file states it.",
            svg=at_both_widths(draw, "machines"), tables=(_table(ranked, evaluation, source),),
        )
    if ranked.left_out:
        rows = tuple([(Cell(name), Cell(reason)) for name, reason in ranked.left_out])
        yield Figure(
            f"Not ranked: {count(len(rows), 'machine')} without a figure of every network.",
            tables=(Table((Cell("machine"), Cell("reason")), rows),),
        )


def _is_chosen(evaluation: Evaluation) -> bool:
    """Return whether a machine has several points of a network, of which the fastest stands for it."""
    others = [axis for axis in evaluation.axes if axis != "hardware" and axis not in SIZES]
    return len(evaluation.looks) > 1 or bool(others)


def _code_words(evaluation: Evaluation, source: str) -> str:
    """Return the sentences of the caption that say whose code the latencies are of."""
    if source == MEASURED:
        return "Whose code runs: that which dsascape generates, measured on the device."
    tuned = evaluation.study.tuned
    ours = f"the tuned kernels in {tuned}, on the machine that they are of, else " if tuned else ""
    return (
        f"Whose code runs: {ours}what dsascape's own search chooses, a bound that good code comes near. Outlined: what"
        " the machine's file lets expect of the libraries' code; unknown where it does not say."
    )


def _is_wide(machines: pd.DataFrame) -> bool:
    return spread(machines["latency_s"]) > _LOG_FROM_RATIO


def _of_libraries(row: pd.Series) -> float:
    """Return the latency that is expected of libraries' code; not a number where the machine's file does not say."""
    expected = float(row["expected_latency_s"])
    return expected if expected > float(row["latency_s"]) else float("nan")


def _or_unknown(value: float, unit: str) -> str:
    return quantity(value, unit) if isfinite(value) and value > 0 else UNKNOWN


def _texts(row: pd.Series, source: str) -> dict[str, str]:
    """Return what stands behind a machine's bar."""
    texts = {
        "dtype": str(row["dtype"]), "power": _or_unknown(float(row["power_w"]), "W"),
        "area": _or_unknown(float(row["area_mm2"]), meaning("area_mm2")[1]),
    }  # fmt: skip
    return texts if source == MEASURED else texts | {"libraries' code": _or_unknown(_of_libraries(row), "s")}


@house_style
def _bars(
    machines: pd.DataFrame, looks: dict[str, Look], source: str, figure_id: str, width: float = WIDTH
) -> Markup:
    """Draw a bar per machine, the fastest first; names are above the bars if the drawing is narrower than the page."""
    above = width < WIDTH
    row_px = _TALL_ROW_PX if above else _ROW_PX
    divisor, unit = scale_of(machines["latency_s"], "s")
    names = [clipped(str(name), _LONGEST_NAME) for name in machines["hardware"]]
    texts = [_texts(row, source) for _, row in machines.iterrows()]
    columns = {} if above else {name: px for name, px in _COLUMNS.items() if name in texts[0]}
    is_told = "libraries' code" in texts[0]
    known = [_of_libraries(row) if is_told else float("nan") for _, row in machines.iterrows()]
    expected = pd.Series(known, machines.index)
    ends = machines["latency_s"].where(~(expected > machines["latency_s"]), expected) / divisor
    left = 8 if above else 24 + max(map(text_width, names))
    margins = Margins(left=left, right=76 + sum(columns.values()), top=8 if above else 30, bottom=44)
    legend = [patch_entry(look, name) for name, look in looks.items()] if len(looks) > 1 else []
    if expected.notna().any():
        legend = legend or [patch_entry(look, "dsascape's own code, a bound") for look in looks.values()]
        legend.append((Patch(facecolor=PAPER, edgecolor=MUTED, linewidth=1), "expected of libraries' code"))
    height = len(names) * row_px + margins.top + margins.bottom
    figure, (axes,) = panels(1, 1, (width, height), margins, legend)
    logarithmic = _is_wide(machines)
    value_scale(axes, "x", pd.concat([ends, machines["latency_s"] / divisor]), logarithmic=logarithmic, from_zero=True)
    floor = axes.get_xlim()[0] if logarithmic else 0.0
    spots = []
    for row, (_, machine) in enumerate(machines.iterrows()):
        latency, look = float(machine["latency_s"]) / divisor, looks[str(machine["policy"])]
        bar = partial(axes.barh, row, height=BAR_PX / row_px, left=floor)
        bar(ends.iloc[row] - floor, facecolor=PAPER, edgecolor=MUTED, linewidth=1)
        bar(latency - floor, color=look.colour, edgecolor=HATCH, hatch=look.hatch, linewidth=0)
        axes.annotate(
            quantity(float(machine["latency_s"]), "s"), (float(ends.iloc[row]), row), (6, 0),
            textcoords="offset points", va="center_baseline", annotation_clip=False,
        )  # fmt: skip
        offset = 76.0
        for name, px in columns.items():
            for place, text in ((row, texts[row][name]), *([(-1, name)] if row == 0 else [])):
                axes.annotate(
                    text, (1, place), (offset, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
                    va="center_baseline", color=MUTED if text in (UNKNOWN, name) else INK, annotation_clip=False,
                )  # fmt: skip
            offset += px
        if above:
            told = clipped(f"{names[row]}, {', '.join(list(texts[row].values())[:3])}", 48)
            axes.annotate(told, (floor, row), (0, BAR_PX / 2 + 4), textcoords="offset points", va="baseline")
        if int(machine["number"]) >= 0:
            spots.append(Spot(axes, floor, row, int(machine["number"]), latency))
    axes.set_yticks([] if above else range(len(names)), None if above else names)
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set(ylim=(len(names) - 0.4, -0.6), xlabel=f"{source} latency [{unit}]")
    axes.grid(visible=False, axis="y")
    return to_svg(figure, figure_id, "Machines, the fastest first", spots)


def _table(ranked: Ranking, evaluation: Evaluation, source: str) -> Table:
    """Return the table of ranked machines, with "unknown" for figures that nobody states."""
    machines = ranked.machines
    columns: list[tuple[Cell, Callable[[pd.Series], str]]] = [
        (Cell("machine"), lambda row: str(row["hardware"])), (Cell("dtype"), lambda row: str(row["dtype"])),
    ]  # fmt: skip
    if len(evaluation.looks) > 1:
        columns.append((Cell("policy"), lambda row: str(row["policy"])))
    if any(machines["at"]):
        columns.append((Cell("at"), lambda row: str(row["at"])))
    fastest = float(machines["latency_s"].iloc[0])
    figures = [("latency_s", f"{source} latency")]
    figures += [(name, name) for name in ranked.workloads] if 1 < len(ranked.workloads) <= _MOST_WORKLOADS else []
    for name, words in figures:
        divisor, unit = scale_of(machines[name], "s")
        mean = ", geometric mean" if name == "latency_s" and len(ranked.workloads) > 1 else ""
        told = partial(_divided, name, divisor)
        columns.append((Cell(f"{words}{mean} [{unit}]", numeric=True), told))
        if name == "latency_s":
            columns.append((Cell("times the fastest", numeric=True), lambda row: times(row["latency_s"] / fastest)))
    columns += [
        (Cell(name, numeric=name != "dtype"), partial(_text_of, name, source))
        for name in _texts(machines.iloc[0], source) if name != "dtype"
    ]  # fmt: skip
    columns.append((Cell("bound by"), lambda row: str(row["bottleneck"])))
    rows = tuple(
        tuple([Cell(told(row), numeric=heading.numeric) for heading, told in columns])
        for _, row in machines.iterrows()
    )
    return Table(tuple([heading for heading, _ in columns]), rows)


def _divided(name: str, divisor: float, row: pd.Series) -> str:
    return significant(float(row[name]) / divisor)


def _text_of(name: str, source: str, row: pd.Series) -> str:
    return _texts(row, source)[name]
