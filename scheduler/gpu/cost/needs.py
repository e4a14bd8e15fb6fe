"""What a block takes of an SM: threads, registers of each, shared memory."""

import math
from functools import reduce
from typing import Any, cast

import numpy as np

from dsascape.hw_models.gpu.occupancy import BlockNeeds
from dsascape.scheduler.gpu.cost.counted import Counted
from dsascape.scheduler.gpu.transforms import lines_taken
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.cost.counted import Part, PartCost
from dsascape.scheduler.kernels.loops.columns import Size, alike, by_row, chosen, most, most_of, whole
from dsascape.scheduler.kernels.loops.nodes import SHARES
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.shared_memory import shared_memory

_REGISTER_BYTES = 4


def needs_of(counted: Counted) -> list[BlockNeeds]:
    """Return what a block of each candidate takes: whole warps, what a thread needs most at a time, and buffers.

    Where counts are lower bounds, so are registers.
    """
    warp, layer = counted.view.spec.sms.warp, counted.layer
    threads = -(-counted.shape.threads // warp) * warp

    def exchanged(threads: int, *tile: int) -> int:
        return max([math.ceil(line.results_bytes) for line in lines_taken(layer, tile, threads)], default=0)

    shared_bytes = most(shared_memory(counted.program).size_bytes, by_row(exchanged, threads, *counted.shape.tile))
    registers = chosen(counted.is_exact, _registers(counted), _least_registers(counted.program, counted.view))
    columns = [counted.listed(each) for each in (threads, registers, shared_bytes)]
    return list(map(BlockNeeds, *columns))


def least_needs(program: LoopProgram, view: GpuView) -> BlockNeeds:
    """Return what a block takes at least, from its buffers alone: of registers its sums, addresses and counters."""
    warp = view.spec.sms.warp
    threads = -(-program.threads // warp) * warp
    return BlockNeeds(threads, _least_registers(program, view), shared_memory(program).size_bytes)


def _least_registers(program: LoopProgram, view: GpuView) -> int:
    largest = most_of([each.size_bytes for each in program.buffers if each.scope == "register"])
    return cast(int, -(-largest // (_REGISTER_BYTES * program.width)) + view.tuning.base_registers)  # or a column


def _registers(counted: Counted) -> Size:
    """Return the registers of a thread: sums and operands of the part that needs most, addresses and counters."""
    own = [part for part in counted.costs if part[1] in ("update", "rest", "store") and not part[0].endswith(SHARES)]
    products = [part for part in counted.costs if counted.is_product(part)]
    largest = reduce(np.maximum, [_of_part(counted, part, counted.costs[part]) for part in products or own])
    running = [_sums(counted, counted.costs[stage, "update"]) for stage in counted.program.running]
    return whole(largest + sum(running)) + counted.view.tuning.base_registers


def _of_part(counted: Counted, part: Part, cost: PartCost) -> Any:
    bands = max(len(cost.in_bands), 1) * len(counted.stages[part[0]].nests)  # one nest of several at a time
    moves = [move for moved in cost.loads.values() for move in moved.moves]
    if not _is_wide(counted, cost):
        return _sums(counted, cost) + sum([move.kept for move in moves]) / bands
    tensor = counted.view.tensor
    depth = 1 if tensor is None or part[0] not in counted.tensor else tensor.depth
    operands = sum([move.kept * move.element_bytes for move in moves]) / bands * depth
    return _sums(counted, cost) + operands / (counted.view.spec.sms.warp * _REGISTER_BYTES)


def _sums(counted: Counted, cost: PartCost) -> Any:
    sums = most_of([band.accumulators for band in cost.in_bands])
    return sums / counted.view.spec.sms.warp if _is_wide(counted, cost) else sums


def _is_wide(counted: Counted, cost: PartCost) -> bool:
    """Whether warps keep what is in registers together."""
    warp = counted.view.spec.sms.warp
    return counted.program.width > 1 and all(alike(each.threads >= warp) for each in cost.statements)
