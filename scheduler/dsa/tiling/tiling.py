"""A tiling: how one core's part of a layer is cut into tiles, in which order, and what is in flight meanwhile."""

import itertools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from dsascape.scheduler.dsa.deciding.unit_choice import Units
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.loopnest import Extents


class Route(NamedTuple):
    """How an operand reaches the local buffers: which share of it comes from where; the rest is there already."""

    from_ddr: float
    from_global: float
    cores_sharing: int
    """How many cores need the same bytes."""
    broadcast: bool = False
    """Whether one read of the global buffer fills the local buffers of all of these."""

    @property
    def streamed(self) -> float:
        """Share that is brought to the local buffers tile by tile."""
        return self.from_ddr + self.from_global

    def __str__(self) -> str:
        sources = (self.from_ddr, "ddr"), (self.from_global, "global_buffer")
        shares = [f"{share:.0%} {name}" for share, name in sources if share]
        return f"{'+'.join(shares)} x{self.cores_sharing}{' broadcast' if self.broadcast else ''}"


@dataclass(frozen=True, slots=True)
class Tiling:
    """``tile`` elements per sink dimension, outer dimensions first in ``order``; ``depth`` iterations per pass.

    ``tile``, ``order``, ``depth`` and which operands are prefetched or staged are decided; the other figures follow
    from them (`scheduler.dsa.tiling.candidates`).
    """

    part: Extents
    tile: Extents
    order: tuple[int, ...]
    depth: int | None
    depth_extent: int
    loads: Mapping[str, int]
    """How often each streamed operand is loaded into the local buffer."""
    prefetched: Mapping[str, tuple[int, int]]
    """Weights that are fetched ahead through the prefetch buffers: versions that a core gets, bytes for all cores."""
    staged: Mapping[str, int]
    """Operands from DDR that stay in the global buffer while the layer runs, with their bytes."""
    local_buffers: tuple[int, ...]
    """Bytes of each buffer in the local buffer that the tiles in flight take."""
    global_buffers: tuple[int, ...]
    """The same of the global buffer: staged operands, and two tiles of everything else on its way."""
    prefetch_bytes: tuple[int, int]
    """Of the local and the global prefetch buffer: what the weights in flight take."""
    store_burst_bytes: int
    """Output tiles gather in the global buffer to bursts of this size before they go to DDR; 0 where none does."""
    tile_bytes: int
    """Of one tile alone: its operands and its output once."""
    estimate_ps: float = field(compare=False)

    @property
    def counts(self) -> tuple[int, ...]:
        """Tiles per dimension of the sink."""
        return tuple(-(-whole // part) for whole, part in zip(self.part, self.tile, strict=True))

    @property
    def depth_steps(self) -> int:
        return 1 if self.depth is None else -(-self.depth_extent // self.depth)

    @property
    def passes(self) -> int:
        """Tiles times steps along the depth."""
        return math.prod(self.counts) * self.depth_steps

    def with_names(self, names: Sequence[str]) -> "Tiling":
        """Return the tiling of an equal layer whose streamed operands, in the same order, may have other names."""
        if tuple(self.loads) == tuple(names):
            return self
        renamed = dict(zip(self.loads, names, strict=True))
        return replace(
            self,
            loads={renamed[name]: times for name, times in self.loads.items()},
            prefetched={renamed[name]: parts for name, parts in self.prefetched.items()},
            staged={renamed[name]: size for name, size in self.staged.items()},
        )

    def steps(self) -> Iterator[tuple[tuple[int, ...], Extents, int, int | None]]:
        """Yield (position per dimension, extents, depth step, depth iterations) of every tile in order."""
        counts, depth_steps = self.counts, self.depth_steps
        along = [
            [min(size, whole - where * size) for where in range(count)]
            for size, whole, count in zip(self.tile, self.part, counts, strict=True)
        ]
        place_of = [self.order.index(dim) for dim in range(len(counts))]
        for place in itertools.product(*(range(counts[dim]) for dim in self.order)):
            position = tuple([place[at] for at in place_of])
            extents = tuple(map(operator.getitem, along, position))
            for step in range(depth_steps):
                depth = None if self.depth is None else min(self.depth, self.depth_extent - step * self.depth)
                yield position, extents, step, depth

    def __str__(self) -> str:
        depth = "" if self.depth is None else f" depth {self.depth} of {self.depth_extent}"
        kept = [f"{name} prefetched" for name in self.prefetched] + [f"{name} staged" for name in self.staged]
        listed = "".join(f", {each}" for each in kept)
        tile, part = "x".join(map(str, self.tile)), "x".join(map(str, self.part))
        stored = f", stores of {self.store_burst_bytes} B" if self.store_burst_bytes else ""
        return f"{tile} of {part}{depth} order {self.order}{listed}{stored}"


@dataclass(frozen=True, slots=True)
class TileRequest:
    """What a tiling is asked for: a layer, one core's part, where operands are, where the output goes, the space."""

    layer: Layer
    box: Extents
    """Of the sink, on all cores of the cluster together."""
    part: Extents
    cores: int
    units: Units
    routes: Mapping[str, Route]
    """Per streamed operand; operands that are resident in the local buffer are not listed."""
    output_memory: str
    local_gaps: tuple[int, ...]
    """Free bytes of the local buffer in a row, the largest gap first."""
    global_gaps: tuple[int, ...]
    """The same of the global buffer, for operands and tiles passing through."""
    dtype: str
    overlaps: bool = False
    """Whether the layer may compute while the one before and the one after do: all it reads is where it computes."""
    paper_tiles: bool = False
    """Whether tiles are to be those of GraphTurbo's text, where these fit, not searched for."""
    prefetch: tuple[int, int] | None = None
    """Bytes of local and global prefetch buffer that weights are fetched ahead through; None: they are not."""
    in_pieces: bool = False
    """Whether reductions that are no products may be added up piece by piece, too, and products that follow each
    other: their operands are then brought for each of them."""

    @property
    def cuts_depth(self) -> bool:
        """Whether the layer's depth loops may be cut."""
        layer = self.layer
        return self.in_pieces or (layer.contraction is not None and not layer.is_ordered)

    @property
    def searched_depth(self) -> int:
        """Iterations of the layer's depth loops, as far as these may be cut; 1 where they may not."""
        return math.prod(self.layer.depth_extents) if self.cuts_depth else 1
