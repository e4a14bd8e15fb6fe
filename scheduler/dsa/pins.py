"""Decisions that can be pinned for a layer on a clustered DSA, and what they come to for one layer run."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from dsascape.hw_models.text.messages import listed, nearest, shown
from dsascape.scheduler.dsa.deciding.unit_choice import Units, can_do, units_of
from dsascape.scheduler.dsa.placing.binding import Binding, plain_binding
from dsascape.scheduler.dsa.tiling.tiling import TilePin
from dsascape.scheduler.dsa.view import DsaView
from dsascape.scheduler.errors import PinError
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.record import Size, Sizes
from dsascape.scheduler.parts import splits_evenly_enough
from dsascape.scheduler.pins.dims import described, dim_names, dim_of, sizes_of
from dsascape.scheduler.pins.pins import LayerPin, Pinned, PinsOfPlan
from dsascape.wording import count
from dsascape.workloads.loopnest import Extents

BufferName = Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")]
_Names = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]


class DsaPin(LayerPin):
    """Decisions that are fixed for a layer on a clustered DSA; all of its runs have them."""

    tile: dict[str, Size] | Sizes | None = None
    """Elements that one core computes at once, by dimension (``{m: 64, k: 256}``), or a list with one size for each
    dimension of the layer's output. ``k`` is the depth: iterations of the reduction in one step."""
    unit: str | _Names | None = None
    """Compute unit of all the layer's loop nests that it can do, or a list with the unit of each nest."""
    output: BufferName | None = None
    """Memory that all the layer's outputs are written to: ``local_buffer``, ``global_buffer``, a further level of the
    machine, or ``ddr``."""
    binding: str | dict[str, Size] | Sizes | None = None
    """Parts among cores: a dimension (``rows``, ``columns``, ``channels``, ``h``), into as many as divide it well; or
    the number of parts by dimension, cores being numbered along the first one slowest."""
    prefetch: bool | None = None
    """Whether its weights come through the prefetch buffers while earlier layers run."""


DsaPins = PinsOfPlan[DsaPin]


def tile_pin(pinned: Pinned[DsaPin] | None, layer: Layer) -> TilePin | None:
    """Return what is fixed about the tiles of ``layer``; None if that is nothing."""
    if pinned is None or (pinned.pin.tile is None and pinned.pin.prefetch is None):
        return None
    if pinned.pin.tile is None:
        return TilePin(pinned.where, (None,) * len(layer.sink.shape), None, pinned.pin.prefetch)
    sizes = sizes_of(layer, pinned.pin.tile, pinned.at("tile"))
    return TilePin(pinned.where, sizes.sink, sizes.depth, pinned.pin.prefetch)


def pinned_units(pinned: Pinned[DsaPin] | None, layer: Layer, part: Extents, view: DsaView, dtype: str) -> Units | None:
    """Return the units of the layer's nests for a core's ``part``, where they are fixed; None if they are not.

    Raises ``PinError`` for a unit that the machine has not, or that can do none of the nests.
    """
    if pinned is None or pinned.pin.unit is None:
        return None
    works, wanted, where = layer.tile_work(part).nests, pinned.pin.unit, pinned.at("unit")
    names = [wanted] * len(works) if isinstance(wanted, str) else list(wanted)
    for name in names:
        if name not in view.spec.units:
            known = list(view.spec.units)
            raise PinError(f"{where}: has {shown(name)}{nearest(name, known)}; {view.spec.name} has {listed(known)}")
    if len(names) != len(works):
        raise PinError(
            f"{where}: has {count(len(names), 'unit')}; layer {layer.sink.name!r} has {count(len(works), 'loop nest')}"
        )
    able = [can_do(work, name, view, dtype) for work, name in zip(works, names, strict=True)]
    is_one = isinstance(wanted, str)
    if not any(able) or (not is_one and not all(able)):
        place = 0 if is_one else able.index(False)
        others = [name for name in view.spec.units if can_do(works[place], name, view, dtype)]
        raise PinError(
            f"{where}: {names[place]} cannot compute {works[place].nest.write.tensor!r} of layer {layer.sink.name!r} in"
            f" {dtype}; {listed(others) or 'no unit'} can"
        )
    if all(able):
        return tuple(names)
    chosen = units_of(layer, part, view, dtype)
    return tuple([name if can else own for name, can, own in zip(names, able, chosen, strict=True)])


def pinned_binding(
    pinned: Pinned[DsaPin] | None, layer: Layer, extents: Sequence[int], cores: int, most_padding: float
) -> Binding | None:
    """Return the binding of a run over ``extents`` of the layer's output where it is fixed; None if it is not.

    Raises ``PinError`` for more parts than cores, and for parts that leave a core without work or must not be cut.
    """
    if pinned is None or pinned.pin.binding is None:
        return None
    wanted, where, order = pinned.pin.binding, pinned.at("binding"), layer.sink.order
    if isinstance(wanted, str):
        dim = dim_of(layer, wanted, where)
        others = [each for each in range(len(extents)) if each != dim]
        return plain_binding(extents, order, cores, {*others, *layer.together}, most_padding)
    parts = sizes_of(layer, wanted, where)
    factors = tuple([size or 1 for size in parts.sink])
    if parts.depth is not None:
        raise PinError(f"{where}: k: reductions are not divided among cores; needs dimensions of the output")
    if math.prod(factors) > cores:
        raise PinError(f"{where}: has {count(math.prod(factors), 'part')}; a cluster has {count(cores, 'core')} in use")
    for dim, factor in enumerate(factors):
        name, extent = dim_names(layer)[dim], extents[dim]
        if factor > 1 and dim in layer.together:
            raise PinError(f"{where}: {name}: layer {layer.sink.name!r} computes it in sequence; needs 1 part along it")
        if factor > 1 and not splits_evenly_enough(extent, factor, most_padding):
            raise PinError(
                f"{where}: {name}: {count(factor, 'part')} of {extent} would be too uneven (tuning.most_padding is"
                f" {most_padding:g}); layer {layer.sink.name!r} has {described(layer)}"
            )
    named = [dim_of(layer, name, where) for name in wanted] if isinstance(wanted, Mapping) else []
    return Binding(factors, tuple(dict.fromkeys([*named, *order])))
