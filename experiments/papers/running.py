"""Command line that runs the missing points of a paper's experiment files and writes a page of their results."""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dsascape.experiments.shell.cli import main as dsascape


def run_and_write(
    folder: Path, names: Iterable[str], page: Callable[[Path], str], description: str | None, argv: Sequence[str] | None
) -> int:
    """Run ``names`` of the experiment files in ``folder``, then write ``page`` of the results; return the exit code."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("results", type=Path, metavar="RESULTS", help="folder for the results, one a file")
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT.md", help="default: print")
    arguments = parser.parse_args(argv)
    for name in names:
        code = dsascape(["run", str(folder / f"{name}.yaml"), "--out", str(arguments.results / name)])
        if code:
            return code
    text = page(arguments.results)
    if arguments.out is None:
        sys.stdout.write(text)
    else:
        arguments.out.write_text(text, encoding="utf-8")
    return 0
