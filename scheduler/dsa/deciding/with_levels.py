"""Schedules with and without a machine's further levels: the faster one is taken.

Searches for layouts and tiles are local. So where a machine has memories between the global buffer and DDR, it is also
scheduled as if it had none: on the same clusters, a further level never makes a network slower.
"""

from collections.abc import Callable

from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.runs import evaluate_schedule
from dsascape.scheduler.dsa.schedule.schedule import Schedule
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.evaluated import Evaluated


def fastest_with_levels(
    costs: DsaCosts, evaluate: Callable[[DsaCosts], Evaluated[Schedule]]
) -> Evaluated[Schedule]:
    """Return the faster of the schedules that ``evaluate`` finds with and without the machine's further levels.

    Clusters that share every kernel pass all tensors through DDR, and so have the same schedule with and without.
    Raises ``ScheduleError`` if there is none; the reason is that of the machine with them.
    """
    if not costs.view.spec.further_levels or costs.view.divides_kernels:
        return evaluate(costs)
    try:
        without = evaluate(costs.without_further_levels())
    except ScheduleError:
        return evaluate(costs)
    try:
        found = evaluate(costs)
    except ScheduleError:
        return evaluate_schedule(without.schedule, costs)
    return found if found.seconds <= without.seconds else evaluate_schedule(without.schedule, costs)
