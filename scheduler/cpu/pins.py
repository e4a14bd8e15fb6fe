"""Decisions that can be pinned for a layer on a CPU, and what they come to for one kernel."""

from typing import Any, Literal

from dsascape.scheduler.cpu.search.fixed import FixedTiles
from dsascape.scheduler.cpu.search.register_tiles import vector_dim_of
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.errors import PinError
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.record import Number, Size, Sizes
from dsascape.scheduler.pins.dims import (
    DEPTH_NAME,
    OrderedDims,
    PinnedSizes,
    check_sizes,
    depth_of,
    order_of,
    sizes_of,
)
from dsascape.scheduler.pins.pins import LayerPin, Pinned, PinsOfPlan
from dsascape.wording import count


class CpuPin(LayerPin):
    """Decisions that are fixed for a layer on a CPU: values of its loop program, from which its steps are written."""

    tile: dict[str, Size] | Sizes | None = None
    """Elements that the loops over tiles step by, by dimension (``{m: 64, k: 256}``), or a list with one size for each
    dimension of the output. ``k``: iterations of the longest reduction loop before the next register tile."""
    register_tile: dict[str, Size] | Sizes | None = None
    """Elements of each dimension whose sums are held in registers."""
    order: OrderedDims | None = None
    """All dimensions of the output, the outermost loop over tiles first: names, or positions."""
    vector: bool | None = None
    """Whether register tiles are vectors, along the dimension that lies innermost."""
    parallel: Number | None = None
    """How many of the loops over tiles, from the outermost, are split over threads in equal chunks."""
    threads: Size | None = None
    """Threads that share the chunks."""
    steps: list[dict[str, Any]] | None = None
    """All steps of the loop program, as a schedule file has them; then nothing else but ``threads`` may be fixed."""


CpuPins = PinsOfPlan[CpuPin]
_WITH_STEPS: tuple[Literal["threads", "steps"], ...] = ("threads", "steps")


def fixed_tiles(pinned: Pinned[CpuPin], layer: Layer, view: CpuView) -> FixedTiles:
    """Return the values that are fixed for the kernel of ``layer``.

    Raises ``PinError`` for values that it cannot have.
    """
    pin, shape = pinned.pin, layer.sink.shape
    others = [name for name in pin.decided if name not in _WITH_STEPS]
    if pin.steps is not None and others:
        raise PinError(f"{pinned.at('steps')}: do not go with {others[0]}, which the steps say")
    tile, register = PinnedSizes((None,) * len(shape)), None
    if pin.tile is not None:
        tile = sizes_of(layer, pin.tile, pinned.at("tile"))
        check_sizes(layer, tile, shape, "the output", pinned.at("tile"))
    if pin.register_tile is not None:
        sizes = sizes_of(layer, pin.register_tile, pinned.at("register_tile"))
        if sizes.depth is not None:
            raise PinError(f"{pinned.at('register_tile')}: {DEPTH_NAME}: sums are held of elements of the output only")
        check_sizes(layer, sizes, shape, "the output", pinned.at("register_tile"))
        register = sizes.sink
    most = max(view.thread_counts)
    if pin.threads is not None and pin.threads > most:
        raise PinError(f"{pinned.at('threads')}: has {pin.threads}; {view.spec.name} runs kernels on up to {most} here")
    if pin.parallel is not None and pin.parallel > len(shape):
        loops = count(len(shape), "loop")
        raise PinError(f"{pinned.at('parallel')}: has {pin.parallel}; over tiles there are {loops}")
    along = None if pin.vector is None else vector_dim_of(layer) if pin.vector else -1
    order = order_of(layer, pin.order, pinned.at("order"))
    return FixedTiles(
        pinned.where, tile.sink, tile.depth, depth_of(layer), register, order, along, pin.parallel,
        pin.threads,
    )  # fmt: skip
