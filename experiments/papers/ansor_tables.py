"""Ansor's evaluation with the searches of ``dsascape tune``, ours compared with each other and with the paper's text.

``python -m dsascape.experiments.papers.ansor_tables RESULTS [OUT.md]``: runs the searches of the tuning experiments in
``experiments/papers/ansor`` that have no result in RESULTS, and writes the page, its pictures into ``images`` beside
it. Searches that measure on this machine run only with ``--measure``. A run that is stopped goes on where it was.
"""

import argparse
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dsascape.experiments.papers.ansor_comparisons import Study, compared, coverage, layouts, task_counts
from dsascape.experiments.papers.ansor_curves import Curves, order, picture, table
from dsascape.experiments.papers.tuning_searches import run_missing
from dsascape.experiments.papers.tuning_study import Wanted, read_study
from dsascape.experiments.question.config import ExperimentError
from dsascape.experiments.real.tuning import SIMULATE
from dsascape.hw_models.text.whole_file import write_whole
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.tuner.measure import usable_cores
from dsascape.tuner.search.cost_model import MissingPackageError, check_installed

FOLDER = Path(__file__).parent / "ansor"
IMAGES = "images"
_NOT_STUDIES = ("paper.yaml",)

_SECTIONS: Mapping[str, str] = {
    "operators": "Fig. 6: single operators",
    "operators-v100": "Fig. 6: single operators on a GPU",
    "operators-phone": "Single operators on a phone",
    "subgraphs": "Fig. 8: sub-graphs",
    "networks": "Fig. 9: networks",
    "networks-v100": "Fig. 9b: networks on a GPU",
    "networks-phone": "Fig. 9c: networks on a phone",
    "layouts": "Section 7.3: layouts of weights",
    "fig7": "Fig. 7: parts of the search, on one convolution",
    "fig10": "Fig. 10: parts of the search, on networks",
    "measured": "Measured on this machine",
}
"""Headings by study; other studies come last, under their own names."""


def page(studies: Sequence[Study], introduction: str, paper: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the page as Markdown, and its pictures by file name."""
    in_order = sorted(studies, key=_place)
    parts = [introduction.rstrip(), f"## What has been run\n\n{coverage(in_order)}"]
    pictures: dict[str, str] = {}
    for study in in_order:
        text, own = _section(study, paper)
        parts.append(f"## {_SECTIONS.get(study.name, study.name)}\n\n{text}")
        pictures |= own
    return "\n\n".join(parts) + "\n", pictures


def _place(study: Study) -> int:
    return list(_SECTIONS).index(study.name) if study.name in _SECTIONS else len(_SECTIONS)


def _section(study: Study, paper: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the text on one study, and its pictures."""
    missing = [f"Figures for `{name}` are missing ({reason})." for name, reason in study.refusals.items()]
    done = {(each.machine, each.label, each.variant) for each in study.results}
    left: dict[str, list[str]] = {}
    for each in study.wanted if study.results else ():
        machine, several = Path(each.machine).stem, left.setdefault(f"{each.label} on {Path(each.machine).stem}", [])
        if machine not in study.refusals and (machine, each.label, each.variant) not in done:
            several.append(each.variant)
    named = [f"{what} ({', '.join(dict.fromkeys(several))})" for what, several in left.items() if several]
    missing += [f"Not run: {'; '.join(named)}."] if named else []
    head = " ".join([study.settings.question, *missing])
    if not study.results:
        how = "" if study.settings.runner == SIMULATE else " `--measure` runs it; the machine has to be idle."
        return f"{head}\n\nNothing has been run.{how}", {}
    if study.name in ("fig7", "fig10"):
        text, pictures = _ablation(study, paper[study.name])
        return f"{head}\n\n{text}", pictures
    if study.name == "layouts":
        return f"{head}\n\n{layouts(study, paper['layout_gain'])}", {}
    kind = study.name.partition("-")[0]
    printed = paper["over_others"].get(kind, paper["over_others"]["operators"])
    processors = {each.processor for each in study.results if each.processor}
    where = [f"On {', '.join(sorted(processors))}."] if processors else []
    noun = {"subgraphs": "sub-graph", "networks": "network"}.get(kind, "operator")
    best = paper["most_over_best"]
    over = f"The paper, over the best alternative: up to {best['cpu']} on the CPU, {best['gpu']} on the GPU"
    said = [f"{over}, {best['phone']} on the phone. {task_counts(study, paper['tasks'])}"] if kind == "networks" else []
    return "\n\n".join([head, *where, compared(study, noun, printed), *said]), {}


def curves(study: Study, *, kept: bool) -> list[Curves]:
    """Return a panel for each thing that is tuned on each machine."""
    return [Curves(f"{label} on {machine}", results, kept) for (machine, label), results in study.groups().items()]


def _ablation(study: Study, printed: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    kept = study.name == "fig10"
    own, file = curves(study, kept=kept), f"ansor-{study.name}.svg"
    what = (
        "Speed-ups over the built-in choice, which counts where a search has found nothing faster for a task:"
        if kept
        else "Throughputs of what a search itself has found, that of the best program of all runs being 1; medians:"
    )
    worst = f", {printed['worst']} last" if "worst" in printed else ""
    said = (
        "What the searches have found by themselves is in the end this many times as fast as the built-in choice (the"
        f" paper: {printed['best']} first{worst}):"
    )
    orders = [f"- {each.title}: {order(each)}" for each in own]
    shown = f"![{_SECTIONS[study.name]}]({IMAGES}/{file})"
    return "\n\n".join([shown, what, table(own), said, "\n".join(orders)]), {file: picture(study.name, own)}


def _studies(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.glob("*.yaml") if path.name not in _NOT_STUDIES)
    if not found:
        raise ExperimentError(f"{folder}: has no tuning experiments (*.yaml)")
    return found


def _searches(files: Sequence[Path], *, measure: bool) -> Iterator[Wanted]:
    for file in files:
        settings, wanted = read_study(file)
        if measure or settings.runner == SIMULATE:
            yield from wanted


def main(argv: Sequence[str] | None = None) -> int:
    """Run the searches that have no result yet, and write the page; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", type=Path, metavar="RESULTS", help="folder for the results, one a search")
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT.md", help="default: print, without pictures")
    parser.add_argument("--studies", type=Path, default=FOLDER, metavar="DIR", help="default: experiments/papers/ansor")
    parser.add_argument("--workers", type=int, default=usable_cores(), metavar="N", help="default: one per core")
    parser.add_argument("--measure", action="store_true", help="also run the searches that measure on this machine")
    arguments = parser.parse_args(argv)
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    logging.getLogger("dsascape.experiments.papers").setLevel(logging.INFO)
    try:
        check_installed()
        files = _studies(arguments.studies)
        failed = run_missing(arguments.results, list(_searches(files, measure=arguments.measure)), arguments.workers)
        studies = [Study.read(file, arguments.results) for file in files]
    except (ExperimentError, MissingPackageError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    introduction = (FOLDER / "introduction.md").read_text(encoding="utf-8")
    text, pictures = page(studies, introduction, read_yaml(FOLDER / "paper.yaml"))
    if arguments.out is None:
        sys.stdout.write(text)
    else:
        images: Path = arguments.out.parent / IMAGES
        images.mkdir(parents=True, exist_ok=True)
        for name, drawing in pictures.items():
            write_whole(images / name, drawing)
        write_whole(arguments.out, text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
