"""Reader of documentation pages: blocks of code, their expected output, and the files that they name."""

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_FILE = re.compile(r"# file: (\S+)\n")


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
