"""DMA burst sizes: the only part of a layer's code that depends on DDR bandwidth.

Layer runs that differ only in the rates of the machine mostly have the same instructions: the burst size matters only
as far as it decides how many versions of an operand a burst has, and only where an operand needs several bursts.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from dsascape.scheduler.dsa.lower.code import RunCode
from dsascape.scheduler.dsa.schedule.schedule import Execution
from dsascape.scheduler.dsa.tiling.candidates import burst_room_bytes
from dsascape.scheduler.dsa.tiling.cuts import operands_filled
from dsascape.scheduler.kernels.layer import Layer


class Ahead(NamedTuple):
    """Bursts of a prefetched operand."""

    version_bytes: int
    """Bytes of a full version (not cut short by an edge), for all cores."""
    versions: int
    """Number of versions per burst; 0 if one version takes several bursts."""
    room_bytes: int
    """Bytes of the global prefetch buffer per burst of one operand, double-buffered; 0 if versions are not cut into
    chunks to fit there."""


@dataclass(frozen=True, slots=True)
class Bursts:
    """Burst sizes of the DMA transfers of a layer run; zero or empty for kinds of transfer that it does not have.

    Operands that stay in the global buffer are not included: their fetches are coalesced into bursts afterwards
    (`fetches.gathered`).
    """

    ahead: tuple[Ahead, ...]
    """Bursts of the prefetched operands, in the order of the tiling."""
    stored_bytes: int
    """Bytes of gathered output tiles at which a burst beyond the global buffer is sent."""


def bursts_of(layer: Layer, code: RunCode, burst_bytes: int, prefetch_bytes: int, stored_bytes: int) -> Bursts:
    """Return the bursts of a run for loads in bursts of ``burst_bytes`` and stores in bursts of ``stored_bytes``.

    ``prefetch_bytes``: size of the global prefetch buffer.
    """
    execution = code.execution(layer)
    tiling = execution.tiling
    filled = operands_filled(layer, code.extents, tiling.part, tiling.prefetched)
    room_bytes = burst_room_bytes(prefetch_bytes, max(len(tiling.prefetched), 1))
    ahead = []
    for name, (versions, _) in tiling.prefetched.items():
        tile_bytes = layer.tile_work(tiling.tile, tiling.depth).operand_bytes[name]
        sharing = execution.routes[name].cores_sharing
        version_bytes = math.ceil(tile_bytes * code.cores / sharing * filled[name])
        if version_bytes > room_bytes:
            ahead.append(Ahead(version_bytes, 0, room_bytes))
        else:
            at_once = max(min(burst_bytes, room_bytes) // max(version_bytes, 1), 1)
            ahead.append(Ahead(version_bytes, min(at_once, versions), 0))
    return Bursts(tuple(ahead), stored_bytes)


def staged_burst_bytes(execution: Execution, burst_bytes: int) -> int:
    """Return the burst size for operands that stay in the global buffer: at most the largest one's bytes."""
    return min(burst_bytes, max(execution.tiling.staged.values(), default=0))
