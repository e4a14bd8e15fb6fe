"""The option ``--profile``: entries, hits and misses of the functions whose results this process has stored."""

import sys
from dataclasses import replace

from dsascape.experiments.shell.answers import Answer, table
from dsascape.workloads.memo import MemoFigures, memo_figures

_HEADINGS = ("function", "entries", "hits", "misses", "hit rate")


def profiled(answer: Answer, *, as_json: bool, in_workers: bool = False) -> Answer:
    """Return ``answer`` with the table of stored results after it: on standard error with ``--json``.

    ``in_workers``: whether points were computed by worker processes, which store results of their own.
    """
    title = "Stored results of this process, most entries first"
    title += "; worker processes, which compute the points, have their own" if in_workers else ""
    figures = memo_figures()
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
