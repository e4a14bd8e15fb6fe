"""A tiling: how one core's part of a layer is cut into tiles, in which order, and what is in flight meanwhile."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.device import ScratchpadDevice
from scheduler.work import Extents, Layer

BURST_STARTUPS = 8
"""Operands that stay in the global buffer are fetched in bursts that last this many DMA start-ups."""


@dataclass(frozen=True, slots=True)
class Route:
    """How an operand reaches the local buffers: which share of it comes from where; the rest is there already."""

    from_ddr: float
    from_global: float
    sharing: int
    """How many cores need the same bytes."""

    @property
    def streamed(self) -> float:
        return self.from_ddr + self.from_global


@dataclass(frozen=True, slots=True)
class Tiling:
    """``tile`` elements per sink dimension, outer dimensions first in ``order``; ``depth`` iterations per pass."""

    part: Extents
    tile: Extents
    order: tuple[int, ...]
    depth: int | None
    depth_extent: int
    loads: Mapping[str, int]
    """How often each streamed operand is loaded into the local buffer."""
    ahead: Mapping[str, tuple[int, int]]
    """Weights that are fetched ahead through the windows: how many versions a core gets, bytes for all cores."""
    staged: Mapping[str, int]
    """Operands from DDR that stay in the global buffer while the layer runs, with their bytes."""
    buffers: tuple[int, ...]
    """Bytes of each buffer in the local buffer that the tiles in flight take."""
    staging: tuple[int, ...]
    """The same of the global buffer: staged operands, and two tiles of everything else on its way."""
    window_bytes: tuple[int, int]
    """Of the local and the global window: what the weights in flight take."""
    store_burst_bytes: int
    """Output tiles gather in the global buffer to bursts of this size before they go to DDR."""
    tile_bytes: int
    """Of one tile alone: its operands and its output once."""
    estimate_ps: float

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(-(-whole // part) for whole, part in zip(self.part, self.tile, strict=True))

    @property
    def buffer_bytes(self) -> int:
        """Local buffer that the tiles in flight take."""
        return sum(self.buffers)

    @property
    def staging_bytes(self) -> int:
        """Global buffer that operands and output tiles on their way take."""
        return sum(self.staging)

    @property
    def depth_steps(self) -> int:
        return 1 if self.depth is None else -(-self.depth_extent // self.depth)

    def with_names(self, names: Sequence[str]) -> "Tiling":
        """Return the tiling of an equal layer whose streamed operands, in the same order, have other names."""
        renamed = dict(zip(self.loads, names, strict=True))
        return replace(
            self,
            loads={renamed[name]: times for name, times in self.loads.items()},
            ahead={renamed[name]: parts for name, parts in self.ahead.items()},
            staged={renamed[name]: size for name, size in self.staged.items()},
        )

    def steps(self) -> Iterator[tuple[tuple[int, ...], Extents, int, int | None]]:
        """Yield (position per dimension, extents, depth step, depth iterations) of every tile in order."""
        counts = self.counts
        for place in itertools.product(*(range(counts[dim]) for dim in self.order)):
            position = [0] * len(counts)
            for dim, where in zip(self.order, place, strict=True):
                position[dim] = where
            extents = tuple(
                min(size, whole - where * size)
                for size, whole, where in zip(self.tile, self.part, position, strict=True)
            )
            for step in range(self.depth_steps):
                depth = None if self.depth is None else min(self.depth, self.depth_extent - step * self.depth)
                yield tuple(position), extents, step, depth


@dataclass(frozen=True, slots=True)
class TileRequest:
    """What a tiling is asked for: a layer, one core's part, where operands are, where the output goes, the space."""

    layer: Layer
    box: Extents
    """Of the sink, on all cores of the cluster together."""
    part: Extents
    cores: int
    routes: Mapping[str, Route]
    """Per streamed operand; operands that are resident in the local buffer are not listed."""
    output_scope: str
    local_gaps: tuple[int, ...]
    """Free bytes of the local buffer in a row, the largest gap first."""
    shared_gaps: tuple[int, ...]
    """The same of the global buffer, for operands and tiles passing through."""
    dtype: str
    overlaps: bool = False
    """Whether the layer may compute while the one before and the one after do: all it reads is where it computes."""
    paper_tiles: bool = False
    """Whether tiles are to be those of GraphTurbo's text, where these fit, not searched for."""
    windows: tuple[int, int] | None = None
    """Bytes of local and global buffer that weights are fetched ahead through; None: they are not."""


def burst_bytes(device: ScratchpadDevice) -> int:
    """Return the size of a DMA burst that makes its start-up small."""
    return max(int(BURST_STARTUPS * device.dma_startup_ps * device.ddr_bytes_per_ps), 1)
