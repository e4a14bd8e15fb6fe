"""Tiles of layers whose results need earlier ones of their own (`scheduler.kernels.recurrences`).

Along the dimensions that run in order a tile is whole, and they are the outermost loops; every thread has one tile, a
part of one of the other dimensions.
"""

from collections.abc import Iterator

from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.search.register_tiles import register_tile_of, vector_dim_of
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.lanes import dividing
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.recurrences import ordered_dims
from dsascape.scheduler.kernels.structure.anchors import anchored_nest
from dsascape.workloads.loopnest import Extents


def tiles_in_order(layer: Layer, dtype: str, view: CpuView, threads: int) -> Iterator[LoopTiles]:
    """Yield the tiles that are tried for a layer on so many threads: those of one thread, or one for each."""
    shape, ordered = layer.sink.shape, ordered_dims(layer)
    register, vector_dim = _register_tile(layer, dtype, view, ordered)
    whole = [-(-size // part) * part for size, part in zip(shape, register, strict=True)]
    others = tuple(dim for dim in layer.sink.order if dim not in ordered)
    splits: list[tuple[int, Extents]] = []
    for dim in others:
        pieces = -(-shape[dim] // register[dim])
        if threads > 1 and pieces > 1:
            split = list(whole)
            split[dim] = -(-pieces // threads) * register[dim]
            splits.append((dim, tuple(split)))
    inner = tuple(dim for dim in others if dim != vector_dim)
    last = () if vector_dim < 0 or vector_dim in ordered else (vector_dim,)
    for order in dict.fromkeys([(*ordered, *inner, *last), (*ordered, *last, *inner)]):
        if not splits:
            yield LoopTiles(tuple(whole), order, 0, register, vector_dim, None)
        for dim, tile in splits:
            yield LoopTiles(tile, order, order.index(dim) + 1, register, vector_dim, None)


def _register_tile(layer: Layer, dtype: str, view: CpuView, ordered: tuple[int, ...]) -> tuple[Extents, int]:
    """Return the register tile and the dimension of its vectors: those of one step; no vectors lie along steps."""
    shape, vector_dim = layer.sink.shape, vector_dim_of(layer)
    single = [1] * len(shape)
    if vector_dim < 0 or vector_dim in ordered:
        return tuple(single), -1
    if anchored_nest(layer) is not None:
        step = tuple([1 if dim in ordered else size for dim, size in enumerate(shape)])
        return register_tile_of(layer, step, dtype, view), vector_dim
    single[vector_dim] = dividing(shape[vector_dim], view.lanes(dtype))
    return tuple(single), vector_dim
