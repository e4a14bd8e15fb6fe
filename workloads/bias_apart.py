"""Convolutions without their bias, and its addition as an operator of its own.

Frameworks run it so that call a library for the convolution alone: PyTorch calls cuDNN, then adds.
"""

from dataclasses import replace

from dsascape.workloads.graph import Graph, Op, Tensor
from dsascape.workloads.loopnest import Access, Index, LoopNest, Operations

_KIND = "Conv"
_OPERANDS = 3
"""Operands of a convolution that has a bias: data, weight, bias."""
_ONE = Operations(simple=1)


def with_biases_apart(graph: Graph) -> Graph:
    """Return ``graph`` with an addition behind each convolution that had a bias; the operator's name is the sum's.

    `Graph.with_batch` returns convolutions whole again.
    """
    tensors, ops = dict(graph.tensors), list[Op]()
    for op in graph.ops:
        parts = _parts(op, tensors) if op.kind == _KIND and len(op.nests[0].reads) == _OPERANDS else (op,)
        tensors |= {name: _like(tensors[op.outputs[0]], name) for part in parts[:-1] for name in part.outputs}
        ops += parts
    return replace(graph, ops=tuple(ops), tensors=tensors)


def _like(tensor: Tensor, name: str) -> Tensor:
    return replace(tensor, name=name, role="activation")


def _parts(op: Op, tensors: dict[str, Tensor]) -> tuple[Op, ...]:
    """Return the convolution and the addition; the operator alone where its new tensor's name is taken."""
    nest, name = op.nests[0], f"{op.outputs[0]}:without_bias"
    if name in tensors or len(op.nests) > 1:
        return (op,)
    *operands, bias = nest.reads
    before = replace(
        nest, reads=tuple(operands), write=replace(nest.write, tensor=name),
        per_output=replace(nest.per_output, simple=nest.per_output.simple - 1),
    )  # fmt: skip
    space = [number for number, loop in enumerate(nest.loops) if not loop.reduction]
    new = {old: place for place, old in enumerate(space)}

    def moved(access: Access, tensor: str = "") -> Access:
        indices = [
            replace(index, terms=tuple([(new[loop], stride) for loop, stride in index.terms]))
            for index in access.indices
        ]
        return Access(tensor or access.tensor, access.shape, tuple[Index, ...](indices))

    loops = tuple([nest.loops[old] for old in space])
    adds = LoopNest("Add", loops, (moved(nest.write, name), moved(bias)), moved(nest.write), per_output=_ONE)
    alone = [operand.tensor for operand in operands]
    return (
        Op(f"{op.name}:without_bias", op.kind, tuple(alone), (name,), (before,)),
        Op(op.name, "Add", (name, bias.tensor), op.outputs, (adds,)),
    )
