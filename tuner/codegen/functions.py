"""Numbers as expressions of TVM; functions of one number are as vectors of them are computed.

Those of single precision have no branches and call no library.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx

from dsascape.tuner.codegen.dtypes import dtype_of
from dsascape.tuner.codegen.sharing import Sharing
from dsascape.workloads.arithmetic.numbers import Numbers

_LEAST_EXPONENT = -87.3
"""Of what is no smaller than the smallest normal number of single precision."""


def const(like: Any, value: float) -> Any:
    """Return ``value`` in the dtype of an expression."""
    return tirx.const(value, dtype_of(like))


def exponential(x: Any) -> Any:
    """Return e to the power of ``x``: 2^n times a polynomial of the rest (Cephes), to 2 units in the last place.

    What is masked out of a softmax becomes zero, not a number so small that processors are slow with it.
    """
    if dtype_of(x) != "float32":
        return tirx.exp(x)
    bounded = te.max(te.min(x, const(x, 88.3)), const(x, _LEAST_EXPONENT))
    n = tirx.floor(bounded * const(x, 1.44269504088896341) + const(x, 0.5))
    r = bounded - n * const(x, 0.693359375) - n * const(x, -2.12194440e-4)
    p = const(x, 1.9875691500e-4)
    for factor in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = p * r + const(x, factor)
    p = p * r * r + r + const(x, 1.0)
    power = tirx.reinterpret("float32", (n.astype("int32") + tirx.const(127, "int32")) << tirx.const(23, "int32"))
    return tirx.Select(x < const(x, _LEAST_EXPONENT), const(x, 0), p * power)


def tanh(x: Any) -> Any:
    """Return 1 - 2 / (e^2x + 1), by its series where that would cancel."""
    if dtype_of(x) != "float32":
        return tirx.tanh(x)
    square = x * x
    series = const(x, -17 / 315)
    for factor in (2 / 15, -1 / 3, 1.0):
        series = series * square + const(x, factor)
    far = const(x, 1) - const(x, 2) / (exponential(x * const(x, 2)) + const(x, 1))
    return tirx.Select(square < const(x, 0.02), x * series, far)


def erf(x: Any) -> Any:
    """Return the error function by Eigen's rational approximation."""
    if dtype_of(x) != "float32":
        return tirx.erf(x)
    z = te.max(te.min(x, const(x, 4)), const(x, -4))
    s = z * z
    top = const(x, -2.72614225801306e-10)
    for factor in (
        2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05, -7.34990630326855e-04,
        -2.95459980854025e-03, -1.60960333262415e-02,
    ):  # fmt: skip
        top = top * s + const(x, factor)
    low = const(x, -1.45660718464996e-05)
    for factor in (-2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03, -1.42647390514189e-02):
        low = low * s + const(x, factor)
    return z * top / low


class TvmNumbers(Numbers):
    """Numbers as expressions of TVM, in which an element that is read several times has one name (`Sharing`)."""

    def __init__(self) -> None:
        self._sharing = Sharing()

    def const(self, value: float, dtype: str) -> Any:
        return tirx.const(value, dtype)

    def dtype_of(self, x: Any) -> str:
        return dtype_of(x)

    def cast(self, x: Any, dtype: str) -> Any:
        return x.astype(dtype)

    def lowest(self, dtype: str) -> Any:
        return tirx.min_value(dtype)

    def highest(self, dtype: str) -> Any:
        return tirx.max_value(dtype)

    def maximum(self, x: Any, y: Any) -> Any:
        return te.max(x, y)

    def minimum(self, x: Any, y: Any) -> Any:
        return te.min(x, y)

    def select(self, condition: Any, x: Any, y: Any) -> Any:
        return tirx.Select(condition, x, y)

    def where(self, conditions: Sequence[Any], compute: Callable[[], Any], other: Any = None) -> Any:
        if not conditions:
            return compute()
        found = self.within(compute)
        return tirx.if_then_else(self.both(*conditions), found, self.like(found, 0) if other is None else other)

    def equal(self, x: Any, y: Any) -> Any:
        return tirx.EQ(x, y)

    def both(self, *conditions: Any) -> Any:
        return tirx.all(*conditions)

    def either(self, *conditions: Any) -> Any:
        return tirx.any(*conditions)

    def negated(self, condition: Any) -> Any:
        return tirx.Not(condition)

    def floor_divide(self, x: Any, y: Any) -> Any:
        return tirx.floordiv(x, y)

    def floor_modulo(self, x: Any, y: Any) -> Any:
        return tirx.floormod(x, y)

    def truncated_divide(self, x: Any, y: Any) -> Any:
        return tirx.truncdiv(x, y)

    def truncated_modulo(self, x: Any, y: Any) -> Any:
        return tirx.truncmod(x, y)

    def power(self, x: Any, y: Any) -> Any:
        return tirx.power(x, y)

    def call(self, function: str, x: Any) -> Any:
        return getattr(tirx, "nearbyint" if function == "rint" else function)(x)

    def exponential(self, x: Any) -> Any:
        return exponential(x)

    def tanh(self, x: Any) -> Any:
        return tanh(x)

    def erf(self, x: Any) -> Any:
        return erf(x)

    def within(self, compute: Callable[[], Any]) -> Any:
        return self._sharing.within(compute)

    def unnamed(self, compute: Callable[[], Any]) -> Any:
        return self._sharing.unnamed(compute)

    def once(self, name: str, place: Sequence[Any], compute: Callable[[], Any]) -> Any:
        return self._sharing.once(name, place, compute)
