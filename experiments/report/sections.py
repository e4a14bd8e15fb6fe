"""The sections of a report: which figures and tables a study calls for, and what their captions say."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import pandas as pd

from experiments.report.canvas import looks_for
from experiments.report.curves import latency_curves, trade_offs
from experiments.report.frames import (
    best_points,
    bound_by,
    cut,
    figures,
    influence,
    means,
    names_in,
    pareto_front,
    ratio_summary,
    shared_values,
    speedups,
    usable,
)
from experiments.report.gantt import busy_shares, categories_in, gantt_chart, thinned
from experiments.report.layout import Evaluation, Figure, Section
from experiments.report.plots import bound_bars, speedup_bars, traffic_bars
from experiments.report.study import Timeline
from experiments.report.tables import (
    RATIO_FORMATS,
    count_formats,
    figure_formats,
    quantity_formats,
    share_heat,
    table_of,
    winner_heats,
)
from experiments.report.words import count, meaning, percent

EVERYWHERE = "all networks"
_LONGEST_LAYERS = 12
"""That are shown at once."""


def sections_of(evaluation: Evaluation) -> list[Section]:
    """Return the sections that the study has something to say in."""
    ran = not usable(evaluation.points).empty
    made = [
        Section("fastest", "Fastest points", _fastest(evaluation) if ran else ()),
        Section("speedup", "Policies compared", _speedups(evaluation) if ran else ()),
        Section("sweep", "Over the sweep", (*_curves(evaluation), *_winners(evaluation)) if ran else ()),
        Section("traffic", "Traffic", tuple(_traffic(evaluation)) if ran else ()),
        Section("utilisation", "Utilisation", tuple(_utilisation(evaluation)) if ran else ()),
        Section("bounds", "What the points were bound by", tuple(_bounds(evaluation)) if ran else ()),
        Section("layers", "Layer by layer", tuple(_layers(evaluation.study.layers))),
        Section("tradeoffs", "Trade-offs", tuple(_trade_offs(evaluation)) if ran else ()),
        Section("timeline", "Timeline", tuple(_timelines(evaluation.study.timelines))),
    ]
    return [section for section in made if section.figures]


def _fastest(evaluation: Evaluation) -> tuple[Figure, ...]:
    best = best_points(evaluation.points)
    names = [
        name for name in ("latency_s", "throughput_per_s", "energy_j", "area_mm2") if best[name].notna().any()
    ]
    table = best[["network", "policy", *evaluation.axes, *names, "bottleneck"]]
    shown = table_of(table.rename(columns={"bottleneck": "bound by"}), figure_formats(table, names))
    return (Figure("The point of least latency of each network, over everything tried.", tables=(shown,)),)


def _speedups(evaluation: Evaluation) -> tuple[Figure, ...]:
    others = [policy for policy in evaluation.looks if policy != evaluation.baseline]
    ratios = speedups(evaluation.points, evaluation.baseline, evaluation.axes)
    ratios = ratios.loc[ratios["policy"].isin(others)]
    if ratios.empty:
        return ()
    summary = ratio_summary(ratios, ["network", "policy"])
    networks = list(names_in(summary, "network"))
    if len(networks) > 1:
        summary = pd.concat(
            [summary, ratio_summary(ratios.assign(network=EVERYWHERE), ["network", "policy"])]
        )
        networks.append(EVERYWHERE)
    drawing = speedup_bars(summary, networks, others, evaluation.baseline, evaluation.looks, "speedup")
    whiskers = " Whiskers reach from the least to the greatest." if (summary["points"] > 1).any() else ""
    mean = f": geometric mean over the sweep.{whiskers}" if whiskers else "."
    caption = f"How many times as fast each policy is as {evaluation.baseline}{mean}"
    return (Figure(caption, svg=drawing, numbers=table_of(summary, RATIO_FORMATS)),)


def _curves(evaluation: Evaluation) -> Iterator[Figure]:
    for number, (axis, values) in enumerate(evaluation.axes.items()):
        line = cut(evaluation.points, evaluation.axes, [axis])
        if line.empty:
            continue
        joined = shared_values(line, evaluation.axes, [axis]) is not None
        wide = line.pivot_table(index=["network", "policy"], columns=axis, values="latency_s", sort=False)
        wide = wide.reindex(columns=list(values)).reset_index()
        yield Figure(
            f"Latency over {axis}. {_held(line, evaluation, [axis])}",
            svg=latency_curves(line, axis, values, evaluation.looks, f"curve{number}", joined=joined),
            numbers=table_of(wide, quantity_formats(wide, values, "s")),
        )


def _winners(evaluation: Evaluation) -> Iterator[Figure]:
    """Show the fastest policy over the two axes that move latency most."""
    axes = evaluation.axes
    factors = influence(evaluation.points, axes)
    chosen = sorted(axes, key=lambda axis: -factors.get(axis, 0))[:2]
    for down, across in combinations([axis for axis in axes if axis in chosen], 2):
        plane = cut(evaluation.points, axes, [down, across])
        if plane.empty:
            continue
        heats = winner_heats(plane, (down, across), evaluation.baseline, axes, evaluation.looks)
        several = len(evaluation.looks) > 1
        told = (
            f"The fastest policy, and its speed-up over {evaluation.baseline}; stronger tint, greater gain."
            if several
            else "Latency; stronger tint, shorter time."
        )
        most = " These two quantities move latency most." if len(factors) == len(axes) > len(chosen) else ""
        yield Figure(
            f"{told}{most} {_held(plane, evaluation, [down, across])}",
            tables=tuple(heats),
            legend=evaluation.looks if several else None,
        )


def _traffic(evaluation: Evaluation) -> Iterator[Figure]:
    """Bytes moved, and where tensors were kept."""
    policies = list(evaluation.looks)
    traffic = means(evaluation.points, "traffic_bytes.")
    memories = [name for name in map(str, traffic) if name not in ("network", "policy")]
    if memories:
        yield Figure(
            f"Bytes moved at each memory{_mean(evaluation)}.",
            svg=traffic_bars(traffic, names_in(traffic, "network"), policies, evaluation.looks, "traffic"),
            numbers=table_of(traffic, quantity_formats(traffic, memories, "B")),
        )
    scopes = means(evaluation.points, "tensor_scopes.").set_index(["network", "policy"])
    if scopes.size:
        shares = scopes.div(scopes.sum(axis="columns"), axis="index").reset_index()
        yield Figure(
            f"Where outputs of kernels were kept: share of their number{_mean(evaluation)}.",
            tables=(share_heat(shares, ["network", "policy"]),),
        )
    peaks = means(evaluation.points, "peak_occupancy_bytes.")
    held = [name for name in map(str, peaks) if name not in ("network", "policy")]
    if held:
        table = table_of(peaks, quantity_formats(peaks, held, "B"))
        yield Figure(f"Most bytes held at once in each memory{_mean(evaluation)}.", numbers=table)


def _utilisation(evaluation: Evaluation) -> Iterator[Figure]:
    shares = means(evaluation.points, "utilisation.")
    if shares.shape[1] > len(("network", "policy")):
        caption = f"Share of the time that each unit is busy{_mean(evaluation)}."
        yield Figure(caption, tables=(share_heat(shares, ["network", "policy"]),))


def _bounds(evaluation: Evaluation) -> Iterator[Figure]:
    waits = means(evaluation.points, "critical.")
    if waits.shape[1] > len(("network", "policy")):
        caption = f"What the critical path waited for: share of the latency{_mean(evaluation)}."
        yield Figure(caption, tables=(share_heat(waits, ["network", "policy"]),))
    grouped = ["policy", "network", *evaluation.axes]
    counts = [(f"by {name}", bound_by(evaluation.points, name)) for name in grouped]
    counts = [
        (title, table)
        for number, (title, table) in enumerate(counts)
        if table.size and (not number or len(table) > 1)
    ]
    if counts:
        kinds = [str(kind) for kind in counts[0][1]]
        told = pd.concat(
            [
                table.rename_axis(index="value", columns=None).reset_index().assign(group=title)
                for title, table in counts
            ]
        )
        yield Figure(
            "The bottleneck of each point: numbers of points, and their share.",
            svg=bound_bars(counts, looks_for(kinds), "bounds"),
            numbers=table_of(told[["group", "value", *kinds]], count_formats(kinds)),
        )


def _layers(points: Sequence[tuple[str, pd.DataFrame]]) -> Iterator[Figure]:
    """Show where the time of a point goes: its longest layers, and all of them in order."""
    for title, layers in points:
        memories = [str(name) for name in layers if str(name).startswith("traffic_bytes.")]
        table = layers.assign(**{name: figures(layers[name]) for name in ("runs", "critical_s", *memories)})
        memories = [name for name in memories if table[name].notna().any()]
        table = table.assign(share=table["critical_s"] / table["critical_s"].sum())
        named = {name: name.removeprefix("traffic_bytes.") for name in memories}
        table = table[["layer", "runs", "critical_s", "share", "limited_by", *memories]].rename(
            columns={**named, "critical_s": "critical time", "limited_by": "limited by"}
        )
        formats = {
            **count_formats(["runs"]), **quantity_formats(table, ["critical time"], "s"),
            "share": ("share", percent), **quantity_formats(table, named.values(), "B"),
        }  # fmt: skip
        longest = table.sort_values("critical time", ascending=False, kind="stable").head(_LONGEST_LAYERS)
        some = "the layers that take most of the critical path" if len(longest) < len(table) else "its layers"
        yield Figure(
            f"{title}: {some}. A layer's critical time is that in which something of it was on the critical path; all"
            " of them make the latency. What it moves at each memory, and what it is limited by.",
            tables=(table_of(longest, formats),),
            numbers=table_of(table, formats),
        )


def _trade_offs(evaluation: Evaluation) -> Iterator[Figure]:
    ran = usable(evaluation.points)
    known = [name for name in evaluation.study.objectives if name in ran and ran[name].nunique() > 1]
    numeric = [name for name in known if pd.api.types.is_numeric_dtype(ran[name])]
    for number, other in enumerate(numeric[1:]):
        pair = (numeric[0], other)
        complete = ran.dropna(subset=list(pair))
        fronts = [pareto_front(own, pair) for _, own in complete.groupby("network", sort=False)]
        front = complete.loc[pd.concat(fronts).reindex(complete.index)] if fronts else complete
        table = front[["network", "policy", *evaluation.axes, *pair]]
        words = [meaning(name)[0] for name in pair]
        yield Figure(
            f"{words[0].capitalize()} against {words[1]}. Ringed and joined: no other point of the network is"
            f" as good in both and better in one ({len(front):,} of {count(len(complete), 'point')}).",
            svg=trade_offs(complete, pair, evaluation.looks, f"tradeoff{number}"),
            numbers=table_of(table, figure_formats(table, pair)),
        )


def _timelines(timelines: Sequence[Timeline]) -> Iterator[Figure]:
    drawn = [timeline for timeline in timelines if timeline.lanes]
    if drawn:
        shown = thinned(drawn)
        notes = [
            "All on one scale of time." if len(drawn) > 1 else "",
            "Neighbours of one kind that lie less than a pixel apart are drawn as one."
            if shown.merged
            else "",
            "Only the first part is drawn; the whole has too many pieces to be told apart."
            if shown.zoomed
            else "",
        ]
        shares = busy_shares(drawn)
        yield Figure(
            " ".join(["What each unit did when.", *(note for note in notes if note)]),
            svg=gantt_chart(shown, categories_in(drawn), "timeline"),
            numbers=share_heat(shares, ["timeline", "unit"]),
        )


def _held(rows: pd.DataFrame, evaluation: Evaluation, shown: Sequence[str]) -> str:
    """Say in a caption what the axes that are not shown are in these rows."""
    held = shared_values(rows, evaluation.axes, shown)
    if held is None:
        return "The rest is not held: shown is the fastest point tried with each value, whatever else it has."
    return "Held: " + ", ".join(f"{axis} = {value}" for axis, value in held.items()) + "." if held else ""


def _mean(evaluation: Evaluation) -> str:
    """Say in a caption how points became one figure for each network and policy."""
    ran = usable(evaluation.points)
    if not ran.duplicated(["network", "policy"]).any():
        return ""
    return ", mean over the sweep" if len(ran) == len(evaluation.points) else ", mean over the points that ran"
