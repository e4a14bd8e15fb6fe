"""Networks taken all the way on CPUs, plan to simulated run."""

from typing import Any

from dsascape.hw_models import Cpu, SimulationResult, cpu_energy, cpu_machine, simulate
from dsascape.scheduler import make_policy
from dsascape.scheduler.cpu.cost.issued import Code, codes_of_program
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.lower import lower
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule, kernel_by_kernel
from dsascape.scheduler.cpu.schedule.steps import program_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CodeView, CpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis


def costs_of(graph: Graph, spec: Cpu, **tuning: Any) -> CpuCosts:
    return CpuCosts(CpuView(spec, CpuTuning(**tuning)), Analysis(graph), "fp32")


def planned(costs: CpuCosts, policy: str) -> CpuSchedule:
    return kernel_by_kernel(make_policy(policy).plan(costs.analysis.graph, costs), costs, policy)


def simulated(schedule: CpuSchedule, costs: CpuCosts) -> SimulationResult:
    spec = costs.view.spec
    return simulate(lower(schedule, costs), cpu_machine(spec), cpu_energy(spec))


def codes_of(layer: Layer, tiles: LoopTiles, dtype: str, view: CodeView) -> tuple[Code, ...]:
    """Return the instructions of a layer in tiles, part by part."""
    return codes_of_program(layer, program_of(layer, tiles, view.simd.vector(dtype).lanes), dtype, view)


def run(graph: Graph, spec: Cpu, policy: str = "fixed-pattern", **tuning: Any) -> SimulationResult:
    costs = costs_of(graph, spec, **tuning)
    return simulated(planned(costs, policy), costs)
