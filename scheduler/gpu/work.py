"""What a kernel gives the SMs: how many blocks, what each of them issues, and what it moves.

All blocks of a grid are alike. Those at its edges issue what the others do, with some of their threads idle, as
generated code does; they compute and move less, which is shared out among all.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from dsascape.hw_models import Compute, Issued
from dsascape.hw_models.gpu.occupancy import BlockNeeds, occupancy
from dsascape.hw_models.gpu.sm import DRAM, L2, SHARED
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.gpu.clusters import of_cluster
from dsascape.scheduler.gpu.cost.issued import BlockCode, blocks_of
from dsascape.scheduler.gpu.cost.shape import GridShape, shape_of
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.traffic import OffChip, l2_bytes, off_chip
from dsascape.scheduler.gpu.transforms import passes_of
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.sources import named, numbered
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.scheduler.kernels.recurrences import waiting_steps
from dsascape.workloads.loopnest import Extents, Operations
from dsascape.workloads.memo import memoized

SUM_BYTES = 4
"""Bytes of a partial sum: FP32 or INT32."""


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
    """Blocks of a layer with all that does not depend on how large and fast the machine is."""

    shape: GridShape
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
    def without_conflicts(self) -> "Grid":
        """The same grid, but that threads never meet in a bank of shared memory."""
        issued = self.code.issued
        if not issued.further_passes:
            return self
        free = replace(issued, further_passes=0, held_up=0)
        return replace(self, code=replace(self.code, issued=free))

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


def grid_of(layer: Layer, steps: Steps, view: GpuView) -> Grid:
    """Return the grid of the loop program that ``steps`` make of ``layer``, worked out once for equal layers.

    Raises ``StepError`` for steps that make no program of blocks and threads.
    """
    return _grid_of(layer, numbered(NaiveProgram(layer), steps), view.code)


@memoized
def _grid_of(layer: Layer, steps: Steps, view: GpuView) -> Grid:
    naive = NaiveProgram(layer)
    return _of_reads(Reads(naive, loop_program(naive, named(naive, steps))), view)


def _of_reads(reads: Reads, view: GpuView) -> Grid:
    layer = reads.naive.layer
    shape = shape_of(layer, reads.program)
    (block,) = blocks_of(reads, shape, view)
    return make_grid(layer, shape, block.code, block.needs, view)


class Costed(NamedTuple):
    """The grid of a candidate."""

    grid: Grid
    is_exact: bool
    """Whether its instructions and registers are no lower bounds."""


def costed_grids(reads: Reads, clusters: Extents, view: GpuView) -> list[Costed]:
    """Return the grids of the candidates that a loop program's columns of sizes stand for.

    ``clusters``: neighbouring blocks along each dimension that share loads, which the program need not have.

    Raises what `grid_of` raises, and ``MixedRowsError`` where candidates differ in more than sizes.
    """
    layer = reads.naive.layer
    shape = replace(shape_of(layer, reads.program), cluster=clusters)
    blocks = blocks_of(reads, shape, view, at_best=True)
    return [
        Costed(make_grid(layer, own, block.code, block.needs, view), block.is_exact)
        for own, block in zip(shape.rows(len(blocks)), blocks, strict=True)
    ]


def program_grid(layer: Layer, program: LoopProgram, view: GpuView) -> Grid:
    """Return the grid of a loop program, which nothing is stored of; what `grid_of` raises, it raises."""
    return _of_reads(Reads(NaiveProgram(layer), program), view)


def make_grid(layer: Layer, shape: GridShape, code: BlockCode, needs: BlockNeeds, view: GpuView) -> Grid:
    """Return the grid of blocks that issue ``code`` and take ``needs`` of an SM."""
    sector_bytes = view.spec.l2.sector_bytes
    whole = _whole_of(layer, shape.tile, sector_bytes)
    moved = whole.l2_bytes
    if shape.cluster:
        moved = _whole_of(layer, of_cluster(shape.tile, shape.cluster), sector_bytes).l2_bytes
    passes = passes_of(layer, shape.tile)
    handed_over = whole.blocks * partial_bytes(layer, shape)
    return Grid(
        shape, whole.blocks * shape.shares * passes, code, needs, whole.operations, moved + handed_over,
        whole.l2_bytes + handed_over, last_code(layer, shape, view), waiting_steps(layer) * passes,
    )  # fmt: skip


def partial_bytes(layer: Layer, shape: GridShape) -> int:
    """Return the bytes of the partial results that all blocks which share the reduction of a tile hand over."""
    if shape.shares == 1:
        return 0
    nests = nests_of(layer)
    return shape.shares * nests.works(layer, shape.tile)[nests.reduction].outputs * SUM_BYTES


def last_code(layer: Layer, shape: GridShape, view: GpuView) -> BlockCode | None:
    """Return what the last of the blocks that share a tile's reduction issues besides: None where none do.

    It counts those that have ended, reads what they have handed over, all threads together, and adds it up.
    """
    size = partial_bytes(layer, shape)
    if not size:
        return None
    sums, warp = size // SUM_BYTES, view.spec.sms.warp
    warps = -(-sums // warp)
    by_thread = -(-sums // shape.threads)
    issued = Issued(
        load=warps, arithmetic=warps, store=1, scalar=warps * view.tuning.address_instructions,
        accumulators=-(-shape.threads // warp), waits=1 + -(-by_thread // view.tuning.loads_ahead),
    )  # fmt: skip
    return BlockCode(issued, size)


def operations_of(layer: Layer, tile: Extents) -> Operations:
    """Return the operations that a block does which computes ``tile``, a whole one or that of an edge."""
    made = [work.operations for work in nests_of(layer).works(layer, tile)]
    return Operations(
        sum([each.macs for each in made]), sum([each.simple for each in made]), sum([each.special for each in made])
    )


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
    shape, spec = grid.shape, view.spec
    concurrent = min(grid.at_once, spec.sms.count * max(occupancy(spec.sms, grid.needs).blocks, 1))
    return off_chip(layer, shape.tile, shape.depth_step, order, concurrent, view.l2_shape, spec.l2.sector_bytes)


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
        at_work = min(blocks // grid.shape.shares, view.spec.sms.count)
        last = Compute(dtype=view.dtype, issued=grid.last.issued, traffic=traffic, at_work=at_work)
    held = occupancy(view.spec.sms, grid.needs).blocks
    return KernelWork(blocks, payload, held, grid.needs.shared_bytes, last, blocks // grid.shape.shares, grid.steps)


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
        tiles = grid.blocks // grid.shape.shares
        most = -(-tiles // sms)
        taken = view.pace.taken(grid.last.issued, ((SHARED, size), (L2, size)), most, min(tiles, sms))
        duration_ps += taken.startup_ps + taken.duration_ps
    return grid.steps * (spec.launch_ps + duration_ps)
