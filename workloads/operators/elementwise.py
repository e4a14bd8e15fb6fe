"""Operators that compute each output element from the inputs' elements at the same place."""

from workloads.loopnest import LoopNest, Operations
from workloads.operators.registry import (
    Lowered,
    NodeContext,
    broadcast,
    operator,
    space_loops,
    whole,
)

_NONE = Operations()
_SIMPLE = Operations(simple=1)
_TWO = Operations(simple=2)
_SPECIAL = Operations(special=1)

OPERATIONS_PER_ELEMENT: dict[str, Operations] = {
    "Identity": _NONE, "Dropout": _NONE, "Cast": _SIMPLE, "CastLike": _SIMPLE, "BitCast": _NONE,
    "Relu": _SIMPLE, "Clip": _TWO, "LeakyRelu": _TWO, "PRelu": _TWO, "ThresholdedRelu": _TWO, "Shrink": _TWO,
    "Neg": _SIMPLE, "Abs": _SIMPLE, "Sign": _SIMPLE, "Floor": _SIMPLE, "Ceil": _SIMPLE, "Round": _SIMPLE,
    "Not": _SIMPLE, "BitwiseNot": _SIMPLE, "IsNaN": _SIMPLE, "IsInf": _SIMPLE,
    "Exp": _SPECIAL, "Log": _SPECIAL, "Sqrt": _SPECIAL, "Reciprocal": _SPECIAL, "Erf": _SPECIAL,
    "Sin": _SPECIAL, "Cos": _SPECIAL, "Tan": _SPECIAL, "Asin": _SPECIAL, "Acos": _SPECIAL, "Atan": _SPECIAL,
    "Sinh": _SPECIAL, "Cosh": _SPECIAL, "Asinh": _SPECIAL, "Acosh": _SPECIAL, "Atanh": _SPECIAL,
    "Tanh": _SPECIAL,
    "Sigmoid": Operations(simple=1, special=2), "Softplus": Operations(simple=1, special=2),
    "Softsign": Operations(simple=2, special=1), "HardSigmoid": Operations(simple=4),
    "HardSwish": Operations(simple=5), "Swish": Operations(simple=2, special=2),
    "Elu": Operations(simple=3, special=1), "Selu": Operations(simple=4, special=1),
    "Celu": Operations(simple=3, special=2), "Mish": Operations(simple=2, special=3),
    "Gelu": Operations(simple=4, special=1), "QuickGelu": Operations(simple=3, special=2),
    "Add": _SIMPLE, "Sub": _SIMPLE, "Mul": _SIMPLE, "Div": _SPECIAL, "Pow": _SPECIAL, "Mod": _SPECIAL,
    "And": _SIMPLE, "Or": _SIMPLE, "Xor": _SIMPLE, "BitShift": _SIMPLE, "BitwiseAnd": _SIMPLE,
    "BitwiseOr": _SIMPLE, "BitwiseXor": _SIMPLE, "Equal": _SIMPLE,
    "Greater": _SIMPLE, "Less": _SIMPLE, "GreaterOrEqual": _SIMPLE,
    "LessOrEqual": _SIMPLE, "Where": _SIMPLE,
}  # fmt: skip
"""Arithmetic per output element, from each operator's definition in the ONNX standard."""

_VARIADIC = ("Sum", "Mean", "Max", "Min")
_PARAMETERS_BEHIND = {"Dropout": 1, "Clip": 1, "CastLike": 1}
"""Operators whose inputs from this position on are parameters, not data."""


def pointwise(context: NodeContext, per_output: Operations, arguments: int | None = None) -> Lowered:
    """Return the nest that reads the first ``arguments`` inputs (all by default), broadcast to the output."""
    loops, positions = space_loops(context.output)
    reads = tuple(
        broadcast(tensor, positions, context.output.shape)
        for tensor in context.inputs[:arguments]
        if tensor is not None
    )
    write = whole(context.output, positions)
    return Lowered((LoopNest(context.kind, loops, reads, write, per_output=per_output),))


@operator(*OPERATIONS_PER_ELEMENT)
def _elementwise(context: NodeContext) -> Lowered:
    return pointwise(context, OPERATIONS_PER_ELEMENT[context.kind], _PARAMETERS_BEHIND.get(context.kind))


@operator(*_VARIADIC)
def _variadic(context: NodeContext) -> Lowered:
    several = max(len(context.inputs) - 1, 1)
    return pointwise(context, Operations(simple=several + (context.kind == "Mean")))


@operator("Expand")
def _expand(context: NodeContext) -> Lowered:
    return pointwise(context, _NONE, arguments=1)


@operator("BatchNormalization")
def _batch_normalization(context: NodeContext) -> Lowered:
    """At inference: one multiplication and one addition with per-channel factors."""
    data = context.input(0)
    loops, positions = space_loops(context.output)
    channel = positions[1] if len(data.shape) > 1 else positions[0]
    vectors = (t for t in context.inputs[1:] if t is not None)
    reads = (whole(data, positions), *(whole(vector, (channel,)) for vector in vectors))
    nest = LoopNest("BatchNormalization", loops, reads, whole(context.output, positions), per_output=_TWO)
    return Lowered((nest,))


@operator(
    "ConstantOfShape", "RandomNormal", "RandomUniform", "EyeLike", "RandomNormalLike", "RandomUniformLike"
)
def _filled(context: NodeContext) -> Lowered:
    loops, positions = space_loops(context.output)
    return Lowered((LoopNest(context.kind, loops, (), whole(context.output, positions)),))


@operator("Trilu")
def _trilu(context: NodeContext) -> Lowered:
    return pointwise(context, _SIMPLE, arguments=1)
