"""Networks taken all the way on GPUs, plan to simulated run."""

from dsascape.hw_models import Gpu, SimulationResult, gpu_energy, gpu_machine, simulate, with_values
from dsascape.scheduler import make_policy
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.lower import lower
from dsascape.scheduler.gpu.schedule import GpuSchedule, kernel_by_kernel
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
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
