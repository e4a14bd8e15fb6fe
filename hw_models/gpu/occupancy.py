"""Occupancy: how many blocks of a kernel are resident on an SM, as NVIDIA's occupancy calculator computes it.

Registers are allocated per warp in multiples of a unit; shared memory per block in multiples of another unit, including
what the system reserves for each block; threads in whole warps.
"""

from dataclasses import dataclass
from typing import Literal

from dsascape.hw_models.gpu.spec import Sms

Limit = Literal["blocks", "threads", "registers", "shared memory"]


@dataclass(frozen=True, slots=True)
class BlockNeeds:
    """Resources of an SM that one block needs."""

    threads: int
    registers_per_thread: int
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Occupancy of an SM and the resource that limits it."""

    blocks: int
    """Resident blocks; 0 if not even one fits."""
    limited_by: Limit


def occupancy(sms: Sms, needs: BlockNeeds) -> Occupancy:
    """Return the occupancy for blocks with ``needs``; of equal limits, the first in the order of `Limit` is named."""
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
