"""Tiles that the user fixes (`TilePin`): checks before the search, and messages where nothing is left to search."""

import math
from dataclasses import replace

from dsascape.scheduler.dsa.tiling.tiling import TilePin, TileRequest, Tiling
from dsascape.scheduler.errors import PinError
from dsascape.scheduler.kernels.tile_work import whole_pieces
from dsascape.scheduler.pins.dims import DEPTH_NAME, PinnedSizes, check_sizes, described


def checked(request: TileRequest, pin: TilePin) -> TileRequest:
    """Return the request that has the fixed tiles: its reductions are accumulated piece by piece if the pin says so.

    Raises ``PinError`` for tiles beyond a core's part, steps that end inside a run of the inner loops, and prefetching
    where there are no prefetch buffers.
    """
    layer, sizes = request.layer, PinnedSizes(pin.tile, pin.depth)
    check_sizes(layer, sizes, request.part, "a core's part", f"{pin.where}: tile")
    if pin.prefetched and request.prefetch is None:
        raise PinError(f"{pin.where}: prefetch: this schedule of {layer.graph.name} has no prefetch buffers")
    if pin.depth is None or pin.depth >= math.prod(layer.depth_extents):
        return request
    if layer.is_ordered:
        raise PinError(f"{pin.where}: tile: {DEPTH_NAME}: layer {layer.sink.name!r} is sequential, its depth is whole")
    whole = whole_pieces(layer.depth_extents[1:], pin.depth)
    if whole != pin.depth:
        raise PinError(
            f"{pin.where}: tile: {DEPTH_NAME} has {pin.depth}; steps of layer {layer.sink.name!r} end on whole runs of"
            f" its inner loops: needs {whole}, for example"
        )
    return request if request.cuts_depth else replace(request, in_pieces=True)


def nothing_fits(pin: TilePin, request: TileRequest, without: Tiling | None, shortage: str) -> PinError:
    """Return the error for fixed tiles that do not fit: what they need, and what the search takes ``without`` them."""
    layer = request.layer
    would = f"; without the pin: {without}" if without is not None else ""
    return PinError(f"{pin.where}: {shortage}{would}; layer {layer.sink.name!r} has {described(layer)}")
