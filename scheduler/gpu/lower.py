"""From a schedule to the program of a GPU: for each kernel its launch, then the blocks of its grid.

A kernel is launched when all blocks of the one before have ended, and its blocks are handed out to the SMs. Tensors
that are computed have their place in DRAM from the kernel that writes them to the last that reads them.
"""

from hw_models import Buffer, Instruction, Launch, Program, gpu_machine
from hw_models.gpu.machine import LAUNCH
from hw_models.gpu.sm import DRAM, SM
from scheduler.gpu.costs import GpuCosts
from scheduler.gpu.schedule import GpuSchedule
from scheduler.gpu.traffic import found_in_l2
from scheduler.gpu.view import GpuView
from scheduler.gpu.work import KernelWork, grid_of, kernel_work, off_chip_of


def lower(schedule: GpuSchedule, costs: GpuCosts) -> Program:
    """Return the program of ``schedule``."""
    view = costs.view
    instructions: list[Instruction] = []
    buffers, allocates, frees = _places(schedule)
    waits: tuple[int, ...] = ()
    for number, (kernel, work) in enumerate(zip(schedule.runs, works(schedule, view), strict=True)):
        place = len(instructions)
        instructions.append(
            Instruction(
                unit=LAUNCH, payload=Launch(), label=kernel.name, after=waits,
                allocates=tuple(allocates.get(number, ())), layer_run=number,
            )
        )  # fmt: skip
        instructions.append(
            Instruction(
                unit=SM, payload=work.payload, label=kernel.name, after=(place,), blocks=work.blocks,
                blocks_per_member=work.blocks_per_sm, frees=tuple(frees.get(number, ())), layer_run=number,
            )
        )  # fmt: skip
        waits = (place + 1,)
    return gpu_machine(view.spec).program(instructions, tuple(buffers))


def works(schedule: GpuSchedule, view: GpuView) -> list[KernelWork]:
    """Return the blocks of every kernel; what it finds in the L2 does not come from DRAM."""
    layers = [kernel.layer for kernel in schedule.runs]
    known: dict[object, KernelWork] = {}
    done = []
    for kernel, each in zip(schedule.runs, found_in_l2(layers, view), strict=True):
        key = kernel.layer.signature, kernel.tiles, each
        if key not in known:
            grid = grid_of(kernel.layer, kernel.tiles, view)
            moved = off_chip_of(kernel.layer, grid, kernel.tiles.order, view).left(each)
            known[key] = kernel_work(kernel.layer, grid, moved, view)
        done.append(known[key])
    return done


def _places(schedule: GpuSchedule) -> tuple[list[Buffer], dict[int, list[int]], dict[int, list[int]]]:
    """Return a place in DRAM for every tensor, which kernel takes it first, and after which it is free."""
    graph = schedule.graph
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
