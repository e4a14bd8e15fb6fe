"""Answers of commands: data for ``--json``, and text for a terminal."""

import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import rich.console
from rich.markup import escape
from rich.measure import Measurement, measure_renderables
from rich.table import Table
from rich.text import Text

from dsascape.experiments.results.files import for_terminal
from dsascape.hw_models.text.whole_file import DiskError

_UNLIMITED = 100_000
_IS_WIDE: ContextVar[bool] = ContextVar("_IS_WIDE", default=False)
"""Whether ``--wide`` is given: tables have all their columns, and no line is wrapped."""


class Console(rich.console.Console):
    """A terminal, or a pipe; lines in a pipe and with ``--wide`` have unlimited width."""

    def __init__(self, *, soft_wrap: bool = False, highlight: bool = True) -> None:
        super().__init__(soft_wrap=soft_wrap, highlight=highlight, emoji=False)
        if _IS_WIDE.get() or not self.is_terminal:
            self.size = rich.console.ConsoleDimensions(_UNLIMITED, self.size.height)

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

    def print(self, *, wide: bool) -> None:
        """Print the answer for people; ``wide``: with all columns of its tables, in lines of any width."""
        before = _IS_WIDE.set(wide)
        try:
            self.show()
        finally:
            _IS_WIDE.reset(before)


@contextmanager
def unwritten_told(messages: list[str]) -> Iterator[None]:
    """Add the message on a file that the disk does not take, which must not cost the figures, to ``messages``."""
    try:
        yield
    except DiskError as error:
        messages.append(str(error))


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], only_wide: Collection[str] = ()
) -> Callable[[], None]:
    """Return a function that prints a table with numeric columns aligned to the right.

    Columns in ``only_wide`` are printed with ``--wide`` alone.
    """

    def show() -> None:
        left_out = () if _IS_WIDE.get() else only_wide
        kept = [i for i, name in enumerate(columns) if name not in left_out]
        more = "; --wide has more columns" if left_out else ""
        Console().print(f"[italic]{shown_text(title + more)}[/italic]")
        numeric = [all(isinstance(row[i], int | float) for row in rows) for i in kept]
        texts = [[f"{row[i]:,.4g}" if isinstance(row[i], float) else str(row[i]) for i in kept] for row in rows]
        show_rows([columns[i] for i in kept], texts, numeric)

    return show


def show_rows(columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool], **style: Any) -> None:
    """Print a table: cells are wrapped between words so that it fits the terminal, the widest columns first.

    Where its longest words do not fit, rows are lines of headings and cells. ``style``: options of rich's table.
    """
    console = Console()
    cells = [list(map(Text, map(for_terminal, column))) for column in zip(columns, *rows, strict=True)]
    grid = Table(**style)
    for (heading, *_), right in zip(cells, numeric, strict=True):
        grid.add_column(heading, justify="right" if right else "left")
    for number in range(1, len(rows) + 1):
        grid.add_row(*[column[number] for column in cells])
    unlimited = console.options.update(max_width=_UNLIMITED)
    needs = [measure_renderables(console, unlimited, column) for column in cells]
    widths = [need.maximum for need in needs]
    room = console.width - (Measurement.get(console, unlimited, grid).maximum - sum(widths))
    if sum(need.minimum for need in needs) > room:
        say(*lines_of(columns, rows))
        return
    while sum(widths) > room:
        widths[max((i for i, need in enumerate(needs) if widths[i] > need.minimum), key=lambda i: widths[i])] -= 1
    for column, width in zip(grid.columns, widths, strict=True):
        column.width = width
    console.print(grid)


def lines_of(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines, each cell behind its heading."""
    told = [[f"{name} {cell}" for name, cell in zip(columns, row, strict=True) if cell] for row in rows]
    return [f"  {', '.join(cells)}" for cells in told]


def say(*lines: str) -> None:
    """Print lines without markup, wrapped between words in a terminal; longer words, such as paths, stay whole."""
    console = Console(soft_wrap=True, highlight=False)
    for line in "\n".join(map(for_terminal, lines)).split("\n"):
        parts = [line]
        if len(line) > console.width:
            indent = " " * (len(line) - len(line.lstrip()))
            parts = textwrap.wrap(
                line, console.width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )
        console.print("\n".join(parts), markup=False)


def write(text: str) -> None:
    """Write a text unchanged, such as that of a file."""
    sys.stdout.write(text)


def shown_text(text: str) -> str:
    """Return ``text`` escaped for a console that reads markup, without terminal control characters."""
    return escape(for_terminal(text))
