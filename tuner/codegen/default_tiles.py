"""Tiles for a layer from a few rules, to be replaced by those of a searched schedule.

A register tile is a few vectors of channels by a few pixels: as many accumulators as registers hold beside the
operands, in the shape that needs the fewest loads per multiplication. A tile is one register tile wide, so that its
weights stay in the nearest cache while the pixels pass by, and as many pixels as the second cache level holds.
"""

from dataclasses import dataclass

from scheduler.cpu.tiles import LoopTiles
from scheduler.kernels.layer import Layer
from tuner.codegen.anchors import anchored_nest
from workloads.loopnest import LoopNest


@dataclass(frozen=True)
class CoreShape:
    """What the rules need to know of a core."""

    lanes: int = 16
    """Single-precision numbers in a vector."""
    registers: int = 32
    """Vector registers."""
    l2_bytes: int = 2**20


_OPERAND_REGISTERS = 4
"""That hold what the accumulators are multiplied from."""
_FEWEST_TILES = 8
"""So that every thread has work."""
_MOST_PIXELS = 14


def default_tiles(layer: Layer, core: CoreShape) -> LoopTiles | None:
    """Return tiles of ``layer``; None for one without an anchor, whose loops are split over threads as they are."""
    nest = anchored_nest(layer)
    if nest is None:
        return None
    shape, order = nest.write.shape, layer.sink.order
    vector_dim = order[-1]
    lanes = _lanes(nest, vector_dim, core)
    pixel_dim = next((dim for dim in reversed(order[:-1]) if shape[dim] > 1), None)
    pixels = 1 if pixel_dim is None else shape[pixel_dim]
    vectors, rows = _register_tile(-(-shape[vector_dim] // lanes), pixels, core, _shared(nest, vector_dim))
    register = [1] * len(shape)
    register[vector_dim] = vectors * lanes
    if pixel_dim is not None:
        register[pixel_dim] = rows
    tile = [-(-size // part) * part for size, part in zip(shape, register, strict=True)]
    tile[vector_dim] = register[vector_dim]
    _shrink(tile, register, layer, nest, core)
    outermost = (vector_dim, *(dim for dim in order if dim != vector_dim))
    return LoopTiles(tuple(tile), outermost, len(shape), tuple(register), vector_dim, None)


def _lanes(nest: LoopNest, dim: int, core: CoreShape) -> int:
    """Return the vector length: shorter than the machine's where that leaves less of it unused."""
    size = nest.write.shape[dim]
    within = min((nest.loops[loop].extent for loop, _ in nest.write.indices[dim].terms[-1:]), default=size)
    whole = size if _shared(nest, dim) or len(nest.write.indices[dim].terms) == 1 else within
    if whole == 1:
        whole = size
    fitting = [lanes for lanes in (core.lanes, core.lanes // 2, core.lanes // 4) if whole % lanes == 0]
    if fitting and (fitting[0] == core.lanes or size <= 4 * core.lanes):
        return fitting[0]
    return core.lanes if size > core.lanes // 2 else max(core.lanes // 2, 1)


def _shared(nest: LoopNest, dim: int) -> bool:
    """Whether the same data makes all outputs along ``dim``: a dense convolution or product, no depthwise one."""
    loops = {loop for loop, _ in nest.write.indices[dim].terms if nest.loops[loop].extent > 1}
    data = nest.reads[0]
    return not any(data.uses(loop) for loop in loops)


def _register_tile(vectors: int, pixels: int, core: CoreShape, shared: bool) -> tuple[int, int]:
    """Return vectors and pixels of a register tile: the most multiplications per load, counted without waste."""
    room = core.registers - _OPERAND_REGISTERS
    best, best_score = (1, 1), 0.0
    for wide in range(1, min(vectors, 8 if pixels == 1 else 4) + 1):
        for high in range(1, min(pixels, _MOST_PIXELS) + 1):
            if wide * high > room:
                break
            used = vectors / (-(-vectors // wide) * wide) * pixels / (-(-pixels // high) * high)
            reuse = wide * high / (wide + high) if shared else wide * high / (wide * high + 4)
            score = used**2 * reuse
            if score > best_score:
                best, best_score = (wide, high), score
    return best


def _shrink(tile: list[int], register: list[int], layer: Layer, nest: LoopNest, core: CoreShape) -> None:
    """Halve the tile along its outermost dimensions until its data fits, and there are tiles for all threads."""
    padded = [-(-size // part) * part for size, part in zip(nest.write.shape, register, strict=True)]
    for dim in layer.sink.order[:-1]:
        while tile[dim] > register[dim] and (
            _data_bytes(layer, tile) > core.l2_bytes // 2 or _count(tile, padded) < _FEWEST_TILES
        ):
            steps = tile[dim] // register[dim]
            factor = next((f for f in range(2, steps + 1) if steps % f == 0), steps)
            tile[dim] = steps // factor * register[dim]


def _count(tile: list[int], padded: list[int]) -> int:
    count = 1
    for size, part in zip(padded, tile, strict=True):
        count *= -(-size // part)
    return count


def _data_bytes(layer: Layer, tile: list[int]) -> int:
    """Return the bytes of activations that a tile reads, and that it writes."""
    bounded = tuple(min(part, size) for part, size in zip(tile, layer.sink.shape, strict=True))
    work = layer.tile_work(bounded)
    tensors = layer.graph.tensors
    read = sum(size for name, size in work.operand_bytes.items() if tensors[name].role != "weight")
    return read + work.output_bytes


