"""Kernels that can be tuned by reuse: one class for each kind of machine, behind one protocol."""

import random
from collections.abc import Callable, Sequence
from typing import Protocol, Self

from dsascape.tuner.search.reuse.operators import FeatureRatios, SketchSet
from dsascape.tuner.search.space import Program


class Reusable(Protocol):
    """A kernel of one operator, whose programs can be reused, and that can be tuned from another's."""

    @property
    def kinds(self) -> SketchSet:
        """Kinds of its sketches, one entry for each."""
        ...

    def expected_trials(self, other: Self, ratios: FeatureRatios, rng: random.Random) -> float:
        """Return how many programs a reuse of the other kernel's fastest program tries in the mean."""
        ...

    def search(
        self, reused: Self, program: Program, ratios: FeatureRatios,
        fastest: Callable[[Sequence[Program]], Program | None],
    ) -> Program | None:  # fmt: skip
        """Return the fastest program that Algorithm 1 finds, given one of another kernel; None where none runs.

        ``fastest`` measures programs that it has not measured before, and says which of them takes least time.
        """
        ...
