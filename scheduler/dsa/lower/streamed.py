"""Operands that are brought to the local buffers tile by tile: their state, and where their bytes come from."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

from dsascape.hw_models.dsa.levels import CLUSTER_LINK
from dsascape.scheduler.dsa.tiling.tiling import Route
from dsascape.scheduler.programs.fragments import FragmentBuffer, Label


@dataclass(slots=True)
class StreamedOperand:
    """State of a streamed operand: its version key, current version and users of all versions."""

    route: Route
    place: Callable[[tuple[int, ...]], Any]
    """Function from a tile's position to the version key; with ``by_depth`` the depth step is added to the key."""
    by_depth: bool
    is_weight: bool
    outside: tuple[tuple[str, float], ...]
    """Memories beyond the global buffer that it comes from; for each, the ratio of bytes for all cores to bytes of one
    core's tile."""
    label: Label
    addresses: int
    """Index of its tiles' addresses in `addresses_of`."""
    copies: int
    """Number of local buffers that one instruction fills."""
    arriving: float
    """Ratio, as in ``outside``, of what comes from all of these memories together."""
    held: dict[tuple[int, int], FragmentBuffer] = field(default_factory=dict)
    """Cache of its buffers by size and slot."""
    version: Any = None
    """Identity of the tile's data that its buffers hold now."""
    buffer: int = -1
    users: list[int] = field(default_factory=list)
    """Last user of each version (instruction position)."""


class TileBytes(NamedTuple):
    """Bytes of each streamed operand for one tile."""

    streamed: Mapping[str, int]
    """Bytes loaded into one core's local buffer."""
    outside: Mapping[str, Mapping[str, int]]
    """Bytes from each memory beyond the global buffer, by memory and operand, for all cores; staged operands are not
    listed."""
    rows: Mapping[str, int]
    """Bytes that are contiguous in memory, by operand; all of an operand that is not listed."""


def bytes_from(memory: str, operand: StreamedOperand, tile_bytes: int) -> int:
    """Return the bytes that come from ``memory`` for all cores; over the link, those that no other memory has."""
    if memory == CLUSTER_LINK and operand.route.from_clusters:
        others = [math.ceil(tile_bytes * ratio) for source, ratio in operand.outside if source != memory]
        return math.ceil(tile_bytes * operand.arriving) - sum(others)
    return math.ceil(tile_bytes * dict(operand.outside).get(memory, 0.0))


def sources_of(
    routes: Mapping[str, Route], memories: Sequence[str]
) -> Iterator[tuple[str, int, bool, tuple[str, ...]]]:
    """Yield where operands of these routes come from: (memory, receivers, whether it waits for the others, operands).

    ``memories``: those beyond the global buffer. What clusters send each other over their link is grouped by the number
    of receivers, and comes last.
    """
    for memory in memories:
        if memory != CLUSTER_LINK:
            yield memory, 1, False, tuple(routes)
    sent = {name: (route.receivers, route.is_loaded_together) for name, route in routes.items() if route.from_clusters}
    for group in dict.fromkeys(sent.values()):
        yield CLUSTER_LINK, *group, tuple([name for name, own in sent.items() if own == group])


def place_along(dims: Sequence[int]) -> Callable[[tuple[int, ...]], Any]:
    """Return a function that selects the entries along ``dims`` of a tile's position."""
    return itemgetter(*dims) if dims else _nowhere


def _nowhere(position: tuple[int, ...]) -> Any:
    del position
    return 0
