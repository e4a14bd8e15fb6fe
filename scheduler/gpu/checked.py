"""Steps of a grid from elsewhere, checked before anything is made of them."""

from dsascape.hw_models.gpu.occupancy import occupancy
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.gpu.clusters import check_cluster
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import program_grid
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.illegal import Limits, illegal
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import LoopKind
from dsascape.scheduler.kernels.loops.steps import Scope, Steps
from dsascape.wording import count

_REGISTER_BYTES = 4


def gpu_limits(view: GpuView) -> Limits:
    """Return what a grid of the GPU can have: kinds of loops, threads of a block, its registers and shared memory."""
    sms = view.spec.sms
    kinds: set[LoopKind] = {"block", "thread", "serial", "unrolled"}
    kinds |= {"tensor"} if view.tensor is not None else set()
    registers_bytes = sms.registers_per_thread * _REGISTER_BYTES
    sizes: dict[Scope, int] = {"register": registers_bytes, "shared": sms.shared.per_block_bytes, "stack": 0}
    return Limits(frozenset(kinds), sizes, sms.threads_per_block, sms.cluster)


def checked_steps(where: str, layer: Layer, steps: Steps, view: GpuView) -> Steps:
    """Return ``steps``.

    Raises ``ScheduleError`` beginning with ``where`` if they make no program that the GPU runs.
    """
    try:
        program = loop_program(NaiveProgram(layer), steps)
        grid = program_grid(layer, program, view)
    except (StepError, ValueError) as error:
        raise ScheduleError(f"{where}: {error}") from error
    reasons = illegal(program, gpu_limits(view))
    if reasons:
        raise ScheduleError(f"{where}: {reasons[0]}")
    check_cluster(where, layer, program, grid.shape, view)
    if not occupancy(view.spec.sms, grid.needs).blocks:
        needs = grid.needs
        each = f"{count(needs.registers_per_thread, 'register')} a thread, {needs.shared_bytes:,} B of shared memory"
        raise ScheduleError(f"{where}: no SM of {view.spec.name} holds a block of it: {each}")
    return steps
