"""The option ``--what-if`` of ``simulate``: effects of changed machine values as text, as data, and as a picture."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console as PlainConsole
from rich.progress import track

from dsascape.experiments.engine.what_if import what_if_of
from dsascape.experiments.question.config import ScheduleMode
from dsascape.experiments.question.points import DesignPoint
from dsascape.experiments.question.variations import Variation, read_requests
from dsascape.experiments.report.tornado import CHANGES, by_gain, change_text, effect_text, named, with_effect
from dsascape.experiments.report.what_if_page import what_if_page, what_if_picture
from dsascape.experiments.report.what_if_section import GAIN_HEADINGS, answer_of, dependence, gain_cells
from dsascape.experiments.results.sensitivity import SMALLEST, TOLERANCE, Effect, Swing, WhatIf
from dsascape.experiments.shell.answers import Answer, Console, say, table, unwritten_told
from dsascape.hw_models.text.whole_file import write_whole
from dsascape.wording import count

_MOST_LINES = 20
_BAR_CELLS = 24
"""Length of a bar on either side of the axis, in characters."""
_LEAST_CELLS = 12
"""Length of a bar on either side of the axis in a narrow terminal, in characters."""


def what_if(arguments: argparse.Namespace, point: DesignPoint, unwritten: list[str]) -> Answer:
    """Return the effects that ``--what-if`` requests for a point, and draw them where ``--out`` says.

    A message on a picture that the disk does not take is added to ``unwritten``.
    """
    study = _simulated(arguments, point)
    picture: Path | None = arguments.out
    if picture is not None:
        with unwritten_told(unwritten):
            write_whole(picture, what_if_page(study) if picture.suffix.lower() == ".html" else what_if_picture(study))
    return Answer(_data(study), partial(_show, study, is_first=arguments.loops is None))


def _simulated(arguments: argparse.Namespace, point: DesignPoint) -> WhatIf:
    """Return the effects that ``--what-if`` asks for."""
    mode: ScheduleMode = arguments.what_if_schedule or ("anew" if arguments.schedule is None else "keep")
    requests = read_requests([text for text in arguments.what_if if text])
    return what_if_of(point, requests, mode, arguments.hardware, _with_progress)


def _with_progress(chosen: Sequence[Variation]) -> Iterable[Variation]:
    """Show a progress bar on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        return chosen
    return track(chosen, "changed values", console=PlainConsole(stderr=True), transient=True)


def _data(study: WhatIf) -> dict[str, Any]:
    """Return the effects as data for ``--json``; values are ordered by what they gain."""
    most, less = study.gains_most[:1], study.less_of[:1]
    return {
        "answer": " ".join(answer_of(study)),
        "gains_most": next((_told(*run) for run in most), None),
        "hurts_least": next((_told(*run) for run in less), None),
        "schedule": study.schedule,
        "values": [asdict(swing) for swing in study.swings],
        "by_energy": [swing.path for swing in study.by_energy],
        "gains": [asdict(gain) for gain in study.gains],
        "anomalies": [_told(*run) for run in study.anomalies],
    }


def _told(swing: Swing, effect: Effect) -> dict[str, Any]:
    return {"path": swing.path, "base": swing.base, **asdict(effect)}


def _show(study: WhatIf, *, is_first: bool) -> None:
    """Print the answer, then a tornado of the latency and one of the energy, shares and gains, and what did not run.

    ``is_first``: the figures of the unchanged machine follow.
    """
    how = "made anew for each machine" if study.schedule == "anew" else "kept from the unchanged machine"
    say(*answer_of(study))
    say("", f"What if? One value of {study.base.hardware} changed at a time, schedules {how}; largest gain first")
    for figure in CHANGES:
        effective = with_effect(study.swings, figure)
        if effective:
            say("", *_tornado_lines(by_gain(effective[:_MOST_LINES], figure), figure))
        if len(effective) > _MOST_LINES:
            say(f"  and {count(len(effective) - _MOST_LINES, 'value')} more with a smaller effect")
    weak = dependence(study)
    say(*(["", weak] if weak else []))
    still = [s.path for s in study.swings if not any(with_effect([s], figure) for figure in CHANGES) and _ran(s)]
    if still:
        say("", f"Less than {100 * SMALLEST:g} % of either: {', '.join(still)}")
    if study.gains:
        rows = [(gain.resource, *gain_cells(gain)) for gain in study.gains]
        say("")
        table("Share of the critical path, and what more of the resource gains", GAIN_HEADINGS, rows)()
    for swing, effect in study.anomalies:
        changed = effect_text(effect, "latency")
        say(f"more is slower by more than {100 * TOLERANCE:g} %: {swing.path} = {effect.setting}: {changed}")
    refused = [(swing, each) for swing in study.swings for each in swing.effects if each.refusal]
    if refused:
        say("", "Not simulated:", *[f"  {swing.path} = {each.setting}: {each.refusal}" for swing, each in refused])
    say(*(["", "The unchanged machine:"] if is_first else []))


def _ran(swing: Swing) -> bool:
    return any(not each.refusal for each in swing.effects)


def _tornado_lines(swings: Sequence[Swing], figure: str) -> list[str]:
    """Return a line for each value: its name, a bar to either side of the axis, and the changes."""
    change = CHANGES[figure]
    names = [named(swing) for swing in swings]
    width = max(map(len, names))
    changes = [[getattr(each, change) for each in swing.effects if not each.refusal] for swing in swings]
    scale = max(abs(each) for several in changes for each in several)
    told = [
        ", ".join(f"{each.setting} {change_text(getattr(each, change))}" for each in swing.effects if not each.refusal)
        for swing in swings
    ]
    room = Console().width - max(map(len, told)) - 5
    is_narrow = width + 2 * _BAR_CELLS > room  # then the name of a value has a line of its own
    cells = min(_BAR_CELLS, max(_LEAST_CELLS, room // 2)) if is_narrow else _BAR_CELLS
    lines = [f"{'':{0 if is_narrow else width}}  {f'less {figure}':>{cells}}|more {figure}"]
    for name, changed, several in zip(names, told, changes, strict=True):
        down, up = (_bar(each, scale, cells) for each in (-min(0.0, *several), max(0.0, *several)))
        bars = f"  {down:>{cells}}|{up:<{cells}}  {changed}"
        lines += [name, bars] if is_narrow else [f"{name:<{width}}{bars}"]
    return lines


def _bar(change: float, scale: float, cells: int) -> str:
    return "█" * round(cells * change / scale)
