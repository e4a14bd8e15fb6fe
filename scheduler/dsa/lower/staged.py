"""Fetches of operands that stay in the global buffer while a layer runs, version by version."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dsascape.scheduler.dsa.lower.emit import Emitting, shared_out
from dsascape.scheduler.dsa.lower.fetches import Fetches
from dsascape.scheduler.dsa.tiling.tiling import Route
from dsascape.scheduler.dsa.view import GLOBAL
from dsascape.scheduler.programs.fragments import FragmentBuffer


@dataclass(slots=True)
class StagedPart:
    """State of a staged operand, as far as it comes from one memory: its fetches so far."""

    memory: str
    share: float
    """Share of the operand that comes from there."""
    fetches: Fetches
    left_bytes: int
    offset_bytes: int
    """Offset of what comes from there in the operand's space of the global buffer."""
    receivers: int
    """Number of clusters that receive each byte sent over their link."""
    buffer: int = -1
    versions: dict[Any, int] = field(default_factory=dict)
    """Transfer that loaded each version."""

    def load(self, at: Emitting, name: str, version: Any, cluster_bytes: int, after: Sequence[int] = ()) -> int:
        """Return the transfer that loads the ``version`` of operand ``name``, a new one if necessary; -1 for none.

        ``cluster_bytes``: bytes of the version for all cores, from all memories. ``after``: transfers that have to end
        before.
        """
        if version in self.versions:
            return self.versions[version]
        size = math.ceil(cluster_bytes * self.share)
        if size and self.left_bytes:
            fetched = min(size, self.left_bytes)
            load = at.fetch(self.memory, fetched, self.receivers, after)
            if self.buffer < 0:
                whole, there = self.fetches.whole_bytes, at.addresses(name, staged=True)
                buffer = FragmentBuffer(GLOBAL, whole, at.operand(name), there, 0, self.offset_bytes)
                self.buffer = at.writer.allocate(load, buffer)
            self.left_bytes -= fetched
            self.fetches.note(load, size)
        if not self.fetches.positions:  # too little of the operand is there for a byte of its own
            return -1
        self.versions[version] = self.fetches.positions[-1]
        return self.versions[version]


def staged_parts(whole_bytes: int, route: Route) -> tuple[StagedPart, ...]:
    """Return the parts of a staged operand of ``whole_bytes``, by the memories that its route comes from."""
    parts, offset = list[StagedPart](), 0
    for (memory, size), (_, share) in zip(shared_out(whole_bytes, route.outside), route.outside, strict=True):
        parts.append(StagedPart(memory, share, Fetches(size), size, offset, route.receivers))
        offset += size
    return tuple(parts)
