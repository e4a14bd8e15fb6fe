"""Reuse as in ETO beside searches from nothing, on simulated machines, and beside what the paper's text says.

``python -m dsascape.experiments.papers.eto_tables RESULTS [OUT.md]``: runs the searches of the tuning experiments
``tuning*.yaml`` in ``experiments/papers/eto`` that have no result in RESULTS, and writes the page. A run that is
stopped goes on where it was.
"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path

from dsascape.experiments.papers.ansor_comparisons import Study
from dsascape.experiments.papers.graphturbo_tables import geometric_mean, markdown
from dsascape.experiments.papers.tuning_pages import search_and_write
from dsascape.experiments.papers.tuning_results import SearchResult

FOLDER = Path(__file__).parent / "eto"
WHOLE = "ansor"
"""Variant that the others are compared with: from nothing, with all trials."""
_MICRO = 1e6


def page(studies: Sequence[Study], introduction: str) -> str:
    """Return the page as Markdown."""
    parts = [introduction.rstrip()]
    for study in studies:
        setting = study.settings
        how = (
            f"{setting.trials_per_task} trials a task, {setting.unit} at a time, generations of {setting.population};"
            f" {len(study.results)} of {len(study.wanted)} searches have been run."
        )
        parts.append(f"## {study.name}\n\n{setting.question} {how}")
        parts += [_machine(study, machine) for machine in dict.fromkeys(each.machine for each in study.results)]
    return "\n\n".join(parts) + "\n"


def _machine(study: Study, machine: str) -> str:
    """Return the table of one machine, and the mean of each search's speed by that of the whole one.

    What searches have found by themselves, without built-in choices, is told where each has tried every task.
    """
    rows: list[Sequence[object]] = []
    has_found = all(math.isfinite(sum(each.found_s)) for each in study.results if each.machine == machine)
    shares: dict[str, list[tuple[float, float]]] = {}
    for (its, label), results in study.groups().items():
        if its != machine:
            continue
        whole = next((each for each in results if each.variant == WHOLE), None)
        for each in results:
            speed, trials = _shares(each, whole)
            if speed is not None and trials is not None and each is not whole:
                shares.setdefault(each.variant, []).append((speed, trials))
            rows.append([
                label, each.variant, each.trials, each.tasks, f"{_MICRO * sum(each.builtin_s):,.1f}",
                f"{_MICRO * sum(each.after_s):,.1f}", "" if speed is None else f"{100 * speed:.1f} %",
                "" if trials is None else f"{100 * trials:.0f} %",
                *([f"{_MICRO * sum(each.found_s):,.1f}"] if has_found else []),
            ])  # fmt: skip
    headings = [
        "network", "search", "trials", "tasks", "built-in, us", "tuned, us", "speed by ansor's", "trials by ansor's",
        *(["found, us"] if has_found else []),
    ]  # fmt: skip
    means = [_mean(variant, own) for variant, own in shares.items()]
    return "\n\n".join([f"On {machine}:", markdown(headings, rows), "In the mean:", "\n".join(means)])


def _mean(variant: str, shares: Sequence[tuple[float, float]]) -> str:
    speeds, trials = zip(*shares, strict=True)
    mean = geometric_mean(speeds)
    assert mean is not None
    return (
        f"- {variant}: {100 * mean:.1f} % of the speed ({100 * min(speeds):.1f} to {100 * max(speeds):.1f} %),"
        f" with {100 * sum(trials) / len(trials):.0f} % of the trials"
    )


def _shares(each: SearchResult, whole: SearchResult | None) -> tuple[float | None, float | None]:
    """Return speed and trials of a search by those of the whole one."""
    if whole is None or not whole.trials:
        return None, None
    return sum(whole.after_s) / sum(each.after_s), each.trials / whole.trials


def main(argv: Sequence[str] | None = None) -> int:
    """Run the searches that have no result yet, and write the page; return the exit code."""
    introduction = (FOLDER / "tuning.md").read_text(encoding="utf-8")
    return search_and_write(FOLDER, lambda studies: page(list(studies.values()), introduction), __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
