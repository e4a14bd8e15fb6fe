"""Division of one loop nest's work among units of a core that compute at the same time.

The schedule names one unit for a nest; the others follow from the machine: all matrix units share products of their
dtypes, identical vector units share element operations, and where no matrix unit supports the dtype all vector units
share products. `ClusteredDsa.peak_macs_per_s` counts the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from dsascape.hw_models import Compute, MatrixShape, MatrixUnit
from dsascape.hw_models.common.product_types import product_type
from dsascape.hw_models.dsa.units import ComputeUnit
from dsascape.scheduler.dsa.view import DsaView
from dsascape.scheduler.kernels.tile_work import NestWork


def rate_of(unit: ComputeUnit, dtype: str) -> int:
    """Return a unit's rate per cycle: multiply-accumulates (matrix unit) or lanes; 0 for an unsupported dtype."""
    return unit.rates.get(dtype, 0)


def computed_in(work: NestWork, unit: ComputeUnit, dtype: str) -> str:
    """Return the dtype, or pair of dtypes, in which ``unit`` computes a nest of a network in ``dtype``.

    Products of operands that the file quantises are computed in theirs, or in the next wider one that the unit has.
    """
    if work.dtypes is None or not work.operations.macs:
        return dtype
    left, right = work.dtypes
    return product_type(unit.rates, left or dtype, right or dtype, dtype)


def units_together(name: str, view: DsaView, dtype: str, *, is_product: bool) -> tuple[str, ...]:
    """Return the units of a core that share work assigned to unit ``name``, itself first."""
    units = view.spec.units
    own = units[name]
    able = {other: unit for other, unit in units.items() if other != name and rate_of(unit, dtype)}
    if isinstance(own, MatrixUnit):
        return (name, *(other for other, unit in able.items() if isinstance(unit, MatrixUnit)))
    has_arrays = any(isinstance(unit, MatrixUnit) for unit in able.values())
    shares_all = is_product and not has_arrays
    return (name, *(
        other for other, unit in able.items() if unit == own or (shares_all and not isinstance(unit, MatrixUnit))
    ))  # fmt: skip


def ways_to_share(payload: Compute, units: Sequence[ComputeUnit]) -> Iterator[list[Compute | None]]:
    """Yield divisions of ``payload`` among ``units`` in proportion to their rates; None for a unit without work.

    Products are divided by rows, by columns or by count, the first two in blocks that fill the arrays.
    """
    rates = [rate_of(unit, payload.dtype) * unit.efficiency for unit in units]
    shape = payload.shape
    if shape is None:
        yield _lanes_shared(payload, rates)
        return
    blocks = [unit.native_tile for unit in units if isinstance(unit, MatrixUnit)]
    lines = max(max(rows, columns) for rows, columns, _ in blocks)
    yield _products_shared(payload, [replace(shape, rows=size) for size in _divided(shape.rows, rates, lines)])
    yield _products_shared(payload, [replace(shape, columns=size) for size in _divided(shape.columns, rates, lines)])
    if payload.rounds == 1:
        yield _products_shared(payload, [replace(shape, count=size) for size in _divided(shape.count, rates, 1)])


def _products_shared(payload: Compute, shapes: Sequence[MatrixShape]) -> list[Compute | None]:
    return [replace(payload, macs=shape.macs, shape=shape) if shape.macs else None for shape in shapes]


def _lanes_shared(payload: Compute, rates: Sequence[float]) -> list[Compute | None]:
    parts = zip(*(_divided(whole, rates, 1) for whole in (payload.macs, payload.simple, payload.special)), strict=True)
    return [
        replace(payload, macs=macs, simple=simple, special=special) if macs or simple or special else None
        for macs, simple, special in parts
    ]


def _divided(whole: int, rates: Sequence[float], block: int) -> list[int]:
    """Return ``whole`` in parts roughly proportional to ``rates``, all but the last one in whole blocks."""
    upto = [sum(rates[:number]) / sum(rates) for number in range(len(rates))]
    ends = [min(round(whole * share / block) * block, whole) for share in upto]
    return [end - begin for begin, end in pairwise([*ends, whole])]
