"""The command line for tests: runs a command and captures its output."""

import json
from typing import Any

import pytest

from dsascape.experiments.shell.cli import main


class Terminal:
    """Runs commands and keeps what they print."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.err = ""

    def out(self, *argv: str, code: int = 0) -> str:
        assert main(argv) == code
        captured = self._capsys.readouterr()
        self.err = captured.err
        return captured.out

    def json(self, *argv: str) -> Any:
        """Object that ``--json`` prints, on one line."""
        text = self.out(*argv, "--json")
        assert text.count("\n") == 1
        return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))

    def refused(self, *argv: str) -> str:
        """The one message of a mistake."""
        assert self.out(*argv, code=2) == ""
        assert self.err.count("dsascape: ") == 1
        assert self.err.startswith("dsascape: ")
        assert "Traceback" not in self.err
        return self.err
