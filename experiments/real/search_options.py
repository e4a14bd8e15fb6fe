"""Options of a search from what a user leaves out of it, for the ablations of Ansor's parts."""

from collections.abc import Collection
from dataclasses import replace
from typing import Literal, get_args

from dsascape.experiments.question.config import ExperimentError
from dsascape.tuner.search.evolution import EvolutionOptions
from dsascape.tuner.search.options import LIMITED, SpaceOptions
from dsascape.tuner.search.reformer.options import ReformerOptions
from dsascape.tuner.search.task_scheduler import SchedulerOptions
from dsascape.tuner.search.tuners import SearchOptions, TunerName

Part = Literal[
    "fine-tuning", "task-scheduler", "large-space", "layouts", "prior", "built-in", "intensive-fusion", "reformer",
    "bridges",
]
"""A part that a search can do without.

``layouts``: weights are not stored in the order of the tiles. ``built-in``: programs do not evolve from the built-in
choice. ``intensive-fusion`` and ``reformer`` are parts of AGO, ``bridges`` of ETO.
"""
PARTS: tuple[Part, ...] = get_args(Part)


def search_options(
    tuner: TunerName, without: Collection[str], *, trials: int, seed: int, unit: int, population: int, is_measured: bool
) -> SearchOptions:
    """Return the options of a search by ``tuner`` without some of `PARTS`; a prior needs measured times.

    Raises ``ExperimentError`` for a part that the tuner has not.
    """
    space = LIMITED if "large-space" in without else SpaceOptions()
    parts = sorted(set(without) & {"intensive-fusion", "reformer"})
    if parts and tuner != "ago":
        raise ExperimentError(f"--without {parts[0]}: is a part of --tuner ago; --tuner has {tuner}")
    return SearchOptions(
        tuner, trials, seed, unit, fine_tuning="fine-tuning" not in without,
        prior=is_measured and "prior" not in without,
        builtin="built-in" not in without,
        space=replace(
            space, layouts=space.layouts and "layouts" not in without, intensive="intensive-fusion" not in without
        ),
        reformer=ReformerOptions(split="reformer" not in without),
        evolution=EvolutionOptions(population=population),
        scheduler=SchedulerOptions("round-robin" if "task-scheduler" in without else "gradient"),
        hops=0 if "bridges" in without else 1,
    )  # fmt: skip
