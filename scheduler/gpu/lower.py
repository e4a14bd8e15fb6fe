"""From a schedule to the program of a GPU: for each kernel its launch, then the blocks of its grid.

A kernel is launched when all blocks of the one before have ended and the host has issued it, if the host may be late,
and its blocks are handed out to the SMs; of a recurrence every step is launched so. Tensors that are computed have
their place in DRAM from the kernel that writes them to the last that reads them.
"""

from dataclasses import replace

from dsascape.fusion.eager import EAGER
from dsascape.hw_models import Buffer, Instruction, Launch, Program, gpu_machine
from dsascape.hw_models.gpu.host import HOST
from dsascape.hw_models.gpu.machine import LAUNCH
from dsascape.hw_models.gpu.sm import DRAM, SHARED, SM
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.library import library_ps
from dsascape.scheduler.gpu.residency import found_in_l2
from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import KernelWork, grid_of, kernel_work, off_chip_of
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.sources import numbered
from dsascape.scheduler.kernels.places import check_kept, places_of


def lower(schedule: GpuSchedule, costs: GpuCosts) -> Program:
    """Return the program of ``schedule``."""
    view = costs.view
    instructions: list[Instruction] = []
    places = places_of([kernel.layer for kernel in schedule.runs], DRAM)
    buffers = list(places.buffers)
    kept = [buffers[place] for place in places.freed.get(len(schedule.runs), ())]
    check_kept(schedule.graph.name, kept, view.spec.dram.capacity_bytes)
    waits: tuple[int, ...] = ()
    begun: set[int] = set()
    for number, (kernel, work) in enumerate(zip(schedule.runs, works(schedule, view), strict=True)):
        shared, taken, freed = len(buffers), places.taken.get(number, ()), places.freed.get(number, ())
        buffers.append(_in_shared(work, view))
        for step in range(work.steps):
            ends = freed if step + 1 == work.steps else ()
            call = view.call_for(is_first=not step and kernel.group not in begun)
            if call is not None:
                waits = (*waits, len(instructions))
                instructions.append(Instruction(unit=HOST, payload=call, label=kernel.name, layer_run=number))
            launch = Instruction(
                unit=LAUNCH, payload=Launch(), label=kernel.name, after=waits, allocates=() if step else tuple(taken),
                layer_run=number,
            )  # fmt: skip
            grid = Instruction(
                unit=SM, payload=work.payload, label=kernel.name, after=(len(instructions),),
                blocks=work.blocks // work.steps, blocks_per_member=work.blocks_per_sm,
                allocates=() if step else (shared,), frees=(*([shared] if step + 1 == work.steps else []), *ends),
                layer_run=number,
            )  # fmt: skip
            instructions += [launch, grid]
            if work.last is not None:
                instructions[-1] = replace(grid, frees=())
                instructions.append(Instruction(
                    unit=SM, payload=work.last, label=kernel.name, after=(len(instructions) - 1,), blocks=work.tiles,
                    blocks_per_member=work.blocks_per_sm, frees=grid.frees, layer_run=number,
                ))  # fmt: skip
            waits = (len(instructions) - 1,)
        begun.add(kernel.group)
    return gpu_machine(view.spec).program(instructions, tuple(buffers))


def _in_shared(work: KernelWork, view: GpuView) -> Buffer:
    """Return what the blocks that every SM holds have of its shared memory."""
    sms = view.spec.sms
    held = min(work.blocks_per_sm, -(-(work.blocks // work.steps) // sms.count))
    return Buffer(SHARED, held * sms.shared.of_block(work.shared_bytes), sms.count, label="blocks")


def works(schedule: GpuSchedule, view: GpuView) -> list[KernelWork]:
    """Return the blocks of every kernel; what it finds in the L2 does not come from DRAM."""
    layers = [kernel.layer for kernel in schedule.runs]
    in_l2 = found_in_l2(layers, view.spec.l2.capacity_bytes, warm=view.tuning.warm_l2)
    known: dict[object, KernelWork] = {}
    done = []
    for kernel, found in zip(schedule.runs, in_l2, strict=True):
        key = kernel.layer.signature, numbered(NaiveProgram(kernel.layer), kernel.steps), found
        if key not in known:
            own = view.of(kernel.layer)
            grid = grid_of(kernel.layer, kernel.steps, own)
            moved = off_chip_of(kernel.layer, grid, grid.shape.order, own).left(found)
            known[key] = kernel_work(kernel.layer, grid, moved, own)
        done.append(known[key])
    return done


def library_times(schedule: GpuSchedule, view: GpuView) -> list[float]:
    """Return picoseconds of a library's kernel for each of ``schedule``, 0 where nothing is known of it.

    It finds in the L2 what the schedule's own kernel finds.
    """
    found = []
    is_eager = schedule.policy == EAGER
    for kernel, work in zip(schedule.runs, works(schedule, view), strict=True):
        dram_bytes = dict(work.payload.traffic)[DRAM] * work.blocks
        own = view.of(kernel.layer)
        is_one = work.steps == 1
        found.append(library_ps(kernel.layer, own, dram_bytes, is_function=is_eager) if is_one else 0.0)
    return found
