"""Names of a layer's dimensions, and sizes that a pin gives for them.

A layer's tiles are boxes of its sink, the last output of its fused operators. Every dimension has the name ``d0``,
``d1``, ... by its position; the usual names are offered beside these: ``n``, ``c``, ``h``, ``w`` (``d`` in front of
``h``) where the sink is laid out as a convolution's, ``m`` and ``n`` (rows and columns, ``b0``, ``b1``, ... for the
dimensions in front) for a product's. ``k`` is the depth: iterations of the reduction that is added up piece by piece.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

from pydantic import Field

from dsascape.hw_models.text.messages import nearest, shown
from dsascape.scheduler.errors import PinError
from dsascape.scheduler.kernels.layer import Layer
from dsascape.wording import count
from dsascape.workloads.loopnest import Extents

DEPTH_NAME = "k"
_SPATIAL = {3: ("n", "c", "w"), 4: ("n", "c", "h", "w"), 5: ("n", "c", "d", "h", "w")}
_LEAST_SPATIAL = 4
"""Dimensions from which a sink without a product is named as a convolution's."""
_GROUPS = {"rows": ("m", "h"), "columns": ("w",), "channels": ("c",), "batch": ("b0",)}
"""Words for dimensions, by the names that they stand for; the first that the layer has."""

Sizes = Mapping[str, int] | Sequence[int]
"""Sizes by dimension: by name, or one for each dimension of the sink."""
OrderedDims = Annotated[tuple[str | int, ...], Field(strict=False, min_length=1)]
"""All dimensions of the sink in an order, by name or position."""


class PinnedSizes(NamedTuple):
    """Sizes of a layer's dimensions, and of its depth; None where nothing is pinned."""

    sink: tuple[int | None, ...]
    depth: int | None = None


def dim_names(layer: Layer) -> tuple[str, ...]:
    """Return the usual name of each dimension of the layer's sink."""
    rank, shape = len(layer.sink.shape), layer.sink.shape
    kinds = [layer.graph.ops[op].kind.rpartition(".")[2].rpartition("::")[2] for op in layer.ops]
    is_product = any("MatMul" in kind or kind in ("Gemm", "Einsum") for kind in kinds)
    is_convolution = any("Conv" in kind or "Pool" in kind for kind in kinds)
    if rank in _SPATIAL and (is_convolution or (rank >= _LEAST_SPATIAL and not is_product)):
        return _SPATIAL[rank]
    last = ("m", "n")[-min(rank, 2) :]
    return (*[f"b{dim}" for dim in range(len(shape) - len(last))], *last)


def described(layer: Layer) -> str:
    """Return the layer's dimensions with their sizes as text: ``n=1, c=512, h=7, w=7, k=512``."""
    sizes = [f"{name}={size}" for name, size in zip(dim_names(layer), layer.sink.shape, strict=True)]
    depth = [f"{DEPTH_NAME}={depth_of(layer)}"] if layer.depth_loops else []
    return ", ".join([*sizes, *depth]) or "no dimensions"


def depth_of(layer: Layer) -> int:
    """Return the iterations of the layer's depth loops; 1 without any."""
    return math.prod(layer.depth_extents)


def dim_of(layer: Layer, name: str, where: str) -> int:
    """Return the dimension called ``name``; raise ``PinError`` beginning with ``where`` if there is none."""
    names = dim_names(layer)
    for each in (name, *_GROUPS.get(name, ())):
        if each in names:
            return names.index(each)
        if each.startswith("d") and each[1:].isdecimal() and int(each[1:]) < len(names):
            return int(each[1:])
    if name == "batch" and names and names[0] == "n":
        return 0
    if name == "columns" and names and names[-1] == "n":
        return len(names) - 1
    raise PinError(
        f"{where}: {shown(name)} is no dimension of layer {layer.sink.name!r}{nearest(name, names)}; it has"
        f" {described(layer)}"
    )


def order_of(layer: Layer, given: OrderedDims | None, where: str) -> tuple[int, ...] | None:
    """Return the positions of all dimensions of the sink in the given order; None where none is given.

    Raises ``PinError`` where one is missing, or named twice.
    """
    if given is None:
        return None
    names = dim_names(layer)
    order = tuple([each if isinstance(each, int) else dim_of(layer, each, where) for each in given])
    if sorted(order) != list(range(len(names))):
        raise PinError(f"{where}: has {list(given)}; needs each of {', '.join(names)} once")
    return order


def sizes_of(layer: Layer, given: Sizes, where: str) -> PinnedSizes:
    """Return the sizes that ``given`` has for the dimensions of ``layer``.

    Raises ``PinError`` beginning with ``where`` for an unknown dimension, or for a list of another length.
    """
    rank = len(layer.sink.shape)
    if not isinstance(given, Mapping):
        if len(given) != rank:
            raise PinError(
                f"{where}: has {count(len(given), 'size')}; layer {layer.sink.name!r} has {count(rank, 'dimension')}:"
                f" {described(layer)}"
            )
        return PinnedSizes(tuple(given))
    sink: list[int | None] = [None] * rank
    depth = None
    for name, size in given.items():
        if name == DEPTH_NAME:
            if not layer.depth_loops:
                raise PinError(f"{where}: {DEPTH_NAME}: layer {layer.sink.name!r} has no reduction that could be cut")
            depth = size
        else:
            sink[dim_of(layer, name, where)] = size
    return PinnedSizes(tuple(sink), depth)


def check_sizes(layer: Layer, sizes: PinnedSizes, most: Extents, whose: str, where: str) -> None:
    """Raise ``PinError`` beginning with ``where`` for a size beyond ``most``, that of ``whose``, or the depth."""
    for name, size, extent in zip(dim_names(layer), sizes.sink, most, strict=True):
        if size is not None and size > extent:
            raise PinError(
                f"{where}: {name} has {size}; {whose} of layer {layer.sink.name!r} has {extent}: needs 1 to {extent}"
            )
    if sizes.depth is not None and sizes.depth > depth_of(layer):
        raise PinError(
            f"{where}: {DEPTH_NAME} has {sizes.depth}; layer {layer.sink.name!r} has {depth_of(layer)}: needs 1 to"
            f" {depth_of(layer)}"
        )
