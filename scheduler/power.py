"""The clock that a power limit leaves to a run: the highest at which the run draws no more in the mean.

Power controllers act over milliseconds, so that it is the mean power of a run that counts, as if it were repeated for
long; single kernels may draw more.
"""

from collections.abc import Callable

from dsascape.hw_models import SimulationResult

STEPS = 128
"""Clocks are multiples of this part of the sustained one: some 15 MHz, the step of server GPUs."""
LOWEST = STEPS // 8
"""Steps of the lowest clock, an eighth: a run that draws too much even there is left there."""


def within_power(
    limit_w: float, at_full_clock: SimulationResult, run: Callable[[float], SimulationResult]
) -> tuple[float, SimulationResult]:
    """Return the share of the sustained clock at which a run keeps within ``limit_w``, and the run there.

    ``run`` simulates at a share of the clock, ``at_full_clock`` is the run at 1. A higher limit never has a lower
    share.
    """
    if at_full_clock.power_w <= limit_w:
        return 1.0, at_full_clock
    below, above = LOWEST, STEPS
    found = None
    while above - below > 1:
        middle = (below + above) // 2
        result = run(middle / STEPS)
        if result.power_w <= limit_w:
            below, found = middle, result
        else:
            above = middle
    return below / STEPS, found or run(below / STEPS)
