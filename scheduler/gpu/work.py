"""What a kernel gives the SMs: how many blocks, what each of them issues, and what it moves.

All blocks of a grid are alike. Those at its edges issue what the others do, with some of their threads idle, as
generated code does; they compute and move less, which is shared out among all.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dsascape.hw_models import Compute
from dsascape.hw_models.gpu.occupancy import BlockNeeds, occupancy
from dsascape.hw_models.gpu.sm import DRAM, L2, SHARED
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.gpu.clusters import of_cluster
from dsascape.scheduler.gpu.code import BlockCode, block_code, block_needs, last_code, operations_of, partial_bytes
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.traffic import OffChip, depth_step_of, l2_bytes, off_chip
from dsascape.scheduler.gpu.transforms import passes_of
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.recurrences import waiting_steps
from dsascape.workloads.loopnest import Extents, Operations
from dsascape.workloads.memo import memoized


@dataclass(frozen=True, slots=True)
class KernelWork:
    """A whole kernel: its blocks, all alike."""

    blocks: int
    payload: Compute
    """Work of one block."""
    blocks_per_sm: int
    """Blocks that an SM holds at a time."""
    shared_bytes: int
    """Shared memory of one block."""
    last: Compute | None = None
    """Work done once for each tile when all blocks that share its reduction have ended."""
    tiles: int = 0
    """For which that is done."""
    steps: int = 1
    """Grids of as many blocks each, launched one after the other: those of a recurrence, passes of a transform."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Tiles of a layer with all that does not depend on how large and fast the machine is."""

    tiles: GpuTiles
    blocks: int
    code: BlockCode
    """Instructions of one block."""
    needs: BlockNeeds
    operations: Operations
    """Operations of all blocks together, recomputed halos counted."""
    l2_bytes: int
    """Bytes that all blocks together move out of the L2 and into it: what a cluster shares counts once."""
    sm_bytes: int
    """Bytes that all SMs together receive from the L2 and send there: as ``l2_bytes`` without clusters."""
    last: BlockCode | None = None
    """Additional instructions of the last of the blocks that share a reduction."""
    steps: int = 1
    """Into which the blocks fall, which wait for each other."""

    @property
    def at_once(self) -> int:
        """Blocks that do not wait for others."""
        return self.blocks // self.steps

    def charged_l2_bytes(self, view: GpuView) -> float:
        """Return the bytes of all blocks at the bandwidth of the L2 that take as long as the slower of two ways.

        These are the L2's own, for what clusters share once, and the paths of the SMs, for what each receives.
        """
        at_work = min(self.at_once, view.spec.sms.count)
        of_paths = view.pace.fair_bytes_per_cycle(at_work)[L2] / view.spec.sms.l2_bytes_per_cycle
        return max(float(self.l2_bytes), self.sm_bytes * of_paths)


def grid_of(layer: Layer, tiles: GpuTiles, view: GpuView) -> Grid:
    """Return the grid of ``layer`` in ``tiles``, worked out once for equal layers."""
    return _grid_of(layer, tiles, view.code)


@memoized
def _grid_of(layer: Layer, tiles: GpuTiles, view: GpuView) -> Grid:
    return make_grid(layer, tiles, view)


def make_grid(layer: Layer, tiles: GpuTiles, view: GpuView, *, has_conflicts: bool = True) -> Grid:
    """Return the grid of ``layer`` in ``tiles``; without bank conflicts, it takes no longer than with any padding."""
    sector_bytes = view.spec.l2.sector_bytes
    whole = _whole_of(layer, tiles.tile, sector_bytes)
    moved = whole.l2_bytes
    if tiles.cluster:
        moved = _whole_of(layer, of_cluster(tiles.tile, tiles.cluster), sector_bytes).l2_bytes
    code, needs = block_code(layer, tiles, view, has_conflicts=has_conflicts), block_needs(layer, tiles, view)
    passes = passes_of(layer, tiles.tile)
    handed_over = whole.blocks * partial_bytes(layer, tiles)
    return Grid(
        tiles, whole.blocks * tiles.shares * passes, code, needs, whole.operations, moved + handed_over,
        whole.l2_bytes + handed_over, last_code(layer, tiles, view), waiting_steps(layer) * passes,
    )  # fmt: skip


class _Whole(NamedTuple):
    """Totals of a grid of tiles that do not depend on how threads divide a tile."""

    blocks: int
    operations: Operations
    l2_bytes: int


@memoized
def _whole_of(layer: Layer, tile: Extents, sector_bytes: int) -> _Whole:
    operations, moved, blocks = Operations(), 0, 0
    for count, part in tile_classes(layer.computed_part(layer.sink.shape, tile), tile):
        operations += operations_of(layer, part) * count
        moved += l2_bytes(layer, part, sector_bytes) * count
        blocks += count
    return _Whole(blocks, operations, moved)


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
    concurrent = min(grid.at_once, spec.sms.count * max(occupancy(spec.sms, grid.needs).blocks, 1))
    step = depth_step_of(layer, tiles)
    return off_chip(layer, tiles.tile, step, order, concurrent, view.l2_shape, spec.l2.sector_bytes)


def kernel_work(layer: Layer, grid: Grid, dram_bytes: float, view: GpuView) -> KernelWork:
    """Return the blocks of ``layer``, which together move so much between L2 and DRAM."""
    blocks, code = grid.blocks, grid.code

    def each(total: float) -> int:
        return math.ceil(total / blocks - 1e-9)

    payload = Compute(
        dtype=view.dtype, product=view.product, issued=code.issued, at_work=min(grid.at_once, view.spec.sms.count),
        macs=each(grid.operations.macs), simple=each(grid.operations.simple), special=each(grid.operations.special),
        traffic=((SHARED, code.shared_bytes), (L2, each(grid.charged_l2_bytes(view))), (DRAM, each(dram_bytes))),
    )  # fmt: skip
    last = None
    if grid.last is not None:
        traffic = (SHARED, grid.last.shared_bytes), (L2, grid.last.shared_bytes), (DRAM, 0)
        at_work = min(blocks // grid.tiles.shares, view.spec.sms.count)
        last = Compute(dtype=view.dtype, issued=grid.last.issued, traffic=traffic, at_work=at_work)
    held = occupancy(view.spec.sms, grid.needs).blocks
    return KernelWork(blocks, payload, held, grid.needs.shared_bytes, last, blocks // grid.tiles.shares, grid.steps)


def estimate_ps(grid: Grid, view: GpuView, dram_bytes: float) -> float:
    """Return how long a kernel takes that moves so much from and to DRAM; infinite if no SM holds a block of it.

    Waves follow each other here, which is what a search needs to know; the simulation lets SMs go on by themselves.
    """
    spec = view.spec
    held = occupancy(spec.sms, grid.needs).blocks
    if not held:
        return math.inf
    through_l2, off_chip_bytes = grid.charged_l2_bytes(view) / grid.blocks, dram_bytes / grid.blocks
    traffic = (SHARED, float(grid.code.shared_bytes)), (L2, through_l2), (DRAM, off_chip_bytes)
    chip_ps = PS_PER_S * max(
        through_l2 / spec.l2.bandwidth_bytes_per_s, off_chip_bytes / spec.dram.sustained_bytes_per_s
    )
    sms = spec.sms.count
    waves, left = divmod(grid.at_once, sms * held)
    duration_ps = 0.0
    for times, blocks in ((waves, sms * held), (1, left)):
        if times and blocks:
            most = -(-blocks // sms)
            taken = view.pace.taken(grid.code.issued, traffic, most, min(blocks, sms))
            even = (most - 1) * sms  # blocks that all SMs have; those that some have besides are done after these
            last_ps = max(taken.duration_ps / most, (blocks - even) * chip_ps)
            wave_ps = taken.startup_ps + max(taken.duration_ps, even * chip_ps + last_ps)
            if most > 1 and blocks < most * sms and grid.code.issued.waits:  # SMs with fewer blocks hide less latency
                fewer = view.pace.taken(grid.code.issued, traffic, most - 1, sms)
                of_these = (most * sms - blocks) * (most - 1)
                wave_ps = max(wave_ps, fewer.startup_ps + max(fewer.duration_ps, of_these * chip_ps))
            duration_ps += times * wave_ps
    if grid.last is not None:
        size = float(grid.last.shared_bytes)
        tiles = grid.blocks // grid.tiles.shares
        most = -(-tiles // sms)
        taken = view.pace.taken(grid.last.issued, ((SHARED, size), (L2, size)), most, min(tiles, sms))
        duration_ps += taken.startup_ps + taken.duration_ps
    return grid.steps * (spec.launch_ps + duration_ps)
