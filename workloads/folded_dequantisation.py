"""Dequantisation folded into the products that it feeds, as runtimes compute quantised networks.

A product of two dequantised operands multiplies the stored numbers, and scales each of its sums: the two scales, and
the zero points' share of the sum (which is constant for weights), are two operations for each result. A product of one
dequantised operand widens the numbers where it loads them: they come from memory as they are stored.

Jacob et al., "Quantization and training of neural networks for efficient integer-arithmetic-only inference", CVPR 2018,
section 2.2, has the arithmetic of the former.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph, Op, Tensor
from dsascape.workloads.index import Index
from dsascape.workloads.loopnest import Access, LoopNest, Operations, mapping_of
from dsascape.workloads.operand_dtypes import QUANTISED

DEQUANTISE = "DequantizeLinear"
PRODUCTS = frozenset({"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum"})
"""Operators of whose operands, the first two inputs, an importer keeps the dequantisation."""
_SCALE = Operations(simple=2)
"""Of each sum: its zero points' share is subtracted, and it is multiplied by both scales."""
_OPERANDS = 2


def with_dequantisation_folded(analysis: Analysis) -> Analysis:
    """Return the network with its dequantised products folded; the same analysis where it has none."""
    graph = graph_with_dequantisation_folded(analysis.graph)
    return analysis if graph is analysis.graph else Analysis(graph)


def graph_with_dequantisation_folded(graph: Graph) -> Graph:
    """Return ``graph`` with every dequantisation folded into the products that read it; itself where there is none.

    A dequantisation that others read too, or whose result leaves the network, stays for these.
    """
    made = {op.outputs[0]: op for op in graph.ops if _is_dequantisation(op, graph.tensors)}
    ops = [_folded(op, made, graph.tensors) if made else op for op in graph.ops]
    if all(new is old for new, old in zip(ops, graph.ops, strict=True)):
        return graph
    read = {name for op in ops for name in op.inputs} | set(graph.outputs)
    unread = {name for name in made if name not in read}
    kept = tuple([op for op in ops if op.outputs[0] not in unread])
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name not in unread}
    return replace(graph, ops=kept, tensors=tensors, rebuild=None)


def _is_dequantisation(op: Op, tensors: Mapping[str, Tensor]) -> bool:
    return op.kind == DEQUANTISE and len(op.nests) == 1 and op.nests[0].reads[0].tensor in tensors


@dataclass(frozen=True, slots=True)
class _Operand:
    """A dequantised operand of a product."""

    maker: LoopNest
    """Dequantisation."""
    read: Access
    """Product's access to its result."""

    @property
    def stored(self) -> Access:
        """Access of the product to the numbers as they are stored."""
        return Access(self.maker.reads[0].tensor, self.read.shape, self.read.indices)

    def parameters(self) -> tuple[Access, ...] | None:
        """Return the product's accesses to scale and zero point; None where these change within what it adds up."""
        place = {index.terms[0][0]: dim for dim, index in enumerate(self.maker.write.indices) if index.terms}
        found = []
        for access in self.maker.reads[1:]:
            indices = [self._index(index, place) for index in access.indices]
            if any(index is None for index in indices):
                return None
            found.append(Access(access.tensor, access.shape, tuple([each for each in indices if each is not None])))
        return tuple(found)

    def _index(self, index: Index, place: Mapping[int, int]) -> Index | None:
        if not index.terms:
            return index
        own = self.read.indices[place[index.terms[0][0]]]
        is_plain = len(index.terms) == 1 and own.divisor == own.window == 1 and not own.opaque
        return replace(own, divisor=index.divisor) if is_plain else None


def _folded(op: Op, made: Mapping[str, Op], tensors: Mapping[str, Tensor]) -> Op:
    """Return ``op`` with the dequantisation of its operands folded in; itself if it is no product of any."""
    nest = op.nests[0]
    is_product = len(op.nests) == 1 and mapping_of(nest) == "contraction" and len(nest.reads) >= _OPERANDS
    if not is_product or nest.carried is not None:
        return op
    operands = [_Operand(made[read.tensor].nests[0], read) if read.tensor in made else None for read in nest.reads]
    if not any(operands):
        return op
    left, right, *others = operands
    whole = _multiplied_as_stored(nest, left, right, tensors) if left and right else None
    rest: list[LoopNest] = []
    internals: list[Tensor] = []
    if whole is None:
        whole = nest
        for number, operand in enumerate((left, right)):
            if operand is not None:
                whole = _widened(op, whole, number, operand, tensors, rest, internals)
    for number, operand in enumerate(others, start=_OPERANDS):  # a bias
        if operand is not None:
            whole = _widened(op, whole, number, operand, tensors, rest, internals)
    inputs = dict.fromkeys([own for name in op.inputs for own in (made[name].inputs if name in made else (name,))])
    return replace(op, inputs=tuple(inputs), nests=(*rest, whole), internals=tuple(internals))


def _multiplied_as_stored(
    nest: LoopNest, left: _Operand, right: _Operand, tensors: Mapping[str, Tensor]
) -> LoopNest | None:
    """Return the product of the stored numbers, whose sums are scaled; None where scales differ within a sum."""
    parameters = left.parameters(), right.parameters()
    stored = left.stored, right.stored
    if None in parameters or any(tensors[access.tensor].dtype not in QUANTISED for access in stored):
        return None
    added = [access for each in parameters for access in each or ()]
    if any(loop.reduction and loop.extent > 1 and access.uses(place)
           for access in added for place, loop in enumerate(nest.loops)):  # fmt: skip
        return None
    reads = (*stored, *nest.reads[_OPERANDS:], *added)
    return replace(nest, reads=reads, per_output=nest.per_output + _SCALE)


def _widened(
    op: Op, product: LoopNest, number: int, operand: _Operand, tensors: Mapping[str, Tensor],
    nests: list[LoopNest], internals: list[Tensor],
) -> LoopNest:  # fmt: skip
    """Return ``product`` with an operand that it widens for itself; append the nest that does, and its result."""
    before = tensors[operand.read.tensor]
    name = f"{op.name}:{number}:{before.name}"
    internals.append(replace(before, name=name, role="activation"))
    nests.append(replace(operand.maker, write=replace(operand.maker.write, tensor=name)))
    return replace(product, reads=_with_read(product.reads, number, replace(operand.read, tensor=name)))


def _with_read(reads: Sequence[Access], number: int, read: Access) -> tuple[Access, ...]:
    return (*reads[:number], read, *reads[number + 1 :])
