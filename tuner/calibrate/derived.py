"""Relations that a machine file states, derived from measured times, and what they can be.

A bundle carries this module, so it uses the standard library only.
"""

from collections.abc import Mapping, Sequence

from dsascape.tuner.calibrate.figures import Far, Level
from dsascape.tuner.calibrate.shapes import TILES_OF_PANEL

MOST: Mapping[str, float] = {"exposed": 10, "exposed_stores": 10, "writing": 100, "scattered": 1000}
"""Largest value of each relation that a machine file may state (`hw_models.cpu.core_kinds`)."""


def relations(far: Far, levels: Sequence[Level], result_s: float) -> dict[str, float]:
    """Return what a memory costs by its reading time: ``exposed``, ``exposed_stores``, ``writing``, ``scattered``.

    ``levels`` and ``result_s`` are those of `tuner.calibrate.figures.Figures`.
    """
    reads_s = next(level.byte_s for level in levels if level.name == far.name)
    return {
        "exposed": _exposed_loads(far, reads_s),
        "exposed_stores": _exposed_stores(far, result_s),
        "writing": max(far.written_s / reads_s - 1, 0.0),
        "scattered": max(1 + (far.apart_s - far.written_s) / reads_s, 1.0),
    }


def impossible_of(far: Far, levels: Sequence[Level], result_s: float) -> str:
    """Return which relation of a memory is larger than can be; empty if none is."""
    for name, value in relations(far, levels, result_s).items():
        if value > MOST[name]:
            return f"{name} of {far.name} is found to be {value:.3g}; {MOST[name]:g} assumed"
    return ""


def _exposed_loads(far: Far, reads_s: float) -> float:
    """Return the exposed part of loading a byte, relative to the shorter of the overlapping times.

    Of the tiles that use a panel, only the first reads it from this memory; the others hit the second cache, if any.
    """
    if far.name == "l2":
        return max(far.panel_s - far.near_s, 0.0) / (TILES_OF_PANEL * reads_s)
    first_s = far.near_s / TILES_OF_PANEL
    return max(far.panel_s - far.near_s - max(reads_s - first_s, 0.0), 0.0) / min(reads_s, first_s)


def _exposed_stores(far: Far, result_s: float) -> float:
    """Return the time that storing a byte adds to the longer of computing and writing, relative to the shorter."""
    longer, shorter = max(far.written_s, result_s), min(far.written_s, result_s)
    return max(far.result_s - longer, 0.0) / shorter
