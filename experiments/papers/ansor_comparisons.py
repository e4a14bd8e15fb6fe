"""Searches of one tuning experiment beside each other, and beside what Ansor's text says of other frameworks."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path

from dsascape.experiments.papers.graphturbo_tables import geometric_mean, markdown
from dsascape.experiments.papers.tuning_results import SearchResult
from dsascape.experiments.papers.tuning_searches import refusal, results_of
from dsascape.experiments.papers.tuning_study import TuningStudy, Wanted, read_study
from dsascape.experiments.real.tuning import SIMULATE
from dsascape.wording import count

BUILTIN = "built-in"
_MICRO, _EQUAL = 1e6, 0.01
"""Microseconds of a second; searches that differ by less than this are equally good."""


@dataclass(frozen=True)
class Study:
    """One tuning experiment with the results that there are."""

    name: str
    settings: TuningStudy
    wanted: tuple[Wanted, ...]
    results: Sequence[SearchResult]
    refusals: Mapping[str, str]
    """By machine that kernels are not tuned for, why."""

    @classmethod
    def read(cls, file: Path, results: Path) -> "Study":
        """Read a study and its results; raise ``ExperimentError`` for a file that is none."""
        settings, wanted = read_study(file)
        machines = {each.machine: each for each in wanted}
        refusals = {Path(name).stem: reason for name, each in machines.items() if (reason := refusal(each))}
        there = [each for each in wanted if Path(each.machine).stem not in refusals]
        return cls(file.stem, settings, wanted, results_of(results, there), refusals)

    def groups(self) -> dict[tuple[str, str], list[SearchResult]]:
        """Return the results by machine and by what is tuned, in the order of the file."""
        found: dict[tuple[str, str], list[SearchResult]] = {}
        for machine in dict.fromkeys(each.machine for each in self.results):
            for each in self.results:
                if each.machine == machine:
                    found.setdefault((machine, each.label), []).append(each)
        return found


def times(results: Sequence[SearchResult]) -> dict[str, float]:
    """Return what the built-in choice and each search's own programs take, in seconds: the median of the seeds."""
    variants = dict.fromkeys(each.variant for each in results)
    found = {
        name: statistics.median([sum(each.found_s) for each in results if each.variant == name]) for name in variants
    }
    return {BUILTIN: sum(results[0].builtin_s), **found}


def compared(study: Study, name: str, printed: Sequence[float]) -> str:
    """Return a table of normalised throughputs for each machine, and how often ``ansor`` is first and by how much."""
    parts = []
    for machine in dict.fromkeys(machine for machine, _ in study.groups()):
        own = {label: results for (its, label), results in study.groups().items() if its == machine}
        by_label = {label: times(results) for label, results in own.items()}
        searches = list(dict.fromkeys(variant for each in by_label.values() for variant in each))
        rows: list[Sequence[object]] = []
        shares: dict[str, list[float | None]] = {each: [] for each in searches}
        for label, each in by_label.items():
            best = min(each.values())
            for variant in searches:
                shares[variant].append(best / each[variant] if isfinite(each.get(variant, inf)) else None)
            trials = [result.trials for result in own[label]]
            many = f"{max(trials):,}" if min(trials) == max(trials) else f"{min(trials):,} to {max(trials):,}"
            own_shares = [shares[variant][-1] for variant in searches]
            rows.append((label, own[label][0].tasks, many, each[BUILTIN] * _MICRO, *own_shares))
        means = [geometric_mean(shares[variant]) for variant in searches]
        rows.append(("geometric mean", "", "", "", *means))
        columns = (name, "tasks", "trials", "built-in [us]", *searches)
        parts += [f"On `{machine}`:", markdown(columns, rows), _first(by_label, printed)]
    return "\n\n".join(parts)


def _first(by_label: Mapping[str, Mapping[str, float]], printed: Sequence[float]) -> str:
    """Return a sentence: how often ``ansor`` is first, and how many times as fast as the other searches."""
    whole = [each for each in by_label.values() if "ansor" in each]
    others = [(each["ansor"], own) for each in whole for name, own in each.items() if name not in (BUILTIN, "ansor")]
    ratios = [own / ansor for ansor, own in others if isfinite(own) and isfinite(ansor)]
    if not ratios:
        return "`ansor` has no other search beside it."
    firsts = sum(
        each["ansor"] <= (1 + _EQUAL) * min(own for name, own in each.items() if name != BUILTIN) for each in whole
    )
    kept = [each[BUILTIN] / min(each[BUILTIN], each["ansor"]) for each in whole]
    return (
        f"`ansor` finds the fastest programs of all searches, or within {_EQUAL * 100:.0f} % of them, in {firsts} of"
        f" {count(len(whole), 'case')}; they are {min(ratios):.2f} to {max(ratios):.2f} times as fast as those of the"
        f" others, {geometric_mean(ratios) or 0:.2f} in the geometric mean (the paper, over other frameworks:"
        f" {printed[0]} to {printed[1]}). The faster of its programs and the built-in choice is up to {max(kept):.2f}"
        f" times as fast as the built-in choice, {geometric_mean(kept) or 0:.2f} in the mean."
    )


def task_counts(study: Study, printed: Mapping[str, int]) -> str:
    """Return a sentence on how many tasks networks have, beside the paper's count."""
    own = {model: each.tasks for each in study.results for model in printed if each.label.startswith(model)}
    return " ".join([f"Tasks of {model}: {own[model]} (the paper: {printed[model]})." for model in own])


def layouts(study: Study, printed: float) -> str:
    """Return a sentence on what layouts of weights that suit the tiles bring."""
    own = times(study.results)
    if not {"ansor", "without layouts"} <= own.keys():
        return "Not run."
    gain = own["without layouts"] / own["ansor"] - 1
    where = f"{study.results[0].label} on `{study.results[0].machine}`"
    with_us, without_us = own["ansor"] * _MICRO, own["without layouts"] * _MICRO
    said = f"a gain of {gain * 100:+.1f} % (the paper: about {printed * 100:.0f} %)"
    return (
        f"{where}: the programs found take {with_us:,.0f} us where weights may be stored in the order of the tiles, and"
        f" {without_us:,.0f} us where they may not: {said}."
    )


def coverage(studies: Sequence[Study]) -> str:
    """Return a table of what has been run, how long it took, and why the rest has not."""
    rows: list[Sequence[object]] = []
    for each in studies:
        missing = len(each.wanted) - len(each.results)
        reasons = [*each.refusals.values()]
        refused = sum(Path(own.machine).stem in each.refusals for own in each.wanted)
        if missing > refused:
            reasons.append("not run" if each.settings.runner == SIMULATE else "not run: needs `--measure`")
        seconds = sum([result.wall_s for result in each.results])
        setting = each.settings
        rows.append((
            f"`{each.name}.yaml`", len(each.wanted), len(each.results), f"{setting.trials_per_task} a task",
            setting.unit, setting.population, len(setting.seeds), f"{seconds / 60:.1f}", " / ".join(reasons),
        ))  # fmt: skip
    searches = [count(len(rows), "experiment"), sum(len(each.wanted) for each in studies)]
    run = [result for each in studies for result in each.results]
    rows.append((*searches, len(run), "", "", "", "", f"{sum([each.wall_s for each in run]) / 60:.1f}", ""))
    columns = (
        "experiment", "searches", "run", "trials", "unit", "population", "seeds", "minutes that passed",
        "why others are missing",
    )  # fmt: skip
    return markdown(columns, rows)
