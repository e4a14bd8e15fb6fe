"""Memory levels of a clustered DSA: what a scheduler, a simulated machine and reports need to know of each memory.

One list, made from the spec (`ClusteredDsa.levels`), innermost first. Data of a level beyond the global buffer pass
through that buffer; without one, data of DDR go to the local buffers straight.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from dsascape.hw_models.dsa.memories import Channel, OnChipPath

CORE: Literal["core"] = "core"
CLUSTER: Literal["cluster"] = "cluster"
CHIP: Literal["chip"] = "chip"
CLUSTER_LINK = "cluster_link"
"""Name of the link between clusters, among the memories whose bandwidth transfers share."""


class Mover(NamedTuple):
    """Unit that moves data between two memories."""

    unit: str
    of: Literal["core", "cluster"]
    """Member of the machine that has one."""
    channel: Channel | OnChipPath
    """Bandwidth, start-up and transfers in flight."""
    servers: int = 1
    """Number of equal channels that share the unit's queue."""


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """One memory of the hierarchy; capacity and bandwidth are those of one copy."""

    name: str
    of: Literal["core", "cluster", "chip"]
    """Member of the machine that has a copy."""
    copies: int
    """Number of copies in the whole machine."""
    capacity_bytes: int
    bandwidth_bytes_per_s: float
    """Sustained bandwidth, shared by reads and writes."""
    load: Mover
    """Unit that brings its data inwards: to the local buffers from the global one, to the global one from all others
    (to the local ones if there is no global one). Local buffers: to those of other cores, without a global one."""
    store: Mover
    """Unit that writes to it from there."""
