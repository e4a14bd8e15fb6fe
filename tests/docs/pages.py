"""Reader of documentation pages: blocks of code, their expected output, and the files that they name."""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_FILE = re.compile(r"# file: (\S+)\n")
_SHELL = re.compile(r"```(?:sh|console|text)\n(.*?)```|^((?:    [^\n]*\n)+)", re.DOTALL | re.MULTILINE)
"""Blocks that may hold commands: fenced ones, and those that are indented."""
_COMMAND = re.compile(r"\$ |(?:dsascape|python3?|pip|make|docker|git|tar) ")


@dataclass(frozen=True)
class Command:
    """One command line of a page, and the lines of its output that the page shows."""

    line: str
    shown: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """Words as a shell reads them, without a redirection and what follows it."""
        words = shlex.split(self.line, comments=True)
        return words[: words.index(">")] if ">" in words else words

    @property
    def written(self) -> str | None:
        """File that the output is redirected to, if any."""
        words = shlex.split(self.line, comments=True)
        return words[words.index(">") + 1] if ">" in words else None

    def stale(self, printed: list[str]) -> list[str]:
        """Return the lines shown that were not printed; ``...`` stands for any."""
        return [line for line in self.shown if line not in (*printed, "...")]

    def refreshed(self, printed: list[str]) -> "Command":
        """Return the command with the most similar printed line in the place of each stale one."""
        stale = set(self.stale(printed))
        lines = (get_close_matches(line, printed, 1, 0.0)[0] if line in stale else line for line in self.shown)
        return Command(self.line, tuple(lines))

    def __str__(self) -> str:
        return "\n".join([f"$ {self.line}", *self.shown])


@dataclass(frozen=True)
class Page:
    """One Markdown page."""

    text: str

    @property
    def blocks(self) -> list[tuple[str, str]]:
        """Language and content of each block."""
        return _BLOCK.findall(self.text)

    @property
    def files(self) -> dict[str, str]:
        """Blocks that begin with ``# file: NAME``, by that name."""
        headed = ((_FILE.match(content), content) for _, content in self.blocks)
        return {heading[1]: content for heading, content in headed if heading}

    @property
    def commands(self) -> list[Command]:
        """Commands in the order of the page: lines behind ``$``, or the lines of indented blocks that are commands."""
        blocks = [fenced or re.sub("^    ", "", indented, flags=re.MULTILINE)
                  for fenced, indented in _SHELL.findall(_without(self.text, "python|yaml|json|toml"))]  # fmt: skip
        return [each for block in blocks for each in _commands(block)]

    def after(self, heading: str, language: str) -> str:
        """Return the first block in ``language`` behind the line ``heading``."""
        _, found, rest = self.text.partition(f"\n{heading}\n")
        assert found, f"no heading {heading!r}"
        return next(content for each, content in Page(rest).blocks if each == language)

    def printed(self) -> str:
        """Return the page with what its Python blocks print, run one after the other, in each text block behind one."""
        names: dict[str, object] = {}
        output = ""

        def filled(match: re.Match[str]) -> str:
            nonlocal output
            language, content = match.groups()
            if language == "python" and not content.startswith("# "):
                output = _run(content, names)
                return match[0]
            return f"```text\n{output}```" if language == "text" else match[0]

        return _BLOCK.sub(filled, self.text)


def _commands(block: str) -> Iterator[Command]:
    prompted = block.startswith("$ ")
    line, shown = "", list[str]()
    for each in block.replace("\\\n", " ").rstrip().splitlines():
        if each.startswith("$ ") if prompted else _COMMAND.match(each):
            if line:
                yield Command(line, tuple(shown))
            line, shown = each.removeprefix("$ "), []
        else:
            shown.append(each)
    if line:
        yield Command(line, tuple(shown) if prompted else ())


def _without(text: str, languages: str) -> str:
    return re.sub(rf"```(?:{languages})\n.*?```", "", text, flags=re.DOTALL)


def _run(code: str, names: dict[str, object]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "page", "exec"), names)
    return printed.getvalue()


def page(name: str) -> Page:
    """Return a page of ``docs``."""
    return Page((ROOT / "docs" / name).read_text(encoding="utf-8"))


def paths_in(text: str) -> Iterator[str]:
    """Yield the files and folders of this repository that stand in backquotes, and modules written with dots."""
    rooms = "workloads|fusion|hw_models|scheduler|tuner|experiments|tests|docs|examples|benchmarks|src"
    prose = _BLOCK.sub("", text)
    for quoted in re.findall(r"`([^`\n]+)`", prose):
        if re.fullmatch(rf"({rooms})(/[\w.*-]+)*", quoted) and "KIND" not in quoted:
            yield quoted
        elif re.fullmatch(r"dsascape(\.[a-z_0-9]+)+", quoted):
            yield quoted.replace("dsascape.", "", 1).replace(".", "/")
