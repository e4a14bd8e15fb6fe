"""Report sections on the machine's behaviour: critical path, roofline, bottlenecks, traffic, layers, timelines."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from dsascape.experiments.report.critical import critical_bars, pace_shares, representative_points
from dsascape.experiments.report.frames import bound_by, figures, means, names_in, ranked, usable
from dsascape.experiments.report.gantt import Drawn, busy_shares, categories_in, drawn, gantt_chart
from dsascape.experiments.report.layout import Evaluation, Figure
from dsascape.experiments.report.looks import Units, kind_looks
from dsascape.experiments.report.phones import at_both_widths
from dsascape.experiments.report.plots import bound_bars, traffic_bars
from dsascape.experiments.report.roofline import MOST_ROOFS, roofline_chart, rooflines
from dsascape.experiments.report.tables import (
    Format,
    count_formats,
    figure_formats,
    linked,
    quantity_formats,
    share_heat,
    table_of,
)
from dsascape.experiments.report.words import HELD_BYTES, SIMULATED, enumeration, percent, significant
from dsascape.experiments.results.timeline import Timeline

_ROOF_WORDS = {"operations_per_s": "reached", "bound_per_s": "bound"}
_PERFETTO = "The whole run, to open in the Perfetto UI (ui.perfetto.dev)"
_MOST_BARS, _FEWEST_BARS = 60, 8
_MOST_NODES = 2
"""Largest number of nodes named of each end of a layer."""
_LONGEST_LAYERS = 12
"""Largest number of layers shown without unfolding."""


def critical_sections(evaluation: Evaluation) -> Iterator[Figure]:
    """Yield, per network, how long each resource was critical at its telling points."""
    ran = usable(evaluation.embedded)
    ran = ran.loc[ran["network"].isin(evaluation.points["network"])]
    shares = pace_shares(ran, evaluation.study.units)
    if shares.empty:
        return
    looks = kind_looks(map(str, shares))
    networks = names_in(ran, "network")
    for number, network in enumerate(networks):
        own = ran.loc[ran["network"] == network]
        chosen = representative_points(own, max(_FEWEST_BARS, _MOST_BARS // len(networks)))
        told = chosen[["policy", *evaluation.axes]].itertuples(index=False, name=None)
        labels = {int(number): ", ".join(values) for number, values in zip(chosen.index, told, strict=True)}
        seen = (shares.loc[chosen.index] > 0).any()
        own_looks = {kind: look for kind, look in looks.items() if seen[kind]}
        where = f" Behind the policy: {enumeration(list(evaluation.axes))}." if evaluation.axes else ""
        some = f" {len(chosen)} of {len(own)}, from the fastest to the slowest." if len(chosen) < len(own) else ""
        told_shares = shares[list(own_looks)].add_prefix("pace.")  # an axis may have the name of a unit, as launch does
        table = chosen[["policy", *evaluation.axes, "latency_s"]].join(told_shares).sort_values("latency_s")
        formats = {f"pace.{kind}": (kind, percent) for kind in own_looks}
        yield Figure(
            f"{network}: simulated latency by what set the pace on the critical path.{where}{some}",
            svg=at_both_widths(partial(critical_bars, chosen, shares, labels, own_looks), f"critical{number}"),
            numbers=table_of(table, {**figure_formats(table, ["latency_s"], SIMULATED), **formats}),
        )


def roofline_section(evaluation: Evaluation) -> Iterator[Figure]:
    """Yield the roofline: how much of the machine's peak is reached."""
    points = rooflines(evaluation.embedded)
    points = points.loc[points["network"].isin(evaluation.points["network"])]
    if points.empty:
        return
    best = points.sort_values("latency_s", kind="stable").drop_duplicates(["network", "policy"]).sort_index()
    ends = points.groupby(["network", "policy"], sort=False)["share"].agg(["min", "max"]).reset_index()
    measured = ["intensity", "operations_per_s", "bound_per_s", "limit", "share"]
    table = best[["network", "policy", *evaluation.axes, *measured]].merge(ends, on=["network", "policy"])
    formats = {
        **quantity_formats(table, ["intensity"], ""), "intensity": ("operations per byte", significant),
        **_renamed(quantity_formats(table, ["operations_per_s", "bound_per_s"], "op/s"), _ROOF_WORDS),
        "share": ("share of the bound", percent), "min": ("least share", percent), "max": ("greatest share", percent),
    }  # fmt: skip
    roofs = len(points[["peak_per_s", "off_chip_bytes_per_s"]].drop_duplicates())
    which = "machines of the sweep" if roofs <= MOST_ROOFS else "the least and the greatest machine"
    lines = f"lines are {which}" if roofs > 1 else "the line is the machine"
    yield Figure(
        "Operations per second over operations per byte that crosses off-chip memory; a multiply-accumulate is two"
        f" operations. Nothing lies above the roof of its machine ({lines}): the slope is its peak off-chip bandwidth,"
        " the level its peak of arithmetic.",
        svg=roofline_chart(points, evaluation.looks, "rooflines"),
        numbers=table_of(table.rename(columns={"limit": "bound"}), formats),
    )


def _renamed(formats: dict[str, tuple[str, Format]], words: dict[str, str]) -> dict[str, tuple[str, Format]]:
    """Return formats with headings replaced by words; units stay."""
    return {
        name: (f"{words[name]} {heading.removeprefix(name).strip()}", form) for name, (heading, form) in formats.items()
    }


def bounds_section(evaluation: Evaluation) -> Iterator[Figure]:
    """Yield the shares of resources on the critical path, and the bottlenecks of points by common properties."""
    waits = means(evaluation.points, "critical.")
    if waits.shape[1] > len(("network", "policy")):
        caption = f"What the critical path waited for: share of the simulated latency{_mean(evaluation)}."
        yield Figure(caption, tables=(share_heat(waits, ["network", "policy"]),))
    grouped = ["policy", "network", *evaluation.axes]
    counts = [(f"by {name}", _sorted(bound_by(evaluation.points, name), name, evaluation)) for name in grouped]
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
            svg=at_both_widths(partial(bound_bars, counts, kind_looks(kinds, evaluation.study.units)), "bounds"),
            numbers=table_of(told[["group", "value", *kinds]], count_formats(kinds)),
        )


def _sorted(counts: pd.DataFrame, name: str, evaluation: Evaluation) -> pd.DataFrame:
    """Return counts ordered by the share of the most frequent bottleneck; swept values keep their order."""
    if name in evaluation.axes or counts.empty:
        return counts
    shares = counts.iloc[:, 0] / counts.sum(axis="columns")
    return counts.loc[shares.sort_values(ascending=False, kind="stable").index]


def traffic_section(evaluation: Evaluation) -> Iterator[Figure]:
    """Yield bytes moved per memory, where tensors were kept, peak occupancy, and energy by component."""
    traffic = means(evaluation.points, "traffic_bytes.")
    memories = [name for name in map(str, traffic) if name not in ("network", "policy")]
    if memories:
        first = memories[0]
        networks, policies = ranked(traffic, "network", first), ranked(traffic, "policy", first)
        yield Figure(
            f"Bytes moved at each memory{_mean(evaluation)}. The network and the policy with most at {first} come"
            " first.",
            svg=traffic_bars(traffic, networks, policies, evaluation.looks, "memories"),
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
        table = table_of(peaks, quantity_formats(peaks, held, HELD_BYTES))
        yield Figure(
            f"Most bytes held at once in each memory{_mean(evaluation)}: in KiB, MiB or GiB like capacities, while"
            " bytes moved are in kB, MB or GB like bandwidths.",
            numbers=table,
        )
    spent = means(evaluation.points, "energy_parts_j.")
    components = [name for name in map(str, spent) if name not in ("network", "policy")]
    if components:
        table = table_of(spent, quantity_formats(spent, components, "J"))
        yield Figure(f"Energy by component{_mean(evaluation)}.", numbers=table)


def utilisation_section(evaluation: Evaluation) -> Iterator[Figure]:
    """Yield how busy units and memories were: of the whole machine, and of the clusters at work where some are idle."""
    by = ["network", "policy"]
    shares = means(evaluation.points, "utilisation.")
    if shares.shape[1] <= len(by):
        return
    at_work = means(evaluation.points, "utilisation_at_work.")
    of_all, of_some = (frame.drop(columns=by).to_numpy(dtype=float) for frame in (shares, at_work))
    has_idle = of_all.shape == of_some.shape and not np.allclose(of_all, of_some, equal_nan=True)
    all_of_them = ", averaged over all clusters, idle ones included" if has_idle else ""
    caption = f"Share of the time that each unit is busy{all_of_them}{_mean(evaluation)}."
    yield Figure(caption, tables=(share_heat(shares, by),))
    if has_idle:
        caption = f"Share of the time that each unit of the clusters at work is busy{_mean(evaluation)}."
        yield Figure(caption, tables=(share_heat(at_work, by),))


def layers_section(points: Sequence[tuple[str, pd.DataFrame]]) -> Iterator[Figure]:
    """Yield, per point, its longest layers and a table of all layers."""
    for number, (title, layers) in enumerate(points):
        memories = [str(name) for name in layers if str(name).startswith("traffic_bytes.")]
        table = layers.assign(**{name: figures(layers[name]) for name in ("runs", "critical_s", *memories)})
        memories = [name for name in memories if table[name].notna().any()]
        table = table.assign(share=table["critical_s"] / table["critical_s"].sum())
        named = {name: name.removeprefix("traffic_bytes.") for name in memories}
        if "name" in table:  # older results have only the tensors that layers write
            table["layer"] = table["name"].fillna(table["layer"])
        nodes = ["operators"] if "operators" in table and table["operators"].notna().any() else []
        table = table[["layer", "runs", "critical_s", "share", "limited_by", *memories, *nodes]].rename(
            columns={**named, "critical_s": "critical time", "limited_by": "limited by", "operators": "nodes"}
        )
        formats = {
            **count_formats(["runs"]), **quantity_formats(table, ["critical time"], "s"),
            "share": ("share", percent), **quantity_formats(table, named.values(), "B"),
        }  # fmt: skip
        longest = table.sort_values("critical time", ascending=False, kind="stable").head(_LONGEST_LAYERS)
        if nodes:
            longest = longest.assign(nodes=longest["nodes"].map(_few_nodes, na_action="ignore"))
        some = "The layers that take most of the critical path" if len(longest) < len(table) else "All layers"
        yield Figure(
            f"{some}. A layer's critical time is that in which something of it was on the critical path; all"
            " of them make the simulated latency. What it moves at each memory, and what it is limited by.",
            tables=(replace(linked(table_of(longest, formats), f"layer-{number}", is_target=False), title=title),),
            numbers=linked(table_of(table, formats), f"layer-{number}", is_target=True),
        )


def timelines_section(timelines: Sequence[Timeline], units: Units | None = None) -> Iterator[Figure]:
    """Yield each timeline on its own time scale."""
    shown = timelines_drawn(timelines, units)
    looks = categories_in([each.detailed for each in shown])
    for number, each in enumerate(shown):
        paced = ", and above it what set the pace" if each.timeline.critical else ""
        notes = [f"What each unit did when{paced}."]
        if each.detail_until_ps < each.timeline.makespan_ps:
            reach = percent(each.detail_until_ps / each.timeline.makespan_ps)
            notes.append(f"Beyond {reach} of its time it has too many pieces for this page.")
        still = [
            "Neighbours of one kind that lie less than a pixel apart are drawn as one." if each.merged else "",
            "Only the first part is drawn; the whole has too many pieces to be told apart." if each.zoomed else "",
        ]
        own = categories_in([each.lanes])
        yield Figure(
            " ".join(notes),
            svg=gantt_chart(each, {name: look for name, look in looks.items() if name in own}, f"timeline{number}"),
            numbers=share_heat(busy_shares([each.timeline]).drop(columns=["timeline"]), ["unit"]),
            links=((each.timeline.trace, _PERFETTO),) if each.timeline.trace else (),
            timeline=number,
            still=" ".join(note for note in still if note),
        )


def _few_nodes(text: str) -> str:
    """Return the names of a layer's nodes, the first and the last few of many."""
    names = text.split(", ")
    if len(names) <= 2 * _MOST_NODES:
        return text
    return ", ".join([*names[:_MOST_NODES], "...", *names[-_MOST_NODES:]])


def timelines_drawn(timelines: Sequence[Timeline], units: Units | None = None) -> list[Drawn]:
    """Return the timelines with something to draw."""
    return [drawn(timeline, units) for timeline in timelines if timeline.lanes]


def _mean(evaluation: Evaluation) -> str:
    """Return the part of a caption that says how points were averaged per network and policy."""
    ran = usable(evaluation.points)
    if not ran.duplicated(["network", "policy"]).any():
        return ""
    return ", mean over the sweep" if len(ran) == len(evaluation.points) else ", mean over the points that ran"
