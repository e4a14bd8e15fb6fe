"""Operands of an anchor that its operator makes of weights, where it loads them: weights of a few bits, widened."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.structure.anchors import anchored_nest
from dsascape.workloads.graph import FLOATS
from dsascape.workloads.loopnest import Access, LoopNest


def widening_of(layer: Layer, anchor: LoopNest) -> LoopNest | None:
    """Return the nest that makes an operand of ``anchor`` of weights alone, as a part of its operator, if there is one.

    Code has no buffer for what only one operator knows: it is computed for each register tile.
    """
    internal = {tensor.name for op in layer.ops for tensor in layer.graph.ops[op].internals}
    read = {each.tensor for each in anchor.reads} & internal
    for compiled in layer.nests:
        nest = compiled.nest
        if nest.write.tensor in read and not nest.has_reduction and all(_is_weight(layer, each) for each in nest.reads):
            return nest
    return None


def read_along(nest: LoopNest, index_of: Access, anchor: LoopNest, dim: int) -> Iterator[tuple[Access, int]]:
    """Yield what a widening nest reads along dimension ``dim`` of the anchor's result, and along which of its own.

    ``index_of``: how the anchor reads what the nest makes.
    """
    along = anchor.moving(anchor.write.indices[dim])
    own = [place for place, index in enumerate(index_of.indices) if anchor.moving(index) == along]
    for read in nest.reads if len(own) == 1 else ():
        dims = [place for place, index in enumerate(read.indices) if index == nest.write.indices[own[0]]]
        if len(dims) == 1:
            yield read, dims[0]


@dataclass(frozen=True, slots=True)
class Widening:
    """Instructions that make an operand where it is loaded, in place of the load."""

    loads: tuple[tuple[float, float], ...]
    """Operands that an element is made of: bytes of each, and the share of the iterations that load it."""
    arithmetic: float
    """Instructions for each vector."""


def widening_instructions(layer: Layer, nest: LoopNest) -> Widening:
    """Return what makes a vector of what ``nest`` widens; what only blocks of it have their own of is loaded for each.

    Whole numbers are converted, and split off from others in the same byte.
    """
    loads, arithmetic = [], float(nest.per_output.simple)
    for read in nest.reads:
        tensor = layer.described(read.tensor)
        share = 1 / math.prod([loop.extent for place, loop in enumerate(nest.loops) if not read.uses(place)])
        loads.append((tensor.element_bytes, share))
        arithmetic += share * _conversion(layer, read)
    return Widening(tuple(loads), arithmetic)


class Conversion(NamedTuple):
    """Instructions that make of each vector that is loaded of a tensor a vector of what a product uses."""

    arithmetic: int
    of_all: int
    """Among them those of the widening operator itself, which compilers do once for all that use the vector."""


def conversions(layer: Layer, parts: Sequence[Layer]) -> dict[str, Conversion]:
    """Return by tensor what widens weights in one of ``parts``, for each vector that is loaded of it.

    What the operator computes counts where its weights are loaded, one for each element.
    """
    found = {}
    for part in parts:
        anchor = anchored_nest(part)
        nest = None if anchor is None else widening_of(part, anchor)
        if nest is None:
            continue
        for read in nest.reads:
            is_for_each = all(read.uses(place) for place, loop in enumerate(nest.loops) if loop.extent > 1)
            made = nest.per_output.simple if is_for_each else 0
            found[read.tensor] = Conversion(_conversion(layer, read) + made, made)
    return found


def _conversion(layer: Layer, read: Access) -> int:
    if layer.described(read.tensor).dtype in FLOATS:
        return 0
    return _CONVERTED + _SPLIT * any(index.divisor > 1 for index in read.indices)


_CONVERTED = 1
"""Instructions that convert a vector of whole numbers."""
_SPLIT = 2
"""Instructions that split off some bits of each byte: a shift and a mask."""


def _is_weight(layer: Layer, read: Access) -> bool:
    tensor = layer.graph.tensors.get(read.tensor)
    return tensor is not None and tensor.role == "weight"
