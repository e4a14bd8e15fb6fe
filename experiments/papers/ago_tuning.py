"""AGO's tuner with and without its parts (Fig. 13), until sub-graphs are stable (Fig. 8), and on networks, simulated.

``python -m dsascape.experiments.papers.ago_tuning RESULTS [OUT.md]``: runs the searches of the tuning experiments
``tuning*.yaml`` in ``experiments/papers/ago`` that have no result in RESULTS, and writes the page. A run that is
stopped goes on where it was.
"""

import statistics
import sys
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from dsascape.experiments.papers.ansor_comparisons import BUILTIN, Study, coverage, times
from dsascape.experiments.papers.graphturbo_tables import markdown
from dsascape.experiments.papers.tuning_pages import search_and_write
from dsascape.experiments.papers.tuning_results import SearchResult
from dsascape.experiments.question.shapes import read_shapes
from dsascape.fusion.ago import Weights
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.wording import count

FOLDER = Path(__file__).parent / "ago"
PAIRS, SHORT_PAIRS, BUDGETS = "tuning", "tuning-short", "tuning-fig8"
NETWORKS, ANSOR_NETWORKS = "tuning-networks", "tuning-networks-ansor"
ANSOR, AGO, WITHOUT_INTENSIVE, WITHOUT_REFORMER = "Ansor", "AGO", "AGO-NI", "AGO-NR"
VARIANTS = (AGO, WITHOUT_INTENSIVE, WITHOUT_REFORMER)
NEAR = 0.01
"""Fraction of the latency in the end within which a sub-graph counts as stable."""
_MICRO = 1e6


def loss(other_s: float, ago_s: float) -> float:
    """Return the fraction of AGO's speed that a variant loses; below 0 where the variant is faster."""
    return 1 - ago_s / other_s


def figure13(study: Study, printed: Mapping[str, float]) -> str:
    """Return a table of what each variant has found, with the losses, for each machine, and their means.

    ``printed`` has the paper's mean losses as fractions: ``no_intensive`` and ``no_reformer``.
    """
    parts = []
    every: dict[str, list[float]] = {WITHOUT_INTENSIVE: [], WITHOUT_REFORMER: []}
    groups = study.groups()
    for machine in dict.fromkeys(machine for machine, _ in groups):
        rows: list[Sequence[object]] = []
        for (its, label), results in groups.items():
            found = times(results)
            if its != machine or not all(isfinite(found.get(name, float("inf"))) for name in VARIANTS):
                continue
            losses = {name: loss(found[name], found[AGO]) for name in every}
            for name, own in losses.items():
                every[name].append(own)
            rows.append((
                label, results[0].trials, *[found[name] * _MICRO for name in (BUILTIN, *VARIANTS)],
                *[100 * own for own in losses.values()],
            ))  # fmt: skip
        columns = (
            "pair and batch", "trials", f"{BUILTIN} [us]", *[f"{name} [us]" for name in VARIANTS], "NI loses [%]",
            "NR loses [%]",
        )  # fmt: skip
        parts.append(f"On `{machine}`:\n\n{markdown(columns, rows)}")
    if not every[WITHOUT_INTENSIVE]:
        return "Nothing has been run with all three variants."
    keys = {WITHOUT_INTENSIVE: "no_intensive", WITHOUT_REFORMER: "no_reformer"}
    means = {name: statistics.mean(own) for name, own in every.items()}
    said = [f"{name} loses {means[name]:.1%} (the paper: {printed[keys[name]]:.0%})" for name in every]
    wins = {name: sum(own < 0 for own in losses) for name, losses in every.items()}
    cases = len(every[WITHOUT_INTENSIVE])
    in_order = sorted({AGO: 0.0, **means}.items(), key=lambda pair: pair[1])
    names = ", ".join([name for name, _ in in_order])
    parts.append(
        f"In the mean of {count(cases, 'pair')} {' and '.join(said)}: the order is {names}."
        f" {' and '.join([f'{name} is faster than AGO in {wins[name]}' for name in wins])} of them."
    )
    return "\n\n".join(parts)


def trials_until_stable(result: SearchResult) -> int:
    """Return the trials after which a search had found what it has in the end, but for 1 %."""
    end = sum(result.found_s)
    return next(point.trials for point in result.curve if sum(point.found_s) <= (1 + NEAR) * end)


def figure8(study: Study) -> str:
    """Return a table of trials until sub-graphs are stable beside AGO's weights (eq. 1)."""
    if not study.results:
        return "Nothing has been run."
    graphs = read_shapes(study.wanted[0].shapes) if study.wanted[0].shapes else {}
    weights = {name: sum(map(Weights().of, graph.ops)) for name, graph in graphs.items()}
    rows = [
        (label, machine, results[0].trials, weights[label], *[statistics.median(map(trials_until_stable, results))])
        for (machine, label), results in study.groups().items()
    ]
    columns = ("sub-graph", "machine", "trials in all", "weight (eq. 1)", "trials until it is stable")
    return markdown(columns, rows)


def figures10_to_12(own: Study, others: Study, printed: Mapping[str, Any]) -> str:
    """Return a table of networks tuned with a budget: in AGO's kernels, and in Relay's kernels by Ansor.

    ``printed`` has the paper's gains over Ansor, ``fig12`` by network, and the mean ones of other networks
    (``mean_speedup``) by machine. Times are those of the kernels that are kept, built-in choices among them.
    """
    groups, beside = own.groups(), others.groups()
    rows: list[Sequence[object]] = []
    for (machine, label), results in groups.items():
        kept = {each.variant: sum(each.after_s) for each in (*results, *beside.get((machine, label), ()))}
        known = printed["fig12"].get(label)
        gain = known["ansor"] if known else printed["mean_speedup"][machine]["ansor"] - 1
        ansor_s, ago_s = kept.get(ANSOR), kept.get(AGO)
        rows.append((
            label, machine, *[_trials(name, results, beside.get((machine, label), ())) for name in (ANSOR, AGO)],
            *[_MICRO * kept[name] if name in kept else None for name in (ANSOR, *VARIANTS)],
            100 * (1 - ago_s / ansor_s) if ansor_s and ago_s else None, f"{100 * gain:.1f}{'' if known else ', mean'}",
        ))  # fmt: skip
    if not rows:
        return "Nothing has been run."
    columns = (
        "network", "machine", "trials, Ansor", "trials, AGO", *[f"{name} [us]" for name in (ANSOR, *VARIANTS)],
        "AGO gains over Ansor [%]", "the paper [%]",
    )  # fmt: skip
    return markdown(columns, rows)


def _trials(variant: str, *found: Sequence[SearchResult]) -> int | None:
    return next((each.trials for results in found for each in results if each.variant == variant), None)


def page(studies: Mapping[str, Study], paper: Mapping[str, Any], introduction: str) -> str:
    """Return the page as Markdown."""
    parts = [
        introduction.rstrip(),
        f"## What has been run\n\n{coverage(list(studies.values()))}",
        f"## Fig. 13: pairs of convolutions\n\n{studies[PAIRS].settings.question}\n\n"
        f"{figure13(studies[PAIRS], paper['fig13_loss'])}",
        *[_fewer_trials(study, paper) for name, study in studies.items() if name == SHORT_PAIRS],
        f"## Fig. 8: trials until sub-graphs are stable\n\n{studies[BUDGETS].settings.question}\n\n"
        f"{figure8(studies[BUDGETS])}",
    ]
    if NETWORKS in studies and ANSOR_NETWORKS in studies:
        own, others = studies[NETWORKS], studies[ANSOR_NETWORKS]
        parts.append(
            f"## Figs. 10 to 12: networks with a budget\n\n{own.settings.question}\n\n"
            f"{figures10_to_12(own, others, paper)}"
        )
    return "\n\n".join(parts) + "\n"


def _fewer_trials(study: Study, paper: Mapping[str, Any]) -> str:
    return f"### With fewer trials\n\n{study.settings.question}\n\n{figure13(study, paper['fig13_loss'])}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the searches that have no result yet, and write the page; return the exit code."""
    introduction, paper = (FOLDER / "tuning.md").read_text(encoding="utf-8"), read_yaml(FOLDER / "paper.yaml")
    return search_and_write(
        FOLDER, lambda studies: page(studies, paper, introduction), __doc__, argv, needs=(PAIRS, BUDGETS)
    )


if __name__ == "__main__":
    sys.exit(main())
