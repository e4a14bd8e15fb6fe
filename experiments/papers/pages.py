"""Command line shared by the modules of this package that compute one Markdown page."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path


def write_page(page: Callable[[], str], description: str | None, argv: Sequence[str] | None = None) -> int:
    """Write the text of ``page`` to the file named on the command line, or print it; return the exit code."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT.md", help="default: print")
    out: Path | None = parser.parse_args(argv).out
    if out is None:
        sys.stdout.write(page())
    else:
        out.write_text(page(), encoding="utf-8")
    return 0
