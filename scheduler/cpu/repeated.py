"""What measured kernels are compared with: each by itself, run again and again.

Its data is in the caches, as the run before has left it, or nowhere in them where they are flushed between runs.

The call itself is left out, as measuring repeats a kernel from inside the runtime.
"""

from dataclasses import replace

from dsascape.hw_models import cpu_energy, cpu_machine, simulate
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.lower import lower, works
from dsascape.scheduler.cpu.schedule.schedule import CpuKernel, CpuSchedule
from dsascape.scheduler.kernels.repeated import RepeatedKernel


def repeated_kernels(
    schedule: CpuSchedule, costs: CpuCosts, *, flushed: bool = False
) -> dict[int, RepeatedKernel]:
    """Return the kernels of ``schedule``, by the group of the plan; ``flushed``: with caches that hold nothing."""
    view = replace(costs.view, tuning=replace(costs.view.tuning, warm_caches=not flushed))
    begun = CpuCosts(view, costs.analysis, costs.dtype, costs.known)
    known: dict[object, RepeatedKernel] = {}
    found = {}
    for kernel in schedule.runs:
        results = [name in schedule.written_out.stored_outputs for name in kernel.layer.outputs]
        key = kernel.layer.signature, kernel.steps, kernel.threads, tuple(results)
        if key not in known:
            known[key] = _repeated(replace(schedule, runs=(kernel,)), kernel, begun)
        found[kernel.group] = known[key]
    return found


def _repeated(schedule: CpuSchedule, kernel: CpuKernel, costs: CpuCosts) -> RepeatedKernel:
    spec = costs.view.spec
    result = simulate(lower(schedule, costs), cpu_machine(spec), cpu_energy(spec))
    (work,) = works(schedule, costs.view)
    payload, pace = work.chunks[0].payload, costs.view.paces[0]
    parts = {name: taken_ps / PS_PER_S for name, taken_ps in pace.parts_ps(payload).items()}
    seconds = (result.makespan_ps - spec.kernel_call_ps) / PS_PER_S
    return RepeatedKernel(seconds, kernel.chunks, parts, str(kernel.program))
