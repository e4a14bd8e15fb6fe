"""Simulated runs of schedules on a DSA."""

from dataclasses import replace

from dsascape.hw_models import Program, dsa_energy, dsa_machine, simulate
from dsascape.hw_models.simulation.energy import energy_pj
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.lower.program import lower
from dsascape.scheduler.dsa.schedule.schedule import Schedule
from dsascape.scheduler.evaluated import Evaluated


def evaluate_schedule(schedule: Schedule, costs: DsaCosts) -> Evaluated[Schedule]:
    """Return a schedule with its program and simulation result on the machine of ``costs``."""
    return run(schedule, lower(schedule, costs.view), costs)


def timed_schedule(schedule: Schedule, costs: DsaCosts) -> Evaluated[Schedule]:
    """Return a schedule with its program and simulation result without energy, which reads `DsaCosts.timing` alone."""
    program = lower(schedule, costs.view)
    return Evaluated(schedule, program, simulate(program, dsa_machine(costs.view.spec), None))


def with_energy(evaluated: Evaluated[Schedule], costs: DsaCosts) -> Evaluated[Schedule]:
    """Return ``evaluated`` with the energy that the machine of ``costs`` spends on it."""
    spent = energy_pj(evaluated.program, dsa_energy(costs.view.spec), evaluated.result.makespan_ps)
    return replace(evaluated, result=replace(evaluated.result, energy_pj=spent))


def on_larger_buffers(evaluated: Evaluated[Schedule], costs: DsaCosts) -> Evaluated[Schedule]:
    """Return ``evaluated`` on the machine of ``costs``, whose local buffers are at least as large.

    Programs do not depend on the buffers' size; nor do results of runs that are never short of space, except energy.
    """
    if evaluated.result.was_short_of_space:
        return run(evaluated.schedule, evaluated.program, costs)
    return with_energy(evaluated, costs)


def run(schedule: Schedule, program: Program, costs: DsaCosts) -> Evaluated[Schedule]:
    """Return a schedule with its program and the result of simulating it on the machine of ``costs``."""
    spec = costs.view.spec
    return Evaluated(schedule, program, simulate(program, dsa_machine(spec), dsa_energy(spec)))
