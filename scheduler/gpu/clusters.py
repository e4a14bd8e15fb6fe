"""Clusters of thread blocks that share loads: what several blocks read alike comes from the L2 once, for all of them.

Blocks of a cluster run at the same time on neighbouring SMs. What a product stages in shared memory is then multicast:
blocks in one row of the grid share their rows of the first operand, blocks in one column their columns of the second. A
cluster moves between SMs and L2 what one block would that computes all its tiles together; each SM still receives the
operands of its own block. Which blocks form a cluster is chosen by the bytes that are left.
"""

import math
from dataclasses import replace

from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.gpu.cost.shape import GridShape
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.tiles import GpuTiles, blocks_along
from dsascape.scheduler.gpu.traffic import l2_bytes
from dsascape.scheduler.gpu.transforms import passes_of
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.recurrences import waiting_steps
from dsascape.scheduler.kernels.schedule import shown
from dsascape.wording import count
from dsascape.workloads.loopnest import Extents
from dsascape.workloads.memo import memoized


def clustered(layer: Layer, tiles: GpuTiles, view: GpuView) -> GpuTiles:
    """Return ``tiles`` with the blocks in clusters that read least from the L2; without clusters where none reads less.

    From single blocks on, the dimension is doubled that leaves the fewest bytes, so larger clusters never move more.
    """
    most = view.spec.sms.cluster
    if most == 1 or not can_cluster(layer, tiles):
        return replace(tiles, cluster=()) if tiles.cluster else tiles
    found = _cluster(layer, tiles.tile, view.spec.l2.sector_bytes, most)
    return tiles if found == tiles.cluster else replace(tiles, cluster=found)


def can_cluster(layer: Layer, tiles: GpuTiles) -> bool:
    """Return whether a kernel's blocks may form clusters: one product on tensor units, its operands staged."""
    return tiles.unit == "tensor" and tiles.shares == 1 and _is_one_product(layer, tiles.tile)


def _is_one_product(layer: Layer, tile: Extents) -> bool:
    nests = nests_of(layer)
    return (
        not nests.fronts and not nests.statistics and waiting_steps(layer) == 1 and passes_of(layer, tile) == 1
    )


def check_cluster(where: str, layer: Layer, program: LoopProgram, shape: GridShape, view: GpuView) -> None:
    """Raise ``ScheduleError`` beginning with ``where`` for clusters that the machine or the kernel cannot have."""
    is_staged = shape.shares == 1 and any(loop.kind == "tensor" for loop in program.loops.values())
    can = is_staged and _is_one_product(layer, shape.tile)
    if shape.cluster and (math.prod(shape.cluster) > view.spec.sms.cluster or not can):
        most = count(view.spec.sms.cluster, "block")
        raise ScheduleError(
            f"{where}: cluster: has {shown(shape.cluster)}; a cluster of {view.spec.name} has {most} at most, of one"
            " product whose operands are staged"
        )


def of_cluster(tile: Extents, cluster: Extents) -> Extents:
    """Return the elements that the blocks of a cluster compute together; those of a block without one."""
    return tuple([size * blocks for size, blocks in zip(tile, cluster, strict=True)]) if cluster else tile


@memoized
def _cluster(layer: Layer, tile: Extents, sector_bytes: int, most: int) -> Extents:
    along = blocks_along(layer.computed_part(layer.sink.shape, tile), tile)
    chosen = (1,) * len(along)
    least = _bytes_of_block(layer, tile, chosen, sector_bytes)
    while math.prod(chosen) * 2 <= most:
        doubled = [
            tuple([2 * blocks if place == dim else blocks for place, blocks in enumerate(chosen)])
            for dim, blocks in enumerate(chosen) if 2 * blocks <= along[dim]
        ]  # fmt: skip
        moved, best = min([(_bytes_of_block(layer, tile, each, sector_bytes), each) for each in doubled],
                          default=(least, chosen))  # fmt: skip
        if moved >= least:
            break
        least, chosen = moved, best
    return chosen if math.prod(chosen) > 1 else ()


def _bytes_of_block(layer: Layer, tile: Extents, cluster: Extents, sector_bytes: int) -> float:
    return l2_bytes(layer, of_cluster(tile, cluster), sector_bytes) / math.prod(cluster)
