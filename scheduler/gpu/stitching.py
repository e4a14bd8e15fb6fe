"""Larger kernels for a GPU: layers stitched together, their tensors handed on in registers and shared memory.

Sub-graphs grow from layers on: one joins the first that reads it, if a block of both fits into an SM and one kernel is
estimated to take no longer than two would. That is GraphTurbo's straight pattern (OSDI '23, section 3.2); others may
read the first one's results too, which then also go to DRAM. What a block computes is what an instance is on a
scratchpad machine: a part of the sub-graph, small enough for its tensors to stay on chip, with what neighbouring parts
share (the halo) computed twice. Tensors between kernels are taken to stay in the L2 if they fit, so joining has to beat
the cache, not DRAM.
"""

import math
from collections.abc import Callable, Iterable

from dsascape.fusion.fixed_pattern import fixed_pattern_of
from dsascape.fusion.plan import FusionPlan, Group, plan_from_groups
from dsascape.hw_models import gpu_energy, gpu_machine, simulate
from dsascape.scheduler.evaluated import Evaluated
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.lower import lower
from dsascape.scheduler.gpu.residency import found_in_l2
from dsascape.scheduler.gpu.schedule import GpuSchedule, kernel_by_kernel
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer

Allowed = Callable[[frozenset[int]], str]
"""From operators to why they may not be one kernel; empty if they may."""


def stitched(costs: GpuCosts, allowed: Allowed) -> FusionPlan:
    """Return the plan whose groups are layers stitched together as long as that is ``allowed`` and pays."""
    return _Stitcher(costs, allowed).plan()


def evaluate_plans(policy: str, costs: GpuCosts, plans: Iterable[FusionPlan]) -> Evaluated[GpuSchedule]:
    """Return the schedule of the plan that the simulation finds fastest, with that run; of equal ones the first."""
    spec = costs.view.spec
    machine, energy = gpu_machine(spec), gpu_energy(spec)

    def evaluated(plan: FusionPlan) -> Evaluated[GpuSchedule]:
        schedule = kernel_by_kernel(plan, costs, policy)
        program = lower(schedule, costs)
        return Evaluated(schedule, program, simulate(program, machine, energy))

    return min(map(evaluated, plans), key=lambda each: each.result.makespan_ps)


class _Stitcher:
    """Groups being joined, by number; a group that has joined another is gone."""

    def __init__(self, costs: GpuCosts, allowed: Allowed) -> None:
        self._costs, self._allowed = costs, allowed
        graph = self._graph = costs.analysis.graph
        layers = costs.analysis.of(fixed_pattern_of)
        self._ops = {number: frozenset(group.ops) for number, group in enumerate(layers.groups)}
        self._next: dict[int, dict[int, None]] = {number: {} for number in self._ops}
        self._previous: dict[int, dict[int, None]] = {number: {} for number in self._ops}
        for position, op in enumerate(graph.ops):
            number = layers.group_of[position]
            for name in op.inputs:
                producer = graph.producer.get(name)
                before = number if producer is None else layers.group_of[producer]
                if before != number:
                    self._next[before][number] = None
                    self._previous[number][before] = None
        self._reasons = dict.fromkeys(self._ops, "nothing follows")

    def plan(self) -> FusionPlan:
        """Return the groups when none joins another any more."""
        is_growing = True
        while is_growing:
            joined = [self._join_next(number) for number in list(self._ops)]
            is_growing = any(joined)
        groups = [Group(tuple(sorted(ops)), self._reasons[number]) for number, ops in self._ops.items()]
        return plan_from_groups(self._graph, groups)

    def _join_next(self, number: int) -> bool:
        """Let a group join the first one that reads it; return whether it did."""
        follower = self._first_reader(number)
        if follower is None:
            return False
        reason = self._refusal(number, follower)
        if reason:
            self._reasons[number] = reason
            return False
        self._ops[follower] |= self._ops.pop(number)
        for after in self._next.pop(number):
            del self._previous[after][number]
            if after != follower:
                self._next[follower][after] = None
                self._previous[after][follower] = None
        for before in self._previous.pop(number):
            del self._next[before][number]
            self._next[before][follower] = None
            self._previous[follower][before] = None
        return True

    def _first_reader(self, number: int) -> int | None:
        """Return the group that reads a group and has to wait for no other that does; None if nobody reads it."""
        readers = self._next[number]
        return next((one for one in sorted(readers) if not self._leads_to(one, (r for r in readers if r != one))), None)

    def _leads_to(self, goal: int, starts: Iterable[int]) -> bool:
        waiting = list(starts)
        seen = set(waiting)
        while waiting:
            here = waiting.pop()
            if here == goal:
                return True
            further = [after for after in self._next[here] if after not in seen]
            seen.update(further)
            waiting += further
        return False

    def _refusal(self, one: int, other: int) -> str:
        """Return why two groups stay apart; empty if they are better together."""
        both = self._ops[one] | self._ops[other]
        reason = self._allowed(both)
        if reason:
            return reason
        analysis = self._costs.analysis
        first, second, joined = [layer_of(analysis, ops) for ops in (self._ops[one], self._ops[other], both)]
        if first is None or second is None or joined is None:  # views, which cost nothing
            return ""
        together_ps, apart_ps = self._taken_ps(joined), self._taken_ps(first, second)
        if together_ps == math.inf:
            return "no block of it and of the next fits into an SM"
        return "" if together_ps <= apart_ps else "one kernel with the next takes longer"

    def _taken_ps(self, *layers: Layer) -> float:
        """Return what the layers take as kernels one after the other; infinite if no block of one fits."""
        found = found_in_l2(layers, self._costs.view.spec.l2.capacity_bytes, warm=False)
        tilings = [self._costs.tiling_of(layer, each) for layer, each in zip(layers, found, strict=True)]
        return sum([math.inf if tiling is None else tiling.estimate_ps for tiling in tilings])
