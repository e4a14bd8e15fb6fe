"""Networks taken all the way on CPUs, plan to simulated run."""

from typing import Any, NamedTuple

from dsascape.hw_models import Cpu, SimulationResult, cpu_energy, cpu_machine, simulate
from dsascape.scheduler import make_policy
from dsascape.scheduler.cpu.cost.issued import Code, codes_of_program
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.lower import lower
from dsascape.scheduler.cpu.schedule.schedule import CpuKernel, CpuSchedule, kernel_by_kernel
from dsascape.scheduler.cpu.schedule.steps import program_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CodeView, CpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.nodes import SUMS
from dsascape.scheduler.kernels.loops.steps import Parallel, Tile, Vectorise
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis


def costs_of(graph: Graph, spec: Cpu, **tuning: Any) -> CpuCosts:
    return CpuCosts(CpuView(spec, CpuTuning(**tuning)), Analysis(graph), "fp32")


def planned(costs: CpuCosts, policy: str) -> CpuSchedule:
    return kernel_by_kernel(make_policy(policy).plan(costs.analysis.graph, costs), costs, policy)


def simulated(schedule: CpuSchedule, costs: CpuCosts) -> SimulationResult:
    spec = costs.view.spec
    return simulate(lower(schedule, costs), cpu_machine(spec), cpu_energy(spec))


class Sizes(NamedTuple):
    """Sizes of a kernel's tiles, by dimension of its sink, and how its loops run, as its steps say."""

    order: tuple[int, ...]
    tile: tuple[int, ...]
    register: tuple[int, ...]
    depth_step: int | None
    parallel: int
    is_vector: bool


def sizes_of(kernel: CpuKernel) -> Sizes:
    """Return the sizes that the steps of a kernel have for its sink."""
    sink, shape = kernel.layer.sink.name, kernel.layer.sink.shape
    tiles = {step.stage: step.levels for step in kernel.steps if isinstance(step, Tile)}
    own = [dict(zip(level.order, level.sizes or (), strict=True)) for level in tiles.get(sink, ())]
    tile, register = (
        tuple([level.get(dim, size) for dim, size in enumerate(shape)]) for level in (own[0], own[-1])
    ) if own else (shape, shape)  # fmt: skip
    sums = [levels for stage, levels in tiles.items() if stage.endswith(SUMS) and len(levels) > 1]
    first = [levels[0] for levels in sums if levels[0].axes == "reduction"]
    split = [step.loops for step in kernel.steps if isinstance(step, Parallel) and step.stage == sink]
    return Sizes(
        tiles[sink][0].order if own else kernel.layer.sink.order, tile, register,
        first[-1].sizes[0] if first and first[-1].sizes else None, max(split, default=0),
        any(isinstance(step, Vectorise) and step.stage == sink for step in kernel.steps),
    )  # fmt: skip


def tiles_of(kernel: CpuKernel, costs: CpuCosts) -> LoopTiles:
    """Return the tiles that the search has found for a kernel."""
    return costs.tiling_of(kernel.layer).tiles


def codes_of(layer: Layer, tiles: LoopTiles, dtype: str, view: CodeView) -> tuple[Code, ...]:
    """Return the instructions of a layer in tiles, part by part."""
    return codes_of_program(layer, program_of(layer, tiles, view.simd.vector(dtype).lanes), dtype, view)


def run(graph: Graph, spec: Cpu, policy: str = "fixed-pattern", **tuning: Any) -> SimulationResult:
    costs = costs_of(graph, spec, **tuning)
    return simulated(planned(costs, policy), costs)
