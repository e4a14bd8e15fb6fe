"""Order of sub-graph instances with the fewest live bytes, by constraint programming.

The paper orders instances breadth-first or depth-first and leaves integer programming to future work (section 3.3).
OR-Tools' CP-SAT solver is given the whole problem: each instance has a distinct place, after its producers; its output
is live from there to the place of its last reader; the peak of live bytes over all places is minimised.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.graphturbo.ordering import peak_live_bytes


@dataclass(frozen=True, slots=True)
class ExactOrder:
    """Order with its peak of live bytes, and the lower bound ``least_bytes`` on any order's peak; equal if proved."""

    order: tuple[int, ...]
    peak_bytes: int
    least_bytes: int

    @property
    def is_proved(self) -> bool:
        return self.peak_bytes == self.least_bytes


def exact_order(
    start: Sequence[int], producers: Mapping[int, frozenset[int]], output_bytes: Mapping[int, int], effort_s: float
) -> ExactOrder:
    """Return the order with the least ``peak_live_bytes`` found within ``effort_s``, at worst the order ``start``.

    ``effort_s`` counts CP-SAT's deterministic seconds, about those of one core: the same input gives the same order on
    every machine. Raises ``ScheduleError`` if OR-Tools is not installed.
    """
    try:
        from ortools.sat.python import cp_model  # noqa: PLC0415  # optional package, a second to import
    except ModuleNotFoundError as error:
        raise ScheduleError("order: exact needs OR-Tools: python -m pip install 'dsascape[exact]'") from error

    unit = math.gcd(*output_bytes.values()) or 1
    most = peak_live_bytes(start, producers, output_bytes)
    count = len(start)
    model = cp_model.CpModel()
    place = {instance: model.new_int_var(0, count - 1, "") for instance in start}
    model.add_all_different(place.values())
    for instance in start:
        for producer in producers[instance]:
            model.add(place[producer] < place[instance])
    intervals = []
    for instance in (i for i in start if output_bytes[i]):
        readers = [place[reader] for reader in start if instance in producers[reader]]
        end = model.new_int_var(1, count, "")
        if readers:
            model.add_max_equality(end, [reader + 1 for reader in readers])
        else:
            model.add(end == count)  # a result without readers stays alive
        length = model.new_int_var(1, count, "")
        intervals.append((model.new_interval_var(place[instance], length, end, ""), instance))
    peak = model.new_int_var(0, most // unit, "")
    model.add_cumulative([i for i, _ in intervals], [output_bytes[n] // unit for _, n in intervals], peak)
    model.minimize(peak)
    for position, instance in enumerate(start):
        model.add_hint(place[instance], position)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = effort_s
    status = solver.solve(model)
    least = math.ceil(solver.best_objective_bound) * unit
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return ExactOrder(tuple(start), most, min(max(least, 0), most))
    order = tuple(sorted(start, key=lambda instance: solver.value(place[instance])))
    return ExactOrder(order, peak_live_bytes(order, producers, output_bytes), least)
