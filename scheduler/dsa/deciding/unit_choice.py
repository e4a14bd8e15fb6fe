"""Assignment of a layer's loop nests to the compute units of a core, and their times per tile.

Units are chosen once per layer and part, for a core's whole part, and recorded: the choice depends on nothing else, in
particular not on which tile was evaluated first.
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dsascape.hw_models import Compute, HardwareError, MatrixShape, MatrixUnit, compute_ps, operands_read
from dsascape.hw_models.common.product_types import BITS
from dsascape.hw_models.dsa.units import VectorUnit
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.dsa.shared_work import computed_in, rate_of, units_together, ways_to_share
from dsascape.scheduler.dsa.view import DsaView
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.tile_work import NestWork, TileWork
from dsascape.workloads.graph import BYTE_BITS
from dsascape.workloads.loopnest import Extents
from dsascape.workloads.memo import memoized

Units = tuple[str, ...]
"""Name of the unit that executes each nest of a layer's tile, in execution order."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """One nest's tile assigned to a unit. A bias costs a matrix unit nothing: its accumulators start from it."""

    work: NestWork
    unit: str
    payload: Compute
    duration_ps: int
    operand_bytes: int = 0
    """Bytes read from the local buffer where operands are read repeatedly: by a matrix unit for every block of its
    array, in sequential rounds by each round; 0 where operands are read once."""
    part: tuple[int, int] = (1, 1)
    """Its share of the nest's arithmetic, as (own operations, operations of all units that share the nest)."""
    is_concurrent: bool = False
    """Whether it runs concurrently with the previous assignment, as another part of the same nest."""
    follows: bool = False
    """Whether it is the post-processing of the nest's products on another unit, which reads their results."""


@memoized
def choose_units(layer: Layer, part: Extents, view: DsaView, dtype: str) -> Units:
    """Return for each nest the unit that is fastest for ``part`` elements per dimension of the layer's output.

    Raises ``ScheduleError`` if no unit supports ``dtype``.
    """
    return tuple(_fastest(nest, view, dtype) for nest in layer.tile_work(part).nests)


def _fastest(work: NestWork, view: DsaView, dtype: str) -> str:
    timed_units: list[tuple[int, str]] = []
    refusals = []
    for name in view.spec.units:
        if not can_do(work, name, view, dtype):
            continue
        try:
            timed_units.append((max(part.duration_ps for part in _shared(work, name, view, dtype)), name))
        except HardwareError as error:
            refusals.append(str(error))
    if not timed_units:
        raise ScheduleError("; ".join(refusals) or f"{view.spec.name}: no unit computes {dtype}")
    return min(timed_units, key=lambda entry: entry[0])[1]


def can_do(work: NestWork, unit: str, view: DsaView, dtype: str) -> bool:
    """Return whether ``unit`` can execute the nest.

    A matrix unit computes only products in its own dtypes, a vector unit only others where it has no ``products``.
    """
    compute_unit = view.spec.units.get(unit)
    if isinstance(compute_unit, MatrixUnit):
        return work.is_product and bool(rate_of(compute_unit, computed_in(work, compute_unit, dtype)))
    return compute_unit is not None and (compute_unit.products or not work.is_product)


def assign(work: TileWork, units: Units, view: DsaView, dtype: str) -> list[Assignment]:
    """Return the assignments of a tile's nests to their units.

    Where iterations are sequential, post-processing of products does not overlap with further products: it is a
    separate assignment to another unit, which the next iteration waits for.
    """
    assignments: list[Assignment] = []
    for nest, unit in zip(work.nests, units, strict=True):
        assignments += _shared(nest, unit, view, dtype)
        if nest.nest.carried is not None and isinstance(view.spec.units[unit], MatrixUnit):
            assignments += _behind_products(nest, view, dtype)
    return assignments


def _behind_products(work: NestWork, view: DsaView, dtype: str) -> list[Assignment]:
    """Return the post-processing of sequential products, on the fastest units for it; empty if there is none."""
    done = replace(work.operations, macs=0)
    if not done:
        return []
    only = replace(work, operations=done)
    alternatives = [
        [replace(part, follows=True) for part in _shared(only, name, view, dtype)]
        for name, unit in view.spec.units.items()
        if not isinstance(unit, MatrixUnit) and rate_of(unit, dtype)
    ]
    return min(alternatives, key=lambda parts: max(part.duration_ps for part in parts), default=[])


def _shared(work: NestWork, name: str, view: DsaView, dtype: str) -> list[Assignment]:
    """Return a nest's tile on unit ``name`` and the units that share its work, in the fastest division."""
    whole = _assigned(work, name, view, dtype)
    own = computed_in(work, view.spec.units[name], dtype)
    names = units_together(name, view, own, is_product=bool(work.operations.macs))
    if len(names) == 1:
        return [whole]
    alternatives = [[whole]]
    for payloads in ways_to_share(whole.payload, [view.spec.units[each] for each in names]):
        parts = [
            _part(whole, each, payload, view, dtype)
            for each, payload in zip(names, payloads, strict=True) if payload is not None
        ]  # fmt: skip
        alternatives.append([replace(part, is_concurrent=number > 0) for number, part in enumerate(parts)])
    return min((parts for parts in alternatives if parts), key=lambda parts: max(part.duration_ps for part in parts))


def _part(whole: Assignment, name: str, payload: Compute, view: DsaView, dtype: str) -> Assignment:
    """Return the part ``payload`` of a nest's tile on unit ``name``."""
    unit = view.spec.units[name]
    own, all_of_it = ([work.macs, work.simple, work.special] for work in (payload, whole.payload))
    share = sum(own), sum(all_of_it)
    read = -(-whole.operand_bytes * share[0] // share[1])
    if isinstance(unit, MatrixUnit) and payload.shape is not None:
        read = _array_bytes(whole.work, unit, payload, dtype)
    return Assignment(whole.work, name, payload, compute_ps(view.spec, name, unit, payload), read, share)


def side_by_side(jobs: Sequence[Assignment]) -> list[list[Assignment]]:
    """Return assignments grouped by concurrent execution."""
    groups: list[list[Assignment]] = []
    for job in jobs:
        if job.is_concurrent:
            groups[-1].append(job)
        else:
            groups.append([job])
    return groups


def units_of(layer: Layer, part: Extents, view: DsaView, dtype: str) -> Units:
    """Return `choose_units`, which equal layers of a network share on machines with equal arithmetic."""
    return choose_units(layer, part, view.arithmetic, dtype)


def unit_ps(work: TileWork, units: Units, view: DsaView, dtype: str) -> Sequence[int]:
    """Return the time in ps of each busy unit of a core for a tile, or of reading its operands if that is longer.

    Units that share a nest count as one.
    """
    spent: dict[str, int] = {}
    for parts in side_by_side(assign(work, units, view, dtype)):
        read_bytes, unit = sum([part.operand_bytes for part in parts]), parts[0].unit
        read_ps = round(read_bytes * PS_PER_S / view.spec.local_buffer.bandwidth_bytes_per_s)
        spent[unit] = spent.get(unit, 0) + max(read_ps, *[part.duration_ps for part in parts])
    return list(spent.values())


def computing_ps(layer: Layer, part: Extents, view: DsaView, dtype: str) -> int:
    """Return the time in ps of the busiest unit of a core for ``part`` of ``layer`` as one tile; cached."""
    return max(tile_ps(layer, part, None, units_of(layer, part, view, dtype), view.computing, dtype), default=0)


@memoized
def tile_ps(
    layer: Layer, tile: Extents, depth: int | None, units: Units, view: DsaView, dtype: str
) -> Sequence[int]:
    """Return `unit_ps` of a tile of ``layer``, ``depth`` iterations deep, or all of them for None.

    Equal layers of a network share it on machines with equal `DsaView.computing`.
    """
    return unit_ps(layer.tile_work(tile, depth), units, view, dtype)


def _assigned(work: NestWork, name: str, view: DsaView, dtype: str) -> Assignment:
    unit = view.spec.units[name]
    if isinstance(unit, MatrixUnit):
        sizes = work.matrix_shape
        if sizes is None:
            raise ScheduleError(f"unit {name} cannot do the nest that writes {work.nest.write.tensor!r}")
        shape = MatrixShape(*sizes)
        payload = Compute(dtype=computed_in(work, unit, dtype), macs=shape.macs, shape=shape, rounds=work.rounds)
        read = _array_bytes(work, unit, payload, dtype)
        return Assignment(work, name, payload, compute_ps(view.spec, name, unit, payload), read)
    dtype = computed_in(work, unit, dtype)
    alternatives = [(compute_ps(view.spec, name, unit, each), each) for each in _in_lanes(work, unit, dtype)]
    duration_ps, payload = min(alternatives, key=operator.itemgetter(0))
    return Assignment(work, name, payload, duration_ps, _read_in_rounds(work, dtype) if payload.rounds > 1 else 0)


def _array_bytes(work: NestWork, unit: MatrixUnit, payload: Compute, dtype: str) -> int:
    """Return the bytes that an array reads of both operands, each in the dtype in which it is multiplied."""
    assert payload.shape is not None
    own = [BITS[payload.dtype]] * 2 if payload.dtype in BITS else [BITS[each or dtype] for each in work.dtypes or ()]
    left, right = operands_read(unit, payload.shape)
    return -(-(left * own[0] + right * own[1]) // BYTE_BITS)


def _read_in_rounds(work: NestWork, dtype: str) -> int:
    """Return the bytes of operands read by sequential rounds.

    Operands that do not move with the sequential loops are read in full by each round.
    """
    ordered = dict(work.nest.ordered)
    times = [1 if any(map(read.uses, ordered)) else work.rounds for read in work.nest.reads]
    sizes = [math.prod(read.extents(work.extents)) for read in work.nest.reads]
    return sum([count * size for count, size in zip(times, sizes, strict=True)]) * BITS[dtype] // BYTE_BITS


def _in_lanes(work: NestWork, unit: VectorUnit, dtype: str) -> list[Compute]:
    """Return the alternatives for a nest as element operations.

    Sequential iterations are rounds. A running sum whose results do not mix can also be a parallel prefix sum over all
    lanes: these combine elements 1, 2, 4, ... places apart, then add the total of the lanes before them (Hillis and
    Steele, "Data parallel algorithms", CACM 1986).
    """
    plain, lanes = element_work(work, dtype), max(rate_of(unit, dtype), 1)
    if work.rounds == 1:
        return [plain]
    alternatives = [replace(plain, rounds=work.rounds)]
    if not work.nest.exchanged and not plain.macs:
        times = (min(work.rounds, lanes) - 1).bit_length() + 1
        alternatives.append(replace(plain, simple=plain.simple * times, special=plain.special * times))
    return alternatives


def element_work(work: NestWork, dtype: str) -> Compute:
    """Return a nest as element operations; a nest that only moves elements passes each through the lanes once."""
    operations = work.operations
    moved = 0 if operations else math.prod(work.extents)
    return Compute(dtype=dtype, macs=operations.macs, simple=operations.simple + moved, special=operations.special)
