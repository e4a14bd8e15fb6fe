"""A schedule for a CPU: the kernels in order, each a layer with the tiles of its loops and the threads that share them.

What lies in which cache is not decided but follows; lowering and code generation read the same record.
"""

from dataclasses import dataclass
from functools import cached_property

from fusion.plan import FusionPlan
from scheduler.cpu.chunks import chunks_of
from scheduler.cpu.costs import CpuCosts
from scheduler.cpu.tiles import LoopTiles
from scheduler.kernels.cut import layer_of
from scheduler.kernels.layer import Layer
from workloads.graph import Graph
from workloads.loopnest import Extents


@dataclass(frozen=True, slots=True)
class CpuKernel:
    """One kernel: a layer, the loops in which it is computed, the threads that its parallel loop is split over."""

    name: str
    group: int
    """Number of the plan's group."""
    layer: Layer
    tiles: LoopTiles
    threads: int

    @property
    def chunks(self) -> int:
        """Parts of the parallel loop, one a thread; fewer than threads where there are not so many iterations."""
        return chunks_of(self.layer.sink.shape, self.tiles, self.threads).count

    def __str__(self) -> str:
        tiles = self.tiles
        depth = "all" if tiles.depth_step is None else str(tiles.depth_step)
        vectors = "no vectors" if tiles.vector_dim < 0 else f"vectors along d{tiles.vector_dim}"
        in_front = "".join([
            f", in front registers {_by(each.register)}, loops {_loops(each.order)}, vectors along d{each.vector_dim}"
            for each in tiles.upstream
        ])  # fmt: skip
        return (
            f"{self.name}: tile {_by(tiles.tile)} of {_by(self.layer.sink.shape)}, loops {_loops(tiles.order)}, first"
            f" {tiles.parallel} in parallel, registers {_by(tiles.register)}, {vectors}, depth {depth}"
            f"{in_front}, {self.threads} threads, {self.chunks} chunks"
        )


def _loops(order: tuple[int, ...]) -> str:
    return " ".join(f"d{dim}" for dim in order)


def _by(extents: Extents) -> str:
    return "x".join(map(str, extents)) or "1"


@dataclass(frozen=True)
class CpuSchedule:
    """All that is decided about a network on a CPU."""

    plan: FusionPlan
    runs: tuple[CpuKernel, ...]
    """In the order in which they are called; groups that only rename elements have none."""
    dtype: str
    policy: str = ""

    @property
    def graph(self) -> Graph:
        return self.plan.graph

    @property
    def kernels(self) -> int:
        """Calls that do anything."""
        return len(self.runs)

    @cached_property
    def tensor_scopes(self) -> dict[str, int]:
        """Per memory: how many outputs of kernels are kept there; all have a place in DRAM, whatever caches hold."""
        return {"dram": sum([len(kernel.layer.outputs) for kernel in self.runs])}

    def __str__(self) -> str:
        lines = [f"schedule {self.policy} of {self.graph.name}: {self.kernels} kernels"]
        return "\n".join([*lines, *(f"  {kernel}" for kernel in self.runs)])

    def in_full(self) -> str:
        """Return the schedule as text with all that is decided."""
        return str(self)


def kernel_by_kernel(plan: FusionPlan, costs: CpuCosts, policy: str = "") -> CpuSchedule:
    """Return the schedule that calls the plan's kernels one after the other."""
    found = []
    for number, group in enumerate(plan.groups):
        layer = layer_of(costs.analysis, group.ops)
        if layer is not None:
            tiling = costs.tiling_of(layer)
            found.append(CpuKernel(layer.sink.name, number, layer, tiling.tiles, tiling.threads))
    return CpuSchedule(plan, tuple(found), costs.dtype, policy)
