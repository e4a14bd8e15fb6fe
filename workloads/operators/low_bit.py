"""Products with weights of a few bits, several of which share a byte."""

from collections.abc import Sequence

from dsascape.wording import count
from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Access, Index, Loop, LoopNest, Operations
from dsascape.workloads.operators.access import at, whole
from dsascape.workloads.operators.registry import Lowered, NodeContext, UnsupportedOperatorError, operator

_BYTE = 8
_MAC = Operations(macs=1)


def _shapes(context: NodeContext) -> list[tuple[Sequence[int], str]]:
    data, columns = context.input(0), int(context.attributes["N"])
    if data.shape[-1] != int(context.attributes["K"]):
        has = count(data.shape[-1], "column")
        raise UnsupportedOperatorError(f"{data.name!r} has {has}; K says {context.attributes['K']}")
    return [((*data.shape[:-1], columns), data.dtype)]


@operator("com.microsoft::MatMulNBits", shapes=_shapes, layout="row_major")
def _few_bits(context: NodeContext) -> Lowered:
    """Weights from their bits, a block's scale and zero point, then the product with them.

    As one operator, the weights are made where the product needs them: only their bits come from memory.
    """
    data, packed, scales = (context.input(place) for place in range(3))
    rows, depth = int(context.attributes["N"]), int(context.attributes["K"])
    bits, block = int(context.attributes.get("bits", 4)), int(context.attributes["block_size"])
    if bits not in (2, 4, 8) or context.optional_input(4) is not None:
        raise UnsupportedOperatorError(f"weights of {count(bits, 'bit')}, or in another order, are not supported")
    blocks, each = -(-depth // block), _BYTE // bits
    context.expect(1, rows, blocks, block // each)
    weights = Tensor(f"{context.output.name}:weights", (rows, blocks, block), data.dtype, "activation", (1, 2, 0))
    n, b, k = range(3)
    reads = [
        Access(packed.name, packed.shape, (at(n), at(b), Index(((k, 1),), divisor=each))),
        _of_block(scales, blocks, 1),
    ]
    zero = context.optional_input(3)
    if zero is not None:
        reads.append(_of_block(zero, blocks, 1 if zero.elements == rows * blocks else each))
    loops = (Loop("n", rows), Loop("b", blocks), Loop("k", block))
    widen = LoopNest("widen", loops, tuple(reads), whole(weights, (n, b, k)), per_output=Operations(simple=2))
    return Lowered((widen, _product(context, weights, depth)), (weights,))


def _of_block(tensor: Tensor, blocks: int, each: int) -> Access:
    """Return the access to a block's scale, or to its zero point, of which ``each`` share a byte."""
    if len(tensor.shape) == 1:
        index = Index(((0, -(-blocks // each)),)) if each > 1 else Index(((0, blocks), (1, 1)))
        return Access(tensor.name, tensor.shape, (index,))
    return Access(tensor.name, tensor.shape, (at(0), Index(((1, 1),), divisor=each)))


def _product(context: NodeContext, weights: Tensor, depth: int) -> LoopNest:
    data, output = context.input(0), context.output
    _, blocks, block = weights.shape
    lead = len(output.shape) - 1
    n, b, k = lead, lead + 1, lead + 2
    loops = (
        *(Loop(f"m{dim}", size) for dim, size in enumerate(output.shape[:-1])), Loop("n", output.shape[-1]),
        Loop("b", blocks, reduction=True), Loop("k", min(block, depth), reduction=True),
    )  # fmt: skip
    along = Index(((b, block), (k, 1))) if blocks > 1 else at(k)
    reads = [
        Access(data.name, data.shape, (*(at(dim) for dim in range(lead)), along)),
        Access(weights.name, weights.shape, (at(n), at(b), at(k))),
    ]
    bias = context.optional_input(5)
    if bias is not None:
        reads.append(Access(bias.name, bias.shape, (at(n),)))
    last = Operations(simple=int(bias is not None))
    return LoopNest("product", loops, tuple(reads), whole(output, range(lead + 1)), _MAC, last)
