"""Expected latency of a run: its bound, with every kernel at the efficiency that its machine states for its kind.

The simulation is a bound that good code comes near. A machine file may say how near, by kind of kernel
(``library_efficiency``): a stretch of the critical path that a memory or a transfer limits takes its time by the
efficiency of ``memory``, one that tensor units limit by that of ``tensor``, launches take what they take, and all else
its time by the efficiency of the kernel's kind, as does what tensor units limit where ``tensor`` is not stated. An
efficiency of the dtype of a kernel's products (``library_efficiency_of``) comes before that of its kind. Where the
kernel that a library has is modelled itself (`scheduler.gpu.library`), a kernel takes what that takes, and no less
than the simulated one.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from dsascape.hw_models import AnyHardware, Compute, Launch, Program, SimulationResult, Transfer
from dsascape.hw_models.common.spec_types import MEMORY, TENSOR
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
    of_dtype: Mapping[str, float] = {str(dtype): share for dtype, share in hardware.library_efficiency_of.items()}
    if not stated and not of_dtype:
        return float(result.makespan_ps)
    kinds = [kind_of_kernel([compiled.nest for compiled in layer.nests]) for _, layer in schedule.placed_layers]
    table = program.instructions
    expected, bound = defaultdict[int, float](float), defaultdict[int, float](float)
    for position, paced_by, start_ps, end_ps in result.trace.critical_steps:
        payload, layer_run = table.works[table.work_of[position]].payload, table.layer_runs[position]
        if isinstance(payload, Launch):
            share = 1.0
        elif paced_by in program.memories or isinstance(payload, Transfer):
            share = stated.get(MEMORY, 1.0)
        elif paced_by == TENSOR and TENSOR in stated:
            share = stated[TENSOR]
        else:
            kind = kinds[layer_run] if layer_run in range(len(kinds)) else OTHER
            share = stated.get(kind, 1.0)
            if kind != OTHER and isinstance(payload, Compute):
                share = of_dtype.get(payload.product or payload.dtype, share)
        bound[layer_run] += end_ps - start_ps
        expected[layer_run] += (end_ps - start_ps) / share
    for layer_run, taken_ps in enumerate(library):
        if taken_ps:
            expected[layer_run] = max(bound[layer_run], taken_ps)
    return sum(expected.values())
