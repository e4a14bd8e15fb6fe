"""The machine model of a GPU as a runner."""

import math
from collections.abc import Iterator, Sequence

from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.gpu.residency import found_among_others
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import estimate_ps, off_chip_of, program_grid
from dsascape.scheduler.kernels.layer import Layer
from dsascape.tuner.search.runners import NO_COST, Answer
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.tasks import Task
from dsascape.wording import count


class SimulatedGrids:
    """The machine model of a GPU: a kernel among others, which finds their results in the L2 if all fits there."""

    is_repeatable = True

    def __init__(self, view: GpuView) -> None:
        self._view = view

    def answers(self, task: Task, programs: Sequence[Program]) -> Iterator[Answer]:
        """Yield the time of each program, launch included."""
        for program in programs:
            yield self._answer(task.naive.layer, program)

    def _answer(self, layer: Layer, program: Program) -> Answer:
        view = self._view.of(layer)
        try:
            grid = program_grid(layer, program.loops, view)
            found = found_among_others(layer, view.spec.l2.capacity_bytes)
            time_ps = estimate_ps(grid, view, off_chip_of(layer, grid, grid.shape.order, view).left(found))
        except NO_COST as error:
            return Answer(None, f"no cost: {type(error).__name__}: {error}")
        if time_ps == math.inf:
            needs = grid.needs
            each = f"{count(needs.registers_per_thread, 'register')} a thread, {needs.shared_bytes:,} B shared"
            return Answer(None, f"no SM of {view.spec.name} holds a block of it: {each}")
        return Answer(time_ps / PS_PER_S)

    def close(self) -> None:
        """Do nothing: it holds nothing."""
