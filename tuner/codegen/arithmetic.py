"""What operators compute for one element: the arithmetic that loop nests without reductions leave open.

Expressions are TVM's. Values that the nest reads come in the order of its reads.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from tvm import te, tirx

from dsascape.tuner.codegen.functions import const, dtype_of, erf, exponential, sigmoid, tanh
from dsascape.tuner.codegen.names import SCAN
from dsascape.workloads.loopnest import LoopNest
from dsascape.workloads.operators.registry import Array
from dsascape.workloads.patches import KIND as PATCHES


class UnsupportedKernelError(ValueError):
    """An operator, or a use of one, that no code is generated for; the message says which and why."""


@dataclass(frozen=True)
class Operator:
    """One operator as its arithmetic sees it."""

    kind: str
    attributes: Mapping[str, Any]
    inputs: tuple[str, ...]
    """As the node lists them; empty text for one that is left out."""
    constants: Mapping[int, Array]
    """Values of the inputs that are known, by place."""
    dtype: str
    """Of the output, as TVM writes it."""

    def scalar(self, place: int) -> float | None:
        """Return a constant of one element, None if the input is not there or not known."""
        value = self.constants.get(place)
        return None if value is None or value.size != 1 else float(value.reshape(-1)[0])


Values = Sequence[Any]
Elementwise = Callable[[Operator, Values], Any]


def _logarithm_of_one_plus(x: Any) -> Any:
    return tirx.log(const(x, 1) + x)


def _clip(op: Operator, values: Values) -> Any:
    x = values[0]
    low = op.attributes.get("min", op.scalar(1))
    high = op.attributes.get("max", op.scalar(2))
    if len([name for name in op.inputs[1:] if name]) > len(op.constants):
        raise UnsupportedKernelError("its limits are not known before the network runs")
    x = x if low is None else te.max(x, const(x, low))
    return x if high is None else te.min(x, const(x, high))


_PLACE_OF_ZERO = 2
"""Input of QuantizeLinear and DequantizeLinear that is the zero point."""
_PLACE_OF_TRAINING = 2
"""Input of Dropout that says whether the network is trained."""
_MOST_FACTORS = 8
"""Of a power that is a product."""
_SQUARE_ROOT = 0.5


def _power(op: Operator, values: Values) -> Any:
    x, exponent = values[0], op.scalar(1)
    if exponent is None:
        return tirx.power(x, values[1])
    if exponent == int(exponent) and 1 <= exponent <= _MOST_FACTORS:
        return math.prod([x] * (int(exponent) - 1), start=x)
    if exponent == _SQUARE_ROOT:
        return tirx.sqrt(x)
    return tirx.power(x, const(x, exponent))


def _gelu(op: Operator, values: Values) -> Any:
    x = values[0]
    if op.attributes.get("approximate", b"none") == b"tanh":
        inner = (x + x * x * x * const(x, 0.044715)) * const(x, math.sqrt(2 / math.pi))
        return x * const(x, 0.5) * (const(x, 1) + tanh(inner))
    return x * const(x, 0.5) * (const(x, 1) + erf(x * const(x, math.sqrt(0.5))))


def _softplus(x: Any) -> Any:
    """Return log(1 + e^x) without overflow."""
    magnitude = te.max(x, const(x, 0) - x)
    return te.max(x, const(x, 0)) + _logarithm_of_one_plus(exponential(const(x, 0) - magnitude))


def _mish(x: Any) -> Any:
    """Return x tanh(softplus(x)) = x u (u + 2) / (u (u + 2) + 2) with u = e^x; x itself where u is large."""
    u = exponential(te.min(x, const(x, 20)))
    n = u * (u + const(x, 2))
    return x * n / (n + const(x, 2))


def _unary(compute: Callable[[Any], Any]) -> Elementwise:
    return lambda _, values: compute(values[0])


def _leaky(op: Operator, values: Values) -> Any:
    x = values[0]
    return tirx.Select(x < const(x, 0), x * const(x, op.attributes.get("alpha", 0.01)), x)


def _hard_sigmoid(op: Operator, values: Values) -> Any:
    x = values[0]
    line = x * const(x, op.attributes.get("alpha", 0.2)) + const(x, op.attributes.get("beta", 0.5))
    return te.max(te.min(line, const(x, 1)), const(x, 0))


def _hard_swish(x: Any) -> Any:
    return x * te.max(te.min(x * const(x, 1 / 6) + const(x, 0.5), const(x, 1)), const(x, 0))


def _is_integer(x: Any) -> bool:
    return np.issubdtype(np.dtype(dtype_of(x)), np.integer)


def _divide(_: Operator, values: Values) -> Any:
    x, y = values
    return tirx.truncdiv(x, y) if _is_integer(x) else x / y


def _modulo(op: Operator, values: Values) -> Any:
    """Return the remainder: with the divisor's sign, or as C's fmod with the dividend's."""
    x, y = values
    if not op.attributes.get("fmod", 0):
        return tirx.floormod(x, y) if _is_integer(x) else x - y * tirx.floor(x / y)
    return tirx.truncmod(x, y) if _is_integer(x) else x - y * tirx.trunc(x / y)


def _sign(x: Any) -> Any:
    zero = const(x, 0)
    return tirx.Select(x > zero, const(x, 1), tirx.Select(x < zero, const(x, -1), zero))


def _exponential_unit(x: Any, alpha: float, scale: float = 1.0, reach: float = 1.0) -> Any:
    """Return x, or alpha (e^(x / reach) - 1) where x is negative; everything times ``scale``."""
    inner = x if reach == 1 else x * const(x, 1 / reach)
    negative = (exponential(inner) - const(x, 1)) * const(x, alpha * scale)
    return tirx.Select(x < const(x, 0), negative, x if scale == 1 else x * const(x, scale))


def _selu(op: Operator, values: Values) -> Any:
    alpha = op.attributes.get("alpha", 1.67326319217681884765625)
    return _exponential_unit(values[0], alpha, op.attributes.get("gamma", 1.05070102214813232421875))


def _celu(op: Operator, values: Values) -> Any:
    alpha = op.attributes.get("alpha", 1.0)
    return _exponential_unit(values[0], alpha, reach=alpha)


def _thresholded(op: Operator, values: Values) -> Any:
    x = values[0]
    return tirx.Select(x > const(x, op.attributes.get("alpha", 1.0)), x, const(x, 0))


def _shrink(op: Operator, values: Values) -> Any:
    """Return x moved towards zero by the bias, zero within the threshold."""
    x, limit, bias = values[0], op.attributes.get("lambd", 0.5), const(values[0], op.attributes.get("bias", 0.0))
    inside = tirx.Select(x > const(x, limit), x - bias, const(x, 0))
    return tirx.Select(x < const(x, -limit), x + bias, inside)


def _folded(combine: Callable[[Any, Any], Any]) -> Elementwise:
    def run(_: Operator, values: Values) -> Any:
        total = values[0]
        for value in values[1:]:
            total = combine(total, value)
        return total

    return run


def _batch_norm(op: Operator, values: Values) -> Any:
    x, scale, shift, mean, variance = values
    return (x - mean) * (scale / tirx.sqrt(variance + const(x, op.attributes.get("epsilon", 1e-5)))) + shift


def _equal(x: Any, y: Any) -> Any:
    """Return whether two values are equal; truth values as numbers, as LLVM would take them for floats."""
    return tirx.EQ(x.astype("int8"), y.astype("int8")) if dtype_of(x) == "bool" else tirx.EQ(x, y)


def _kept(op: Operator, values: Values) -> Any:
    if len(op.inputs) > _PLACE_OF_TRAINING and op.scalar(_PLACE_OF_TRAINING) != 0:
        raise UnsupportedKernelError("drops elements at random: it is, or may be, in training mode")
    return values[0]


def _cast(op: Operator, values: Values) -> Any:
    x = values[0]
    return tirx.NE(x, tirx.const(0, dtype_of(x))) if op.dtype == "bool" else x.astype(op.dtype)


def _scale_and_zero(op: Operator, values: Values) -> tuple[Any, Any | None]:
    """Return scale and zero point of an element, which are read where they have several values; None: no zero point."""
    read = list(values[1:])
    scale, zero = op.scalar(1), op.scalar(2)
    scaled = read.pop(0) if scale is None else tirx.const(scale, "float32")
    if len(op.inputs) <= _PLACE_OF_ZERO or not op.inputs[_PLACE_OF_ZERO]:
        return scaled, None
    return scaled, read.pop(0).astype("float32") if zero is None else tirx.const(zero, "float32")


def _dequantised(op: Operator, values: Values) -> Any:
    """Return (x - zero point) * scale."""
    scale, zero = _scale_and_zero(op, values)
    x = values[0].astype("float32")
    return (x if zero is None else x - zero) * scale


def _quantised(op: Operator, values: Values) -> Any:
    """Return x / scale, rounded to the nearest even number, with the zero point added, in the range of the integers."""
    scale, zero = _scale_and_zero(op, values)
    x = tirx.nearbyint(values[0] / scale)
    limits = np.iinfo(np.dtype(op.dtype))
    x = x if zero is None else x + zero
    return te.max(te.min(x, const(x, limits.max)), const(x, limits.min)).astype(op.dtype)


def scanned_state(data: Any, step: Any, rate: Any, entering: Any, before: Any) -> Any:
    """Return an element of a selective scan's state behind one token, from that ``before`` it."""
    return exponential(step * rate) * before + step * data * entering


ELEMENTWISE: Mapping[str, Elementwise] = {
    "DequantizeLinear": _dequantised, "QuantizeLinear": _quantised,
    "Identity": _unary(lambda x: x), "Dropout": _kept, "Cast": _cast,
    "Relu": _unary(lambda x: te.max(x, const(x, 0))), "Clip": _clip, "LeakyRelu": _leaky,
    "PRelu": lambda _, v: tirx.Select(v[0] < const(v[0], 0), v[0] * v[1], v[0]),
    "Neg": _unary(lambda x: const(x, 0) - x), "Abs": _unary(tirx.abs),
    "Floor": _unary(tirx.floor), "Ceil": _unary(tirx.ceil), "Not": _unary(tirx.Not),
    "Exp": _unary(exponential), "Log": _unary(tirx.log), "Sqrt": _unary(tirx.sqrt),
    "Reciprocal": _unary(lambda x: const(x, 1) / x), "Erf": _unary(erf), "Sin": _unary(tirx.sin),
    "Cos": _unary(tirx.cos), "Tanh": _unary(tanh), "Sigmoid": _unary(sigmoid), "Softplus": _unary(_softplus),
    "HardSigmoid": _hard_sigmoid, "HardSwish": _unary(_hard_swish), "Mish": _unary(_mish), "Gelu": _gelu,
    "Softsign": _unary(lambda x: x / (const(x, 1) + tirx.abs(x))),
    "Swish": lambda op, v: v[0] * sigmoid(v[0] * const(v[0], op.attributes.get("alpha", 1.0))),
    "Elu": lambda op, v: _exponential_unit(v[0], op.attributes.get("alpha", 1.0)), "Selu": _selu, "Celu": _celu,
    "ThresholdedRelu": _thresholded, "Shrink": _shrink, "Sign": _unary(_sign), "Round": _unary(tirx.nearbyint),
    "Tan": _unary(lambda x: tirx.sin(x) / tirx.cos(x)),
    "Asin": _unary(tirx.asin), "Acos": _unary(tirx.acos), "Atan": _unary(tirx.atan), "IsNaN": _unary(tirx.isnan),
    "Mod": _modulo, "Xor": lambda _, v: tirx.Not(_equal(v[0], v[1])), "CastLike": _cast,
    "BitwiseAnd": lambda _, v: v[0] & v[1], "BitwiseOr": lambda _, v: v[0] | v[1],
    "BitwiseXor": lambda _, v: v[0] ^ v[1], "BitwiseNot": _unary(lambda x: ~x),
    "Add": lambda _, v: v[0] + v[1], "Sub": lambda _, v: v[0] - v[1], "Mul": lambda _, v: v[0] * v[1],
    "Div": _divide, "Pow": _power, "And": lambda _, v: tirx.all(*v), "Or": lambda _, v: tirx.any(*v),
    "Equal": lambda _, v: _equal(v[0], v[1]), "Greater": lambda _, v: v[0] > v[1], "Less": lambda _, v: v[0] < v[1],
    "GreaterOrEqual": lambda _, v: v[0] >= v[1], "LessOrEqual": lambda _, v: v[0] <= v[1],
    "Where": lambda _, v: tirx.if_then_else(v[0], v[1], v[2]),
    "Sum": _folded(lambda a, b: a + b), "Max": _folded(te.max), "Min": _folded(te.min),
    "Mean": lambda op, v: _folded(lambda a, b: a + b)(op, v) / const(v[0], len(v)),
    "BatchNormalization": _batch_norm, "Expand": _unary(lambda x: x),
    "Einsum": lambda _, v: math.prod(v[1:], start=v[0]), SCAN: lambda _, v: scanned_state(*v),
}  # fmt: skip
"""The value of one output element from the inputs' values at its place."""

MOVES = frozenset(
    {
        "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Concat", "Split", "Slice", "Pad", "Tile",
        "DepthToSpace", "SpaceToDepth", "Gather", "Resize", "Upsample", PATCHES,
    }
)  # fmt: skip
"""Operators whose output elements are input elements."""


def pointwise_of(op: Operator, nest: LoopNest) -> Callable[[Values], Any]:
    """Return what ``nest``, which has no reduction, computes; raise ``UnsupportedKernelError`` if unknown."""
    label = f"{op.kind}/{nest.name}"
    if op.kind in MOVES:
        return lambda v: v[0]
    if label in OF_NESTS:
        return OF_NESTS[label]
    if op.kind in ELEMENTWISE:
        compute = ELEMENTWISE[op.kind]
        return lambda v: compute(op, v)
    if op.kind in CENTRED | UNCENTRED and nest.name == "normalise":
        return partial(_normalised, centred=op.kind in CENTRED)
    raise UnsupportedKernelError(f"no arithmetic for loop nest {nest.name!r}")


CENTRED = frozenset(
    {"LayerNormalization", "InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization"}
)
"""Normalisations by the mean and the deviation from it."""
UNCENTRED = frozenset({"RMSNormalization", "LpNormalization"})
"""Normalisations by the size alone."""
OF_NESTS: Mapping[str, Callable[[Values], Any]] = {
    "Softmax/exp": lambda v: exponential(v[0] - v[1]), "Softmax/scale": lambda v: v[0] * v[1],
    "LogSoftmax/exp": lambda v: v[0] - v[1], "LogSoftmax/scale": lambda v: v[0] - v[1],
    "Dropout/mask": lambda _: tirx.const(True, "bool"),
}  # fmt: skip
"""What single nests of an operator compute, such as those that use statistics of rows.

The logarithm of a softmax keeps differences, not their exponentials. A dropout that is not trained drops nothing.
"""


def _normalised(values: Values, *, centred: bool) -> Any:
    x, *statistics = values
    if centred:
        mean, *statistics = statistics
        x = x - mean
    deviation, *affine = statistics
    result = x * deviation
    if affine:
        result = result * affine[0]
    for shift in affine[1:]:
        result = result + shift
    return result


