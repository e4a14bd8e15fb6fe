"""Operators that compute each output element from the inputs' elements at the same place."""

from collections.abc import Sequence

from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Access, LoopNest, Operations
from dsascape.workloads.operators.access import all_of, broadcast, space_loops, whole
from dsascape.workloads.operators.registry import Lowered, NodeContext, UnsupportedOperatorError, operator

_NONE = Operations()
_SIMPLE = Operations(simple=1)
_TWO = Operations(simple=2)
_SPECIAL = Operations(special=1)
_NUMPY_BROADCASTING_OPSET = 7

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
    "Gelu": Operations(simple=4, special=1),
    "Add": _SIMPLE, "Sub": _SIMPLE, "Mul": _SIMPLE, "Div": _SPECIAL, "Pow": _SPECIAL, "Mod": _SPECIAL,
    "And": _SIMPLE, "Or": _SIMPLE, "Xor": _SIMPLE, "BitShift": _SIMPLE, "BitwiseAnd": _SIMPLE,
    "BitwiseOr": _SIMPLE, "BitwiseXor": _SIMPLE, "Equal": _SIMPLE,
    "Greater": _SIMPLE, "Less": _SIMPLE, "GreaterOrEqual": _SIMPLE,
    "LessOrEqual": _SIMPLE, "Where": _SIMPLE,
}  # fmt: skip
"""Arithmetic per output element, from each operator's definition in the ONNX standard."""

_VARIADIC = ("Sum", "Mean", "Max", "Min")


def pointwise(context: NodeContext, per_output: Operations, data: int | None = None) -> LoopNest:
    """Return the nest that reads its inputs broadcast to the output.

    Inputs from position ``data`` on are parameters: not read where their value is known, otherwise read whole in
    every iteration.
    """
    output = context.output
    loops, positions = space_loops(output)
    operands = (t for t in context.inputs[:data] if t is not None)
    reads = [_operand(context, tensor, positions) for tensor in operands]
    if data is not None:
        reads += [all_of(tensor) for tensor in context.unknown(*range(data, len(context.inputs)))]
    return LoopNest(context.kind, loops, tuple(reads), whole(output, positions), per_output=per_output)


def _operand(context: NodeContext, tensor: Tensor, positions: Sequence[int]) -> Access:
    """Return the access to an operand; before opset 7, one of lower rank is aligned to an axis, a slope to channels."""
    shape, rank = context.output.shape, len(tensor.shape)
    if context.opset >= _NUMPY_BROADCASTING_OPSET or rank in (0, len(shape)):
        return broadcast(tensor, positions, shape)
    channels = context.kind == "PRelu" and tensor.elements > 1
    first = context.axis(1 if channels else len(shape) - rank, len(shape))
    return broadcast(tensor, positions[first : first + rank], shape[first : first + rank])


@operator(*(kind for kind in OPERATIONS_PER_ELEMENT if kind not in ("Clip", "CastLike", "Dropout")))
def _elementwise(context: NodeContext) -> Lowered:
    return Lowered((pointwise(context, OPERATIONS_PER_ELEMENT[context.kind]),))


@operator("Clip")
def _clip(context: NodeContext) -> Lowered:
    return Lowered((pointwise(context, OPERATIONS_PER_ELEMENT["Clip"], data=1),))


@operator("CastLike")
def _cast_like(context: NodeContext) -> Lowered:
    """Cast the first input; of the second only the type matters."""
    return Lowered((_first_only(context, OPERATIONS_PER_ELEMENT["CastLike"]),))


@operator("Dropout")
def _dropout(context: NodeContext) -> Lowered:
    """Copy the data, and fill the mask: at inference nothing is dropped."""
    mask = context.optional_output(1)
    nests = [_first_only(context, _NONE)] if context.outputs[0] is not None else []
    return Lowered((*nests, *([] if mask is None else [_fill("mask", mask)])))


@operator(*_VARIADIC)
def _variadic(context: NodeContext) -> Lowered:
    several = max(len(context.inputs) - 1, 1)
    return Lowered((pointwise(context, Operations(simple=several + (context.kind == "Mean"))),))


@operator("Expand")
def _expand(context: NodeContext) -> Lowered:
    return Lowered((_first_only(context, _NONE),))


@operator("Trilu")
def _trilu(context: NodeContext) -> Lowered:
    return Lowered((pointwise(context, _SIMPLE, data=1),))


def _first_only(context: NodeContext, per_output: Operations) -> LoopNest:
    """Return the nest that reads the first input alone."""
    output = context.output
    loops, positions = space_loops(output)
    read = broadcast(context.input(0), positions, output.shape)
    return LoopNest(context.kind, loops, (read,), whole(output, positions), per_output=per_output)


@operator("BatchNormalization")
def _batch_normalization(context: NodeContext) -> Lowered:
    """Multiply by and add per-channel factors, as at inference."""
    if context.flag("training_mode"):
        raise UnsupportedOperatorError("is in training mode; export the network for inference")
    data = context.input(0)
    loops, positions = space_loops(context.output)
    channel = positions[1] if len(data.shape) > 1 else positions[0]
    vectors = (t for t in context.inputs[1:] if t is not None)
    reads = (whole(data, positions), *(whole(vector, (channel,)) for vector in vectors))
    write = whole(context.output, positions)
    return Lowered((LoopNest("BatchNormalization", loops, reads, write, per_output=_TWO),))


@operator(
    "ConstantOfShape", "RandomNormal", "RandomUniform", "EyeLike", "RandomNormalLike", "RandomUniformLike",
    "Range",
)  # fmt: skip
def _filled(context: NodeContext) -> Lowered:
    bounds = (all_of(t) for t in context.unknown(0, 1, 2)) if context.kind == "Range" else ()
    return Lowered((_fill(context.kind, context.output, *bounds),))


def _fill(name: str, output: Tensor, *reads: Access) -> LoopNest:
    """Return the nest that writes ``output`` from nothing but ``reads``."""
    loops, positions = space_loops(output)
    return LoopNest(name, loops, tuple(reads), whole(output, positions))
