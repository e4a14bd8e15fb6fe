"""Decisions that can be pinned for a layer on a GPU, and what they come to for one kernel."""

from typing import Any

from dsascape.scheduler.errors import PinError
from dsascape.scheduler.gpu.fixed import FixedTiles
from dsascape.scheduler.gpu.tiles import ComputeUnit
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.record import Few, Size, Sizes
from dsascape.scheduler.pins.dims import (
    DEPTH_NAME,
    OrderedDims,
    PinnedSizes,
    check_sizes,
    order_of,
    sizes_of,
)
from dsascape.scheduler.pins.pins import LayerPin, Pinned, PinsOfPlan
from dsascape.wording import count


class GpuPin(LayerPin):
    """Decisions that are fixed for a layer on a GPU: its grid, its blocks and what their threads do."""

    tile: dict[str, Size] | Sizes | None = None
    """Elements of the output that one block computes, by dimension (``{m: 64, n: 128, k: 32}``), or a list with one
    size for each dimension. ``k``: iterations of the longest reduction loop staged in shared memory at once."""
    part: dict[str, Size] | Sizes | None = None
    """Elements that one thread computes; on tensor units, one warp."""
    order: OrderedDims | None = None
    """All dimensions of the grid; blocks are handed out along the last one fastest. Names, or positions."""
    threads: Size | None = None
    """Threads of a block, in whole warps."""
    split: Few | None = None
    """Threads (warps) that share the reduction of one part."""
    shares: Size | None = None
    """Blocks that share the reduction of each tile."""
    stages: Few | None = None
    """Steps of the reduction that are in shared memory or on their way at a time."""
    staged: bool | None = None
    """Whether operands are staged in shared memory; otherwise they come straight from the caches."""
    unit: ComputeUnit | None = None
    """Unit of the multiply-accumulates: ``lanes`` or ``tensor``."""
    steps: list[dict[str, Any]] | None = None
    """All steps of the loop program, as a schedule file has them; then nothing else may be fixed."""


GpuPins = PinsOfPlan[GpuPin]


def fixed_tiles(pinned: Pinned[GpuPin], layer: Layer, view: GpuView) -> FixedTiles:
    """Return the values that are fixed for the kernel of ``layer``.

    Raises ``PinError`` for values that it cannot have.
    """
    pin, shape, sms = pinned.pin, layer.sink.shape, view.spec.sms
    tile, part = PinnedSizes((None,) * len(shape)), None
    if pin.tile is not None:
        tile = sizes_of(layer, pin.tile, pinned.at("tile"))
        check_sizes(layer, tile, shape, "the output", pinned.at("tile"))
    if pin.part is not None:
        sizes = sizes_of(layer, pin.part, pinned.at("part"))
        if sizes.depth is not None:
            raise PinError(f"{pinned.at('part')}: {DEPTH_NAME}: a thread's part has elements of the output only")
        check_sizes(layer, sizes, shape, "the output", pinned.at("part"))
        part = sizes.sink
    if pin.threads is not None and (pin.threads % sms.warp or pin.threads > sms.threads_per_block):
        raise PinError(
            f"{pinned.at('threads')}: has {pin.threads}; a block of {view.spec.name} has whole warps of {sms.warp},"
            f" {count(sms.threads_per_block, 'thread')} at most"
        )
    if pin.unit == "tensor" and view.tensor is None:
        raise PinError(f"{pinned.at('unit')}: has tensor; {view.spec.name} has no tensor units for {view.dtype} in use")
    order = order_of(layer, pin.order, pinned.at("order"))
    return FixedTiles(
        pinned.where, sms.warp, tile.sink, tile.depth, part, order, pin.split, pin.stages, pin.shares,
        pin.unit, pin.threads, pin.staged,
    )  # fmt: skip
