"""Designs over several networks, and the courses of searches, from stored rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from dsascape.experiments.question.combined import MAXIMISED, Combination, combined, figures_of
from dsascape.experiments.question.points import SIZES
from dsascape.experiments.results.folder import Note

FIGURES = ("latency_s", "throughput_per_s", "energy_j", "power_w", "area_mm2")
"""Figures of a design."""
Rows = Mapping[str, Mapping[str, object]]
"""Rows by key."""


@dataclass(frozen=True, slots=True)
class Together:
    """Designs over all networks of a study, each with its figures over the networks."""

    how: Combination
    weights: tuple[tuple[str, float], ...]
    """(network with its sizes, weight), in the order of the experiment file."""
    designs: pd.DataFrame
    """One row per design: ``hardware``, ``policy``, swept values, figures, ``error``, ``violates``."""
    base: Mapping[str, object]
    """Row of the base design; empty if it has no figures."""
    axes: tuple[str, ...]
    """Swept values of the machine, by path."""


@dataclass(frozen=True, slots=True)
class Course:
    """Designs that a search evaluated for one network, or for all together, in order."""

    method: str
    network: str
    """Network of the search; empty for a search over all together."""
    costs: tuple[tuple[float, ...], ...]
    """Objectives of each design, to minimise; empty for one that failed or does not keep the constraints."""


def together_of(note: Note, rows: Rows, swept: Sequence[str]) -> Together | None:
    """Return the designs of a run that combines its networks; None for other runs, and while it has not ended."""
    if note.experiment is None or note.experiment.combine is None or not note.searches:
        return None
    how = note.experiment.combine
    keys = dict.fromkeys(tuple(design) for search in note.searches for design in search.designs)
    known = [design for design in keys if all(key in rows for key in design)]
    machine = [path for path in swept if path not in SIZES]
    designs = pd.DataFrame([_design([rows[key] for key in each], note.weights, how, machine) for each in known])
    base = [rows[key] for key in note.base if key in rows]
    first = [rows[key] for key in next(iter(known), ())]
    labels = [_network(row) for row in first]
    is_whole = bool(base) and len(base) == len(note.weights)
    own = _design(base, note.weights, how, machine) if is_whole else {}
    weights = tuple(zip(labels, note.weights, strict=False))
    return Together(how, weights, designs, {} if own.get("error") else own, tuple(machine))


def courses_of(note: Note, rows: Rows) -> tuple[Course, ...]:
    """Return the courses of a run's searches, a search for each network on its own unless networks are combined."""
    if note.experiment is None or not note.searches:
        return ()
    objectives, how = tuple(note.experiment.objectives), note.experiment.combine
    courses = []
    for search in note.searches:
        of_network: dict[str, list[tuple[float, ...]]] = {}
        for design in search.designs:
            own = [rows[key] for key in design if key in rows]
            if len(own) == len(design):
                network = "" if how is not None else _network(own[0])
                weights = note.weights if how is not None else [1.0]
                figures = _design(own, weights, how or "geometric_mean", ())
                of_network.setdefault(network, []).append(_costs(figures, objectives))
        courses += [Course(search.method, network, tuple(costs)) for network, costs in of_network.items()]
    return tuple(courses)


def _costs(figures: Mapping[str, object], objectives: Sequence[str]) -> tuple[float, ...]:
    values = [figures[name] for name in objectives]
    if figures["error"] or figures["violates"] or any(not isinstance(value, float) for value in values):
        return ()
    return tuple(
        -value if name in MAXIMISED else value
        for name, value in zip(objectives, values, strict=True)
        if isinstance(value, float)
    )


def _network(row: Mapping[str, object]) -> str:
    """Return a network's name with the sizes that tell it from others of the study."""
    sizes = [f"{name} {row[name]}" for name in SIZES if name != "batch" and isinstance(row.get(name), str)]
    batch = [f"batch {row['batch']}"] if row.get("batch") is not None else []
    return f"{row['model']} ({', '.join([*batch, *sizes])})" if batch or sizes else str(row["model"])


def _design(
    rows: Sequence[Mapping[str, object]], weights: Sequence[float], how: Combination, swept: Sequence[str]
) -> dict[str, object]:
    """Return the row of a design: what it is, and its figures over its networks."""
    first = rows[0]
    errors = [str(row["error"]) for row in rows if isinstance(row.get("error"), str) and row["error"]]
    texts = [str(row["violates"]) for row in rows if isinstance(row.get("violates"), str)]
    beyond = dict.fromkeys([each for text in texts for each in text.split(", ") if each])
    figures = combined([figures_of(row) for row in rows], weights, how, FIGURES)
    return {
        "hardware": first["hardware"], "policy": first["policy"], **{path: first.get(path) for path in swept},
        **(dict.fromkeys(FIGURES) if errors else figures),
        "error": errors[0] if errors else "", "violates": ", ".join(beyond),
    }  # fmt: skip
