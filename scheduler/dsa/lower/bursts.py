"""How much one DMA transfer of a layer run brings or takes: all that its instructions have of how fast DDR is.

Layer runs that only differ in the rates of the machine mostly have the same instructions: the bytes of a burst matter
only as far as they decide how many versions of an operand it brings, and only where an operand takes more than one.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from dsascape.scheduler.dsa.schedule.schedule import Execution, LayerRun
from dsascape.scheduler.dsa.tiling.candidates import burst_room_bytes
from dsascape.scheduler.dsa.tiling.cuts import operands_filled


class Ahead(NamedTuple):
    """The bursts of an operand that is fetched ahead."""

    version_bytes: int
    """For all cores, of a version that no edge cuts short."""
    versions: int
    """That one burst brings, at most all that there are; 0 where one version takes several bursts."""
    room_bytes: int
    """Of the global prefetch buffer that one operand has for one burst, while another leaves; 0 where versions are not
    cut to fit there."""


@dataclass(frozen=True, slots=True)
class Bursts:
    """What the DMA transfers of a layer run are made of; zero or nothing where it has none of a kind.

    But for operands that stay in the global buffer: what is fetched of those is gathered into bursts afterwards
    (`fetches.gathered`).
    """

    ahead: tuple[Ahead, ...]
    """Of the operands that are fetched ahead, in the order of the tiling."""
    stored_bytes: int
    """With which a burst of outputs leaves."""


def bursts_of(run: LayerRun, execution: Execution, burst_bytes: int, prefetch_bytes: int, *, stores: bool) -> Bursts:
    """Return the bursts of a run where they are of ``burst_bytes``; ``stores``: whether outputs of it go to DDR.

    ``prefetch_bytes``: of the global prefetch buffer.
    """
    layer, tiling = run.layer, execution.tiling
    filled = operands_filled(layer, run.extents, tiling.part, tiling.prefetched)
    room_bytes = burst_room_bytes(prefetch_bytes, max(len(tiling.prefetched), 1))
    ahead = []
    for name, (versions, _) in tiling.prefetched.items():
        tile_bytes = layer.tile_work(tiling.tile, tiling.depth).operand_bytes[name]
        sharing = execution.routes[name].cores_sharing
        version_bytes = math.ceil(tile_bytes * run.binding.cores / sharing * filled[name])
        if version_bytes > room_bytes:
            ahead.append(Ahead(version_bytes, 0, room_bytes))
        else:
            at_once = max(min(burst_bytes, room_bytes) // max(version_bytes, 1), 1)
            ahead.append(Ahead(version_bytes, min(at_once, versions), 0))
    return Bursts(tuple(ahead), tiling.store_burst_bytes if stores else 0)


def staged_burst_bytes(execution: Execution, burst_bytes: int) -> int:
    """Return how much a burst of ``burst_bytes`` brings of what stays in the global buffer: at most all of it."""
    return min(burst_bytes, max(execution.tiling.staged.values(), default=0))
