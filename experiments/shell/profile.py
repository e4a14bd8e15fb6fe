"""The option ``--profile``: entries, hits and misses of the functions whose results processes have stored."""

import sys
from collections.abc import Iterable
from dataclasses import replace

from dsascape.experiments.shell.answers import Answer, table
from dsascape.workloads.memo import MemoFigures

_HEADINGS = ("function", "entries", "hits", "misses", "hit rate")


def profiled(answer: Answer, figures: Iterable[MemoFigures], whose: str, *, as_json: bool) -> Answer:
    """Return ``answer`` with the table of stored results after it: on standard error with ``--json``.

    ``whose``: title of the table.
    """
    title = f"{whose}, most entries first"
    if as_json:
        rows = ["\t".join(row) for row in (_HEADINGS, *map(_cells, figures))]
        sys.stderr.write("\n".join([title, *rows]) + "\n")
        return answer

    def show() -> None:
        answer.show()
        table(title, _HEADINGS, [_cells(each) for each in figures])()

    return replace(answer, show=show)


def _cells(each: MemoFigures) -> list[str]:
    name = f"{each.module.removeprefix('dsascape.')}.{each.name}"
    return [name, f"{each.entries:,}", f"{each.hits:,}", f"{each.misses:,}", f"{each.hit_rate:.1%}"]
