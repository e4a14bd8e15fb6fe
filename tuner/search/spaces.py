"""The space of a kernel's programs, by kind of machine."""

from collections.abc import Mapping

from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.tuner.search.analysis import SearchMachine
from dsascape.tuner.search.grid_space import GridSpace
from dsascape.tuner.search.options import SpaceOptions
from dsascape.tuner.search.space import Space

SPACES: Mapping[str, type[Space]] = {"cpu": Space, "gpu": GridSpace}
"""Spaces by kind of machine."""


def space_of(naive: NaiveProgram, machine: SearchMachine, options: SpaceOptions | None = None) -> Space:
    """Return all programs of a kernel on a machine; raise ``KeyError`` for a kind of machine that has none."""
    return SPACES[machine.kind](naive, machine, options)
