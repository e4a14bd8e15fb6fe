"""Options of ``simulate --what-if`` and of ``compare``, for the parser of the command line."""

import argparse
from pathlib import Path

from dsascape.experiments.shell.written import written_file


def what_if_options(simulate: argparse.ArgumentParser) -> None:
    """Add the options about changed values of the machine."""
    varied = (
        "effects of single values of the machine: halved and doubled, all numbers or those at a path or in a section,"
        " or set to given values, such as ddr.bandwidth=100GB/s,200GB/s"
    )
    simulate.add_argument("--what-if", action="append", nargs="?", const="", metavar="A.B[=V,V]", help=varied)
    scheduled = "what changed machines run: schedules made anew (default), or that of the unchanged machine"
    simulate.add_argument("--what-if-schedule", choices=("anew", "keep"), help=scheduled)
    drawn = "draw the effects of --what-if"
    written_file(simulate, "--out", metavar="FILE.svg|FILE.html", help=drawn)


def compare_options(compare: argparse.ArgumentParser) -> None:
    """Add the options of the command ``compare``."""
    sets = "a results folder, its results.csv, or the output of simulate --json in a file that ends in .json"
    compare.add_argument("before", type=Path, metavar="A", help=sets)
    profile = "the same; with a record as A also a profile: TensorRT's or onnxruntime's JSON, or CSV of layer, seconds"
    compare.add_argument("after", type=Path, metavar="B", help=profile)
    failing = "exit code 1 if a point of B is slower than in A by more than this, or runs no more: 2%%"
    compare.add_argument("--fail-above", metavar="PERCENT", help=failing)
    ignored = "columns that need not agree for two points to be the same, such as policy or hardware"
    compare.add_argument("--ignore", action="append", default=[], metavar="NAME[,NAME]", help=ignored)
    compare.add_argument("--markdown", action="store_true", help="print tables for a comment on a pull request")
