"""Algorithms of convolutions as the whole schedule runs them: each in the way that is fastest where it stands.

`CpuCosts.convolved` compares algorithms of one kernel among many alike, whose buffers in front of and behind its
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

    Compared are all convolutions by the algorithm that is fastest by itself, these without phases, and all directly.
    Then each is computed as in the fastest of these for its group, if that makes the whole faster than all three.
    """
    by_itself = kernel_by_kernel(plan, costs, policy)
    otherwise = {run.group for run in by_itself.runs if run.algorithm}
    if not otherwise:
        return by_itself
    phased = {group for group in otherwise if len(by_itself.kernels_of[group]) > 1}
    ways = [_Way(by_itself, costs)]
    if phased:
        ways.append(_Way(kernel_by_kernel(plan, costs, policy, (), phased), costs))
    ways.append(_Way(kernel_by_kernel(plan, costs, policy, otherwise), costs))
    fastest = {group: min(range(len(ways)), key=lambda way: ways[way].times_ps[group]) for group in otherwise}
    direct = {group for group, way in fastest.items() if way == len(ways) - 1}
    whole = {group for group in phased if 0 < fastest[group] < len(ways) - 1}
    if direct != otherwise and (direct or whole not in (set(), phased)):
        ways.append(_Way(kernel_by_kernel(plan, costs, policy, direct, whole), costs))
    return min(ways, key=lambda way: sum(way.times_ps.values())).schedule


class _Way:
    """A schedule, and what the kernels of each group take in it, with what caches have of those before."""

    def __init__(self, schedule: CpuSchedule, costs: CpuCosts) -> None:
        self.schedule = schedule
        taken: defaultdict[int, float] = defaultdict(float)
        for kernel, work in zip(schedule.runs, works(schedule, costs.view), strict=True):
            taken[kernel.group] += time_ps(work, costs.view)
        self.times_ps: Mapping[int, float] = taken
