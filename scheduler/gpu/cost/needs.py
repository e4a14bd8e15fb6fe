"""What a block takes of an SM: threads, registers of each, shared memory."""

import math

from dsascape.hw_models.gpu.occupancy import BlockNeeds
from dsascape.scheduler.gpu.cost.counted import Counted
from dsascape.scheduler.gpu.transforms import lines_taken
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.cost.counted import Part, PartCost
from dsascape.scheduler.kernels.loops.nodes import SHARES
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.shared_memory import shared_memory

_REGISTER_BYTES = 4


def needs_of(counted: Counted) -> BlockNeeds:
    """Return what a block of a loop program takes: whole warps, what a thread needs most at a time, and buffers."""
    warp = counted.view.spec.sms.warp
    threads = -(-counted.shape.threads // warp) * warp
    exchanged = [math.ceil(line.results_bytes) for line in lines_taken(counted.layer, counted.shape.tile, threads)]
    shared_bytes = max(shared_memory(counted.program).size_bytes, *exchanged, 0)
    return BlockNeeds(threads, _registers(counted), shared_bytes)


def least_needs(program: LoopProgram, view: GpuView) -> BlockNeeds:
    """Return what a block takes at least, from its buffers alone: of registers its sums, addresses and counters."""
    warp = view.spec.sms.warp
    largest = max([each.size_bytes for each in program.buffers if each.scope == "register"], default=0)
    registers = -(-largest // (_REGISTER_BYTES * program.width)) + view.tuning.base_registers
    return BlockNeeds(-(-program.threads // warp) * warp, registers, shared_memory(program).size_bytes)


def _registers(counted: Counted) -> int:
    """Return the registers of a thread: sums and operands of the part that needs most, addresses and counters."""
    own = [part for part in counted.costs if part[1] in ("update", "rest", "store") and not part[0].endswith(SHARES)]
    products = [part for part in counted.costs if counted.is_product(part)]
    most = max([_of_part(counted, part, counted.costs[part]) for part in products or own])
    running = [_sums(counted, counted.costs[stage, "update"]) for stage in counted.program.running]
    return math.ceil(most + sum(running)) + counted.view.tuning.base_registers


def _of_part(counted: Counted, part: Part, cost: PartCost) -> float:
    bands = max(len(cost.in_bands), 1) * len(counted.stages[part[0]].nests)  # one nest of several at a time
    moves = [move for moved in cost.loads.values() for move in moved.moves]
    if not _is_wide(counted, cost):
        return _sums(counted, cost) + sum([float(move.kept) for move in moves]) / bands
    tensor = counted.view.tensor
    depth = 1 if tensor is None or part[0] not in counted.tensor else tensor.depth
    operands = sum([float(move.kept) * move.element_bytes for move in moves]) / bands * depth
    return _sums(counted, cost) + operands / (counted.view.spec.sms.warp * _REGISTER_BYTES)


def _sums(counted: Counted, cost: PartCost) -> float:
    sums = max([float(band.accumulators) for band in cost.in_bands], default=0.0)
    return sums / counted.view.spec.sms.warp if _is_wide(counted, cost) else sums


def _is_wide(counted: Counted, cost: PartCost) -> bool:
    """Whether warps keep what is in registers together."""
    warp = counted.view.spec.sms.warp
    return counted.program.width > 1 and all(each.threads >= warp for each in cost.statements)
