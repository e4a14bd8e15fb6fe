"""What measured kernels are compared with: each by itself, run again and again.

Its data is in the caches, as the run before has left it, or nowhere in them where they are flushed between runs.

The call itself is left out, as measuring repeats a kernel from inside the runtime.
"""

from collections import Counter
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
    for group, kernels in schedule.kernels_of.items():
        key = tuple([
            (each.layer.signature, each.steps, each.threads, *_are_results(schedule, each)) for each in kernels
        ])
        if key not in known:
            known[key] = _repeated(replace(schedule, runs=kernels), begun)
        found[group] = known[key]
    return found


def _are_results(schedule: CpuSchedule, kernel: CpuKernel) -> tuple[bool, ...]:
    return tuple([name in schedule.written_out.stored_outputs for name in kernel.layer.outputs])


def _repeated(schedule: CpuSchedule, costs: CpuCosts) -> RepeatedKernel:
    spec, kernels = costs.view.spec, schedule.runs
    result = simulate(lower(schedule, costs), cpu_machine(spec), cpu_energy(spec))
    pace, parts_ps = costs.view.paces[0], Counter[str]()
    for work in works(schedule, costs.view):
        parts_ps.update(pace.parts_ps(work.chunks[0].payload))
    parts = {name: taken_ps / PS_PER_S for name, taken_ps in parts_ps.items()}
    seconds = (result.makespan_ps - len(kernels) * spec.kernel_call_ps) / PS_PER_S
    loops = "\n".join([str(kernel.program) for kernel in kernels])
    return RepeatedKernel(seconds, max([kernel.chunks for kernel in kernels]), parts, loops)
