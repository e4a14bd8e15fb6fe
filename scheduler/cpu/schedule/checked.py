"""Steps of a kernel from elsewhere, checked before anything is made of them."""

from dsascape.scheduler.cpu.schedule.steps import cpu_limits
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import Steps


def checked_steps(where: str, layer: Layer, steps: Steps, view: CpuView) -> Steps:
    """Return ``steps``; raise ``ScheduleError`` beginning with ``where`` if they make no program that the CPU runs."""
    try:
        program = loop_program(NaiveProgram(layer), steps)
    except StepError as error:
        raise ScheduleError(f"{where}: {error}") from error
    reasons = illegal(program, cpu_limits(view))
    if reasons:
        raise ScheduleError(f"{where}: {reasons[0]}")
    return steps
