"""Timing of built functions by the clock of the machine that runs them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dsascape.tuner.measure.records import Timing
from dsascape.tuner.measure.timing import FLUSH, measured

_SHORTEST_SAMPLE_S = 20e-6
"""Duration below which a kernel is run several times per sample, in seconds."""


@dataclass(frozen=True)
class Clock:
    """How the function "main" of modules is timed on a device."""

    device: Any
    """TVM's device."""
    flushed: bool
    """Whether its arguments, except the first, are flushed from all caches before each timed run."""

    def evaluator(self, module: Any, number: int) -> Any:
        """Return a function that runs a module's function ``number`` times in sequence and tells the mean seconds.

        It runs the function once more before that, untimed.
        """
        before = FLUSH if self.flushed else ""
        return module.time_evaluator("main", self.device, number=number, repeat=1, f_preproc=before)

    def number(self, module: Any, arguments: Sequence[Any]) -> int:
        """Return how often a module's function is run per sample."""
        if self.flushed:
            return 1
        once = self.evaluator(module, 1)
        first = once(*arguments).results[0]
        if first < _SHORTEST_SAMPLE_S:
            first = min(first, once(*arguments).results[0])
        return max(1, int(_SHORTEST_SAMPLE_S / max(first, 1e-9)))

    def timing(
        self, module: Any, arguments: Sequence[Any], number: int, budget_s: float, width: float, **runs: int
    ) -> Timing:  # fmt: skip
        """Time a module's function as `measured` does, ``number`` runs a sample; ``runs`` are passed on to that."""
        evaluator = self.evaluator(module, number)
        return measured(lambda: float(evaluator(*arguments).results[0]), budget_s, width, **runs)
