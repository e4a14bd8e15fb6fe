"""A schedule for a GPU: the kernels in order, each a layer with the steps that make its loops.

What lies in the L2 is not decided but follows; how many blocks an SM holds follows from what a block takes of it.
"""

from dataclasses import dataclass
from functools import cached_property

from dsascape.fusion.plan import FusionPlan
from dsascape.hw_models.gpu.sm import SHARED
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.gpu.cost.shape import GridShape, shape_of
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.residency import found_in_l2
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import ShareReduction, Steps, Tensorise
from dsascape.scheduler.kernels.schedule import Kernel, KernelSchedule, shown
from dsascape.wording import count


@dataclass(frozen=True)
class GpuKernel(Kernel):
    """One kernel: a layer, and the steps that make its loops of blocks and threads."""

    steps: Steps

    @cached_property
    def program(self) -> LoopProgram:
        """The loops of the kernel."""
        return loop_program(NaiveProgram(self.layer), self.steps)

    @cached_property
    def shape(self) -> GridShape:
        """What blocks compute, and in which order."""
        return shape_of(self.layer, self.program)

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.shape.blocks

    def __str__(self) -> str:
        shape = self.shape
        loops = " ".join(f"d{dim}" for dim in shape.order)
        unit = "tensor units" if any(isinstance(step, Tensorise) for step in self.steps) else "lanes"
        staged = f", {count(shape.stages, 'stage')} of depth {shape.depth_step}" if shape.depth_step else ""
        sharing = [step for step in self.steps if isinstance(step, ShareReduction)]
        ways = max([each.count if each.by == "thread" else each.threads for each in sharing], default=1)
        split = f", reductions split {count(ways, 'way')}" if ways > 1 else ""
        split += f", blocks in clusters of {shown(shape.cluster)}" if shape.cluster else ""
        split += f", reductions shared by {count(shape.shares, 'block')}" if shape.shares > 1 else ""
        return (
            f"{self.name}: {count(self.blocks, 'block')} of {shown(shape.tile)} of {shown(self.layer.sink.shape)},"
            f" grid {loops}, {count(shape.threads, 'thread')} on {unit}{staged}{split}"
        )


@dataclass(frozen=True)
class GpuSchedule(KernelSchedule[GpuKernel]):
    """All that is decided about a network on a GPU."""

    @property
    def tensor_scopes(self) -> dict[str, int]:
        """Per memory: how many outputs of kernels are kept there, and of layers inside them in shared memory."""
        inner = sum([nests_of(kernel.layer).shared for kernel in self.runs])
        return ({SHARED: inner} if inner else {}) | super().tensor_scopes


def kernel_by_kernel(plan: FusionPlan, costs: GpuCosts, policy: str = "") -> GpuSchedule:
    """Return the schedule that launches the plan's groups one after the other.

    Groups are cut as `scheduler.gpu.layers` says. Raises ``ScheduleError`` for an operator that does not fit alone.
    """
    placed = [(number, layer) for number, group in enumerate(plan.groups) for layer in costs.layers_of(group.ops)]
    kernels = []
    view = costs.view
    layers = [layer for _, layer in placed]
    in_l2 = found_in_l2(layers, view.spec.l2.capacity_bytes, warm=view.tuning.warm_l2)
    for (number, layer), found in zip(placed, in_l2, strict=True):
        decided = costs.decided(layer, found)
        if decided is None:
            raise ScheduleError(_too_large(layer, costs))
        kernels.append(GpuKernel(layer.sink.name, number, layer, decided))
    pins = () if costs.pins is None else costs.pins.applied(layers)
    return GpuSchedule(plan, tuple(kernels), costs.dtype, policy, pins)


def _too_large(layer: Layer, costs: GpuCosts) -> str:
    spec = costs.view.spec
    names = ", ".join(layer.graph.ops[op].name for op in layer.ops)
    return (
        f"{layer.sink.name} ({names}): no block of it fits into an SM of {spec.name}, which has"
        f" {spec.sms.shared.per_block_bytes} B of shared memory and"
        f" {count(spec.sms.registers_per_thread, 'register')} a thread"
        " for a block"
    )
