"""Expected latency of a run: its bound, with every kernel at the efficiency that its machine states for its kind.

The simulation is a bound that good code comes near. A machine file may say how near, by kind of kernel
(``library_efficiency``). Stretches of the critical path take their time

    limited by            divided by the efficiency of
    launches              ``launch``
    memory or transfer    ``memory``
    tensor units          ``tensor``; where it is not stated, as all else
    all else              the dtype of the kernel's products (``library_efficiency_of``) and the kernel's kind;
                          where that is not stated, the kernel's kind

each of which is 1 where it is not stated. On several threads of a CPU, what splitting loops costs a library beyond the
simulated launch (``library_region``) is added. Where the kernel that a library has is modelled itself
(`scheduler.gpu.library`), a kernel takes what that takes, and no less than the simulated one. Where a host issues
kernels, each begins when the one before it has ended and it is issued: the host is no faster or slower for what kernels
take.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from dsascape.hw_models import AnyHardware, Compute, HostCall, Launch, Program, SimulationResult, Trace, Transfer
from dsascape.hw_models.common.spec_types import LAUNCHES, MEMORY, TENSOR, KernelKind
from dsascape.hw_models.simulation.trace import Step
from dsascape.scheduler import MachineSchedule
from dsascape.workloads.kernel_kinds import OTHER, kind_of_kernel


def expected_ps(
    schedule: MachineSchedule, program: Program, result: SimulationResult, hardware: AnyHardware,
    library: Sequence[float] = (),
) -> float:  # fmt: skip
    """Return the expected makespan in picoseconds; that of the simulation where the machine states no efficiency.

    ``library``: picoseconds of a library's kernel for each layer run, 0 where nothing is known; empty: of none.
    """
    stated: Mapping[str, float] = {str(kind): share for kind, share in hardware.library_efficiency.items()}
    of_dtype: Mapping[str, float | Mapping[KernelKind, float]] = {
        str(dtype): share for dtype, share in hardware.library_efficiency_of.items()
    }
    if not hardware.states_libraries:
        return float(result.makespan_ps)
    kinds = [kind_of_kernel([compiled.nest for compiled in layer.nests]) for _, layer in schedule.placed_layers]
    table = program.instructions

    def taken(steps: Iterable[Step]) -> dict[int, float]:
        expected, bound = defaultdict[int, float](float), defaultdict[int, float](float)
        for position, paced_by, start_ps, end_ps in steps:
            payload, layer_run = table.works[table.work_of[position]].payload, table.layer_runs[position]
            if isinstance(payload, Launch):
                share = stated.get(LAUNCHES, 1.0)
                expected[layer_run] += hardware.library_regions_ps(payload.threads, payload.regions)
            elif paced_by in program.memories or isinstance(payload, Transfer):
                share = stated.get(MEMORY, 1.0)
            elif paced_by == TENSOR and TENSOR in stated:
                share = stated[TENSOR]
            else:
                kind = kinds[layer_run] if layer_run in range(len(kinds)) else OTHER
                share = stated.get(kind, 1.0)
                if kind != OTHER and isinstance(payload, Compute):
                    share = _of_kind(of_dtype.get(payload.product or payload.dtype, share), kind, share)
            bound[layer_run] += end_ps - start_ps
            expected[layer_run] += (end_ps - start_ps) / share
        for layer_run, taken_ps in enumerate(library):
            if taken_ps:
                expected[layer_run] = max(bound[layer_run], taken_ps)
        return expected

    calls = [isinstance(table.works[work].payload, HostCall) for work in table.work_of]
    if not any(calls):
        return sum(taken(result.trace.critical_steps).values())
    by_layer = taken(step for step in result.trace.steps if not calls[step.position])
    return _behind_host(by_layer, calls, result.trace)


def _of_kind(stated: float | Mapping[KernelKind, float], kind: str, otherwise: float) -> float:
    """Return the efficiency that is stated of a dtype for kernels of a kind; ``otherwise`` where it has none."""
    if isinstance(stated, Mapping):
        return next((share for own, share in stated.items() if own == kind), otherwise)
    return stated


def _behind_host(by_layer: Mapping[int, float], calls: Sequence[bool], trace: Trace) -> float:
    """Return when the last layer ends, each of which takes so long and begins behind its call and the one before it.

    ``calls``: of every instruction, whether it is the host's. Kernels of one layer share its time evenly.
    """
    layer_runs = trace.instructions.layer_runs
    times = Counter(layer_runs[position] for position, is_call in enumerate(calls) if is_call)
    ended_ps = 0.0
    for position, is_call in enumerate(calls):
        if is_call:
            layer_run = layer_runs[position]
            ended_ps = max(ended_ps, trace.end_ps[position]) + by_layer[layer_run] / times[layer_run]
    return ended_ps
