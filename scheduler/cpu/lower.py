"""From a schedule to the program of a CPU: for each kernel its call, then the chunks of its parallel loop.

A kernel is called when all chunks of the one before have ended. Its chunks are handed out to the cores, the fastest
first; those that cores of one kind take are one instruction, as what their caches pass on differs from others'. Tensors
that are computed have their place in DRAM from the kernel that writes them to the last that reads them.
"""

from dsascape.hw_models import Buffer, Instruction, Launch, Program, cpu_machine
from dsascape.hw_models.cpu.machine import CORE, DRAM, LAUNCH
from dsascape.scheduler.cpu.cost.estimate import estimate
from dsascape.scheduler.cpu.cost.residency import found_in_cache
from dsascape.scheduler.cpu.cost.tiled_kernel import kernel_of
from dsascape.scheduler.cpu.cost.work import KernelWork, kernel_work
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.footprints import footprints_of
from dsascape.scheduler.kernels.places import check_kept


def lower(schedule: CpuSchedule, costs: CpuCosts) -> Program:
    """Return the program of ``schedule``."""
    view = costs.view
    instructions: list[Instruction] = []
    buffers, allocates, frees = _places(schedule)
    kept = [buffers[place] for place in frees.get(len(schedule.runs), ())]
    check_kept(schedule.graph.name, kept, view.spec.dram.capacity_bytes)
    waits: tuple[int, ...] = ()
    for number, (kernel, work) in enumerate(zip(schedule.runs, works(schedule, view), strict=True)):
        call = Instruction(
            unit=LAUNCH, payload=Launch(work.threads, work.regions), label=kernel.name, after=waits,
            allocates=tuple(allocates.get(number, ())), layer_run=number,
        )  # fmt: skip
        place = len(instructions)
        instructions.append(call)
        done_with = tuple(frees.get(number, ()))
        instructions += [
            Instruction(
                unit=CORE, payload=each.payload, label=kernel.name, after=(place,), blocks=each.count,
                frees=done_with, layer_run=number,
            )
            for each in work.chunks
        ]  # fmt: skip
        waits = tuple(range(place + 1, len(instructions)))
    return cpu_machine(view.spec).program(instructions, tuple(buffers))


def works(schedule: CpuSchedule, view: CpuView) -> list[KernelWork]:
    """Return the work of every kernel, less what it finds in caches."""
    kernels = schedule.runs
    layers = [kernel.layer for kernel in kernels]
    footprints = list(map(footprints_of, layers))
    warm = view.tuning.warm_caches
    others = any(cache.kept_ps is not None for cache in view.caches.values())
    split = [
        kernel_of(each.layer, each.steps, each.threads, view.dtype_of(each.layer, schedule.dtype), view)
        for each in kernels
    ]  # fmt: skip
    times_ps = [estimate(each).time_ps if others else 0.0 for each in split]
    by_cache = {
        name: found_in_cache(schedule.written_out, layers, split, footprints, times_ps, cache, warm=warm)
        for name, cache in view.caches.items()
    }
    known: dict[object, KernelWork] = {}
    done = []
    for number, kernel in enumerate(kernels):
        found = {name: each[number] for name, each in by_cache.items()}
        key = kernel.layer.signature, kernel.steps, kernel.threads, tuple(found.values())
        if key not in known:
            known[key] = kernel_work(split[number]).with_found(found)
        done.append(known[key])
    return done


def _places(schedule: CpuSchedule) -> tuple[list[Buffer], dict[int, list[int]], dict[int, list[int]]]:
    """Return a place in DRAM for every tensor, which kernel takes it first, and after which it is free."""
    graph = schedule.written_out
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, kernel in enumerate(schedule.runs):
        for name in (*kernel.layer.inputs, *kernel.layer.outputs):
            stored = graph.storage.get(name, name)
            is_constant = graph.tensors[stored].role != "activation"
            first.setdefault(stored, 0 if is_constant else number)
            last[stored] = len(schedule.runs) if is_constant or stored in graph.stored_outputs else number
    buffers: list[Buffer] = []
    allocates: dict[int, list[int]] = {}
    frees: dict[int, list[int]] = {}
    for name, number in first.items():
        allocates.setdefault(number, []).append(len(buffers))
        frees.setdefault(last[name], []).append(len(buffers))
        buffers.append(Buffer(DRAM, graph.tensors[name].size_bytes, label=name))
    return buffers, allocates, frees
