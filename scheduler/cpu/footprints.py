"""Which lines the tiled loops of a layer touch, depth by depth: what the traffic of caches follows from.

How much of an operand a tile needs is affine in the tile's extents for nearly all operators; the factors are read off
a few tiles (`Layer.tile_work`) once for each layer, whatever the machine. Where it is not (reshapes that merge
dimensions), the straight line between the smallest tile and the whole stands in.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from hw_models.caches import Array, Lines, Nest, box_lines
from scheduler.cpu.anchors import anchored_nest, is_padded
from scheduler.cpu.chains import Made, link_read, loops_apart, made_in_front, parts_of
from scheduler.cpu.tiles import LoopTiles
from scheduler.kernels.layer import DEPTH, Layer
from workloads.loopnest import Extents


@dataclass(frozen=True, slots=True)
class Reach:
    """How many elements of one dimension of an operand a tile needs."""

    base: int
    """For a tile of single elements."""
    most: int
    slopes: tuple[tuple[int, float], ...]
    """Dimensions of the sink, or ``DEPTH``, and by how much more for each further element of the tile."""

    def of(self, tile: Sequence[int], depth: int) -> int:
        """Return it for ``tile`` elements per dimension of the sink and ``depth`` iterations of the depth loop."""
        more = 0.0
        for dim, slope in self.slopes:
            more += slope * ((depth if dim == DEPTH else tile[dim]) - 1)
        return min(self.base + math.ceil(more - 1e-9), self.most)

    def pieces(self, tile: Sequence[int], depth: int) -> tuple[int, int]:
        """Return the same as pieces of consecutive elements: how long each is, and how many there are.

        A dimension that moves it further than what the others reach leaves a gap.
        """
        extent, pieces = float(self.base), 1
        for dim, slope in sorted(self.slopes, key=lambda each: each[1]):
            count = depth if dim == DEPTH else tile[dim]
            if count > 1 and slope > extent:
                pieces *= count
            elif pieces == 1:
                extent += slope * (count - 1)
            elif count > 1:
                return self.of(tile, depth), 1
        whole = min(math.ceil(extent - 1e-9), self.most)
        return (whole, pieces) if whole * pieces < self.of(tile, depth) else (self.of(tile, depth), 1)

    def with_depth(self, depth: int) -> "Reach":
        """Return the same where the depth loop always has ``depth`` iterations."""
        single = (1,) * (1 + max([dim for dim, _ in self.slopes], default=0))
        return Reach(self.of(single, depth), self.most, tuple([each for each in self.slopes if each[0] != DEPTH]))


@dataclass(frozen=True, slots=True)
class Operand:
    """A stored array that a layer reads or writes, its dimensions as they lie in memory."""

    name: str
    """In the first layer of its signature; equal layers have others in the same place."""
    array: Array
    reaches: tuple[Reach, ...]
    is_written: bool
    depends_on: frozenset[int]
    """Dimensions of the sink that choose which part of it a tile needs."""
    feeds_depth: bool
    """Whether the depth loop reads it; what follows the anchor is read, and written, once per register tile."""
    is_copied: bool = False
    """Whether each tile copies its part of it, with padding, and goes on with the copy."""
    is_in_front: bool = False
    """Whether only anchors in front of the last read it: they are done with it before that begins with a tile."""

    @property
    def used_bytes(self) -> int:
        """What the whole layer uses of it."""
        return math.prod([reach.most for reach in self.reaches]) * self.array.element_bytes

    def copied_lines(self, tile: Sequence[int], part: Sequence[int], depth: Sequence[int], line_bytes: int) -> Lines:
        """Return the lines that a ``part`` of a tile touches of the tile's copy, each with iterations of the depth."""
        whole = tuple([reach.of(tile, depth[0]) for reach in self.reaches])
        needed = [min(reach.of(part, depth[1]), most) for reach, most in zip(self.reaches, whole, strict=True)]
        return box_lines(Array(whole, self.array.element_bytes), needed, line_bytes)

    def lines(self, tile: Sequence[int], depth: int, line_bytes: int) -> Lines:
        """Return the lines that a tile touches."""
        cut = [reach.pieces(tile, depth) for reach in self.reaches]
        pieces = math.prod([number for _, number in cut])
        found = box_lines(self.array, [extent for extent, _ in cut], line_bytes)
        if pieces == 1:
            return found
        hull = box_lines(self.array, [reach.of(tile, depth) for reach in self.reaches], line_bytes)
        return Lines(min(found.count * pieces, hull.count), found.runs * pieces, 0)


@dataclass(frozen=True, slots=True)
class Footprints:
    """The operands of a layer, inputs that it reads first and outputs behind them."""

    operands: tuple[Operand, ...]
    places: tuple[int, ...]
    """Per operand: its place among the layer's inputs, followed by its outputs."""
    depth: int
    """Iterations of the depth loop; 1 without one."""
    has_buffers: bool
    """Whether something is computed before the anchor, or for a reduction, and kept for the tile."""

    buffers: tuple[Operand, ...] = ()
    """What anchors in front of the last make for each tile, and copies of it: no stored arrays."""

    @property
    def copied(self) -> tuple[Operand, ...]:
        """What tiles have of their own: in nests, arrays behind those of the operands."""
        return (*[operand for operand in self.operands if operand.is_copied], *self.buffers)


@dataclass(frozen=True, slots=True)
class Chunks:
    """How the parallel loop of a kernel is split: equal contiguous chunks, the last perhaps shorter."""

    count: int
    iterations: int
    """Of a full chunk."""
    last_iterations: int
    """Of the last one."""
    per_dim: tuple[int, ...]
    """Tiles of a full chunk along each dimension of the sink."""

    @property
    def last_share(self) -> float:
        """The last chunk's iterations by those of a full one."""
        return self.last_iterations / self.iterations

    @property
    def in_all(self) -> float:
        """All chunks together by a full one."""
        return self.count - 1 + self.last_share


def chunks_of(shape: Extents, tiles: LoopTiles, threads: int) -> Chunks:
    """Return the chunks that ``threads`` make of the loops over tiles."""
    counts = [-(-size // part) for size, part in zip(shape, tiles.tile, strict=True)]
    fused = tiles.order[: tiles.parallel]
    whole = math.prod(counts[dim] for dim in fused)
    each = -(-whole // min(threads, whole))
    number = -(-whole // each)
    left = each
    for dim in reversed(fused):
        counts[dim] = min(counts[dim], left)
        left = -(-left // counts[dim])
    return Chunks(number, each, whole - (number - 1) * each, tuple(counts))


def footprints_of(layer: Layer) -> Footprints:
    """Return the operands of ``layer``, worked out once for equal layers."""
    return layer.analysis.table(_footprints).get(layer.signature, partial(_footprints, layer))


def _footprints(layer: Layer) -> Footprints:
    shape, depth = layer.sink.shape, _depth(layer)
    single = (1,) * len(shape)
    one_step = None if depth == 1 else 1
    one = layer.tile_work(single, one_step).operand_extents
    whole = layer.tile_work(shape).operand_extents
    axes = [dim for dim, size in enumerate(shape) if size > 1] + ([DEPTH] if depth > 1 else [])
    second = {axis: _probe(layer, axis, 2) for axis in axes}
    along = {axis: _probe(layer, axis, 0) for axis in axes}
    operands, places, deep, copied, behind = [], [], _before_anchor(layer), _copied(layer), parts_of(layer)[-1:]
    sizes = {**dict(enumerate(shape)), DEPTH: depth}
    for place, name in enumerate(layer.inputs):
        if name not in whole or name not in one:
            continue
        tensor = layer.graph.tensors[name]
        reaches = []
        for dim in tensor.order:
            base, most = one[name][dim], whole[name][dim]
            steep = [(axis, float(second[axis][name][dim] - base)) for axis in axes]
            reach = Reach(base, most, tuple([(axis, slope) for axis, slope in steep if slope > 0]))
            if reach.of(shape, depth) != most:
                flat = [(axis, (along[axis][name][dim] - base) / (sizes[axis] - 1)) for axis in axes]
                reach = Reach(base, most, tuple([(axis, slope) for axis, slope in flat if slope > 0]))
            reaches.append(reach)
        depends = frozenset(dim for dim in layer.dependencies.get(name, frozenset()) if dim != DEPTH)
        array = Array(tuple([tensor.shape[dim] for dim in tensor.order]), tensor.element_bytes, tensor.role == "weight")
        in_front = bool(behind) and name not in behind[0].inputs
        operands.append(Operand(name, array, tuple(reaches), False, depends, name in deep, name in copied, in_front))
        places.append(place)
    for number, name in enumerate(layer.outputs):
        operands.append(_output(layer, name))
        places.append(len(layer.inputs) + number)
    return Footprints(tuple(operands), tuple(places), depth, _has_buffers(layer), _buffers(layer))


def _buffers(layer: Layer) -> tuple[Operand, ...]:
    """Return what the part in front of the last makes for it, as that needs it; twice, where it is copied."""
    parts = parts_of(layer)
    if len(parts) < _CHAINED:
        return ()
    found, place = footprints_of(parts[-1]), parts[-1].inputs.index(parts[-2].sink.name)
    operand = found.operands[found.places.index(place)]
    reaches = tuple([reach.with_depth(found.depth) for reach in operand.reaches])
    return (replace(operand, reaches=reaches),) * (1 + operand.is_copied)


_CHAINED = 2
"""Parts that a kernel with several anchors has at least."""


def _before_anchor(layer: Layer) -> frozenset[str]:
    """Return the tensors that the anchor, or what is computed before it, reads; without an anchor, all."""
    every = [compiled.nest for compiled in layer.nests]
    parts = parts_of(layer)
    anchor = anchored_nest(parts[-1]) if parts else layer.contraction
    first = 0 if anchor is None else next(place for place, nest in enumerate(every) if nest is anchor)
    return frozenset(read.tensor for nest in every[first:] for read in nest.reads)


def _copied(layer: Layer) -> frozenset[str]:
    """Return the tensors that the anchor reads with padding."""
    nest, storage = anchored_nest(layer), layer.graph.storage
    if nest is None:
        return frozenset()
    return frozenset(storage.get(read.tensor, read.tensor) for read in nest.reads if is_padded(nest, read))


def _depth(layer: Layer) -> int:
    if len(parts_of(layer)) >= _CHAINED:
        return 1
    nest, loop = layer.contraction, layer.depth_loop
    return 1 if nest is None or loop is None else nest.loops[loop].extent


def _probe(layer: Layer, axis: int, extent: int) -> Mapping[str, Extents]:
    """Return what a tile needs that has ``extent`` elements along one axis (0: all of them), one along the others."""
    shape = layer.sink.shape
    tile = tuple([(min(extent, size) or size) if dim == axis else 1 for dim, size in enumerate(shape)])
    depth = _depth(layer)
    step = None if depth == 1 else (min(extent, depth) or depth) if axis == DEPTH else 1
    return layer.tile_work(tile, step).operand_extents


def _output(layer: Layer, name: str) -> Operand:
    tensor, shape = layer.graph.tensors[name], layer.sink.shape
    array = Array(tuple([tensor.shape[dim] for dim in tensor.order]), tensor.element_bytes)
    if len(tensor.shape) != len(shape):
        whole = tuple([Reach(size, size, ()) for size in array.shape])
        return Operand(name, array, whole, True, frozenset(), False)
    reaches = []
    for dim in tensor.order:
        size, steps = tensor.shape[dim], shape[dim] - 1
        slopes = ((dim, (size - 1) / steps),) if steps and size > 1 else ()
        reaches.append(Reach(1 if slopes else size, size, slopes))
    moving = frozenset(dim for dim, size in enumerate(shape) if size > 1)
    return Operand(name, array, tuple(reaches), True, moving, False)


def _has_buffers(layer: Layer) -> bool:
    if len(parts_of(layer)) >= _CHAINED:
        return False
    computing = [compiled for compiled in layer.nests if not compiled.is_view]
    anchor = layer.contraction
    if anchor is None:
        return len(computing) > 1 and any(compiled.nest.has_reduction for compiled in computing)
    return computing[-1].nest is not anchor


def nest_of_chunk(layer: Layer, tiles: LoopTiles, chunks: Chunks, line_bytes: int) -> Nest:
    """Return the loops of one full chunk and the lines that they touch."""
    found = footprints_of(layer)
    shape, depth = layer.sink.shape, found.depth
    tile, register = tiles.within(shape), tiles.register
    extents = [min(size, part * count) for size, part, count in zip(shape, tiles.tile, chunks.per_dim, strict=True)]
    trips: list[int] = []
    axes: list[int] = []
    step = depth if tiles.depth_step is None else min(tiles.depth_step, depth)

    of_copies = [tile] * len(found.copied)
    if len(found.buffers) > 1:
        of_copies[-1] = _copied_from_front(layer, tiles, tile)

    def touched_by(now: Sequence[int], steps: int) -> tuple[Lines, ...]:
        inside = tuple(map(min, now, tile))
        copies = [
            each.copied_lines(own, tuple(map(min, inside, own)), (depth, steps), line_bytes)
            for each, own in zip(found.copied, of_copies, strict=True)
        ]
        return (*_lines(found, now, steps, line_bytes), *copies)

    touched = [touched_by(extents, depth)]

    def loop(axis: int, count: int, now: Sequence[int], steps: int) -> None:
        if count > 1:
            trips.append(count)
            axes.append(axis)
            touched.append(touched_by(now, steps))

    in_front = made_in_front(layer, tiles)
    made_at = 0
    for number, dim in enumerate(tiles.order):
        extents[dim] = min(tile[dim], extents[dim])
        loop(dim, chunks.per_dim[dim], extents, depth)
        made_at = len(trips) if in_front and number + 1 == in_front[-1].loops else made_at
    of_tile = len(trips)
    loop(DEPTH, -(-depth // step), extents, step)
    for dim in tiles.order:
        count = -(-extents[dim] // register[dim])
        extents[dim] = min(register[dim], extents[dim])
        loop(dim, count, extents, step)
    of_registers = len(trips)
    loop(DEPTH, step, extents, 1)
    last = len(trips)
    outside = [
        made_at if each.is_in_front else of_tile if each.is_copied else last if each.feeds_depth else of_registers
        for each in found.operands
    ]
    held: tuple[float, ...] = ()
    if found.has_buffers:
        buffer = layer.tile_work(tile).internal_bytes / line_bytes
        held = tuple([buffer if place <= of_tile else 0.0 for place in range(len(trips) + 1)])
    copies = len(found.copied)
    written = (*[operand.is_written for operand in found.operands], *[True] * copies)
    moving = [operand.depends_on | {DEPTH} for operand in found.operands] + [frozenset(axes)] * copies
    still = tuple([frozenset(place for place, axis in enumerate(axes) if axis not in own) for own in moving])
    return Nest(tuple(trips), tuple(touched), written, held, (*outside, *[last] * copies), still)


def _copied_from_front(layer: Layer, tiles: LoopTiles, tile: Extents) -> Extents:
    """Return the part of a tile that what its anchor reads of the part in front is copied for at once."""
    *_, front, last = parts_of(layer)
    anchor = anchored_nest(last)
    assert anchor is not None
    apart = tiles.order[: loops_apart(anchor, link_read(anchor, front.sink.name), tiles.order)]
    return tuple([tiles.register[dim] if dim in apart else size for dim, size in enumerate(tile)])


def nest_in_front(made: Made, line_bytes: int) -> Nest:
    """Return the loops of a part in front for one tile of the kernel's sink."""
    counts = tuple([-(-size // part) for size, part in zip(made.extents, made.tiles.tile, strict=True)])
    return nest_of_chunk(made.layer, made.tiles, Chunks(1, 1, 1, counts), line_bytes)


def _lines(found: Footprints, tile: Sequence[int], depth: int, line_bytes: int) -> tuple[Lines, ...]:
    return tuple([operand.lines(tile, depth, line_bytes) for operand in found.operands])


def split_operands(found: Footprints, tiles: LoopTiles) -> tuple[bool, ...]:
    """Return for each operand whether chunks use different parts of it; of the others every chunk uses the same."""
    parallel = frozenset(tiles.order[: tiles.parallel])
    return tuple([not parallel.isdisjoint(operand.depends_on) for operand in found.operands])


def nest_of_cores(
    layer: Layer, tiles: LoopTiles, chunks: Chunks, chunk: Nest, cores: int, line_bytes: int
) -> Nest:
    """Return what ``cores`` that each run such a chunk at the same pace touch together: the nest of a shared cache.

    Chunks that differ only along dimensions on which an operand does not depend use the same lines of it. All chunks
    are taken to be full ones; where the last is not, the whole of an operand is that much larger.
    """
    if cores == 1:
        return chunk
    found, shape = footprints_of(layer), layer.sink.shape
    split = {}
    for dim in tiles.order[: tiles.parallel]:
        in_all = -(-shape[dim] // tiles.tile[dim])
        split[dim] = -(-in_all // chunks.per_dim[dim])
    factors: list[float] = []
    most: list[float] = []
    for operand, is_split in zip(found.operands, split_operands(found, tiles), strict=True):
        full = chunks.count / chunks.in_all if is_split else 1.0
        apart = math.prod([number for dim, number in split.items() if dim in operand.depends_on])
        factors.append(min(cores, apart * full))
        most.append(math.ceil(math.prod(operand.array.shape) * operand.array.element_bytes / line_bytes) * full)
    copies = len(found.copied)  # of which every core has its own
    factors += [float(cores)] * copies
    most += [math.inf] * copies
    touched = tuple(
        tuple([
            Lines(min(lines.count * factor, bound), math.ceil(lines.runs * factor), 0)
            for lines, factor, bound in zip(row, factors, most, strict=True)
        ])
        for row in chunk.touched
    )  # fmt: skip
    return Nest(chunk.trips, touched, chunk.is_written, tuple([held * cores for held in chunk.held]), chunk.outside)
