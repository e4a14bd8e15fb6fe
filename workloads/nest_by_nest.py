"""Operators of several products, or with a recurrence, written out as one operator per step; copied operands.

A recurrent network is a product of all inputs at once, then steps that follow each other. Machines that run whole
kernels one after the other run such operators as those kernels. A product may also get copies of its operands that
vectors load (`workloads.turned_operands`).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Op, Tensor
from dsascape.workloads.index import Index
from dsascape.workloads.loopnest import Access, LoopNest
from dsascape.workloads.mapping import mapping_of
from dsascape.workloads.patches import fits as has_patches
from dsascape.workloads.patches import written_as_patches
from dsascape.workloads.turned_operands import has_operands_to_turn, with_turned_operands
from dsascape.workloads.winograd.accuracy import sizes_of
from dsascape.workloads.winograd.operators import fits as has_winograd
from dsascape.workloads.winograd.operators import written_as_winograd

PATCHES = 1
"""Algorithm of a convolution as a product over patches of its data (`workloads.patches`)."""
Algorithms = frozenset[tuple[int, int]]
"""Convolutions that are not computed directly: position of the operator, and how.

Either `PATCHES`, or results along each side of the tiles of Winograd's algorithm (`workloads.winograd`).
"""


def algorithms_of(
    op: Op, tensors: Mapping[str, Tensor], dtype: str, most: int, *, is_coarse: bool = False
) -> tuple[int, ...]:
    """Return how a convolution may be computed besides directly, up to the algorithm ``most``; of other operators none.

    ``dtype`` is that of its numbers, which says what rounding errors are small enough; ``is_coarse``: those that some
    libraries accept are (`workloads.winograd.accuracy`).
    """
    tried = (*((PATCHES,) if most >= PATCHES else ()), *sizes_of(dtype, most, is_coarse=is_coarse))
    return tuple([algorithm for algorithm in tried if has_algorithm(op, tensors, algorithm)])


def has_algorithm(op: Op, tensors: Mapping[str, Tensor], algorithm: int) -> bool:
    """Whether ``op`` is a convolution that ``algorithm`` can compute, whatever its rounding errors."""
    return has_patches(op, tensors) if algorithm == PATCHES else has_winograd(op, tensors)


@dataclass(frozen=True)
class WrittenOut:
    """A network with multi-step operators written out, and the operators that each original one became."""

    analysis: Analysis
    ops_of: tuple[tuple[int, ...], ...]
    copies: frozenset[int] = frozenset()
    """Operators of the network written out that copy operands of products."""

    def ops(self, positions: Sequence[int]) -> tuple[int, ...]:
        """Return the positions of the operators that those at ``positions`` of the original network became."""
        return tuple([op for position in positions for op in self.ops_of[position]])


def written_out(
    analysis: Analysis, transposed: frozenset[int] = frozenset(), algorithms: Algorithms = frozenset()
) -> WrittenOut:
    """Return the network of ``analysis`` written out; the same analysis where no operator has to be.

    Products of the operators at positions ``transposed`` read copies of operands that no vector loads as they lie. The
    convolutions of ``algorithms`` are copies or transforms, and products.
    """
    graph = analysis.graph
    if not transposed and not algorithms and not any(map(_has_steps, graph.ops)):
        return WrittenOut(analysis, tuple([(position,) for position in range(len(graph.ops))]))
    ops: list[Op] = []
    tensors = dict(graph.tensors)
    ops_of = []
    copied: set[str] = set()
    algorithm_of = dict(algorithms)
    for position, op in enumerate(graph.ops):
        first = len(ops)
        if position in algorithm_of:
            algorithm = algorithm_of[position]
            if algorithm == PATCHES:
                parts, made = written_as_patches(op, tensors)
            else:
                parts, made = written_as_winograd(op, tensors, algorithm)
            tensors |= {tensor.name: tensor for tensor in made}
            ops += parts
        elif _has_steps(op):
            tensors |= {tensor.name: tensor for tensor in op.internals}
            for step in _steps(op):
                alone, before = _with_exchanged_operand(step, tensors)
                tensors |= {tensor.name: tensor for tensor in before}
                if position in transposed:
                    alone, copies, made = with_turned_operands(alone, tensors)
                    tensors |= {tensor.name: tensor for tensor in made}
                    ops += copies
                    copied |= {copy.name for copy in copies}
                ops.append(alone)
        elif position in transposed:
            product, copies, made = with_turned_operands(op, tensors)
            tensors |= {tensor.name: tensor for tensor in made}
            ops += [*copies, product]
            copied |= {copy.name for copy in copies}
        else:
            ops.append(op)
        ops_of.append(tuple(range(first, len(ops))))
    ops, constants = _with_split_gates(ops, tensors)
    tensors |= {tensor.name: tensor for tensor in constants}
    kept = {name for op in ops for name in (*op.inputs, *op.outputs)} | graph.unlisted
    kept |= {name for name, tensor in graph.tensors.items() if tensor.role != "weight"}
    kept_tensors = {name: tensor for name, tensor in tensors.items() if name in kept}
    out = replace(graph, ops=tuple(ops), tensors=kept_tensors)
    are_copies = frozenset([place for place, op in enumerate(ops) if op.name in copied])
    return WrittenOut(Analysis(out, made_of=analysis), tuple(ops_of), are_copies)


def may_transpose(analysis: Analysis) -> tuple[int, ...]:
    """Return the positions of the operators whose operands `written_out` may transpose."""
    graph = analysis.graph
    products = frozenset([
        position for position, op in enumerate(graph.ops) if _has_steps(op) or has_operands_to_turn(op, graph.tensors)
    ])
    if not products:
        return ()
    plain, out = analysis.of(written_out, frozenset()), analysis.of(written_out, products)
    return tuple([op for op in sorted(products) if len(out.ops_of[op]) > len(plain.ops_of[op])])


def _has_steps(op: Op) -> bool:
    products = [nest for nest in op.nests if mapping_of(nest) == "contraction"]
    return bool(products[1:]) or any(nest.exchanged for nest in op.nests)


def _steps(op: Op) -> Iterator[Op]:
    """Yield the steps of ``op``: each product, and the nests between two products, grouped by result."""
    groups: list[list[LoopNest]] = []
    is_open = False
    for nest in op.nests:
        is_product = mapping_of(nest) == "contraction"
        of_same = bool(groups) and groups[-1][-1].write.tensor == nest.write.tensor
        written_before = {each.write.tensor for each in groups[-1]} if groups else set()
        follows = is_open and not is_product and any(read.tensor in written_before for read in nest.reads)
        if of_same or follows:
            groups[-1].append(nest)
        else:
            groups.append([nest])
        is_open = not is_product and nest.write.tensor not in op.outputs
    internals = {tensor.name for tensor in op.internals}
    for number, group in enumerate(groups):
        written = list(dict.fromkeys([nest.write.tensor for nest in group]))
        elsewhere = {read.tensor for other in groups if other is not group for nest in other for read in nest.reads}
        outputs = tuple([name for name in written if name not in internals or name in elsewhere])
        inside = tuple([tensor for tensor in op.internals if tensor.name in written and tensor.name not in outputs])
        inputs = dict.fromkeys([read.tensor for nest in group for read in nest.reads if read.tensor not in written])
        yield Op(f"{op.name}:{group[0].name}{number}", op.kind, tuple(inputs), outputs, tuple(group), inside)


def _with_split_gates(ops: Sequence[Op], tensors: Mapping[str, Tensor]) -> tuple[list[Op], list[Tensor]]:
    """Return ``ops`` with dimensions of constants split into one per loop that traverses them, and the new constants.

    The weight rows of a recurrence hold all gates, one after the other, and a tile of units needs a piece of each gate;
    each direction has weights of its own. Only constants that every reader traverses in the same way are changed.
    """
    readers: dict[str, list[tuple[LoopNest, Access]]] = {}
    for op in ops:
        for nest in op.nests:
            for read in nest.reads:
                readers.setdefault(read.tensor, []).append((nest, read))
    split: dict[str, Tensor] = {}
    changed: set[str] = set()
    for name, uses in readers.items():
        if name not in tensors:  # what nests of one operator pass to each other
            continue
        tensor, accesses = tensors[name], {_split_access(nest, read) for nest, read in uses}
        shapes = {each.tensor: each.shape for each in accesses}
        is_plain = tensor.role == "weight" and tensor.order == tuple(range(len(tensor.shape)))
        is_consistent = len({(each.tensor, each.shape) for each in accesses}) == len(shapes)
        if is_plain and is_consistent and all(nest.carried for nest, _ in uses) and tensors.keys() & shapes <= {name}:
            changed.add(name)
            split |= {part: Tensor(part, shape, tensor.dtype, "weight") for part, shape in shapes.items()}
    changed_ops = []
    for op in ops:
        nests = tuple([
            replace(nest, reads=tuple([_split_access(nest, r) if r.tensor in changed else r for r in nest.reads]))
            for nest in op.nests
        ])  # fmt: skip
        names = dict.fromkeys([read.tensor for nest in nests for read in nest.reads])
        inside = {*op.outputs, *(tensor.name for tensor in op.internals)}
        inputs = tuple([name for name in names if name not in inside]) if nests != op.nests else op.inputs
        changed_ops.append(replace(op, nests=nests, inputs=inputs))
    return changed_ops, list(split.values())


def _split_access(nest: LoopNest, read: Access) -> Access:
    """Return ``read`` with dimensions that several loops traverse together split into one dimension per loop.

    Where the index of a dimension is constant, that slice becomes a tensor of its own.
    """
    name, shape, indices = read.tensor, list[int](), list[Index]()
    for index, size in zip(read.indices, read.shape, strict=True):
        terms = sorted(index.terms, key=lambda term: -term[1])
        extents = [nest.loops[loop].extent for loop, _ in terms]
        strides = [math.prod(extents[place + 1 :]) for place in range(len(extents))]
        is_plain = index == Index(index.terms) and [stride for _, stride in terms] == strides
        if len(terms) > 1 and is_plain and math.prod(extents) == size:
            shape += extents
            indices += [Index(((loop, 1),)) for loop, _ in terms]
        elif size > 1 and index == Index(offset=index.offset):
            name += f"[{index.offset}]"
            shape.append(1)
            indices.append(Index())
        else:
            shape.append(size)
            indices.append(index)
    return Access(name, tuple(shape), tuple(indices))


def _with_exchanged_operand(op: Op, tensors: dict[str, Tensor]) -> tuple[Op, tuple[Tensor, ...]]:
    """Return a recurrence that reads exchanged results of the step before as an operand, and that operand's tensor."""
    (nest, *more) = op.nests
    carried = nest.carried
    if more or carried is None or not nest.exchanged:
        return op, ()
    written = tensors[nest.write.tensor]
    ordered = dict(nest.ordered)
    along = [any(loop in ordered for loop, _ in index.terms) for index in nest.write.indices]
    shape = tuple([1 if runs else size for runs, size in zip(along, written.shape, strict=True)])
    before = Tensor(f"{written.name}:before", shape, written.dtype, "weight", written.order)
    indices = [Index() if runs else index for runs, index in zip(along, carried.indices, strict=True)]
    kept = [was if runs else own for runs, was, own in zip(along, carried.indices, nest.write.indices, strict=True)]
    step = replace(
        nest, reads=(Access(before.name, shape, tuple(indices)), *nest.reads),
        carried=Access(written.name, written.shape, tuple(kept)),
    )  # fmt: skip
    return replace(op, inputs=(before.name, *op.inputs), nests=(step,)), (before,)
