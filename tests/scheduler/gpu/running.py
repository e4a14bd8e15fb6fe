"""Networks taken all the way on GPUs, plan to simulated run."""

from dsascape.hw_models import Gpu, SimulationResult, gpu_energy, gpu_machine, simulate, with_values
from dsascape.scheduler import make_policy
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.lower import lower
from dsascape.scheduler.gpu.schedule import GpuKernel, GpuSchedule, kernel_by_kernel
from dsascape.scheduler.gpu.steps import steps_of
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import Grid, grid_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.steps import ShareReduction, Steps, Tensorise, Tile
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis


def costs_of(graph: Graph, spec: Gpu, tuning: GpuTuning | None = None) -> GpuCosts:
    dtype = next(iter(graph.tensors.values())).dtype
    return GpuCosts(GpuView(spec, dtype, tuning or GpuTuning()), Analysis(graph))


def planned(costs: GpuCosts, policy: str = "fixed-pattern") -> GpuSchedule:
    return kernel_by_kernel(make_policy(policy).plan(costs.analysis.graph, costs), costs, policy)


def simulated(schedule: GpuSchedule, costs: GpuCosts) -> SimulationResult:
    spec = costs.view.spec
    return simulate(lower(schedule, costs), gpu_machine(spec), gpu_energy(spec))


def run(graph: Graph, spec: Gpu, policy: str = "fixed-pattern", tuning: GpuTuning | None = None) -> SimulationResult:
    costs = costs_of(graph, spec, tuning)
    return simulated(planned(costs, policy), costs)


def changed(spec: Gpu, **values: object) -> Gpu:
    found = with_values(spec, {path.replace("__", "."): value for path, value in values.items()})
    assert isinstance(found, Gpu)
    return found


def steps_in(layer: Layer, tiles: GpuTiles, view: GpuView) -> Steps:
    """Return the steps of ``tiles`` on a machine."""
    return steps_of(layer, tiles, view.spec.sms.warp, view.tensor)


def grid_in(layer: Layer, tiles: GpuTiles, view: GpuView) -> Grid:
    """Return what the loop program of ``tiles`` comes to."""
    return grid_of(layer, steps_in(layer, tiles, view), view)


def kernel_in(layer: Layer, tiles: GpuTiles, view: GpuView) -> GpuKernel:
    """Return a kernel in ``tiles``."""
    return GpuKernel(layer.sink.name, 0, layer, steps_in(layer, tiles, view))


def part_of(kernel: GpuKernel) -> tuple[int, ...]:
    """Return the elements of each dimension that one thread computes; on tensor units, one warp."""
    (tile,) = [step for step in kernel.steps if isinstance(step, Tile) and step.stage == kernel.layer.sink.name]
    sizes = dict(zip(tile.levels[-1].order, tile.levels[-1].sizes or (), strict=True))
    return tuple([sizes[dim] for dim in range(len(sizes))])


def order_of_grid(kernel: GpuKernel) -> list[int]:
    """Return the dimensions of the grid, the one that blocks are handed out along fastest last."""
    (tile,) = [step for step in kernel.steps if isinstance(step, Tile) and step.stage == kernel.layer.sink.name]
    return list(tile.levels[0].order)


def split_of(kernel: GpuKernel) -> int:
    """Return the threads or warps that share the reduction of the last part."""
    shares = [step for step in kernel.steps if isinstance(step, ShareReduction)]
    counts = [step.count if step.by == "thread" else step.threads for step in shares]
    return counts[-1] if counts else 1


def unit_of(kernel: GpuKernel) -> str:
    """Return the unit of the multiply-accumulates."""
    return "tensor" if any(isinstance(step, Tensorise) for step in kernel.steps) else "lanes"
