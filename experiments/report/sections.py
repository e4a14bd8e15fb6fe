"""The sections of a report: figures and tables by kind of study, with their captions."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations

import pandas as pd

from dsascape.experiments.question.points import SIZES
from dsascape.experiments.report.canvas import clipped
from dsascape.experiments.report.curves import latency_curves, trade_offs
from dsascape.experiments.report.frames import (
    best_points,
    cut,
    evenly,
    feasible,
    influence,
    names_in,
    pareto_front,
    ranked,
    ratio_summary,
    shared_values,
    speedups,
    tied_with,
    usable,
)
from dsascape.experiments.report.installed_sections import installed_sections
from dsascape.experiments.report.language_section import language_section
from dsascape.experiments.report.layout import Evaluation, Figure, Section
from dsascape.experiments.report.leading import source_of, with_leading_source
from dsascape.experiments.report.machines import ranking_figures
from dsascape.experiments.report.measured_section import measured_sections
from dsascape.experiments.report.phones import at_both_widths
from dsascape.experiments.report.plots import speedup_bars
from dsascape.experiments.report.run_sections import (
    bounds_section,
    critical_sections,
    layers_section,
    roofline_section,
    timelines_section,
    traffic_section,
    utilisation_section,
)
from dsascape.experiments.report.search_section import best_machine_figures, search_figures
from dsascape.experiments.report.tables import (
    RATIO_FORMATS,
    count_formats,
    figure_formats,
    quantity_formats,
    table_of,
    winner_heats,
)
from dsascape.experiments.report.what_if_section import what_if_section
from dsascape.experiments.report.words import TIMES, by_magnitude, enumeration, meaning, times
from dsascape.wording import count

EVERYWHERE = "all networks"
GRID = "grid"
"""The search method that runs all points."""
_MOST_OF_FRONT = 200
_NO_BASE = (
    "The unmodified base machine is not among the points that ran, so nothing is compared with it; a sweep over values"
    " that include those of the base compares."
)
_BASE_UNKNOWN = (
    "These results do not say which points are on the unmodified base machine, so nothing is compared with it; run the"
    " experiment again for that."
)


def sections_of(evaluation: Evaluation) -> list[Section]:
    """Return the non-empty sections of the study's report."""
    ran = not usable(evaluation.points).empty
    search = evaluation.study.search != GRID
    lead = with_leading_source(evaluation)
    front = tuple(_front(lead)) if ran else ()
    sections = [
        Section("best", "The best machine", tuple(best_machine_figures(evaluation)), source_of(lead.every)),
        Section("front", "The front", front if search else (), source_of(lead.every)),
        Section("search", "The search", tuple(search_figures(evaluation)), source_of(lead.every)),
        Section("machines", "Machines ranked", tuple(ranking_figures(lead)), source_of(lead.every)),
        Section("fastest", "Fastest points", _fastest(lead) if ran else (), source_of(lead.every)),
        Section("speedup", "Policies compared", _speedups(lead) if ran else (), source_of(lead.every)),
        Section("sweep", "Over the sweep", (*_curves(lead), *_winners(lead)) if ran else (), source_of(lead.every)),
        Section("language", "Tokens", tuple(language_section(evaluation)) if ran else ()),
        Section("base", "Against the base machine", tuple(_against_base(lead)) if ran else (), source_of(lead.every)),
        Section("measured", "Predicted beside measured", tuple(measured_sections(evaluation)) if ran else (), ""),
        Section("critical", "Where the latency goes", tuple(critical_sections(evaluation)) if ran else ()),
        Section("roofline", "Roofline", tuple(roofline_section(evaluation)) if ran else ()),
        Section("bounds", "What the points were bound by", tuple(bounds_section(evaluation)) if ran else ()),
        Section("traffic", "Traffic", tuple(traffic_section(evaluation)) if ran else ()),
        Section("utilisation", "Utilisation", tuple(utilisation_section(evaluation)) if ran else ()),
        Section("layers", "Layer by layer", tuple(layers_section(evaluation.study.layers))),
        Section(
            "tradeoffs", "Trade-offs", (*(() if search else front), *_trade_offs(lead)) if ran else (),
            source_of(lead.every),
        ),
        what_if_section(evaluation.study.what_if),
        Section("timelines", "Timelines", tuple(timelines_section(evaluation.study.timelines, evaluation.study.units))),
        *installed_sections(evaluation),
    ]
    return [section for section in sections if section.figures]


def _front(evaluation: Evaluation) -> Iterator[Figure]:
    """Yield the Pareto front of the objectives, of points that keep the constraints."""
    every = feasible(evaluation.points)
    objectives = [name for name in evaluation.study.objectives if name in every]
    numeric = [name for name in objectives if pd.api.types.is_numeric_dtype(every[name])]
    ran = every.dropna(subset=numeric)
    if ran.empty or not numeric or (len(numeric) == 1 and evaluation.study.search == GRID):
        return
    parts = [own.loc[pareto_front(own, numeric)] for _, own in ran.groupby("network", sort=False)]
    front = pd.concat([own.sort_values(numeric[0], kind="stable") for own in parts])
    shown = front.iloc[evenly(len(front), _MOST_OF_FRONT)]
    table = shown[["network", "policy", *evaluation.axes, *numeric, "bottleneck"]]
    source = source_of(evaluation.every)
    words = enumeration([meaning(name, source)[0] for name in numeric])
    some = f" {len(shown)} of them are listed." if len(shown) < len(front) else ""
    caption = (
        f"No other point of the network that was tried{_kept(evaluation)} is as good in {words} and better in one of"
        f" them ({len(front):,} of {count(len(ran), 'point')}).{some}"
    )
    formats = figure_formats(table, numeric, source)
    yield Figure(caption, tables=(table_of(table.rename(columns={"bottleneck": "bound by"}), formats),))


def _fastest(evaluation: Evaluation) -> tuple[Figure, ...]:
    best = best_points(evaluation.points)
    names = [
        name for name in ("latency_s", "throughput_per_s", "energy_j", "area_mm2") if best[name].notna().any()
    ]
    if (best["expected_latency_s"] > best["latency_s"]).any():
        names.insert(1, "expected_latency_s")
    if (best["clock_share"] < 1).any():
        names.append("clock_share")
    table = best[["network", "policy", *evaluation.axes, *names, "bottleneck"]]
    source = source_of(evaluation.every)
    formats = figure_formats(table, names, source)
    ties = tied_with(evaluation.points, best)
    told = ""
    if any(ties):
        table = table.assign(tied=ties)
        formats |= {"tied": ("tied with", lambda value: f"{count(int(value), 'other point')}" if value else "none")}
        told = " Of points with an equal latency the first one tried is shown."
    shown = table_of(table.rename(columns={"bottleneck": "bound by"}), formats)
    over = _kept(evaluation).removeprefix(" and ") or "over everything tried"
    caption = f"The point of least {source} latency of each network, {over}.{told}"
    return (Figure(caption, tables=(shown,)),)


def _kept(evaluation: Evaluation) -> str:
    """Return the part of a caption that says which points are compared; empty if there are no constraints."""
    kept = enumeration(list(evaluation.study.constraints))
    return f" and keeps {kept}" if kept else ""


def _speedups(evaluation: Evaluation) -> tuple[Figure, ...]:
    others = [policy for policy in evaluation.looks if policy != evaluation.baseline]
    ratios = speedups(evaluation.points, evaluation.baseline, evaluation.axes)
    ratios = ratios.loc[ratios["policy"].isin(others)]
    if ratios.empty:
        return ()
    summary = ratio_summary(ratios, ["network", "policy"])
    networks = ranked(summary, "network", "geomean")
    overall = ratio_summary(ratios.assign(network=EVERYWHERE), ["network", "policy"])
    policies = ranked(overall, "policy", "geomean")
    if len(networks) > 1:
        summary = pd.concat([summary, overall])
        networks.append(EVERYWHERE)
    whiskers = " Whiskers reach from the least to the greatest." if (summary["points"] > 1).any() else ""
    mean = f": geometric mean over the sweep.{whiskers}" if whiskers else "."
    source = source_of(evaluation.every)
    over = f"{source} speed-up over {clipped(evaluation.baseline, 30)}"
    draw = partial(speedup_bars, summary, networks, policies, evaluation.looks, over)
    caption = (
        f"How many times as fast each policy is as {evaluation.baseline}, {source}{mean} The largest gain comes first."
    )
    return (Figure(caption, svg=at_both_widths(draw, "speedups"), numbers=table_of(summary, RATIO_FORMATS)),)


def _against_base(evaluation: Evaluation) -> Iterator[Figure]:
    """Yield the comparison with the same network and policy on the base machine."""
    swept = [axis for axis in evaluation.axes if axis not in (*SIZES, "hardware")]
    if not swept:
        return
    ratio = evaluation.against_base.reindex(usable(evaluation.points).index).dropna()
    if ratio.empty:
        yield Figure(_NO_BASE if evaluation.every["is_base"].notna().any() else _BASE_UNKNOWN)
        return
    compared = evaluation.points.loc[ratio.index].assign(speedup=ratio)
    compared = compared.assign(
        base_s=compared["latency_s"] * ratio,
        at=[", ".join(values) for values in compared[swept].itertuples(index=False, name=None)],
    )
    ends = compared.sort_values("speedup", kind="stable").groupby(["network", "policy"], sort=False)
    table = ends.agg(
        points=("speedup", "size"), base=("base_s", "first"),
        most=("speedup", "last"), most_at=("at", "last"), least=("speedup", "first"), least_at=("at", "first"),
    ).reset_index()  # fmt: skip
    order = [*evaluation.looks, *names_in(evaluation.points, "network")]
    for column in ("policy", "network"):
        table = table.sort_values(column, key=lambda names: names.map(order.index), kind="stable")
    table = table.rename(columns={"base": "base latency", "most_at": "most at", "least_at": "least at"})
    formats = {
        **count_formats(["points"]), **quantity_formats(table, ["base latency"], "s"),
        "most": ("speed-up, most", times), "least": ("speed-up, least", times),
    }  # fmt: skip
    yield Figure(
        f"{source_of(evaluation.every).capitalize()} latency on the unmodified base machine over the latency of the"
        " point, with the same network and policy:"
        f" above 1{TIMES} the change pays. Values are those of {enumeration(swept)}; the table of all points has the"
        " figure of each.",
        tables=(table_of(table, formats),),
    )


def _curves(evaluation: Evaluation) -> Iterator[Figure]:
    for number, (axis, stated) in enumerate(evaluation.axes.items()):
        if axis == "hardware":  # ranked in a chart of their own
            continue
        line = cut(evaluation.points, evaluation.axes, [axis])
        if line.empty:
            continue
        in_order, source = by_magnitude(stated), source_of(evaluation.every)
        values = in_order or stated  # categories have no order along which a line could lead
        joined = bool(in_order) and shared_values(line, evaluation.axes, [axis]) is not None
        wide = line.pivot_table(index=["network", "policy"], columns=axis, values="latency_s", sort=False)
        wide = wide.reindex(columns=list(values)).reset_index()
        yield Figure(
            f"{source.capitalize()} latency over {axis}. {_held(line, evaluation, [axis])}",
            svg=latency_curves(
                line, axis, values, evaluation.looks, f"curve{number}", joined=joined, drawn=("latency_s", source)
            ),
            numbers=table_of(wide, quantity_formats(wide, values, "s")),
        )


def _winners(evaluation: Evaluation) -> Iterator[Figure]:
    """Yield the fastest policy over the two most influential axes."""
    axes = evaluation.axes
    factors = influence(evaluation.points, axes)
    chosen = sorted(axes, key=lambda axis: -factors.get(axis, 0))[:2]
    for down, across in combinations([axis for axis in axes if axis in chosen], 2):
        plane = cut(evaluation.points, axes, [down, across])
        if plane.empty:
            continue
        source = source_of(evaluation.every)
        heats = winner_heats(plane, (down, across), evaluation.baseline, axes, evaluation.looks, source)
        several = len(evaluation.looks) > 1
        told = (
            f"The fastest policy by {source} latency, and its speed-up over {evaluation.baseline}; stronger tint,"
            " greater gain; several marks, a tie."
            if several
            else f"{source.capitalize()} latency; stronger tint, shorter time."
        )
        most = " These two quantities move latency most." if len(factors) == len(axes) > len(chosen) else ""
        yield Figure(
            f"{told}{most} {_held(plane, evaluation, [down, across])}",
            tables=tuple(heats),
            legend=evaluation.looks if several else None,
        )


def _trade_offs(evaluation: Evaluation) -> Iterator[Figure]:
    ran = usable(evaluation.points)
    objectives = [name for name in evaluation.study.objectives if name in ran and ran[name].nunique() > 1]
    numeric = [name for name in objectives if pd.api.types.is_numeric_dtype(ran[name])]
    for number, other in enumerate(numeric[1:]):
        pair = (numeric[0], other)
        complete = ran.dropna(subset=list(pair))
        kept = complete.loc[complete["violates"] == ""]
        fronts = [pareto_front(own, pair) for _, own in kept.groupby("network", sort=False)]
        front = kept.loc[pd.concat(fronts).reindex(kept.index)] if fronts else kept
        table = front.iloc[evenly(len(front), _MOST_OF_FRONT)][["network", "policy", *evaluation.axes, *pair]]
        drawn_points = complete.loc[complete.index.isin(evaluation.embedded.index)]
        some = f" The drawing has {count(len(drawn_points), 'point')}." if len(drawn_points) < len(complete) else ""
        source = source_of(evaluation.every)
        words = [meaning(name, source)[0] for name in pair]
        yield Figure(
            f"{words[0].capitalize()} against {words[1]}. Ringed and joined: no other point of the network is"
            f" as good in both and better in one ({len(front):,} of {count(len(complete), 'point')}).{some}",
            svg=trade_offs(drawn_points, pair, evaluation.looks, f"tradeoff{number}", words),
            numbers=table_of(table, figure_formats(table, pair, source)),
        )


def _held(rows: pd.DataFrame, evaluation: Evaluation, shown: Sequence[str]) -> str:
    """Return the part of a caption that says where the hidden axes are held in these rows."""
    held = shared_values(rows, evaluation.axes, shown)
    if held is None:
        return "The rest is not held: shown is the fastest point tried with each value, whatever else it has."
    return "Held: " + ", ".join(f"{axis} = {value}" for axis, value in held.items()) + "." if held else ""


