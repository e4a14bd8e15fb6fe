"""The clock that a power limit leaves to a run: the highest at which the run draws no more in the mean.

Power controllers act over milliseconds, so that it is the mean power of a run that counts, as if it were repeated for
long; single kernels may draw more.
"""

from collections.abc import Callable

from dsascape.hw_models import SimulationResult
from dsascape.hw_models.text.quantities import PS_PER_S

STEPS = 128
"""Clocks are multiples of this part of the sustained one: some 15 MHz, the step of server GPUs."""
LOWEST = STEPS // 8
"""Steps of the lowest clock, an eighth: a run that draws too much even there is left there."""
Lasting = Callable[[SimulationResult, float], float]
"""From a run that is simulated at a share of the clock to the picoseconds that it is taken to last."""


def makespan(result: SimulationResult, clock_share: float) -> float:
    """Return the picoseconds that a simulated run lasts."""
    del clock_share  # the simulation had it
    return float(result.makespan_ps)


def highest_clock(
    limit_w: float, run: Callable[[float], SimulationResult], lasting: Lasting
) -> tuple[float, SimulationResult]:
    """Return the highest share of the sustained clock at which a run keeps within ``limit_w``, and the run there.

    ``run`` simulates at a share of the clock. A higher limit never has a lower share.
    """

    def fits(result: SimulationResult, clock_share: float) -> bool:
        lasting_ps = lasting(result, clock_share)
        return result.energy_lasting_j(lasting_ps) * PS_PER_S <= limit_w * lasting_ps

    if fits(found := run(1.0), 1.0):
        return 1.0, found
    below, above = LOWEST, STEPS
    found = run(below / STEPS)
    while above - below > 1:
        middle = (below + above) // 2
        if fits(result := run(middle / STEPS), middle / STEPS):
            below, found = middle, result
        else:
            above = middle
    return below / STEPS, found
