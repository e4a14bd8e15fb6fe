"""Larger kernels for a GPU: layers stitched together, their tensors handed on in registers and shared memory.

Sub-graphs grow from layers on: one joins the first that reads it, if a block of both fits into an SM and one kernel is
estimated to take no longer than two would; the join that saves most time comes first, as it may leave no room for
others. That is GraphTurbo's straight pattern (OSDI '23, section 3.2); others may read the first one's results too,
which then also go to DRAM. What a block computes is what an instance is on a scratchpad machine: a part of the
sub-graph, small enough for its tensors to stay on chip, with what neighbouring parts share (the halo) computed twice.
Tensors between kernels are taken to stay in the L2 if they fit, so joining has to beat the cache, not DRAM.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class _Join:
    """Verdict on merging a producer and a consumer, two groups of operators, into one kernel."""

    refusal: str
    """Why they stay apart; empty if one kernel is no slower."""
    saved_ps: float = -math.inf


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
        self._known: dict[tuple[frozenset[int], frozenset[int]], _Join] = {}

    def plan(self) -> FusionPlan:
        """Return the groups when none joins another any more: of all joins the one that saves most is next."""
        while (best := self._best()) is not None:
            self._merge(*best)
        groups = [Group(tuple(sorted(ops)), self._join_from(number).refusal) for number, ops in self._ops.items()]
        return plan_from_groups(self._graph, groups)

    def _best(self) -> tuple[int, int] | None:
        """Return the group and its reader whose join saves most, the first of equal ones; None if no join pays."""
        joins = {number: join for number in self._ops if not (join := self._join_from(number)).refusal}
        number = min(joins, key=lambda each: -joins[each].saved_ps, default=None)
        reader = None if number is None else self._first_reader(number)
        return None if number is None or reader is None else (number, reader)

    def _join_from(self, number: int) -> _Join:
        """Return the verdict on merging a group with its first consumer; each pair is judged once."""
        reader = self._first_reader(number)
        if reader is None:
            return _Join("nothing follows")
        pair = self._ops[number], self._ops[reader]
        if pair not in self._known:
            self._known[pair] = self._join(*pair)
        return self._known[pair]

    def _join(self, one: frozenset[int], other: frozenset[int]) -> _Join:
        """Return what it saves to make the operators of two groups one kernel."""
        if refusal := self._allowed(one | other):
            return _Join(refusal)
        analysis = self._costs.analysis
        first, second, joined = [layer_of(analysis, ops) for ops in (one, other, one | other)]
        if first is None or second is None or joined is None:  # views, which cost nothing
            return _Join("", math.inf)
        together_ps = self._taken_ps(joined)
        if together_ps == math.inf:
            return _Join("no block of it and of the next fits into an SM")
        saved_ps = self._taken_ps(first, second) - together_ps
        return _Join("" if saved_ps >= 0 else "one kernel with the next takes longer", saved_ps)

    def _merge(self, number: int, reader: int) -> None:
        """Put a group into one that reads it."""
        self._ops[reader] |= self._ops.pop(number)
        for after in self._next.pop(number):
            del self._previous[after][number]
            if after != reader:
                self._next[reader][after] = None
                self._previous[after][reader] = None
        for before in self._previous.pop(number):
            del self._next[before][number]
            self._next[before][reader] = None
            self._previous[reader][before] = None

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

    def _taken_ps(self, *layers: Layer) -> float:
        """Return what the layers take as kernels one after the other; infinite if no block of one fits."""
        found = found_in_l2(layers, self._costs.view.spec.l2.capacity_bytes, warm=False)
        tilings = [self._costs.tiling_of(layer, each) for layer, each in zip(layers, found, strict=True)]
        return sum([math.inf if tiling is None else tiling.estimate_ps for tiling in tilings])
