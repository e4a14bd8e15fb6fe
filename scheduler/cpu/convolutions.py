"""Algorithms of convolutions as the whole schedule runs them: direct where another only pays by itself.

`CpuCosts.algorithms_of` compares algorithms of one kernel among many alike, whose buffers in front of and behind its
products the caches still have. Whether they do depends on the kernels around it: what a network's first such kernel
hands on is fetched first, what its last leaves is written out.
"""

from collections import defaultdict
from collections.abc import Mapping

from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.cpu.cost.estimate import time_ps
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.lower import works
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule, kernel_by_kernel


def with_algorithms_that_pay(plan: FusionPlan, costs: CpuCosts, policy: str = "") -> CpuSchedule:
    """Return the schedule that calls the plan's kernels one after the other, with the algorithms that pay in it.

    Of three, the fastest: every convolution by the algorithm that is fastest by itself; those directly which that slows
    down where it stands; all directly.
    """
    by_itself = kernel_by_kernel(plan, costs, policy)
    otherwise = {run.group for run in by_itself.runs if run.algorithm}
    if not otherwise:
        return by_itself
    direct = kernel_by_kernel(plan, costs, policy, otherwise)
    times_ps, direct_ps = _group_times_ps(by_itself, costs), _group_times_ps(direct, costs)
    slowed = {group for group in otherwise if times_ps[group] > direct_ps[group]}
    if not slowed:
        return by_itself
    found = [(sum(times_ps.values()), 0, by_itself), (sum(direct_ps.values()), 1, direct)]
    if slowed != otherwise:
        some = kernel_by_kernel(plan, costs, policy, slowed)
        found.append((sum(_group_times_ps(some, costs).values()), 2, some))
    return min(found, key=lambda each: each[:2])[2]


def _group_times_ps(schedule: CpuSchedule, costs: CpuCosts) -> Mapping[int, float]:
    """Return what the kernels of each group take, with what caches have of those before."""
    taken: defaultdict[int, float] = defaultdict(float)
    for kernel, work in zip(schedule.runs, works(schedule, costs.view), strict=True):
        taken[kernel.group] += time_ps(work, costs.view)
    return taken
