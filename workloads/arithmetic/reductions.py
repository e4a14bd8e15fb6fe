"""What operators accumulate over the reduction loops of their nests, and what becomes of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from dsascape.workloads.arithmetic.elementwise import (
    CENTRED,
    FEW_BITS,
    MOVES,
    OF_NESTS,
    UNCENTRED,
    Operator,
    UnsupportedKernelError,
    Values,
)
from dsascape.workloads.arithmetic.numbers import Numbers
from dsascape.workloads.loopnest import LoopNest
from dsascape.workloads.patches import KIND as PATCHES
from dsascape.workloads.winograd.operators import KIND as WINOGRAD


@dataclass(frozen=True)
class Reduction:
    """How a nest with reduction loops accumulates, and what becomes of the sum."""

    combine: str
    """``sum`` or ``max`` or ``min``."""
    term: Callable[[Numbers, Values], Any]
    """What one iteration adds, from the values read."""
    finish: "Finish | None" = None
    late: tuple[int, ...] = ()
    """Places of the reads that ``finish`` is given."""
    fill: float = 0.0
    """What padding reads as."""


Finish = Callable[[Numbers, Any, Values, int], Any]
"""From what was accumulated, the values that do not move with the reduction, and the iterations, to the output."""
COMBINE: Mapping[str, Callable[[Numbers, Any, Any], Any]] = {
    "sum": lambda _, a, b: a + b, "max": lambda n, a, b: n.maximum(a, b), "min": lambda n, a, b: n.minimum(a, b),
}  # fmt: skip
"""Combination of two values in a reduction, by the name that the arithmetic gives it."""
FIRST: Mapping[str, Callable[[Numbers, str], Any]] = {
    "sum": lambda n, dtype: n.const(0, dtype), "max": lambda n, dtype: n.lowest(dtype),
    "min": lambda n, dtype: n.highest(dtype),
}  # fmt: skip
"""Value that an accumulator begins with, by the same names and its dtype."""


def reduction_of(op: Operator, nest: LoopNest) -> Reduction:
    """Return how ``nest``, which has reduction loops, accumulates; raise ``UnsupportedKernelError`` if unknown."""
    label = f"{op.kind}/{nest.name}"
    if op.kind == PATCHES and nest.name == "results":
        return _with_bias(nest)
    if op.kind in _PRODUCTS:
        return _product(op, nest)
    if op.kind in CENTRED | UNCENTRED and nest.name == "rstd":
        return _deviation(op)
    if op.kind in ("LpPool", "GlobalLpPool"):
        return _norm(op.attributes.get("p", 2))
    if op.kind == "LRN":
        return _local_response(op)
    found = _REDUCTIONS.get(label) or _REDUCTIONS.get(op.kind)
    if found is None:
        raise UnsupportedKernelError(f"no arithmetic for loop nest {nest.name!r}")
    return found


def says_of_output(kind: str, nest: str) -> bool:
    """Whether there is arithmetic for what a nest of that name writes, not for the operator's first output alone."""
    return (
        kind in MOVES
        or any(f"{kind}/{nest}" in table for table in (OF_NESTS, _REDUCTIONS))
        or (kind in CENTRED | UNCENTRED and nest == "rstd")
    )


def _product(op: Operator, nest: LoopNest) -> Reduction:
    alpha, beta = op.attributes.get("alpha", 1.0), op.attributes.get("beta", 1.0)
    late = tuple(range(2, len(nest.reads)))
    if not late and alpha == 1:
        return _PRODUCT

    def finish(n: Numbers, total: Any, values: Values, _: int) -> Any:
        total = total if alpha == 1 else total * n.like(total, alpha)
        for value in values:
            total = total + (value if beta == 1 else value * n.like(total, beta))
        return total

    return Reduction("sum", lambda _, v: v[0] * v[1], finish, late)


def _with_bias(nest: LoopNest) -> Reduction:
    """Return a product that is there already, to which all other operands are added."""

    def finish(_: Numbers, total: Any, values: Values, __: int) -> Any:
        for value in values:
            total = total + value
        return total

    return Reduction("sum", _own, finish, tuple(range(1, len(nest.reads))))


def _deviation(op: Operator) -> Reduction:
    """Return the reciprocal of what a normalisation divides by: the root of the mean square, or a norm."""
    if op.kind == "LpNormalization":
        norm = _norm(op.attributes.get("p", 2))
        size = norm.finish or _as_it_is
        return Reduction("sum", norm.term, lambda n, total, v, count: n.like(total, 1) / size(n, total, v, count))
    centred = op.kind in CENTRED
    epsilon = op.attributes.get("epsilon", 1e-5)

    def square(_: Numbers, values: Values) -> Any:
        difference = values[0] - values[1] if centred else values[0]
        return difference * difference

    def root(n: Numbers, total: Any, _: Values, count: int) -> Any:
        mean = total * n.like(total, 1 / count)
        if op.kind == "MeanVarianceNormalization":
            return n.like(total, 1) / (n.call("sqrt", mean) + n.like(total, _LEAST_DEVIATION))
        return n.like(total, 1) / n.call("sqrt", mean + n.like(total, epsilon))

    return Reduction("sum", square, root)


_LEAST_DEVIATION = 1e-9
"""That MeanVarianceNormalization adds to the deviation, by the standard's definition of it."""


def _norm(power: int) -> Reduction:
    """Return the root of the sum of powers; padding counts nothing."""

    def powers(n: Numbers, values: Values) -> Any:
        size = n.call("abs", values[0])
        return prod([size] * (power - 1), start=size)

    def root(n: Numbers, total: Any, _: Values, __: int) -> Any:
        return n.power(total, n.like(total, 1 / power))

    return _NORMS.get(power, Reduction("sum", powers, root))


def _local_response(op: Operator) -> Reduction:
    """Return x / (bias + alpha / size x sum)^beta, the sum over the squares of neighbouring channels."""
    alpha, beta = op.attributes.get("alpha", 1e-4), op.attributes.get("beta", 0.75)

    def finish(n: Numbers, total: Any, values: Values, count: int) -> Any:
        base = total * n.like(total, alpha / count) + n.like(total, op.attributes.get("bias", 1.0))
        return values[0] * n.exponential(n.call("log", base) * n.like(total, -beta))

    return Reduction("sum", _squared, finish, late=(1,))


def _own(_: Numbers, values: Values) -> Any:
    return values[0]


def _squared(_: Numbers, values: Values) -> Any:
    return values[0] * values[0]


def _exponential(n: Numbers, values: Values) -> Any:
    return n.exponential(values[0])


def _product_of_all(_: Numbers, values: Values) -> Any:
    return prod(values[1:], start=values[0])


def _as_it_is(_: Numbers, total: Any, __: Values, ___: int) -> Any:
    return total


def _root(n: Numbers, total: Any, _: Values, __: int) -> Any:
    return n.call("sqrt", total)


def _logarithm(n: Numbers, total: Any, _: Values, __: int) -> Any:
    return n.call("log", total)


def _mean(n: Numbers, total: Any, _: Values, count: int) -> Any:
    return total * n.like(total, 1 / count)


def _reciprocal(n: Numbers, total: Any, _: Values, __: int) -> Any:
    return n.like(total, 1) / total


_LOWEST = -3.4028234663852886e38
_PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", FEW_BITS, PATCHES, WINOGRAD})
_NORMS = {1: Reduction("sum", lambda n, v: n.call("abs", v[0])), 2: Reduction("sum", _squared, _root)}
_PRODUCT = Reduction("sum", _product_of_all)
_SUM = Reduction("sum", _own)
_AVERAGE = Reduction("sum", _own, _mean)
_MAXIMUM = Reduction("max", _own, fill=_LOWEST)
_REDUCTIONS: Mapping[str, Reduction] = {
    **dict.fromkeys(("MaxPool", "GlobalMaxPool", "ReduceMax", "Softmax/max", "LogSoftmax/max"), _MAXIMUM),
    "ReduceMin": Reduction("min", _own, fill=-_LOWEST),
    "ReduceSum": _SUM, "CumSum": _SUM,
    **dict.fromkeys(("ReduceMean", "GlobalAveragePool", "AveragePool"), _AVERAGE),
    **{f"{kind}/mean": _AVERAGE for kind in CENTRED},
    "Softmax/sum": Reduction("sum", _own, _reciprocal),
    "LogSoftmax/sum": Reduction("sum", _exponential, _logarithm),
    "Einsum": _PRODUCT,
    "ReduceL1": _norm(1), "ReduceL2": _norm(2), "ReduceSumSquare": Reduction("sum", _squared),
    "ReduceLogSum": Reduction("sum", _own, _logarithm),
    "ReduceLogSumExp": Reduction("sum", _exponential, _logarithm),
}  # fmt: skip
"""By operator, or by operator and loop nest."""
