"""What operators compute for one element: the arithmetic that loop nests without reductions leave open.

Values that the nest reads come in the order of its reads; they are `Numbers` of any kind.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dsascape.workloads.arithmetic.numbers import Numbers
from dsascape.workloads.loopnest import LoopNest
from dsascape.workloads.operators.registry import Array
from dsascape.workloads.patches import KIND as PATCHES

FEW_BITS = "com.microsoft::MatMulNBits"
"""Product with weights of a few bits."""
SCAN = "dsascape::ScanChunk"
"""States of a selective scan."""


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
    """Of the output, as numpy writes it."""
    numbers: Numbers
    """What its values are."""

    def scalar(self, place: int) -> float | None:
        """Return a constant of one element, None if the input is not there or not known."""
        value = self.constants.get(place)
        return None if value is None or value.size != 1 else float(value.reshape(-1)[0])


Values = Sequence[Any]
Elementwise = Callable[[Operator, Values], Any]


def _logarithm_of_one_plus(n: Numbers, x: Any) -> Any:
    return n.call("log", n.like(x, 1) + x)


def _clip(op: Operator, values: Values) -> Any:
    n, x = op.numbers, values[0]
    low = op.attributes.get("min", op.scalar(1))
    high = op.attributes.get("max", op.scalar(2))
    if len([name for name in op.inputs[1:] if name]) > len(op.constants):
        raise UnsupportedKernelError("its limits are not known before the network runs")
    x = x if low is None else n.maximum(x, n.like(x, low))
    return x if high is None else n.minimum(x, n.like(x, high))


_PLACE_OF_ZERO = 2
"""Input of QuantizeLinear and DequantizeLinear that is the zero point."""
_PLACE_OF_TRAINING = 2
"""Input of Dropout that says whether the network is trained."""
_MOST_FACTORS = 8
"""Of a power that is a product."""
_SQUARE_ROOT = 0.5


def _power(op: Operator, values: Values) -> Any:
    n, x, exponent = op.numbers, values[0], op.scalar(1)
    if exponent is None:
        return n.power(x, values[1])
    if exponent == int(exponent) and 1 <= exponent <= _MOST_FACTORS:
        return math.prod([x] * (int(exponent) - 1), start=x)
    if exponent == _SQUARE_ROOT:
        return n.call("sqrt", x)
    return n.power(x, n.like(x, exponent))


def _gelu(op: Operator, values: Values) -> Any:
    n, x = op.numbers, values[0]
    if op.attributes.get("approximate", b"none") == b"tanh":
        inner = (x + x * x * x * n.like(x, 0.044715)) * n.like(x, math.sqrt(2 / math.pi))
        return x * n.like(x, 0.5) * (n.like(x, 1) + n.tanh(inner))
    return x * n.like(x, 0.5) * (n.like(x, 1) + n.erf(x * n.like(x, math.sqrt(0.5))))


def _softplus(n: Numbers, x: Any) -> Any:
    """Return log(1 + e^x) without overflow."""
    magnitude = n.maximum(x, n.like(x, 0) - x)
    return n.maximum(x, n.like(x, 0)) + _logarithm_of_one_plus(n, n.exponential(n.like(x, 0) - magnitude))


def _mish(n: Numbers, x: Any) -> Any:
    """Return x tanh(softplus(x)) = x u (u + 2) / (u (u + 2) + 2) with u = e^x; x itself where u is large."""
    u = n.exponential(n.minimum(x, n.like(x, 20)))
    product = u * (u + n.like(x, 2))
    return x * product / (product + n.like(x, 2))


def _unary(compute: Callable[[Numbers, Any], Any]) -> Elementwise:
    return lambda op, values: compute(op.numbers, values[0])


def _function(name: str) -> Elementwise:
    return lambda op, values: op.numbers.call(name, values[0])


def _leaky(op: Operator, values: Values) -> Any:
    n, x = op.numbers, values[0]
    return n.select(x < n.like(x, 0), x * n.like(x, op.attributes.get("alpha", 0.01)), x)


def _parametric(op: Operator, values: Values) -> Any:
    x, slope = values
    return op.numbers.select(x < op.numbers.like(x, 0), x * slope, x)


def _hard_sigmoid(op: Operator, values: Values) -> Any:
    n, x = op.numbers, values[0]
    line = x * n.like(x, op.attributes.get("alpha", 0.2)) + n.like(x, op.attributes.get("beta", 0.5))
    return n.maximum(n.minimum(line, n.like(x, 1)), n.like(x, 0))


def _hard_swish(n: Numbers, x: Any) -> Any:
    return x * n.maximum(n.minimum(x * n.like(x, 1 / 6) + n.like(x, 0.5), n.like(x, 1)), n.like(x, 0))


def _is_integer(n: Numbers, x: Any) -> bool:
    return np.issubdtype(np.dtype(n.dtype_of(x)), np.integer)


def _divide(op: Operator, values: Values) -> Any:
    x, y = values
    return op.numbers.truncated_divide(x, y) if _is_integer(op.numbers, x) else x / y


def _modulo(op: Operator, values: Values) -> Any:
    """Return the remainder: with the divisor's sign, or as C's fmod with the dividend's."""
    n, (x, y) = op.numbers, values
    if not op.attributes.get("fmod", 0):
        return n.floor_modulo(x, y) if _is_integer(n, x) else x - y * n.call("floor", x / y)
    return n.truncated_modulo(x, y) if _is_integer(n, x) else x - y * n.call("trunc", x / y)


def _sign(n: Numbers, x: Any) -> Any:
    zero = n.like(x, 0)
    return n.select(x > zero, n.like(x, 1), n.select(x < zero, n.like(x, -1), zero))


def _exponential_unit(n: Numbers, x: Any, alpha: float, scale: float = 1.0, reach: float = 1.0) -> Any:
    """Return x, or alpha (e^(x / reach) - 1) where x is negative; everything times ``scale``."""
    inner = x if reach == 1 else x * n.like(x, 1 / reach)
    negative = (n.exponential(inner) - n.like(x, 1)) * n.like(x, alpha * scale)
    return n.select(x < n.like(x, 0), negative, x if scale == 1 else x * n.like(x, scale))


def _elu(op: Operator, values: Values) -> Any:
    return _exponential_unit(op.numbers, values[0], op.attributes.get("alpha", 1.0))


def _selu(op: Operator, values: Values) -> Any:
    alpha = op.attributes.get("alpha", 1.67326319217681884765625)
    return _exponential_unit(op.numbers, values[0], alpha, op.attributes.get("gamma", 1.05070102214813232421875))


def _celu(op: Operator, values: Values) -> Any:
    alpha = op.attributes.get("alpha", 1.0)
    return _exponential_unit(op.numbers, values[0], alpha, reach=alpha)


def _thresholded(op: Operator, values: Values) -> Any:
    n, x = op.numbers, values[0]
    return n.select(x > n.like(x, op.attributes.get("alpha", 1.0)), x, n.like(x, 0))


def _shrink(op: Operator, values: Values) -> Any:
    """Return x moved towards zero by the bias, zero within the threshold."""
    n, x, limit = op.numbers, values[0], op.attributes.get("lambd", 0.5)
    bias = n.like(x, op.attributes.get("bias", 0.0))
    inside = n.select(x > n.like(x, limit), x - bias, n.like(x, 0))
    return n.select(x < n.like(x, -limit), x + bias, inside)


def _swish(op: Operator, values: Values) -> Any:
    x = values[0]
    return x * op.numbers.sigmoid(x * op.numbers.like(x, op.attributes.get("alpha", 1.0)))


def _folded(combine: Callable[[Numbers, Any, Any], Any]) -> Elementwise:
    def run(op: Operator, values: Values) -> Any:
        total = values[0]
        for value in values[1:]:
            total = combine(op.numbers, total, value)
        return total

    return run


_added = _folded(lambda _, a, b: a + b)


def _batch_norm(op: Operator, values: Values) -> Any:
    x, scale, shift, mean, variance = values
    n = op.numbers
    return (x - mean) * (scale / n.call("sqrt", variance + n.like(x, op.attributes.get("epsilon", 1e-5)))) + shift


def _equal(n: Numbers, x: Any, y: Any) -> Any:
    """Return whether two values are equal; truth values as numbers, as LLVM would take them for floats."""
    return n.equal(n.cast(x, "int8"), n.cast(y, "int8")) if n.dtype_of(x) == "bool" else n.equal(x, y)


def _kept(op: Operator, values: Values) -> Any:
    if len(op.inputs) > _PLACE_OF_TRAINING and op.scalar(_PLACE_OF_TRAINING) != 0:
        raise UnsupportedKernelError("drops elements at random: it is, or may be, in training mode")
    return values[0]


def _cast(op: Operator, values: Values) -> Any:
    n, x = op.numbers, values[0]
    return n.negated(n.equal(x, n.like(x, 0))) if op.dtype == "bool" else n.cast(x, op.dtype)


def _scale_and_zero(op: Operator, values: Values) -> tuple[Any, Any | None]:
    """Return scale and zero point of an element, which are read where they have several values; None: no zero point."""
    n, read = op.numbers, list(values[1:])
    scale, zero = op.scalar(1), op.scalar(2)
    scaled = read.pop(0) if scale is None else n.const(scale, "float32")
    if len(op.inputs) <= _PLACE_OF_ZERO or not op.inputs[_PLACE_OF_ZERO]:
        return scaled, None
    return scaled, n.cast(read.pop(0), "float32") if zero is None else n.const(zero, "float32")


def _dequantised(op: Operator, values: Values) -> Any:
    """Return (x - zero point) * scale."""
    scale, zero = _scale_and_zero(op, values)
    x = op.numbers.cast(values[0], "float32")
    return (x if zero is None else x - zero) * scale


def _quantised(op: Operator, values: Values) -> Any:
    """Return x / scale, rounded to the nearest even number, with the zero point added, in the range of the integers."""
    n, (scale, zero) = op.numbers, _scale_and_zero(op, values)
    x = n.call("rint", values[0] / scale)
    limits = np.iinfo(np.dtype(op.dtype))
    x = x if zero is None else x + zero
    return n.cast(n.maximum(n.minimum(x, n.like(x, limits.max)), n.like(x, limits.min)), op.dtype)


def scanned_state(n: Numbers, data: Any, step: Any, rate: Any, entering: Any, before: Any) -> Any:
    """Return an element of a selective scan's state behind one token, from that ``before`` it."""
    return n.exponential(step * rate) * before + step * data * entering


ELEMENTWISE: Mapping[str, Elementwise] = {
    "DequantizeLinear": _dequantised, "QuantizeLinear": _quantised,
    "Identity": lambda _, v: v[0], "Dropout": _kept, "Cast": _cast,
    "Relu": _unary(lambda n, x: n.maximum(x, n.like(x, 0))), "Clip": _clip, "LeakyRelu": _leaky, "PRelu": _parametric,
    "Neg": _unary(lambda n, x: n.like(x, 0) - x), "Abs": _function("abs"),
    "Floor": _function("floor"), "Ceil": _function("ceil"), "Not": _unary(lambda n, x: n.negated(x)),
    "Exp": _unary(lambda n, x: n.exponential(x)), "Log": _function("log"), "Sqrt": _function("sqrt"),
    "Reciprocal": _unary(lambda n, x: n.like(x, 1) / x), "Erf": _unary(lambda n, x: n.erf(x)), "Sin": _function("sin"),
    "Cos": _function("cos"), "Tanh": _unary(lambda n, x: n.tanh(x)), "Sigmoid": _unary(lambda n, x: n.sigmoid(x)),
    "Softplus": _unary(_softplus),
    "HardSigmoid": _hard_sigmoid, "HardSwish": _unary(_hard_swish), "Mish": _unary(_mish), "Gelu": _gelu,
    "Softsign": _unary(lambda n, x: x / (n.like(x, 1) + n.call("abs", x))),
    "Swish": _swish, "Elu": _elu, "Selu": _selu, "Celu": _celu,
    "ThresholdedRelu": _thresholded, "Shrink": _shrink, "Sign": _unary(_sign), "Round": _function("rint"),
    "Tan": _unary(lambda n, x: n.call("sin", x) / n.call("cos", x)),
    "Asin": _function("asin"), "Acos": _function("acos"), "Atan": _function("atan"), "IsNaN": _function("isnan"),
    "Mod": _modulo, "Xor": lambda op, v: op.numbers.negated(_equal(op.numbers, v[0], v[1])), "CastLike": _cast,
    "BitwiseAnd": lambda _, v: v[0] & v[1], "BitwiseOr": lambda _, v: v[0] | v[1],
    "BitwiseXor": lambda _, v: v[0] ^ v[1], "BitwiseNot": lambda _, v: ~v[0],
    "Add": lambda _, v: v[0] + v[1], "Sub": lambda _, v: v[0] - v[1], "Mul": lambda _, v: v[0] * v[1],
    "Div": _divide, "Pow": _power, "And": lambda op, v: op.numbers.both(*v), "Or": lambda op, v: op.numbers.either(*v),
    "Equal": lambda op, v: _equal(op.numbers, v[0], v[1]), "Greater": lambda _, v: v[0] > v[1],
    "Less": lambda _, v: v[0] < v[1], "GreaterOrEqual": lambda _, v: v[0] >= v[1],
    "LessOrEqual": lambda _, v: v[0] <= v[1], "Where": lambda op, v: op.numbers.where([v[0]], lambda: v[1], v[2]),
    "Sum": _added, "Max": _folded(lambda n, a, b: n.maximum(a, b)), "Min": _folded(lambda n, a, b: n.minimum(a, b)),
    "Mean": lambda op, v: _added(op, v) / op.numbers.like(v[0], len(v)),
    "BatchNormalization": _batch_norm, "Expand": lambda _, v: v[0],
    "Einsum": lambda _, v: math.prod(v[1:], start=v[0]), SCAN: lambda op, v: scanned_state(op.numbers, *v),
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
        of_nest = OF_NESTS[label]
        return lambda v: of_nest(op, v)
    if op.kind in ELEMENTWISE:
        compute = ELEMENTWISE[op.kind]
        return lambda v: compute(op, v)
    if op.kind in CENTRED | UNCENTRED and nest.name == "normalise":
        return lambda v: _normalised(v, centred=op.kind in CENTRED)
    raise UnsupportedKernelError(f"no arithmetic for loop nest {nest.name!r}")


CENTRED = frozenset(
    {"LayerNormalization", "InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization"}
)
"""Normalisations by the mean and the deviation from it."""
UNCENTRED = frozenset({"RMSNormalization", "LpNormalization"})
"""Normalisations by the size alone."""
OF_NESTS: Mapping[str, Elementwise] = {
    "Softmax/exp": lambda op, v: op.numbers.exponential(v[0] - v[1]), "Softmax/scale": lambda _, v: v[0] * v[1],
    "LogSoftmax/exp": lambda _, v: v[0] - v[1], "LogSoftmax/scale": lambda _, v: v[0] - v[1],
    "Dropout/mask": lambda op, _: op.numbers.const(True, "bool"),
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
