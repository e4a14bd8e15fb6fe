"""A schedule for a GPU: the kernels in order, each a layer with the tiles of its grid.

What lies in the L2 is not decided but follows; how many blocks an SM holds follows from what a block takes of it.
"""

import math
from dataclasses import dataclass

from dsascape.fusion.plan import FusionPlan
from dsascape.hw_models.gpu.sm import SHARED
from dsascape.hw_models.gpu.spec import TensorUnits
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.residency import found_in_l2
from dsascape.scheduler.gpu.steps import steps_of
from dsascape.scheduler.gpu.tiles import ComputeUnit, GpuTiles
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.scheduler.kernels.schedule import Kernel, KernelSchedule, shown
from dsascape.wording import count
from dsascape.workloads.loopnest import Extents


@dataclass(frozen=True, slots=True)
class GpuKernel(Kernel):
    """One kernel: a layer, and the blocks and threads in which it is computed."""

    tiles: GpuTiles
    steps: Steps = ()
    """Steps that make its loops, from which ``tiles`` are read; none: the built-in choice writes those of the tiles."""

    def program(self, warp: int, tensor: TensorUnits | None = None) -> LoopProgram:
        """Return the loops of the kernel, for warps of so many threads and these tensor units."""
        steps = self.steps or steps_of(self.layer, self.tiles, warp, tensor)
        return loop_program(NaiveProgram(self.layer), steps)

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        shape = self.layer.computed_part(self.layer.sink.shape, self.tiles.tile)
        return math.prod(self.tiles.blocks_along(shape)) * self.tiles.shares

    def __str__(self) -> str:
        tiles = self.tiles
        loops = " ".join(f"d{dim}" for dim in tiles.order)
        fronts = "".join([f", {self._front(number)}" for number in range(len(tiles.fronts))])
        split = f", reductions split {count(tiles.split, 'way')}" if tiles.split > 1 else ""
        split += f", blocks in clusters of {shown(tiles.cluster)}" if tiles.cluster else ""
        split += f", {tiles.stream} of the depth at a time" if tiles.stream is not None else ""
        split += f", reductions shared by {count(tiles.shares, 'block')}" if tiles.shares > 1 else ""
        return (
            f"{self.name}: {count(self.blocks, 'block')} of {shown(tiles.tile)} of {shown(self.layer.sink.shape)},"
            f" grid {loops},"
            f" {_by(tiles.part, tiles.unit)}, {self._staged(tiles.depth_step)}{split}{fronts}"
        )

    def _front(self, number: int) -> str:
        """Return what is shown of a contraction in front of the last."""
        nests, front = nests_of(self.layer), self.tiles.fronts[number]
        nest = nests.nests[nests.fronts[number]]
        work = nests.works(self.layer, self.tiles.tile, self.tiles.stream)[nests.fronts[number]]
        at_once = "" if front.at_once is None else f", {shown(front.at_once)} at once"
        return (
            f"before it {shown(nest.box(work.extents))} of {nest.compiled.target}:"
            f" {_by(front.part, front.unit)}, {self._staged(front.depth_step)}{at_once}"
        )

    def _staged(self, depth_step: int | None) -> str:
        stages = f"{count(self.tiles.stages, 'stage')} of depth {depth_step}"
        return "nothing staged" if depth_step is None else stages


def _by(part: Extents, unit: ComputeUnit) -> str:
    return f"{shown(part)} {'a warp' if unit == 'tensor' else 'a thread'} on {unit}"


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
        kernels.append(GpuKernel(layer.sink.name, number, layer, decided.tiles, decided.steps))
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
