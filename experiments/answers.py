"""What a command answers: data for ``--json``, and how a person sees it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import rich.console
from rich.markup import escape
from rich.table import Table


class Console(rich.console.Console):
    """A terminal, or a pipe whose reader may go."""

    def on_broken_pipe(self) -> None:
        """Leave it to the command line, like any other command's."""
        raise BrokenPipeError


POINTS_FAILED = 1
"""Exit code of a command that did its work, but not every point has figures, or not every file could be read."""


@dataclass(frozen=True)
class Answer:
    """What a command found: ``data`` is printed with ``--json``, ``show`` prints it for people."""

    data: Mapping[str, Any]
    show: Callable[[], None]
    code: int = 0
    """The exit code."""


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Callable[[], None]:
    """Return what prints a table; columns of numbers are aligned to the right."""

    def show() -> None:
        grid = Table(title=escape(title), title_justify="left")
        numeric = [all(isinstance(row[i], int | float) for row in rows) for i in range(len(columns))]
        for name, right in zip(columns, numeric, strict=True):
            grid.add_column(escape(name), justify="right" if right else "left", overflow="fold")
        for row in rows:
            grid.add_row(*(escape(f"{cell:,.4g}" if isinstance(cell, float) else str(cell)) for cell in row))
        Console().print(grid)

    return show


def say(*lines: str) -> None:
    """Print lines as they are, however long: paths stay whole, and what looks like markup stays text."""
    console = Console(soft_wrap=True, highlight=False)
    for line in lines:
        console.print(line, markup=False)
