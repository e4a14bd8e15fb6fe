"""Dequantisation folded into the products that it feeds, as runtimes compute quantised networks.

A product of two dequantised operands multiplies the stored numbers, and scales each of its sums: the two scales, and
the zero points' share of the sum (which is constant for weights), are two operations for each result. A product of one
dequantised operand widens the numbers where it loads them: they come from memory as they are stored.

Jacob et al., "Quantization and training of neural networks for efficient integer-arithmetic-only inference", CVPR 2018,
section 2.2, has the arithmetic of the former.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph, Op, Tensor
from dsascape.workloads.loopnest import Access, LoopNest, Operations
from dsascape.workloads.mapping import mapping_of
from dsascape.workloads.operand_dtypes import QUANTISED

DEQUANTISE = "DequantizeLinear"
TRANSPOSE = "Transpose"
PRODUCTS = frozenset({"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum"})
"""Operators of whose operands, the first two inputs, an importer keeps the dequantisation."""
_SCALE = Operations(simple=2)
"""Operations for each sum: subtraction of the zero points' share, and multiplication by both scales."""
_OPERANDS = 2


class Node(Protocol):
    """Node of an ONNX file."""

    op_type: str

    @property
    def input(self) -> Sequence[str]:
        """Names of its inputs."""

    @property
    def output(self) -> Sequence[str]:
        """Names of its outputs."""


def operands_of_products(nodes: Iterable[Node]) -> frozenset[str]:
    """Return the tensors that products among ``nodes`` read as operands, directly or transposed."""
    turned, operands = dict[str, str](), set[str]()
    for node in nodes:
        if node.op_type in PRODUCTS:
            operands.update(node.input[:_OPERANDS])
        elif node.op_type == TRANSPOSE:
            turned[node.output[0]] = node.input[0]
    return frozenset(operands | {before for after, before in turned.items() if after in operands})


def with_dequantisation_folded(analysis: Analysis) -> Analysis:
    """Return the network with its dequantised products folded; the same analysis where it has none."""
    graph = graph_with_dequantisation_folded(analysis.graph)
    return analysis if graph is analysis.graph else Analysis(graph, made_of=analysis)


def graph_with_dequantisation_folded(graph: Graph) -> Graph:
    """Return ``graph`` with every dequantisation folded into the products that read it; itself where there is none.

    A dequantisation that others read too, or whose result leaves the network, stays for these.
    """
    made = {op.outputs[0]: op for op in graph.ops if op.kind == DEQUANTISE and len(op.nests) == 1}
    turned = {op.outputs[0]: op for op in graph.ops if op.kind == TRANSPOSE and op.inputs[0] in made}
    ops = [_folded(op, made, turned, graph.tensors) if made else op for op in graph.ops]
    if all(new is old for new, old in zip(ops, graph.ops, strict=True)):
        return graph
    unread: set[str] = set()
    for passed_on in (turned, made):
        read = {name for op in ops if op.outputs[0] not in unread for name in op.inputs} | {*graph.outputs}
        unread |= passed_on.keys() - read
    kept = tuple([op for op in ops if op.outputs[0] not in unread])
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name not in unread}
    return replace(graph, ops=kept, tensors=tensors, rebuild=None)


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
        found = [_passed_on(access, self.maker, self.read) for access in self.maker.reads[1:]]
        return None if None in found else tuple([access for access in found if access is not None])


def _passed_on(access: Access, maker: LoopNest, read: Access) -> Access | None:
    """Return the access to what ``maker`` reads through ``access``, of a reader of its result; None if not affine."""
    place = {index.terms[0][0]: dim for dim, index in enumerate(maker.write.indices) if index.terms}
    indices = []
    for index in access.indices:
        if not index.terms:
            indices.append(index)
            continue
        own = read.indices[place[index.terms[0][0]]]
        if len(index.terms) > 1 or own.divisor != 1 or own.window != 1 or own.opaque:
            return None
        indices.append(replace(own, divisor=index.divisor))
    return Access(access.tensor, access.shape, tuple(indices))


def _operand(read: Access, made: Mapping[str, Op], turned: Mapping[str, Op]) -> _Operand | None:
    """Return the dequantised operand behind ``read``, be it transposed in between; None if it is none."""
    if read.tensor in turned:
        nest = turned[read.tensor].nests[0]
        before = _passed_on(nest.reads[0], nest, read)
        return None if before is None else _operand(before, made, {})
    return _Operand(made[read.tensor].nests[0], read) if read.tensor in made else None


def _folded(op: Op, made: Mapping[str, Op], turned: Mapping[str, Op], tensors: Mapping[str, Tensor]) -> Op:
    """Return ``op`` with the dequantisation of its operands folded in; itself if it is no product of any."""
    nest = op.nests[0]
    is_product = len(op.nests) == 1 and mapping_of(nest) == "contraction" and len(nest.reads) >= _OPERANDS
    if not is_product or nest.carried is not None:
        return op
    operands = [_operand(read, made, turned) for read in nest.reads]
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
    read_before = {each.tensor: operand for each, operand in zip(nest.reads, operands, strict=True) if operand}
    inputs = dict.fromkeys([
        own for name in op.inputs
        for own in (made[read_before[name].read.tensor].inputs if name in read_before else (name,))
    ])  # fmt: skip
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
