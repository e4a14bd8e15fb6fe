"""Comparisons as tables of text: rows for a terminal, and Markdown for a comment on a pull request."""

from collections.abc import Iterator, Sequence

from dsascape.experiments.report.tornado import change_text
from dsascape.experiments.report.words import MISSING, quantity, significant
from dsascape.experiments.results.changes import Change, Comparison, Moved
from dsascape.experiments.results.profile import ProfileMatch
from dsascape.wording import count

Rows = list[tuple[str, ...]]
HEADINGS = ("point", "time before", "after", "change", "energy", "what explains it")
FLIP_HEADINGS = ("at", "was faster", "is faster now", "its time before", "after")
GROUP_HEADINGS = ("layers", "profile", "simulated", "profiled", "simulated by profiled")
_MOST_ROWS = 30
_MOST_IN_GROUP = 3
_LEAST = 5e-4
"""Least relative change of a time that the answer calls one."""
_ARROW = " \N{RIGHTWARDS ARROW} "


def change_rows(changes: Sequence[Change]) -> Rows:
    """Return a row for each point that moved: its times, the changes of time and energy, and the explanation."""
    return [
        (
            each.before.label, _time(each, 0), _time(each, 1), _relative(each.slower),
            _relative(each.relative("energy_j")), explanation(each),
        )
        for each in changes
    ]  # fmt: skip


def flip_rows(comparison: Comparison) -> Rows:
    """Return a row for each pair of policies whose order changed."""
    return [
        (f.place, f.faster_before, f.faster_after, f"{significant(f.before)} times", f"{significant(f.after)} times")
        for f in comparison.flips
    ]


def explanation(change: Change) -> str:
    """Return the resource and the layer that moved most, and the bottleneck if it is another one now."""
    parts = [f"{each.name} {_seconds(each)}" for each in change.resources[:1]]
    for layer in change.layers[:1]:
        limit = f" ({layer.limited_by.replace(' -> ', _ARROW)})" if layer.limited_by else ""
        parts.append(f"most in layer {(layer.layer or layer.name).replace(' -> ', _ARROW)}, {_seconds(layer)}{limit}")
    before, after = change.before.bottleneck, change.after.bottleneck
    if before != after:
        parts.append(f"bound by {before or MISSING}{_ARROW}{after or MISSING}")
    return "; ".join(parts) or MISSING


def answer(comparison: Comparison) -> str:
    """Return in a sentence whether the second set of results is slower, faster or the same, and where most."""
    points = comparison.changes
    moved = [each for each in points if abs(each.slower or 0.0) >= _LEAST]
    moved.sort(key=lambda each: -abs(each.slower or 0.0))
    slower, faster = ([each for each in moved if sign * (each.slower or 0.0) > 0] for sign in (1, -1))
    same = len(points) - len(moved) - len(comparison.failing) - len(comparison.repaired)
    failing = f"{count(len(comparison.failing), 'point')} no longer running" if comparison.failing else ""
    if len(points) == len(moved) == 1:
        return f"{moved[0].before.label} takes {_more(moved[0])}: {_time(moved[0], 1)}, before {_time(moved[0], 0)}."
    told = [
        f"{word} at {'all' if len(some) == len(points) else f'{len(some)} of'} {count(len(points), 'point')}"
        f" ({'most ' if len(some) > 1 else ''}{_more(some[0])}: {some[0].before.label})"
        for some, word in ((slower, "slower"), (faster, "faster"))
        if some
    ]
    if not moved:
        told = [f"no time changes at {count(same, 'point')}"] if same else []
        energies = [each for each in points if abs(each.relative("energy_j") or 0.0) >= _LEAST]
        told += [f"energy does at {len(energies)}"] if energies else []
    elif same:
        told.append(f"{same} as before")
    sentence = "; ".join([*told, *([failing] if failing else [])]) or "no point has a time on both sides"
    return f"{sentence[0].upper()}{sentence[1:]}."


def _more(change: Change) -> str:
    return f"{100 * abs(change.slower or 0.0):.1f} % {'more' if (change.slower or 0.0) > 0 else 'less'} time"


def headline(comparison: Comparison) -> str:
    """Return the numbers of points that moved, are new, are missing, and run no more."""
    slower = sum((each.slower or 0.0) > 0 for each in comparison.moved)
    faster = sum((each.slower or 0.0) < 0 for each in comparison.moved)
    told = [
        count(len(comparison.changes), "common point"), f"{slower} slower", f"{faster} faster",
        f"{len(comparison.changes) - len(comparison.moved)} unchanged", f"{len(comparison.new)} new",
        f"{len(comparison.missing)} missing",
    ]  # fmt: skip
    told += [f"{len(comparison.failing)} running no more"] if comparison.failing else []
    told += [f"{len(comparison.repaired)} running again"] if comparison.repaired else []
    told += [count(len(comparison.flips), "order flip")] if comparison.flips else []
    return ", ".join(told)


def markdown(comparison: Comparison) -> str:
    """Return the comparison as Markdown: a headline and tables of what moved, flipped, is new, missing or failing."""
    lines = [f"**{_cell(answer(comparison))}**", "", _cell(headline(comparison)), ""]
    moved = comparison.moved
    if moved:
        lines += [*table_lines(HEADINGS, change_rows(moved[:_MOST_ROWS])), ""]
    if len(moved) > _MOST_ROWS:
        lines += [f"And {count(len(moved) - _MOST_ROWS, 'point')} more.", ""]
    if comparison.flips:
        lines += ["Order of policies:", "", *table_lines(FLIP_HEADINGS, flip_rows(comparison)[:_MOST_ROWS]), ""]
    for title, labels in sides(comparison):
        lines += [f"{title}:", "", *(f"- {_cell(label)}" for label in labels[:_MOST_ROWS]), ""]
    return "\n".join(lines).rstrip() + "\n"


def sides(comparison: Comparison) -> Iterator[tuple[str, list[str]]]:
    """Yield (title, points) of the points without a counterpart, and of those that run no more."""
    if comparison.failing:
        yield "Running no more", [f"{each.before.label}: {each.after.error}" for each in comparison.failing]
    if comparison.new:
        yield "New", [point.label for point in comparison.new]
    if comparison.missing:
        yield "Missing", [point.label for point in comparison.missing]


def group_rows(match: ProfileMatch) -> Rows:
    """Return a row for each group of matching layers of a record and of a profile."""
    return [
        (
            _few(group.layers), _few(group.rows), quantity(group.simulated_s, "s"), quantity(group.profiled_s, "s"),
            MISSING if group.ratio is None else significant(group.ratio),
        )
        for group in match.groups
    ]  # fmt: skip


def profile_markdown(told: str, match: ProfileMatch) -> str:
    """Return the comparison with a profile as Markdown; ``told`` is its headline."""
    lines = [f"**{_cell(told)}**", "", *table_lines(GROUP_HEADINGS, group_rows(match)), ""]
    for title, names in unmatched(match):
        lines += [f"{title}:", "", *(f"- {_cell(name)}" for name in names), ""]
    return "\n".join(lines).rstrip() + "\n"


def unmatched(match: ProfileMatch) -> Iterator[tuple[str, list[str]]]:
    """Yield (title, names with their seconds) of what only one side has."""
    if match.only_simulated:
        layers = [f"{each.shown}, {quantity(each.critical_s, 's')}" for each in match.only_simulated]
        yield "Only simulated", layers
    if match.only_profiled:
        yield "Only in the profile", [f"{each.layer}, {quantity(each.seconds, 's')}" for each in match.only_profiled]


def table_lines(headings: Sequence[str], rows: Rows) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = ["| " + " | ".join(map(_cell, row)) + " |" for row in (tuple(headings), *rows)]
    return [lines[0], "|" + "---|" * len(headings), *lines[1:]]


def _cell(text: str) -> str:
    """Return text that stands in one cell of Markdown and is read as text."""
    line = " ".join(text.split())
    for special in "\\|`*_<>[]":
        line = line.replace(special, f"\\{special}")
    return line


def _time(change: Change, side: int) -> str:
    point = (change.before, change.after)[side]
    figures = point.figures
    name = change.time or next((time for time in ("measured_s", "latency_s") if time in figures), "")
    return quantity(figures[name], "s") if name in figures else MISSING


def _relative(change: float | None) -> str:
    return MISSING if change is None else change_text(change)


def _seconds(moved: Moved) -> str:
    return ("+" if moved.change_s >= 0 else "-") + quantity(abs(moved.change_s), "s")


def _few(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _MOST_IN_GROUP} more" if len(names) > _MOST_IN_GROUP else ""
    return ", ".join(names[:_MOST_IN_GROUP]) + rest
