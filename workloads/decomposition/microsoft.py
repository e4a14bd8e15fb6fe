"""Fused operators of onnxruntime (domain com.microsoft) written out as the operators that they are fusions of."""

import string

import numpy as np
from onnx import TensorProto

from dsascape.workloads.decomposition.microsoft_attention import write_projected
from dsascape.workloads.decomposition.writer import MICROSOFT, NodeWriter, decomposed
from dsascape.workloads.operators.registry import UnsupportedOperatorError

_EPSILON = 1e-12


@decomposed(f"{MICROSOFT}::SkipLayerNormalization", f"{MICROSOFT}::SkipSimplifiedLayerNormalization")
def _skip_normalisation(writer: NodeWriter) -> None:
    """Sum of two tensors and a bias, then the normalisation of each token; the sum is a result, too."""
    is_centred = writer.node.op_type == "SkipLayerNormalization"
    scale, shift, bias = 2, 3 if is_centred else None, 4 if is_centred else 3
    total = writer.output(3)
    added = writer.optional(bias)
    summed = writer.op("Add", writer.input(0), writer.input(1), to="" if added else total)
    summed = writer.op("Add", summed, added, to=total) if added else summed
    epsilon = writer.number("epsilon", _EPSILON)
    operands = [summed, writer.input(scale)]
    if shift is not None and writer.optional(shift):
        operands.append(writer.input(shift))
    if writer.output(1) or writer.output(2):
        raise UnsupportedOperatorError("statistics as results are not supported; they serve training")
    kind = "LayerNormalization" if is_centred else "RMSNormalization"
    writer.op(kind, *operands, to=writer.output(0), axis=-1, epsilon=epsilon)


@decomposed("SimplifiedLayerNormalization", f"{MICROSOFT}::SimplifiedLayerNormalization")
def _simplified_normalisation(writer: NodeWriter) -> None:
    """Normalisation by the root mean square."""
    axis, epsilon = int(writer.number("axis", -1)), writer.number("epsilon", 1e-5)
    writer.op("RMSNormalization", writer.input(0), writer.input(1), to=writer.output(0), axis=axis, epsilon=epsilon)


@decomposed(f"{MICROSOFT}::FusedMatMul", f"{MICROSOFT}::TransposeMatMul")
def _fused_product(writer: NodeWriter) -> None:
    """Product of operands that may lie transposed, in their last two dimensions or in the batch, times a factor."""
    left, right = writer.input(0), writer.input(1)
    ranks = [len(writer.shape(name)) for name in (left, right)]
    lead = max(*ranks, 2) - 2
    letters = string.ascii_letters[3 : 3 + lead]
    terms = [
        _term(letters[lead - max(rank - 2, 0) :], rank, sides, batch=batch, turned=turned)
        for rank, sides, batch, turned in (
            (ranks[0], "ab", writer.flag("transBatchA"), writer.flag("transA")),
            (ranks[1], "bc", writer.flag("transBatchB"), writer.flag("transB")),
        )
    ]
    rows = "a" if ranks[0] > 1 else ""
    columns = "c" if ranks[1] > 1 else ""
    alpha = writer.number("alpha", 1)
    target = writer.output(0) if alpha == 1 else ""
    if terms == [_term(letters[lead - max(rank - 2, 0) :], rank, sides, batch=False, turned=False)
                 for rank, sides in zip(ranks, ("ab", "bc"), strict=True)]:  # fmt: skip
        product = writer.op("MatMul", left, right, to=target)
    else:
        product = writer.op(
            "Einsum", left, right, to=target, equation=f"{terms[0]},{terms[1]}->{letters}{rows}{columns}"
        )
    if alpha != 1:
        writer.op("Mul", product, writer.scalar(alpha, writer.element(left)), to=writer.output(0))


def _term(lead: str, rank: int, sides: str, *, batch: bool, turned: bool) -> str:
    """Return the letters of an operand: the batch, then its two sides, as it lies."""
    if rank == 1:
        return "b"
    order = sides[::-1] if turned else sides
    return f"{order[0]}{lead}{order[1]}" if batch else f"{lead}{order}"


@decomposed(f"{MICROSOFT}::BiasGelu", f"{MICROSOFT}::Gelu", f"{MICROSOFT}::FastGelu")
def _gelu(writer: NodeWriter) -> None:
    """Gaussian error linear unit of a sum, exact or by a hyperbolic tangent."""
    data = writer.input(0)
    if writer.optional(1):
        data = writer.op("Add", data, writer.input(1))
    element = writer.element(writer.input(0))
    half, one = writer.scalar(0.5, element), writer.scalar(1, element)
    if writer.node.op_type == "FastGelu":
        cubed = writer.op("Mul", writer.op("Mul", data, data), data)
        inner = writer.op("Mul", cubed, writer.scalar(0.044715, element))
        inner = writer.op("Mul", writer.op("Add", data, inner), writer.scalar(np.sqrt(2 / np.pi), element))
        gate = writer.op("Add", writer.op("Tanh", inner), one)
    else:
        scaled = writer.op("Mul", data, writer.scalar(np.sqrt(0.5), element))
        gate = writer.op("Add", writer.op("Erf", scaled), one)
    writer.op("Mul", writer.op("Mul", data, gate), half, to=writer.output(0))


@decomposed(f"{MICROSOFT}::QuickGelu")
def _quick_gelu(writer: NodeWriter) -> None:
    """Product of x and the sigmoid of alpha x."""
    data = writer.input(0)
    scaled = writer.op("Mul", data, writer.scalar(writer.number("alpha", 1.702), writer.element(data)))
    writer.op("Mul", data, writer.op("Sigmoid", scaled), to=writer.output(0))


@decomposed(f"{MICROSOFT}::QAttention")
def _quantised_attention(writer: NodeWriter) -> None:
    """Attention behind products of whole numbers: sums are scaled, then all is as in floating point."""
    if writer.flag("do_rotary") or writer.flag("past_present_share_buffer"):
        raise UnsupportedOperatorError("rotary embeddings and shared buffers of QAttention are not taken")
    data, weights = writer.input(0), writer.input(1)
    total = writer.shape(weights)[1]
    sizes = [total // 3] * 3
    columns = _thirds(writer, weights, sizes, axis=1)
    scales = _thirds(writer, writer.input(4), sizes, axis=0)
    zeros = _thirds(writer, writer.optional(7), sizes, axis=0)
    own_zero = writer.optional(6)
    products = []
    for own, scale, zero in zip(columns, scales, zeros, strict=True):
        operands = [data, own, own_zero, zero]
        while operands and not operands[-1]:
            operands.pop()
        sums = writer.op("Cast", writer.op("MatMulInteger", *operands), to_=TensorProto.FLOAT)
        factor = writer.op("Mul", writer.input(3), scale)
        products.append(writer.op("Mul", sums, factor))
    write_projected(writer, products, sizes, bias=writer.input(2), mask=writer.optional(5), past=writer.optional(8))


def _thirds(writer: NodeWriter, name: str, sizes: list[int], *, axis: int) -> tuple[str, str, str]:
    """Write the parts of query, key and value of what has as many columns; of what is the same for all, itself."""
    if not name or writer.shape(name)[axis:] != (sum(sizes),):
        return name, name, name
    one, two, three = [writer.fresh(f"part{number}_") for number in range(3)]
    writer.split("Split", name, writer.ints(*sizes), to=(one, two, three), axis=axis)
    return one, two, three
