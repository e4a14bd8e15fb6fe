"""Tables fit the terminal: words are whole, no line is longer, and a pipe gets every row on one line."""

import os
import pty
import string
import struct
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from fcntl import ioctl
from io import StringIO
from pathlib import Path
from termios import TIOCSWINSZ

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.text import Text

from dsascape.experiments.shell.answers import Answer, say, show_rows, table
from dsascape.experiments.shell.cli import main
from tests.experiments.terminal import Terminal
from tests.tiers import examples

WORDS = st.text(string.ascii_lowercase + "+*_", min_size=1, max_size=14)
CELLS = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)


def shown_in(width: int, *argv: str) -> list[str]:
    """Lines that a command prints in a terminal of ``width`` columns, without colours."""
    above, below = pty.openpty()
    ioctl(below, TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    if not (child := os.fork()):
        os.environ.update(TERM="dumb", NO_COLOR="1")
        os.environ.pop("COLUMNS", None)
        for number in (0, 1, 2):
            os.dup2(below, number)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        code = 70
        try:
            code = main(argv)
            sys.stdout.flush()
        finally:
            os._exit(code)
    os.close(below)
    text = b""
    while True:
        try:
            part = os.read(above, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    os.close(above)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return text.decode().replace("\r", "").splitlines()


@pytest.mark.parametrize("argv", [
    ("hardware",), ("policies",), ("models", "bert-tiny"), ("hardware", "stcp920"),
    ("fuse", "bert-tiny", "--policy", "dnnfusion"),
    ("simulate", "bert-tiny", "--hardware", "stcp920", "--policy", "fixed-pattern"),
    pytest.param(
        ("simulate", "bert-tiny", "--hardware", "stcp920", "--policy", "unfused", "--what-if", "ddr.bandwidth"),
        marks=pytest.mark.night,
    ),
], ids=" ".join)  # fmt: skip
def test_commands_fit_80_columns_with_whole_words(argv: tuple[str, ...], terminal: Terminal) -> None:
    narrow, whole = ([line.translate({ord(c): " " for c in "│┃|█"}) for line in lines]
                     for lines in (shown_in(80, *argv), terminal.out(*argv).splitlines()))  # fmt: skip

    assert max(map(len, narrow)) <= 80
    shown, words = ({word for line in lines for word in line.split()} for lines in (narrow, whole))
    assert {word for word in shown - words if word[0] not in "┏┡└"} == set()


def test_layers_have_four_columns_and_all_with_wide(terminal: Terminal) -> None:
    command = "simulate", "bert-tiny", "--hardware", "h100", "--policy", "unfused"
    headings = [[cell.strip() for cell in line.split("┃") if cell.strip()] for argv in ((), ("--wide",))
                for line in terminal.out(*command, *argv).splitlines() if line.startswith("┃ layer")]  # fmt: skip

    assert headings[0] == ["layer", "time", "share", "limited by"]
    assert headings[1] == [*headings[0], "runs", "shared", "l2", "dram", "nodes"]


def test_a_terminal_with_wide_wraps_nothing() -> None:
    assert max(map(len, shown_in(80, "policies", "--wide"))) > 200


def printed(width: int, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table in a terminal of ``width`` columns."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out:
        patch.setenv("FORCE_COLOR", "1")
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", str(width))
        show_rows(columns, rows, [False] * len(columns))
    return Text.from_ansi(out.getvalue()).plain.splitlines()


@settings(max_examples=examples(40))
@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=5), st.integers(58, 120))
def test_words_stay_whole_wherever_the_longest_fit(rows: list[tuple[str, ...]], width: int) -> None:
    lines = printed(width, ("first column", "second", "third"), rows)

    assert max(map(len, lines)) <= width
    shown = sorted(word for line in lines if line[0] == "│" for word in line.replace("│", " ").split())
    assert shown == sorted(word for row in rows for cell in row for word in cell.split())


@settings(max_examples=examples(40))
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=3), st.integers(12, 30))
def test_words_stay_whole_in_lines_where_they_do_not_fit_beside_each_other(
    rows: list[tuple[str, ...]], width: int
) -> None:
    lines = printed(width, ("a", "b"), rows)

    shown = " ".join(lines).replace("│", " ").replace(",", " ").split()
    assert {word for row in rows for cell in row for word in cell.split()} <= set(shown)
    assert all(len(line) <= width or len(line.split()) == 1 for line in lines)


def test_a_pipe_has_each_row_on_one_line_and_columns_by_option_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    show = table("Title", ("name", "more"), [("x " * 60, "y " * 60)], ("more",))
    texts = []
    for columns in ("20", "80", "300"):
        monkeypatch.setenv("COLUMNS", columns)
        for wide in (False, True):
            Answer({}, show).print(wide=wide)
            texts.append(capsys.readouterr().out)

    assert texts[0] == texts[2] == texts[4]
    assert texts[1] == texts[3] == texts[5]
    assert "--wide has more columns" in texts[0]
    assert "y y" not in texts[0]
    assert ("x " * 60).strip() in texts[1]
    assert ("y " * 60).strip() in texts[1]


def test_a_line_that_is_said_keeps_long_words_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(Path("/somewhere", *["folder"] * 20))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    say(f"  written to {path} which is a long one")

    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "  written to", f"  {path}", "  which is a long one"
    ]  # fmt: skip
