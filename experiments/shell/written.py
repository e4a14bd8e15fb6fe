"""Options of commands whose value is a place that is written to; `shell.places` checks them before any work.

Nothing is imported here, so that parsers are made at once.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OUTPUTS = "written"
"""Attribute of parsed arguments with the command's outputs."""
RESULTS = (
    ".lock", "results.sqlite*", "results.csv", "results.parquet", "layers.csv", "kernels.csv", "report.html",
    "experiment.json", "timelines.json", "what_if.json", "perfetto-?.json",
)  # fmt: skip
"""Files of a results folder."""
MEASURED = (*RESULTS, "measured-*.json", "*.o")
TUNED = (".lock", "candidates.sqlite*", "kernels.jsonl", "curve.csv", "curve.svg", "report.html", "batch-*")
TABLES = (".lock", "meta.yaml", "tp1")


@dataclass(frozen=True, slots=True)
class Written:
    """An option whose value is written to."""

    dest: str
    flag: str
    names: tuple[str, ...] = ()
    """Names of the files that are written in a folder; none for a file."""
    is_folder: Callable[[argparse.Namespace], bool] = lambda _: False
    ends: Callable[[argparse.Namespace], tuple[str, ...]] = lambda _: ()
    """Ends of the names that a file may have, from the arguments; none: any."""


def written_file(sub: argparse.ArgumentParser, flag: str, *, metavar: str, **more: Any) -> None:
    """Add an option with the file that a command writes; its name ends as ``metavar`` says: FILE.svg|FILE.html."""
    ends = tuple([f".{name.partition('.')[2]}" for name in metavar.split("|")])
    more |= {"metavar": metavar}
    _add(sub, Written(_dest(sub, flag, more), _shown(flag, more), ends=lambda _: ends))


def written_folder(
    sub: argparse.ArgumentParser, flag: str, names: tuple[str, ...],
    is_folder: Callable[[argparse.Namespace], bool] = lambda _: True,
    ends: Callable[[argparse.Namespace], tuple[str, ...]] = lambda _: (), **more: Any,
) -> None:  # fmt: skip
    """Add an option with the folder in which a command writes files of these ``names``.

    ``is_folder`` says of the arguments whether it is one after all, or a file, whose name then has one of ``ends``.
    """
    _add(sub, Written(_dest(sub, flag, more), _shown(flag, more), names, is_folder, ends))


def _shown(flag: str, more: Mapping[str, Any]) -> str:
    return flag if flag.startswith("-") else str(more["metavar"])


def _dest(sub: argparse.ArgumentParser, flag: str, more: Mapping[str, Any]) -> str:
    return str(sub.add_argument(flag, type=Path, **more).dest)


def _add(sub: argparse.ArgumentParser, option: Written) -> None:
    sub.set_defaults(**{OUTPUTS: (*(sub.get_default(OUTPUTS) or ()), option)})
