"""Conversion between floating-point numbers and integers with a scale: per tensor, per axis or per block."""

from collections.abc import Sequence

from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Access, Index, LoopNest, Operations
from dsascape.workloads.operators.access import at, space_loops, whole
from dsascape.workloads.operators.registry import Lowered, NodeContext, operator

_PER_ELEMENT = {"QuantizeLinear": Operations(simple=3, special=1), "DequantizeLinear": Operations(simple=2)}
_BY_CONSTANT = Operations(simple=4)
"""Operations of a quantisation whose scale is a constant: a multiplication takes the place of the division."""


@operator("QuantizeLinear", "DequantizeLinear")
def _scaled(context: NodeContext) -> Lowered:
    data, output = context.input(0), context.output
    loops, positions = space_loops(output)
    reads = [whole(data, positions)]
    unknown = context.unknown(1, 2)
    parameters = [tensor for place in (1, 2) if (tensor := context.optional_input(place)) is not None]
    reads += [_scale(context, each, positions) for each in parameters if each.elements > 1 or each in unknown]
    is_constant = context.kind == "QuantizeLinear" and context.input(1).role == "weight"
    work = _BY_CONSTANT if is_constant else _PER_ELEMENT[context.kind]
    return Lowered((LoopNest(context.kind, loops, tuple(reads), whole(output, positions), per_output=work),))


def _scale(context: NodeContext, tensor: Tensor, positions: Sequence[int]) -> Access:
    """Return the access to a scale or zero point: one value, one per element or block of the axis."""
    block = int(context.attributes.get("block_size", 0))
    rank = len(context.input(0).shape)
    if tensor.elements == 1 and not (block and len(tensor.shape) == rank):
        return Access(tensor.name, tensor.shape, (Index(),) * len(tensor.shape))
    axis = context.axis(1)
    if len(tensor.shape) == 1 and not (block and rank == 1):
        return Access(tensor.name, tensor.shape, (at(positions[axis]),))
    indices = [at(loop) for loop in positions]
    indices[axis] = Index(((positions[axis], 1),), divisor=block or 1)
    return Access(tensor.name, tensor.shape, tuple(indices))
