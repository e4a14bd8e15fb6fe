"""The kernels of a GPU's schedule by themselves, run again and again: the L2 holds what the run before has left.

The launch counts: a GPU begins with a kernel when the one before it has ended, also when it is the same one.
"""

from dataclasses import replace

from dsascape.hw_models import Compute, gpu_energy, gpu_machine, simulate
from dsascape.hw_models.gpu.machine import LAUNCH
from dsascape.hw_models.gpu.sm import DRAM, L2, SM
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.lower import lower, works
from dsascape.scheduler.gpu.schedule import GpuKernel, GpuSchedule
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import KernelWork
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.sources import numbered
from dsascape.scheduler.kernels.repeated import RepeatedKernel


def repeated_kernels(schedule: GpuSchedule, costs: GpuCosts) -> list[RepeatedKernel]:
    """Return what is predicted of each kernel that ``schedule`` launches, in order."""
    view = replace(costs.view, tuning=replace(costs.view.tuning, warm_l2=True))
    begun = GpuCosts(view, costs.analysis, costs.known)
    known: dict[object, RepeatedKernel] = {}
    found = []
    for kernel in schedule.runs:
        key = kernel.layer.signature, numbered(NaiveProgram(kernel.layer), kernel.steps)
        if key not in known:
            known[key] = _repeated(replace(schedule, runs=(kernel,)), kernel, begun)
        found.append(known[key])
    return found


def _repeated(schedule: GpuSchedule, kernel: GpuKernel, costs: GpuCosts) -> RepeatedKernel:
    view = costs.view
    result = simulate(lower(schedule, costs), gpu_machine(view.spec), gpu_energy(view.spec))
    (work,), own = works(schedule, view), view.of(kernel.layer)
    return RepeatedKernel(result.makespan_ps / PS_PER_S, kernel.blocks, _parts_s(work, own), str(kernel.program))


def _parts_s(work: KernelWork, view: GpuView) -> dict[str, float]:
    """Return what all SMs together would take to issue the blocks' instructions, and memories to move their bytes."""
    spec, payload = view.spec, work.payload
    assert isinstance(payload, Compute)
    assert payload.issued is not None
    cycles, _ = view.pace.pipe_cycles(payload.issued, work.blocks_per_sm)
    waves = work.blocks / work.blocks_per_sm / spec.sms.count
    found = {LAUNCH: work.steps * spec.launch_ps / PS_PER_S, SM: waves * cycles * spec.cycle_ps / PS_PER_S}
    rates = {L2: spec.l2.bandwidth_bytes_per_s, DRAM: spec.dram.sustained_bytes_per_s}
    moved = {memory: work.blocks * size for memory, size in payload.traffic if memory in rates and size}
    return found | {memory: size / rates[memory] for memory, size in moved.items()}
