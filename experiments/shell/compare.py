"""The command ``compare``: what changed between two sets of results, or between a record and a foreign profile."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from dsascape.experiments.report.change_tables import (
    FLIP_HEADINGS,
    GROUP_HEADINGS,
    HEADINGS,
    answer,
    change_rows,
    flip_rows,
    group_rows,
    headline,
    markdown,
    profile_markdown,
    sides,
    unmatched,
)
from dsascape.experiments.report.words import quantity
from dsascape.experiments.results.changes import Change, Comparison, compared
from dsascape.experiments.results.profile import ProfileMatch, matched
from dsascape.experiments.results.profile_files import ProfileRow, is_profile, read_profile
from dsascape.experiments.results.snapshot import CompareError, KeptPoint, Snapshot, read_snapshot, without_names
from dsascape.experiments.shell.answers import Answer, say, table, write
from dsascape.wording import count

SLOWER = 1
"""Exit code if a point got slower by more than ``--fail-above`` allows, or runs no more."""
_PERCENTAGE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
_MOST_ROWS = 30


def compare(arguments: argparse.Namespace) -> Answer:
    """Compare two sets of results, or a record with a profile."""
    if arguments.markdown and arguments.json:
        raise CompareError("--markdown and --json print different texts; needs one of them")
    limit = _fraction(arguments.fail_above)
    profiles = [path for path in (arguments.before, arguments.after) if is_profile(path)]
    if profiles:
        if len(profiles) > 1 or limit is not None or arguments.ignore:
            has = "two profiles" if len(profiles) > 1 else "a profile with --fail-above or --ignore"
            raise CompareError(f"compare has {has}; needs a JSON record and a profile")
        return _with_profile(arguments, profiles[0])
    ignored = [name.strip() for text in arguments.ignore for name in text.split(",") if name.strip()]
    before, after = (without_names(read_snapshot(path), ignored) for path in (arguments.before, arguments.after))
    comparison = compared(before, after)
    if limit is not None:
        _check_gate(comparison)
    slower = () if limit is None else comparison.slower_than(limit)
    data = _data(comparison) | {"slower_than_allowed": [each.before.label for each in slower]}
    show = partial(_show, comparison, slower, str(arguments.fail_above))
    if arguments.markdown:
        show = partial(write, markdown(comparison))
    return Answer(data, show, SLOWER if slower else 0)


def _check_gate(comparison: Comparison) -> None:
    """Raise ``CompareError`` where a gate could say nothing: a side is damaged, or no points match."""
    for side in (comparison.before, comparison.after):
        if side.remarks:
            raise CompareError(f"--fail-above needs sound results on both sides; {side.remarks[0]}")
    if not comparison.changes:
        places = f"{comparison.before.place} and {comparison.after.place}"
        raise CompareError(f"--fail-above needs points to compare; {places} have none in common")


def _fraction(text: str | None) -> float | None:
    """Parse a percentage such as ``2%`` into a fraction; raise ``CompareError`` for anything else."""
    if text is None:
        return None
    found = _PERCENTAGE.fullmatch(text)
    if found is None:
        raise CompareError(f"--fail-above has {text!r}; needs a percentage from 0, such as 2%")
    return float(found[1]) / 100


def _show(comparison: Comparison, slower: Sequence[Change], limit: str) -> None:
    if slower:
        say(f"{count(len(slower), 'point')} slower by more than {limit}, or running no more")
    say(answer(comparison), f"{comparison.before.place} and {comparison.after.place}: {headline(comparison)}")
    say(*comparison.before.remarks, *comparison.after.remarks)
    moved = comparison.moved
    if moved:
        most = f", {_MOST_ROWS} of {len(moved)}" if len(moved) > _MOST_ROWS else ""
        table(f"Points that moved, the slowest first{most}", HEADINGS, change_rows(moved[:_MOST_ROWS]))()
    if comparison.flips:
        table("Order of policies", FLIP_HEADINGS, flip_rows(comparison)[:_MOST_ROWS])()
    for title, labels in sides(comparison):
        rest = f"  and {len(labels) - _MOST_ROWS} more" if len(labels) > _MOST_ROWS else ""
        say(f"{title}:", *[f"  {label}" for label in labels[:_MOST_ROWS]], *([rest] if rest else []))


def _data(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as data for ``--json``."""
    return {
        "before": comparison.before.place,
        "after": comparison.after.place,
        "answer": answer(comparison),
        "common": len(comparison.changes),
        "moved": [_change(each) for each in comparison.moved],
        "flips": [asdict(each) for each in comparison.flips],
        "new": [_names(point) for point in comparison.new],
        "missing": [_names(point) for point in comparison.missing],
        "failing": [{**_names(each.before), "error": each.after.error} for each in comparison.failing],
        "repaired": [_names(each.before) for each in comparison.repaired],
        "remarks": [*comparison.before.remarks, *comparison.after.remarks],
    }


def _names(point: KeptPoint) -> dict[str, str]:
    return dict(point.names)


def _change(change: Change) -> dict[str, Any]:
    before, after = change.before.figures, change.after.figures
    return {
        "point": _names(change.before),
        "time": change.time,
        "before_s": before.get(change.time),
        "after_s": after.get(change.time),
        "change": change.slower,
        "energy_change": change.relative("energy_j"),
        "bottleneck": [change.before.bottleneck, change.after.bottleneck],
        "resources": [asdict(each) for each in change.resources],
        "layers": [asdict(each) for each in change.layers],
        "others": {name: list(values) for name, values in change.others.items()},
    }


def _with_profile(arguments: argparse.Namespace, profile: Path) -> Answer:
    other = arguments.before if profile == arguments.after else arguments.after
    snapshot, rows = read_snapshot(other), read_profile(profile)
    if len(snapshot.points) != 1:
        raise CompareError(f"{other}: has {count(len(snapshot.points), 'point')}; needs one, as of simulate --json")
    layers = snapshot.layers_of(snapshot.points[0])
    if not layers:
        raise CompareError(f"{other}: has no layers; needs the output of dsascape simulate --json")
    match = matched(layers, rows)
    if not match.groups:
        raise CompareError(
            f"{profile}: none of its layers, such as {rows[0].layer!r}, has the name of a tensor or an operator of"
            f" {other}, such as {_example(snapshot)!r}"
        )
    told = _told(match, rows, snapshot)
    data = {
        "record": snapshot.place, "profile": str(profile),
        "simulated_s": sum(each.critical_s for each in layers), "profiled_s": sum(each.seconds for each in rows),
        "groups": [{**asdict(each), "ratio": each.ratio} for each in match.groups],
        "only_simulated": [asdict(each) for each in match.only_simulated],
        "only_profiled": [asdict(each) for each in match.only_profiled],
    }  # fmt: skip
    if arguments.markdown:
        return Answer(data, partial(write, profile_markdown(told, match)))
    return Answer(data, partial(_show_profile, told, match))


def _example(snapshot: Snapshot) -> str:
    layers = snapshot.layers_of(snapshot.points[0])
    return next((name for layer in layers for name in layer.operators), layers[0].layer)


def _told(match: ProfileMatch, rows: Sequence[ProfileRow], snapshot: Snapshot) -> str:
    """Return the headline of a comparison with a profile."""
    simulated, profiled = (sum(getattr(g, name) for g in match.groups) for name in ("simulated_s", "profiled_s"))
    covered = profiled / total if (total := sum(row.seconds for row in rows)) else 0.0
    ratio = f" ({simulated / profiled - 1:+.0%})" if profiled else ""
    return (
        f"{snapshot.points[0].label}: simulated {quantity(simulated, 's')}, profiled {quantity(profiled, 's')}{ratio},"
        f" by {count(len(match.groups), 'group')} of layers that match, with {covered:.0%} of the profile's time"
    )


def _show_profile(told: str, match: ProfileMatch) -> None:
    say(told)
    table("Layers, those with most profiled time first", GROUP_HEADINGS, group_rows(match))()
    for title, names in unmatched(match):
        say(f"{title}:", *[f"  {name}" for name in names])
