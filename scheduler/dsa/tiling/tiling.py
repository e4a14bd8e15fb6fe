"""Tilings and tile requests: how one core's part of a layer is cut into tiles, their order, and their buffers."""

import itertools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from dsascape.hw_models.dsa.levels import CLUSTER_LINK
from dsascape.scheduler.dsa.deciding.unit_choice import Units
from dsascape.scheduler.dsa.view import DDR, GLOBAL
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.machine_part import left_out
from dsascape.workloads.loopnest import Extents


class TilePin(NamedTuple):
    """Tiles that the user fixes for a layer; the search chooses the rest (`scheduler.pins`)."""

    where: str
    """Place in the file of pins, for messages."""
    tile: tuple[int | None, ...]
    """Elements per sink dimension; None: searched."""
    depth: int | None = None
    """Iterations of the depth loops per step; None: searched."""
    prefetched: bool | None = None
    """Whether weights come through the prefetch buffers; None: searched."""


class Route(NamedTuple):
    """Route of an operand to the local buffers: shares from each memory; the rest is resident."""

    from_ddr: float
    from_global: float
    cores_sharing: int
    """Number of cores that need the same bytes."""
    broadcast: bool = False
    """Whether one read of the global buffer fills the local buffers of all sharing cores."""
    from_further: tuple[tuple[str, float], ...] = ()
    """Shares from levels between the global buffer and DDR, by name."""
    from_clusters: float = 0.0
    """Share received over the link between clusters, from other clusters' global buffers. If ``from_ddr`` is not zero,
    these have loaded it from DDR: each byte is loaded by one of the clusters that need it."""
    receivers: int = 1
    """Number of clusters that receive each byte sent over the link."""

    def loaded_together(self, clusters: int) -> "Route":
        """Return the route if ``clusters`` that need the same bytes load equal parts from DDR and exchange them.

        What comes from nowhere in DDR, or is exchanged already, keeps its route.
        """
        if not self.from_ddr or self.from_clusters:
            return self
        own = self.from_ddr / clusters
        return self._replace(from_ddr=own, from_clusters=self.from_ddr - own, receivers=clusters - 1)

    @property
    def is_loaded_together(self) -> bool:
        """Whether each cluster loads a part of it from DDR, and has the rest from the others."""
        return bool(self.from_ddr and self.from_clusters)

    @property
    def linked(self) -> float:
        """Fraction of what comes from beyond the global buffer that other clusters send."""
        return self.from_clusters / self.from_outside if self.from_clusters else 0.0

    @property
    def loaded_from(self) -> tuple[tuple[str, float], ...]:
        """Memories beyond the global buffer from which it is loaded, with the share of each."""
        return (*self.from_further, (DDR, self.from_ddr)) if self.from_ddr else self.from_further

    @property
    def outside(self) -> tuple[tuple[str, float], ...]:
        """Memories beyond the global buffer from which it comes, with the share of each, the link to others last."""
        return (*self.loaded_from, (CLUSTER_LINK, self.from_clusters)) if self.from_clusters else self.loaded_from

    @property
    def from_outside(self) -> float:
        """Share from beyond the global buffer."""
        return self.from_ddr + sum([share for _, share in self.from_further]) + self.from_clusters

    @property
    def streamed(self) -> float:
        """Share of the operand that is brought to the local buffers tile by tile."""
        return self.from_outside + self.from_global

    def __str__(self) -> str:
        sources = (*self.outside[::-1], (GLOBAL, self.from_global))
        shares = [f"{share:.0%} {name}" for name, share in sources if share]
        receivers = f", link to {self.receivers}" if self.from_clusters else ""
        return f"{'+'.join(shares)} x{self.cores_sharing}{' broadcast' if self.broadcast else ''}{receivers}"


class TileGrid(NamedTuple):
    """One core's part of a layer's output, divided into tiles that follow each other in an order of its dimensions."""

    part: Extents
    """Elements per dimension of the sink."""
    tile: Extents
    """Elements per dimension of a tile that no edge cuts short."""
    order: tuple[int, ...]
    """Dimensions, the outermost first."""

    @property
    def counts(self) -> tuple[int, ...]:
        """Tiles per dimension of the sink."""
        return tuple([-(-whole // size) for whole, size in zip(self.part, self.tile, strict=True)])

    def positions(self) -> Iterator[tuple[tuple[int, ...], Extents]]:
        """Yield position per dimension and extents of every tile, in execution order."""
        counts = self.counts
        along = [
            [min(size, whole - where * size) for where in range(count)]
            for size, whole, count in zip(self.tile, self.part, counts, strict=True)
        ]
        place_of = [self.order.index(dim) for dim in range(len(counts))]
        for place in itertools.product(*(range(counts[dim]) for dim in self.order)):
            position = tuple([place[at] for at in place_of])
            yield position, tuple(map(operator.getitem, along, position))


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tiling: ``tile`` elements per sink dimension, outer dimensions first in ``order``; ``depth`` iterations per pass.

    ``tile``, ``order``, ``depth`` and which operands are prefetched or staged are decisions; the other fields are
    derived (`scheduler.dsa.tiling.candidates`).
    """

    part: Extents
    tile: Extents
    order: tuple[int, ...]
    depth: int | None
    depth_extent: int
    """Iterations of the depth loops that a tile has: in the mean over tiles, where they are bounded."""
    loads: Mapping[str, int] = field(hash=False)
    """Number of times each streamed operand is loaded into the local buffer."""
    prefetched: Mapping[str, tuple[int, int]] = field(hash=False)
    """Weights prefetched through the prefetch buffers: (versions per core, bytes for all cores)."""
    staged: Mapping[str, int] = field(hash=False)
    """Bytes of each operand from DDR that stays in the global buffer while the layer runs."""
    local_buffers: tuple[int, ...]
    """Bytes of each buffer in the local buffer, for tiles in flight."""
    global_buffers: tuple[int, ...]
    """Bytes of each buffer in the global buffer: staged operands, and two tiles of all others passing through."""
    prefetch_bytes: tuple[int, int]
    """Bytes of the local and of the global prefetch buffer that weights in flight occupy."""
    store_burst_bytes: int
    """Size of the bursts in which output tiles leave the global buffer for DDR; 0 if outputs do not go to DDR."""
    tile_bytes: int
    """Bytes of one tile alone, not double-buffered: operands, intermediates and output."""
    estimate_ps: float = field(compare=False)
    computed: Extents = ()
    """``part`` without what no tile computes, in the mean over cores, where the sink is bounded; empty: all of it."""

    @property
    def grid(self) -> TileGrid:
        """Tiles of a core's part, as far as it is computed."""
        return TileGrid(self.computed or self.part, self.tile, self.order)

    @property
    def counts(self) -> tuple[int, ...]:
        """Tiles per dimension of the sink."""
        return self.grid.counts

    @property
    def depth_steps(self) -> int:
        return 1 if self.depth is None else -(-self.depth_extent // self.depth)

    @property
    def passes(self) -> int:
        """Tiles times steps along the depth."""
        return math.prod(self.counts) * self.depth_steps

    def with_names(self, names: Sequence[str]) -> "Tiling":
        """Return this tiling for an equal layer whose streamed operands have ``names``, in the same order."""
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
        """Yield (position per dimension, extents, depth step, depth iterations) of every pass in order."""
        depth_steps, depth = self.depth_steps, self.depth
        sizes = [None if depth is None else min(depth, self.depth_extent - step * depth) for step in range(depth_steps)]
        for position, extents in self.grid.positions():
            for step, size in enumerate(sizes):
                yield position, extents, step, size

    def __str__(self) -> str:
        depth = "" if self.depth is None else f" depth {self.depth} of {self.depth_extent}"
        kept = [f"{name} prefetched" for name in self.prefetched] + [f"{name} staged" for name in self.staged]
        listed = "".join(f", {each}" for each in kept)
        tile, part = "x".join(map(str, self.tile)), "x".join(map(str, self.part))
        stored = f", stores of {self.store_burst_bytes} B" if self.store_burst_bytes else ""
        return f"{tile} of {part}{depth} order {self.order}{listed}{stored}"


_FREE_SPACE = {
    name: left_out(name, "tile request")
    for name in ("local_gaps", "global_gaps", "overlaps", "paper_tiles", "doubled")
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TileRequest:
    """Tile request: layer, one core's part, routes of operands, memory of the output, free space."""

    layer: Layer = field(hash=False)
    box: Extents
    """Elements per sink dimension on all cores of the cluster together."""
    part: Extents
    cores: int
    units: Units
    routes: Mapping[str, Route] = field(hash=False)
    """Route of each streamed operand; operands resident in the local buffer are not listed."""
    output_memory: str
    """Memory of the output; ``ddr`` for every memory beyond the global buffer (``stored_in``)."""
    local_gaps: tuple[int, ...]
    """Bytes of each free gap of the local buffer, the largest first."""
    global_gaps: tuple[int, ...]
    """Bytes of each free gap of the global buffer, for operands and tiles passing through, the largest first."""
    dtype: str
    overlaps: bool = False
    """Whether the layer may overlap with its neighbours: all activations that it reads are resident."""
    paper_tiles: bool = False
    """Whether tiles are those of GraphTurbo's text, where these fit, instead of searched ones."""
    prefetch: tuple[int, int] | None = None
    """Bytes of the local and the global prefetch buffer for weights; None: weights are not prefetched."""
    in_pieces: bool = False
    """Whether reductions that are no products, and sequential products, may also be accumulated piece by piece: their
    operands are then loaded for each piece."""
    pin: TilePin | None = None
    """Tiles that the user fixes; None: all are searched."""
    stored_in: tuple[tuple[str, float], ...] = ((DDR, 1.0),)
    """Memories beyond the global buffer, with the share that each has of what goes there of the output."""
    doubled: bool = False
    """Whether tiles have to leave two buffers of the global buffer for all that passes through it, where one would do
    (`DsaView.single_buffers`)."""
    reloads: bool = False
    """Whether every tile loads all of its operands (`LocalBuffer.reloads`)."""

    @property
    def apart_from_space(self) -> "TileRequest":
        """The request without free space and options of the search: all that cuts, their times and sizes depend on."""
        prefetch = None if self.prefetch is None else left_out("prefetch", "tile request")
        return replace(self, prefetch=prefetch, **_FREE_SPACE)

    @property
    def fixed(self) -> tuple[int | None, ...]:
        """Tile size of each sink dimension, and of the depth, that is fixed; empty if none is."""
        return () if self.pin is None else (*self.pin.tile, self.pin.depth)

    @property
    def cuts_depth(self) -> bool:
        """Whether the layer's depth loops may be cut."""
        layer = self.layer
        return self.in_pieces or (layer.contraction is not None and not layer.is_ordered)

    @property
    def searched_depth(self) -> int:
        """Iterations of the layer's depth loops if these may be cut, else 1."""
        return math.prod(self.layer.depth_extents) if self.cuts_depth else 1
