"""Command line of pages on tuning experiments: runs the searches without a result, and writes a page of all results."""

import argparse
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dsascape.experiments.papers.ansor_comparisons import Study
from dsascape.experiments.papers.tuning_searches import run_missing
from dsascape.experiments.papers.tuning_study import read_study
from dsascape.experiments.question.config import ExperimentError
from dsascape.hw_models.text.whole_file import write_whole
from dsascape.tuner.measure import usable_cores
from dsascape.tuner.search.cost_model import MissingPackageError, check_installed


def search_and_write(
    folder: Path, page: Callable[[Mapping[str, Study]], str], description: str | None,
    argv: Sequence[str] | None = None, needs: Sequence[str] = (),
) -> int:  # fmt: skip
    """Run the searches of ``tuning*.yaml`` in a folder that have no result, and write the page; return the exit code.

    ``page`` is given the studies by the names of their files; ``needs``: names that it cannot do without.
    """
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("results", type=Path, metavar="RESULTS", help="folder for the results, one a search")
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT.md", help="default: print")
    parser.add_argument(
        "--studies", type=Path, default=folder, metavar="DIR", help=f"default: experiments/papers/{folder.name}"
    )
    parser.add_argument("--workers", type=int, default=usable_cores(), metavar="N", help="default: one per core")
    arguments = parser.parse_args(argv)
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    logging.getLogger("dsascape.experiments.papers").setLevel(logging.INFO)
    try:
        check_installed()
        names = sorted({*needs, *[file.stem for file in arguments.studies.glob("tuning*.yaml")]})
        if not names:
            raise ExperimentError(f"{arguments.studies}: has no file tuning*.yaml; needs a tuning experiment")
        files = {name: arguments.studies / f"{name}.yaml" for name in names}
        wanted = [each for file in files.values() for each in read_study(file)[1]]
        failed = run_missing(arguments.results, wanted, arguments.workers)
        studies = {name: Study.read(file, arguments.results) for name, file in files.items()}
    except (ExperimentError, MissingPackageError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    text = page(studies)
    if arguments.out is None:
        sys.stdout.write(text)
    else:
        write_whole(arguments.out, text)
    return 1 if failed else 0
