"""What a kernel gives the SMs: its blocks by class, those of whole tiles and those of edges, and what each moves."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from hw_models import Compute
from hw_models.gpu.occupancy import BlockNeeds, occupancy
from hw_models.gpu.sm import DRAM, L2, SHARED
from hw_models.quantities import PS_PER_S
from scheduler.gpu.code import BlockCode, block_code, block_needs
from scheduler.gpu.tiles import GpuTiles
from scheduler.gpu.traffic import OffChip, l2_bytes, off_chip
from scheduler.gpu.view import GpuView
from scheduler.kernels.layer import Layer
from workloads.loopnest import Extents


@dataclass(frozen=True, slots=True)
class BlockClass:
    """Blocks that are alike."""

    count: int
    payload: Compute


@dataclass(frozen=True, slots=True)
class KernelWork:
    """A whole kernel."""

    classes: tuple[BlockClass, ...]
    """In the order in which they are handed out: whole tiles first, then edges."""
    blocks_per_sm: int
    """That an SM holds at a time."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Tiles of a layer with all that does not depend on how large and fast the machine is."""

    tiles: GpuTiles
    blocks: int
    filled: float
    """Blocks, edges counted by how much of a whole tile they are."""
    code: BlockCode
    """Of a block with a whole tile."""
    needs: BlockNeeds
    l2_bytes: int
    """That such a block moves between its SM and the L2."""


def grid_of(layer: Layer, tiles: GpuTiles, view: GpuView) -> Grid:
    """Return the grid of ``layer`` in ``tiles``, worked out once for equal layers."""
    table = layer.analysis.table(grid_of)
    return table.get((layer.signature, tiles, view.code_key), partial(make_grid, layer, tiles, view))


def make_grid(layer: Layer, tiles: GpuTiles, view: GpuView) -> Grid:
    """Return the grid of ``layer`` in ``tiles``."""
    shape = layer.sink.shape
    return Grid(
        tiles, math.prod(tiles.blocks_along(shape)), math.prod(shape) / math.prod(tiles.tile),
        block_code(layer, tiles, tiles.tile, view), block_needs(layer, tiles, view), _moved(layer, tiles.tile, view),
    )  # fmt: skip


def tile_classes(shape: Extents, tile: Extents) -> Iterator[tuple[int, Extents]]:
    """Yield how many blocks compute so many elements per dimension: first whole tiles, then those of edges."""
    per_dim = []
    for size, part in zip(shape, tile, strict=True):
        whole, rest = divmod(size, part)
        per_dim.append([(count, extent) for count, extent in ((whole, part), (1, rest)) if count and extent])
    for chosen in itertools.product(*per_dim):
        yield math.prod([count for count, _ in chosen]), tuple([extent for _, extent in chosen])


def off_chip_of(layer: Layer, grid: Grid, order: tuple[int, ...], view: GpuView) -> OffChip:
    """Return what the kernel moves between L2 and DRAM if the L2 is empty when it begins; blocks run in ``order``."""
    tiles, spec = grid.tiles, view.spec
    concurrent = min(grid.blocks, spec.sms.count * max(occupancy(spec.sms, grid.needs).blocks, 1))
    made = partial(off_chip, layer, tiles, order, concurrent, view.l2_shape, spec.l2.sector_bytes)
    key = layer.signature, tiles.tile, order, tiles.depth_step, concurrent, view.l2_shape, spec.l2.sector_bytes
    return layer.analysis.table(off_chip).get(key, made)


def kernel_work(layer: Layer, tiles: GpuTiles, dram_bytes: float, view: GpuView) -> KernelWork:
    """Return the blocks of ``layer`` in ``tiles``; each has as much of ``dram_bytes`` as of what SMs and L2 move."""
    grid = grid_of(layer, tiles, view)
    found = []
    for count, tile in tile_classes(layer.sink.shape, tiles.tile):
        if tile == tiles.tile:
            found.append((count, grid.code, grid.l2_bytes))
        else:
            found.append((count, block_code(layer, tiles, tile, view), _moved(layer, tile, view)))
    in_all = sum([count * moved for count, _, moved in found])
    share = dram_bytes / in_all if in_all else 0.0
    classes = [
        BlockClass(count, _payload(code, moved, math.ceil(moved * share - 1e-9), view.dtype))
        for count, code, moved in found
    ]
    return KernelWork(tuple(classes), occupancy(view.spec.sms, grid.needs).blocks)


def _moved(layer: Layer, tile: Extents, view: GpuView) -> int:
    return l2_bytes(layer, tile, view.spec.l2.sector_bytes)


def _payload(code: BlockCode, moved_bytes: int, dram_bytes: int, dtype: str) -> Compute:
    made = code.operations
    return Compute(
        dtype=dtype, macs=made.macs, simple=made.simple, special=made.special, issued=code.issued,
        traffic=((SHARED, code.shared_bytes), (L2, moved_bytes), (DRAM, dram_bytes)),
    )  # fmt: skip


def estimate_ps(grid: Grid, view: GpuView, dram_bytes: float) -> float:
    """Return how long a kernel takes that moves so much from and to DRAM; infinite if no SM holds a block of it.

    All blocks are taken for whole ones, and waves for even: what a search needs to know. The simulation does not.
    """
    spec = view.spec
    held = occupancy(spec.sms, grid.needs).blocks
    if not held:
        return math.inf
    traffic = (
        (SHARED, float(grid.code.shared_bytes)), (L2, float(grid.l2_bytes)), (DRAM, dram_bytes / grid.filled),
    )  # fmt: skip
    waves, left = divmod(grid.blocks, spec.sms.count * held)
    in_waves_ps = 0.0
    for times, resident in ((waves, held), (1, -(-left // spec.sms.count))):
        if times and resident:
            taken = view.pace.taken(grid.code.issued, traffic, resident)
            in_waves_ps += times * (taken.startup_ps + taken.duration_ps)
    off_chip_s = dram_bytes / spec.dram.sustained_bytes_per_s
    l2_s = grid.filled * grid.l2_bytes / spec.l2.bandwidth_bytes_per_s
    return spec.launch_ps + max(in_waves_ps, off_chip_s * PS_PER_S, l2_s * PS_PER_S)
