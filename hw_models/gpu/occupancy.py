"""How many blocks of a kernel an SM holds at a time: what NVIDIA's occupancy calculator works out.

Registers are given out by warp, in multiples of a unit; shared memory by block, in multiples of another, with what the
system reserves for each block; threads by whole warps.
"""

from dataclasses import dataclass
from typing import Literal

from dsascape.hw_models.gpu.spec import Sms

Limit = Literal["blocks", "threads", "registers", "shared memory"]


@dataclass(frozen=True, slots=True)
class BlockNeeds:
    """What one block takes of an SM."""

    threads: int
    registers_per_thread: int
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many blocks an SM holds, and what stands in the way of one more."""

    blocks: int
    """0: none fits."""
    limited_by: Limit


def occupancy(sms: Sms, needs: BlockNeeds) -> Occupancy:
    """Return how many blocks that need so much an SM holds; of equal limits the first in this order is named."""
    warps = -(-needs.threads // sms.warp)
    per_warp = -(-needs.registers_per_thread * sms.warp // sms.registers_unit) * sms.registers_unit
    limits: dict[Limit, int] = {
        "blocks": sms.blocks,
        "threads": sms.threads // (warps * sms.warp),
        "registers": sms.registers // per_warp // warps,
    }
    if needs.threads > sms.threads_per_block:
        limits["threads"] = 0
    if needs.registers_per_thread > sms.registers_per_thread:
        limits["registers"] = 0
    taken_bytes = sms.shared.of_block(needs.shared_bytes)
    if taken_bytes:
        limits["shared memory"] = sms.shared.capacity_bytes // taken_bytes
    if needs.shared_bytes > sms.shared.per_block_bytes:
        limits["shared memory"] = 0
    least = min(limits.values())
    return Occupancy(least, next(name for name, blocks in limits.items() if blocks == least))
