"""The choice of units: which one of a core does which loop nest of a layer, and how long it takes for a tile.

The choice is made once per layer and part, for a core's whole part, and is recorded: it depends on nothing else, above
all not on which tile was asked for first.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from hw_models import Compute, HardwareError, MatrixShape, MatrixUnit, compute_ps, operands_read
from hw_models.quantities import PS_PER_S
from scheduler.dsa.view import DsaView
from scheduler.errors import ScheduleError
from scheduler.kernels.layer import Layer, NestWork, TileWork
from workloads import DTYPE_BYTES
from workloads.loopnest import Extents

Units = tuple[str, ...]
"""By nest of a layer's tile, in the order in which they run: the unit that does it."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A nest's tile on a unit. A bias costs a matrix unit nothing: its accumulators start from it."""

    work: NestWork
    unit: str
    payload: Compute
    duration_ps: int
    operand_bytes: int = 0
    """What a matrix unit reads of the local buffer: operands of every block of its array anew."""


def choose_units(layer: Layer, part: Extents, view: DsaView, dtype: str) -> Units:
    """Return for each nest the unit that is done first with ``part`` elements per dimension of the layer's output.

    Raises ``ScheduleError`` where no unit computes ``dtype``.
    """
    return tuple(_fastest(nest, view, dtype) for nest in layer.tile_work(part).nests)


def _fastest(work: NestWork, view: DsaView, dtype: str) -> str:
    found: list[tuple[int, str]] = []
    refusals = []
    for name in view.spec.units:
        if not can_do(work, name, view, dtype):
            continue
        try:
            found.append((_assigned(work, name, view, dtype).duration_ps, name))
        except HardwareError as error:
            refusals.append(str(error))
    if not found:
        raise ScheduleError("; ".join(refusals) or f"{view.spec.name}: no unit computes {dtype}")
    return min(found, key=lambda entry: entry[0])[1]


def can_do(work: NestWork, unit: str, view: DsaView, dtype: str) -> bool:
    """Return whether ``unit`` is of a kind for the nest: a matrix unit does products in its own dtypes only."""
    known = view.spec.units.get(unit)
    if isinstance(known, MatrixUnit):
        return work.is_product and dtype in map(str, known.macs_per_cycle)
    return known is not None


def assign(work: TileWork, units: Units, view: DsaView, dtype: str) -> list[Assignment]:
    """Return the nests of a tile on their units."""
    return [_assigned(nest, unit, view, dtype) for nest, unit in zip(work.nests, units, strict=True)]


def units_of(layer: Layer, part: Extents, view: DsaView, dtype: str) -> Units:
    """Return what `choose_units` does; machines that compute alike choose once for equal layers of a network."""
    key = layer.signature, part, dtype, view.arithmetic
    return layer.analysis.table(choose_units).get(key, partial(choose_units, layer, part, view, dtype))


def unit_ps(work: TileWork, units: Units, view: DsaView, dtype: str) -> Sequence[int]:
    """Return the time that each unit of a core at work needs for a tile, or for its operands if these take longer."""
    spent: dict[str, int] = {}
    for assigned in assign(work, units, view, dtype):
        read_ps = round(assigned.operand_bytes * PS_PER_S / view.spec.local_buffer.bandwidth_bytes_per_s)
        spent[assigned.unit] = spent.get(assigned.unit, 0) + max(assigned.duration_ps, read_ps)
    return list(spent.values())


def _assigned(work: NestWork, name: str, view: DsaView, dtype: str) -> Assignment:
    unit = view.spec.units[name]
    if isinstance(unit, MatrixUnit):
        sizes = work.matrix_shape
        if sizes is None:
            raise ScheduleError(f"unit {name} cannot do the nest that writes {work.nest.write.tensor!r}")
        shape = MatrixShape(*sizes)
        payload = Compute(dtype=dtype, macs=shape.macs, shape=shape)
        elements = operands_read(unit, shape)
        read = sum(elements) * DTYPE_BYTES[dtype]
        return Assignment(work, name, payload, compute_ps(view.spec, name, unit, payload), read)
    payload = element_work(work, dtype)
    return Assignment(work, name, payload, compute_ps(view.spec, name, unit, payload))


def element_work(work: NestWork, dtype: str) -> Compute:
    """Return a nest as element operations; elements that are only moved pass the lanes once."""
    operations = work.operations
    moved = 0 if operations else math.prod(work.extents)
    return Compute(dtype=dtype, macs=operations.macs, simple=operations.simple + moved, special=operations.special)
