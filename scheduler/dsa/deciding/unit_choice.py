"""The choice of units: which one of a core does which loop nest of a layer, and how long it takes for a tile.

The choice is made once per layer and part, for a core's whole part, and is recorded: it depends on nothing else, above
all not on which tile was asked for first.
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from dsascape.hw_models import Compute, HardwareError, MatrixShape, MatrixUnit, compute_ps, operands_read
from dsascape.hw_models.dsa.spec import VectorUnit
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.dsa.shared_work import rate_of, units_together, ways_to_share
from dsascape.scheduler.dsa.view import DsaView
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.layer import Layer, NestWork, TileWork
from dsascape.workloads import DTYPE_BYTES
from dsascape.workloads.loopnest import Extents

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
    """What is read of the local buffer anew: by a matrix unit for every block of its array, in rounds by each; 0 where
    operands are read once."""
    part: tuple[int, int] = (1, 1)
    """Its share of the nest: arithmetic, and that of all units that do the nest together."""
    beside: bool = False
    """Whether it is done at the same time as the one before, as a further part of the same nest."""
    follows: bool = False
    """Whether it is what comes behind the products of the nest, on another unit: it reads what they have written."""


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
            found.append((max(part.duration_ps for part in _shared(work, name, view, dtype)), name))
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
    """Return the nests of a tile on their units.

    Where iterations follow each other, what is done with the products of each is not hidden behind further products:
    another unit does it, which the next iteration waits for.
    """
    found: list[Assignment] = []
    for nest, unit in zip(work.nests, units, strict=True):
        found += _shared(nest, unit, view, dtype)
        if nest.nest.carried is not None and isinstance(view.spec.units[unit], MatrixUnit):
            found += _behind_products(nest, view, dtype)
    return found


def _behind_products(work: NestWork, view: DsaView, dtype: str) -> list[Assignment]:
    """Return what is done with the results of products that follow each other, on the fastest units for it."""
    done = replace(work.operations, macs=0)
    if not done:
        return []
    only = replace(work, operations=done)
    found = [
        [replace(part, follows=True) for part in _shared(only, name, view, dtype)]
        for name, unit in view.spec.units.items()
        if not isinstance(unit, MatrixUnit) and rate_of(unit, dtype)
    ]
    return min(found, key=lambda parts: max(part.duration_ps for part in parts), default=[])


def _shared(work: NestWork, name: str, view: DsaView, dtype: str) -> list[Assignment]:
    """Return a nest's tile on unit ``name`` and those that share its work, divided so that it is done first."""
    whole = _assigned(work, name, view, dtype)
    names = units_together(name, view, dtype, is_product=bool(work.operations.macs))
    if len(names) == 1:
        return [whole]
    found = [[whole]]
    for payloads in ways_to_share(whole.payload, [view.spec.units[each] for each in names]):
        parts = [
            _part(whole, each, payload, view)
            for each, payload in zip(names, payloads, strict=True) if payload is not None
        ]  # fmt: skip
        found.append([replace(part, beside=number > 0) for number, part in enumerate(parts)])
    return min((parts for parts in found if parts), key=lambda parts: max(part.duration_ps for part in parts))


def _part(whole: Assignment, name: str, payload: Compute, view: DsaView) -> Assignment:
    """Return the part ``payload`` of a nest's tile on unit ``name``."""
    unit = view.spec.units[name]
    own, all_of_it = ([work.macs, work.simple, work.special] for work in (payload, whole.payload))
    share = sum(own), sum(all_of_it)
    read = -(-whole.operand_bytes * share[0] // share[1])
    if isinstance(unit, MatrixUnit) and payload.shape is not None:
        read = sum(operands_read(unit, payload.shape)) * DTYPE_BYTES[payload.dtype]
    return Assignment(whole.work, name, payload, compute_ps(view.spec, name, unit, payload), read, share)


def side_by_side(jobs: Sequence[Assignment]) -> list[list[Assignment]]:
    """Return assignments in groups that are done at the same time."""
    found: list[list[Assignment]] = []
    for job in jobs:
        if job.beside:
            found[-1].append(job)
        else:
            found.append([job])
    return found


def units_of(layer: Layer, part: Extents, view: DsaView, dtype: str) -> Units:
    """Return what `choose_units` does; machines that compute alike choose once for equal layers of a network."""
    key = layer.signature, part, dtype, view.arithmetic
    return layer.analysis.table(choose_units).get(key, partial(choose_units, layer, part, view, dtype))


def unit_ps(work: TileWork, units: Units, view: DsaView, dtype: str) -> Sequence[int]:
    """Return the time that each unit of a core at work needs for a tile, or for its operands if these take longer.

    Units that share a nest count as one.
    """
    spent: dict[str, int] = {}
    for parts in side_by_side(assign(work, units, view, dtype)):
        read_bytes, unit = sum([part.operand_bytes for part in parts]), parts[0].unit
        read_ps = round(read_bytes * PS_PER_S / view.spec.local_buffer.bandwidth_bytes_per_s)
        spent[unit] = spent.get(unit, 0) + max(read_ps, *[part.duration_ps for part in parts])
    return list(spent.values())


def _assigned(work: NestWork, name: str, view: DsaView, dtype: str) -> Assignment:
    unit = view.spec.units[name]
    if isinstance(unit, MatrixUnit):
        sizes = work.matrix_shape
        if sizes is None:
            raise ScheduleError(f"unit {name} cannot do the nest that writes {work.nest.write.tensor!r}")
        shape = MatrixShape(*sizes)
        payload = Compute(dtype=dtype, macs=shape.macs, shape=shape, rounds=work.rounds)
        elements = operands_read(unit, shape)
        read = sum(elements) * DTYPE_BYTES[dtype]
        return Assignment(work, name, payload, compute_ps(view.spec, name, unit, payload), read)
    found = [(compute_ps(view.spec, name, unit, each), each) for each in _in_lanes(work, unit, dtype)]
    duration_ps, payload = min(found, key=operator.itemgetter(0))
    return Assignment(work, name, payload, duration_ps, _read_in_rounds(work, dtype) if payload.rounds > 1 else 0)


def _read_in_rounds(work: NestWork, dtype: str) -> int:
    """Return the bytes of operands that rounds read: all of what does not move along loops in order, in each."""
    ordered = dict(work.nest.ordered)
    times = [1 if any(map(read.uses, ordered)) else work.rounds for read in work.nest.reads]
    sizes = [math.prod(read.extents(work.extents)) for read in work.nest.reads]
    return sum([count * size for count, size in zip(times, sizes, strict=True)]) * DTYPE_BYTES[dtype]


def _in_lanes(work: NestWork, unit: VectorUnit, dtype: str) -> list[Compute]:
    """Return the ways to do a nest as element operations.

    Iterations that follow each other are rounds. A running sum, whose results do not mix, can also be had of all lanes
    at once: these combine what is 1, 2, 4, ... places before, then all take what the lanes before them came to
    (Hillis and Steele, "Data parallel algorithms", CACM 1986).
    """
    plain, lanes = element_work(work, dtype), max(rate_of(unit, dtype), 1)
    if work.rounds == 1:
        return [plain]
    found = [replace(plain, rounds=work.rounds)]
    if not work.nest.exchanged and not plain.macs:
        times = (min(work.rounds, lanes) - 1).bit_length() + 1
        found.append(replace(plain, simple=plain.simple * times, special=plain.special * times))
    return found


def element_work(work: NestWork, dtype: str) -> Compute:
    """Return a nest as element operations; elements that are only moved pass the lanes once."""
    operations = work.operations
    moved = 0 if operations else math.prod(work.extents)
    return Compute(dtype=dtype, macs=operations.macs, simple=operations.simple + moved, special=operations.special)
