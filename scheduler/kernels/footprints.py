"""The operands of a layer, and how much of each its tiles need.

How much of an operand a tile needs is affine in the tile's extents for nearly all operators; the factors are read off
a few tiles (`Layer.tile_work`) once for each layer, whatever the machine. Where it is not (reshapes that merge
dimensions), the straight line between the smallest tile and the whole stands in.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dsascape.hw_models.caches.lines import Array
from dsascape.scheduler.kernels.layer import DEPTH, Layer
from dsascape.scheduler.kernels.operands import Footprints, Met, Operand, Reach, TouchedLines
from dsascape.scheduler.kernels.structure.anchors import anchored_nest, is_padded
from dsascape.scheduler.kernels.structure.parts import parts_of
from dsascape.workloads.loopnest import Extents
from dsascape.workloads.memo import memoized
from dsascape.workloads.spaced import spaced_loops, used_extents


@memoized
def footprints_of(layer: Layer) -> Footprints:
    """Return the operands of ``layer``, worked out once for equal layers."""
    return _footprints(layer)


@memoized
def touched_lines(layer: Layer, line_bytes: int) -> TouchedLines:
    """Return the lines of ``line_bytes`` that tiles of ``layer`` touch; equal layers share what is known of them."""
    return TouchedLines(footprints_of(layer), line_bytes)


def _footprints(layer: Layer) -> Footprints:
    shape, depth = layer.sink.shape, _depth(layer)
    single = (1,) * len(shape)
    one_step = None if depth == 1 else 1
    one = _needed(layer, single, one_step)
    whole = layer.tile_work(shape).operand_extents
    axes = [dim for dim, size in enumerate(shape) if size > 1] + ([DEPTH] if depth > 1 else [])
    second = {axis: _probe(layer, axis, 2) for axis in axes}
    operands, places, deep, copied = [], [], _before_anchor(layer), _copied(layer)
    known: dict[object, tuple[Reach, ...]] = {}
    reduces = any(compiled.nest.has_reduction for compiled in layer.nests)
    for place, name in enumerate(layer.inputs):
        if name not in whole or name not in one:
            continue
        tensor = layer.graph.tensors[name]
        key = tuple(tensor.order), one[name], whole[name], tuple([second[axis][name] for axis in axes])
        reaches = known.get(key)
        if reaches is None:
            reaches = known[key] = _reaches(*key, axes)
        if any(reach.of((*shape, depth)) != reach.most for reach in reaches):
            reaches = _along_whole(layer, name, reaches, axes, (*shape, depth))
        depends = frozenset(dim for dim in layer.dependencies.get(name, frozenset()) if dim != DEPTH)
        array = Array(tuple([tensor.shape[dim] for dim in tensor.order]), tensor.element_bytes, tensor.role == "weight")
        at_once = not reduces and math.prod(one[name]) > 1
        part = next((number for number, each in enumerate(parts_of(layer)) if name in each.inputs), 0)
        is_added = layer.is_ordered and DEPTH not in layer.dependencies.get(name, {DEPTH})  # to sums, once
        operands.append(
            Operand(name, array, reaches, False, depends, name in deep and not is_added, name in copied, part,
                _met(layer, name), at_once)
        )
        places.append(place)
    for number, name in enumerate(layer.outputs):
        operands.append(replace(_output(layer, name), part=max(len(parts_of(layer)) - 1, 0)))
        places.append(len(layer.inputs) + number)
    return Footprints(tuple(operands), tuple(places), depth)


def _met(layer: Layer, name: str) -> tuple[Met, ...]:
    """Return along which dimensions of the sink not every tile needs an operand."""
    shape = layer.sink.shape
    if name not in layer.tile_work((1,) * len(shape)).shares:
        return ()
    found = []
    for axis, size in enumerate(shape):
        row = tuple([1 if dim == axis else whole for dim, whole in enumerate(shape)])
        least = layer.tile_work(row).shares.get(name, 1.0)
        if least < 1:
            found.append(Met(axis, least, 1 / size))
    return tuple(found)


def _reaches(
    order: Sequence[int], one: Extents, whole: Extents, second: Sequence[Extents], axes: Sequence[int]
) -> tuple[Reach, ...]:
    """Return how much of each dimension of an operand tiles need.

    Given is what tiles need of it: one of single elements, the whole, and one with two elements along each axis.
    """
    found = []
    for dim in order:
        steep = [(axis, float(needed[dim] - one[dim])) for axis, needed in zip(axes, second, strict=True)]
        found.append(Reach(one[dim], whole[dim], tuple([(axis, slope) for axis, slope in steep if slope > 0])))
    return tuple(found)


def _along_whole(
    layer: Layer, name: str, reaches: Sequence[Reach], axes: Sequence[int], sizes: Extents
) -> tuple[Reach, ...]:
    """Return ``reaches`` with straight lines to what the whole needs, where those given do not come out there."""
    found = []
    for dim, reach in zip(layer.graph.tensors[name].order, reaches, strict=True):
        if reach.of(sizes) == reach.most:
            found.append(reach)
            continue
        along = [(axis, _probe(layer, axis, 0)[name][dim]) for axis in axes]
        flat = [(axis, (reached - reach.base) / (sizes[axis] - 1)) for axis, reached in along]
        found.append(Reach(reach.base, reach.most, tuple([(axis, slope) for axis, slope in flat if slope > 0])))
    return tuple(found)


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
    return _needed(layer, tile, step)


def _needed(layer: Layer, tile: Extents, depth: int | None) -> Mapping[str, Extents]:
    """Return what most tiles of that size need of each operand: of weights, the taps that the tile meets."""
    work = layer.tile_work(tile, depth)
    found = {**work.operand_extents, **work.usual_extents}
    for each in work.nests:
        spaced = spaced_loops(each.nest)
        met = used_extents(spaced, each.extents)
        for read in each.nest.reads[1:] if spaced else ():
            if read.tensor in found:
                found[read.tensor] = tuple(map(min, found[read.tensor], read.extents(met)))
    return found


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
