"""Operators of several products, or with a recurrence, written out as one operator per step.

An attention is a product, a softmax and a product; a recurrent network a product of all inputs at once, then steps
that follow each other. Machines that run whole kernels one after the other run such operators as those kernels.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph, Op, Tensor
from dsascape.workloads.index import Index
from dsascape.workloads.loopnest import Access, Loop, LoopNest, mapping_of


@dataclass(frozen=True)
class WrittenOut:
    """A network with multi-step operators written out, and the operators that each original one became."""

    analysis: Analysis
    ops_of: tuple[tuple[int, ...], ...]

    def ops(self, positions: Sequence[int]) -> tuple[int, ...]:
        """Return the positions of the operators that those at ``positions`` of the original network became."""
        return tuple([op for position in positions for op in self.ops_of[position]])


def written_out(analysis: Analysis, transposed: frozenset[int] = frozenset()) -> WrittenOut:
    """Return the network of ``analysis`` written out; the same analysis where no operator has to be.

    Products of the operators at positions ``transposed`` read transposed copies of operands whose neighbouring columns
    are not contiguous, which no vector loads: an attention's keys are stored row by row, and each row is one column of
    the product.
    """
    graph = analysis.graph
    if not any(map(_has_steps, graph.ops)):
        return WrittenOut(analysis, tuple([(position,) for position in range(len(graph.ops))]))
    ops: list[Op] = []
    tensors = dict(graph.tensors)
    ops_of = []
    for position, op in enumerate(graph.ops):
        first = len(ops)
        if _has_steps(op):
            tensors |= {tensor.name: tensor for tensor in op.internals}
            for step in _steps(op):
                alone, before = _with_exchanged_operand(step, tensors)
                tensors |= {tensor.name: tensor for tensor in before}
                step_op, *transposes = _with_transposed_operands(alone, tensors) if position in transposed else (alone,)
                tensors |= {copy.outputs[0]: _transposed_tensor(tensors[copy.inputs[0]], copy) for copy in transposes}
                ops += [*transposes, step_op]
        else:
            ops.append(op)
        ops_of.append(tuple(range(first, len(ops))))
    ops, constants = _with_split_gates(ops, tensors)
    tensors |= {tensor.name: tensor for tensor in constants}
    kept = {name for op in ops for name in (*op.inputs, *op.outputs)}
    kept |= {name for name, tensor in graph.tensors.items() if tensor.role != "weight"}
    kept_tensors = {name: tensor for name, tensor in tensors.items() if name in kept}
    out = Graph(graph.name, tuple(ops), kept_tensors, graph.inputs, graph.outputs, graph.batch, graph.rebuild)
    return WrittenOut(Analysis(out), tuple(ops_of))


def may_transpose(analysis: Analysis) -> tuple[int, ...]:
    """Return the positions of the operators whose operands `written_out` may transpose."""
    plain = analysis.of(written_out, frozenset())
    every = frozenset(range(len(analysis.graph.ops)))
    if plain.analysis is analysis:
        return ()
    out = analysis.of(written_out, every)
    return tuple([op for op in sorted(every) if len(out.ops_of[op]) > len(plain.ops_of[op])])


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


def _with_transposed_operands(op: Op, tensors: Mapping[str, Tensor]) -> tuple[Op, ...]:
    """Return ``op`` with transposed operands where products would read activations at a stride, and the transposes."""
    turns: dict[str, Op] = {}
    nests = []
    for nest in op.nests:
        reads = list(nest.reads)
        for place, read in enumerate(reads):
            dim = _strided_dim(nest, read, tensors) if mapping_of(nest) == "contraction" else None
            if dim is None:
                continue
            order = [*[each for each in tensors[read.tensor].order if each != dim], dim]
            shape, name = tuple([read.shape[each] for each in order]), f"{op.name}:{read.tensor}:turned"
            loops = tuple([Loop(f"i{number}", size) for number, size in enumerate(shape)])
            own = tuple([Index(((order.index(each), 1),)) for each in range(len(shape))])
            write = Access(name, shape, tuple([Index(((number, 1),)) for number in range(len(shape))]))
            copy = LoopNest("turn", loops, (Access(read.tensor, read.shape, own),), write)
            turns[name] = Op(f"{op.name}:turn{len(turns)}", "Transpose", (read.tensor,), (name,), (copy,))
            reads[place] = Access(name, shape, tuple([read.indices[each] for each in order]))
        nests.append(replace(nest, reads=tuple(reads)))
    if not turns:
        return (op,)
    written = {nest.write.tensor for nest in nests}
    inputs = dict.fromkeys([read.tensor for nest in nests for read in nest.reads if read.tensor not in written])
    return (replace(op, nests=tuple(nests), inputs=tuple(inputs)), *turns.values())


def _transposed_tensor(tensor: Tensor, turn: Op) -> Tensor:
    return Tensor(turn.outputs[0], turn.nests[0].write.shape, tensor.dtype, "activation")


def _strided_dim(nest: LoopNest, read: Access, tensors: Mapping[str, Tensor]) -> int | None:
    """Return the dimension of an activation that neighbouring results step along; None if it is contiguous."""
    written, tensor = nest.write, tensors[read.tensor]
    if tensor.role == "weight":
        return None
    inner = next((dim for dim in reversed(tensors[written.tensor].order) if written.shape[dim] > 1), None)
    last = next((dim for dim in reversed(tensor.order) if tensor.shape[dim] > 1), None)
    if inner is None or len(written.indices[inner].terms) != 1:
        return None
    along = Index(written.indices[inner].terms)
    dims = [dim for dim, index in enumerate(read.indices) if index == along]
    return dims[0] if along.terms[0][1] == 1 and dims and dims[0] != last else None


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
