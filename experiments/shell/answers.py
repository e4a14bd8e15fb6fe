"""Answers of commands: data for ``--json``, and text for a terminal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import rich.console
from rich.markup import escape
from rich.table import Table

from dsascape.experiments.results.files import for_terminal
from dsascape.hw_models.text.whole_file import DiskError

_WIDE = 100_000


class Console(rich.console.Console):
    """A terminal, or a pipe with lines of unlimited width."""

    def __init__(self, *, soft_wrap: bool = False, highlight: bool = True) -> None:
        super().__init__(soft_wrap=soft_wrap, highlight=highlight, emoji=False)
        if not self.is_terminal:
            self.width = _WIDE

    def on_broken_pipe(self) -> None:
        """Raise ``BrokenPipeError``, which the command line handles for all commands."""
        raise BrokenPipeError


POINTS_FAILED = 1
"""Exit code of a command that finished without figures for every point, or without reading every file."""


@dataclass(frozen=True)
class Answer:
    """Result of a command: ``data`` is printed with ``--json``, ``show`` prints it for people."""

    data: Mapping[str, Any]
    show: Callable[[], None]
    code: int = 0
    """Exit code of the command."""
    unwritten: tuple[str, ...] = ()
    """Messages on files that the disk did not take; they are told behind the figures, with the code of a mistake."""


@contextmanager
def unwritten_told(messages: list[str]) -> Iterator[None]:
    """Add the message on a file that the disk does not take, which must not cost the figures, to ``messages``."""
    try:
        yield
    except DiskError as error:
        messages.append(str(error))


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Callable[[], None]:
    """Return a function that prints a table with numeric columns aligned to the right."""

    def show() -> None:
        grid = Table()
        numeric = [all(isinstance(row[i], int | float) for row in rows) for i in range(len(columns))]
        for name, right in zip(columns, numeric, strict=True):
            grid.add_column(shown_text(name), justify="right" if right else "left", overflow="fold")
        for row in rows:
            grid.add_row(*(shown_text(f"{cell:,.4g}" if isinstance(cell, float) else str(cell)) for cell in row))
        console = Console()
        console.print(f"[italic]{shown_text(title)}[/italic]")
        console.print(grid)

    return show


def say(*lines: str) -> None:
    """Print lines without wrapping or markup."""
    console = Console(soft_wrap=True, highlight=False)
    for line in lines:
        console.print(for_terminal(line), markup=False)


def shown_text(text: str) -> str:
    """Return ``text`` escaped for a console that reads markup, without terminal control characters."""
    return escape(for_terminal(text))
