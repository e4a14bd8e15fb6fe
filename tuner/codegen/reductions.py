"""What operators accumulate over the reduction loops of their nests, and what becomes of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx

from dsascape.tuner.codegen.arithmetic import (
    CENTRED,
    MOVES,
    OF_NESTS,
    UNCENTRED,
    Operator,
    UnsupportedKernelError,
    Values,
)
from dsascape.tuner.codegen.functions import const, exponential
from dsascape.tuner.codegen.names import FEW_BITS
from dsascape.workloads.loopnest import LoopNest
from dsascape.workloads.patches import KIND as PATCHES
from dsascape.workloads.winograd.operators import KIND as WINOGRAD


@dataclass(frozen=True)
class Reduction:
    """How a nest with reduction loops accumulates, and what becomes of the sum."""

    combine: str
    """``sum`` or ``max`` or ``min``."""
    term: Callable[[Values], Any]
    """What one iteration adds, from the values read."""
    finish: Callable[[Any, Values, int], Any] | None = None
    """The output from what was accumulated, the values that do not move with the reduction, the iterations."""
    late: tuple[int, ...] = ()
    """Places of the reads that ``finish`` is given."""
    fill: float = 0.0
    """What padding reads as."""


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

    def finish(total: Any, values: Values, _: int) -> Any:
        total = total if alpha == 1 else total * const(total, alpha)
        for value in values:
            total = total + (value if beta == 1 else value * const(total, beta))
        return total

    return Reduction("sum", lambda v: v[0] * v[1], finish, late)


def _with_bias(nest: LoopNest) -> Reduction:
    """Return a product that is there already, to which all other operands are added."""

    def finish(total: Any, values: Values, _: int) -> Any:
        for value in values:
            total = total + value
        return total

    return Reduction("sum", lambda v: v[0], finish, tuple(range(1, len(nest.reads))))


def _deviation(op: Operator) -> Reduction:
    """Return the reciprocal of what a normalisation divides by: the root of the mean square, or a norm."""
    if op.kind == "LpNormalization":
        norm = _norm(op.attributes.get("p", 2))
        return Reduction("sum", norm.term, lambda total, v, n: _reciprocal(_finished(norm, total, v, n), v, n))
    centred = op.kind in CENTRED
    epsilon = op.attributes.get("epsilon", 1e-5)

    def square(values: Values) -> Any:
        difference = values[0] - values[1] if centred else values[0]
        return difference * difference

    def root(total: Any, _: Values, count: int) -> Any:
        mean = total * const(total, 1 / count)
        if op.kind == "MeanVarianceNormalization":
            return const(total, 1) / (tirx.sqrt(mean) + const(total, _LEAST_DEVIATION))
        return const(total, 1) / tirx.sqrt(mean + const(total, epsilon))

    return Reduction("sum", square, root)


_LEAST_DEVIATION = 1e-9
"""That MeanVarianceNormalization adds to the deviation, by the standard's definition of it."""


def _norm(power: int) -> Reduction:
    """Return the root of the sum of powers; padding counts nothing."""

    def root(total: Any, _: Values, __: int) -> Any:
        return tirx.power(total, const(total, 1 / power))

    general = Reduction("sum", lambda v: prod([tirx.abs(v[0])] * (power - 1), start=tirx.abs(v[0])), root)
    return _NORMS.get(power, general)


def _local_response(op: Operator) -> Reduction:
    """Return x / (bias + alpha / size x sum)^beta, the sum over the squares of neighbouring channels."""
    alpha, beta = op.attributes.get("alpha", 1e-4), op.attributes.get("beta", 0.75)

    def finish(total: Any, values: Values, count: int) -> Any:
        base = total * const(total, alpha / count) + const(total, op.attributes.get("bias", 1.0))
        return values[0] * exponential(tirx.log(base) * const(total, -beta))

    return Reduction("sum", _squared, finish, late=(1,))


def _finished(rule: Reduction, total: Any, values: Values, count: int) -> Any:
    return total if rule.finish is None else rule.finish(total, values, count)


def _squared(values: Values) -> Any:
    return values[0] * values[0]


def _root(total: Any, _: Values, __: int) -> Any:
    return tirx.sqrt(total)


def _logarithm(total: Any, _: Values, __: int) -> Any:
    return tirx.log(total)


def _mean(total: Any, _: Values, count: int) -> Any:
    return total * const(total, 1 / count)


def _reciprocal(total: Any, _: Values, __: int) -> Any:
    return const(total, 1) / total


_LOWEST = -3.4028234663852886e38
_PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", FEW_BITS, PATCHES, WINOGRAD})
_NORMS = {1: Reduction("sum", lambda v: tirx.abs(v[0])), 2: Reduction("sum", _squared, _root)}
_PRODUCT = Reduction("sum", lambda v: prod(v[1:], start=v[0]))
_SUM = Reduction("sum", lambda v: v[0])
_AVERAGE = Reduction("sum", lambda v: v[0], _mean)
_MAXIMUM = Reduction("max", lambda v: v[0], fill=_LOWEST)
_REDUCTIONS: Mapping[str, Reduction] = {
    **dict.fromkeys(("MaxPool", "GlobalMaxPool", "ReduceMax", "Softmax/max", "LogSoftmax/max"), _MAXIMUM),
    "ReduceMin": Reduction("min", lambda v: v[0], fill=-_LOWEST),
    "ReduceSum": _SUM, "CumSum": _SUM,
    **dict.fromkeys(("ReduceMean", "GlobalAveragePool", "AveragePool"), _AVERAGE),
    **{f"{kind}/mean": _AVERAGE for kind in CENTRED},
    "Softmax/sum": Reduction("sum", lambda v: v[0], _reciprocal),
    "LogSoftmax/sum": Reduction("sum", lambda v: exponential(v[0]), _logarithm),
    "Einsum": _PRODUCT,
    "ReduceL1": _norm(1), "ReduceL2": _norm(2), "ReduceSumSquare": Reduction("sum", _squared),
    "ReduceLogSum": Reduction("sum", lambda v: v[0], _logarithm),
    "ReduceLogSumExp": Reduction("sum", lambda v: exponential(v[0]), _logarithm),
}  # fmt: skip
"""By operator, or by operator and loop nest."""
