"""Random small instances of operators; ``MAKERS`` has one factory function per kind."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.workloads.region_check import Array, Case

Draw = np.random.Generator
Make = Callable[[Draw, str], Case]

MAKERS: dict[str, Make] = {}
OPSET = 22
NEWER = {
    "RMSNormalization": 23,
    "Attention": 23,
    "TensorScatter": 24,
    "Swish": 24,
    "BitCast": 26,
    "CumProd": 26,
}
OLD = {"Upsample": 9, "Scatter": 9}


def makes(*kinds: str) -> Callable[[Make], Make]:
    def register(make: Make) -> Make:
        MAKERS.update(dict.fromkeys(kinds, make))
        return make

    return register


def case(
    kind: str,
    inputs: Mapping[str, Any],
    *,
    outputs: Sequence[str] = ("y",),
    fixed: Sequence[str] = (),
    limits: Mapping[str, tuple[float, float]] | None = None,
    **attributes: Any,
) -> Case:
    """Return a model of one node; inputs that are None are left out."""
    given = {name: np.asarray(array) for name, array in inputs.items() if array is not None}
    names = [name if array is not None else "" for name, array in inputs.items()]
    node = helper.make_node(kind, names, outputs, **{k: v for k, v in attributes.items() if v is not None})
    entries = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    results = [onnx.ValueInfoProto(name=name) for name in outputs if name]
    graph = helper.make_graph([node], kind, entries, results)
    opset = OLD.get(kind, NEWER.get(kind, OPSET))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return Case(model, given, frozenset(fixed), dict(limits or {}))


def shape_of(rng: Draw, rank: int | None = None, longest: int = 5) -> tuple[int, ...]:
    rank = int(rng.integers(1, 5)) if rank is None else rank
    return tuple(int(n) for n in rng.integers(1, longest + 1, size=rank))


def floats(rng: Draw, shape: Sequence[int], lo: float = -2.0, hi: float = 2.0) -> Array:
    return rng.uniform(lo, hi, size=tuple(shape)).astype(np.float32)


def ints(rng: Draw, shape: Sequence[int], lo: int, hi: int, dtype: Any = np.int64) -> Array:
    return rng.integers(lo, hi, size=tuple(shape)).astype(dtype)


def listed(*values: int) -> Array:
    return np.asarray(values, np.int64)


def coin(rng: Draw) -> bool:
    return bool(rng.integers(2))


def narrowed(rng: Draw, shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape that broadcasts to ``shape``."""
    cut = tuple(1 if rng.integers(3) == 0 else size for size in shape)
    return cut[int(rng.integers(len(cut) + 1)) :]


def axis_of(rng: Draw, rank: int) -> int:
    return int(rng.integers(-rank, rank))


_DOMAINS = {
    "Log": (0.1, 4.0), "Sqrt": (0.1, 4.0), "Reciprocal": (0.5, 4.0), "Asin": (-0.9, 0.9), "Acos": (-0.9, 0.9),
    "Atanh": (-0.9, 0.9), "Acosh": (1.1, 4.0), "Floor": (-5, 5), "Ceil": (-5, 5), "Round": (-5, 5),
    "Cast": (-5, 5), "ThresholdedRelu": (-4, 4), "Tan": (-1.0, 1.0),
}  # fmt: skip


@makes(
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf",
    "Exp",
    "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Mish", "Neg", "Reciprocal",
    "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt",
    "Swish", "Tan", "Tanh", "ThresholdedRelu",
)  # fmt: skip
def _unary(rng: Draw, kind: str) -> Case:
    domain = _DOMAINS.get(kind, (-2.0, 2.0))
    return case(kind, {"x": floats(rng, shape_of(rng), *domain)}, limits={"x": domain})


@makes("IsNaN", "IsInf")
def _special_values(rng: Draw, kind: str) -> Case:
    return case(kind, {"x": floats(rng, shape_of(rng))})


@makes("Cast", "BitCast")
def _cast(rng: Draw, kind: str) -> Case:
    return case(kind, {"x": floats(rng, shape_of(rng), -5, 5)}, to=TensorProto.INT32)


@makes("CastLike")
def _cast_like(rng: Draw, kind: str) -> Case:
    return case(kind, {"x": floats(rng, shape_of(rng), -5, 5), "like": ints(rng, (2,), 0, 3)})


@makes("Add", "Sub", "Mul", "Div", "Pow", "Mod")
def _binary(rng: Draw, kind: str) -> Case:
    shape = shape_of(rng)
    positive = {"lo": 0.5, "hi": 3.0} if kind in ("Div", "Pow", "Mod") else {}
    one, other = floats(rng, shape, **positive), floats(rng, narrowed(rng, shape), **positive)
    given = {"a": one, "b": other} if coin(rng) else {"a": other, "b": one}
    return case(kind, given, fmod=1 if kind == "Mod" else None)


@makes("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
def _comparison(rng: Draw, kind: str) -> Case:
    shape = shape_of(rng)
    limits = {"a": (0, 3), "b": (0, 3)}
    return case(
        kind, {"a": ints(rng, shape, 0, 3), "b": ints(rng, narrowed(rng, shape), 0, 3)}, limits=limits
    )


@makes("And", "Or", "Xor")
def _logical(rng: Draw, kind: str) -> Case:
    shape = shape_of(rng)
    return case(kind, {"a": ints(rng, shape, 0, 2, bool), "b": ints(rng, narrowed(rng, shape), 0, 2, bool)})


@makes("Not")
def _negation(rng: Draw, kind: str) -> Case:
    return case(kind, {"x": ints(rng, shape_of(rng), 0, 2, bool)})


@makes("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift")
def _bits(rng: Draw, kind: str) -> Case:
    shape = shape_of(rng)
    limits = {"a": (0, 64), "b": (0, 8)}
    given = {"a": ints(rng, shape, 0, 64, np.uint8), "b": ints(rng, narrowed(rng, shape), 0, 8, np.uint8)}
    direction = ("RIGHT" if coin(rng) else "LEFT") if kind == "BitShift" else None
    return case(kind, given, limits=limits, direction=direction)


@makes("BitwiseNot")
def _bitwise_not(rng: Draw, kind: str) -> Case:
    return case(kind, {"x": ints(rng, shape_of(rng), 0, 99, np.int32)}, limits={"x": (0, 99)})


@makes("Where")
def _where(rng: Draw, kind: str) -> Case:
    shape = shape_of(rng)
    chosen = ints(rng, narrowed(rng, shape), 0, 2, bool)
    return case(kind, {"c": chosen, "a": floats(rng, shape), "b": floats(rng, narrowed(rng, shape))})


@makes("Clip")
def _clip(rng: Draw, kind: str) -> Case:
    bounds = {"lo": np.float32(-0.3), "hi": np.float32(0.4)}
    limits = {"lo": (-1.0, -0.1), "hi": (0.1, 1.0)}
    fixed = tuple(bounds) if coin(rng) else ()
    return case(kind, {"x": floats(rng, shape_of(rng))} | bounds, fixed=fixed, limits=limits)


@makes("PRelu")
def _prelu(rng: Draw, kind: str) -> Case:
    shape = shape_of(rng)
    given = {"x": floats(rng, shape), "slope": floats(rng, narrowed(rng, shape))}
    return case(kind, given, limits={"x": (-2.0, 2.0)})


@makes("Dropout")
def _dropout(rng: Draw, kind: str) -> Case:
    return case(kind, {"x": floats(rng, shape_of(rng))}, outputs=("y", "mask"))


@makes("Sum", "Mean", "Max", "Min")
def _variadic(rng: Draw, kind: str) -> Case:
    shape = shape_of(rng)
    given = {f"x{n}": floats(rng, shape if n == 0 else narrowed(rng, shape)) for n in range(3)}
    return case(kind, given, limits=dict.fromkeys(given, (-2.0, 2.0)))


@makes("Expand")
def _expand(rng: Draw, kind: str) -> Case:
    shape = shape_of(rng)
    return case(kind, {"x": floats(rng, narrowed(rng, shape)), "shape": listed(*shape)}, fixed=("shape",))


@makes("Trilu")
def _trilu(rng: Draw, kind: str) -> Case:
    rows, columns = shape_of(rng, 2)
    return case(kind, {"x": floats(rng, (2, rows, columns))}, upper=int(coin(rng)))


@makes("BatchNormalization")
def _batch_normalization(rng: Draw, kind: str) -> Case:
    shape = shape_of(rng, int(rng.integers(2, 5)))
    vectors = {name: floats(rng, (shape[1],), 0.5, 2.0) for name in ("scale", "bias", "mean", "var")}
    return case(kind, {"x": floats(rng, shape)} | vectors)


@makes("ConstantOfShape", "RandomNormal", "RandomUniform")
def _filled(rng: Draw, kind: str) -> Case:
    """A filled tensor takes nothing; the ones of it that do not are folded or have no inputs."""
    return case("EyeLike", {"x": floats(rng, shape_of(rng, 2))})


@makes("EyeLike", "RandomNormalLike", "RandomUniformLike")
def _filled_like(rng: Draw, kind: str) -> Case:
    seed: dict[str, Any] = {} if kind == "EyeLike" else {"seed": 1.0}
    return case(kind, {"x": floats(rng, shape_of(rng, 2))}, **seed)
