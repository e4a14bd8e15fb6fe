"""Copies of a product's operands in an order that vectors load: transposed, or with the lines of each head together.

An attention's keys are stored row by row, and each row is one column of the product: no vector loads neighbouring
columns. Where heads are packed into one dimension, the lines of a head lie between those of all others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dsascape.workloads.graph import Op, Tensor
from dsascape.workloads.index import Index, overlaps
from dsascape.workloads.loopnest import Access, Loop, LoopNest
from dsascape.workloads.mapping import mapping_of

Tensors = Mapping[str, Tensor]


def has_operands_to_turn(op: Op, tensors: Tensors) -> bool:
    """Whether some product of ``op`` reads an activation of the network in an order that vectors do not load."""
    return any(
        all(each.tensor in tensors for each in (*nest.reads, nest.write)) and _orders(nest, tensors)
        for nest in op.nests
    )  # fmt: skip


def with_turned_operands(op: Op, tensors: Tensors) -> tuple[Op, tuple[Op, ...], tuple[Tensor, ...]]:
    """Return ``op`` with products that read turned copies, the operators that make these, and the copies."""
    made: dict[str, tuple[Op, Tensor]] = {}
    nests = []
    for nest in op.nests:
        reads = list(nest.reads)
        for place, orders in _orders(nest, tensors).items():
            for order in orders:
                copy, tensor = _copy(op, reads[place], order, tensors, len(made))
                copy, tensor = made.setdefault(tensor.name, (copy, tensor))
                moved = [reads[place].indices[dim] for dim in order]
                reads[place] = Access(tensor.name, tensor.shape, tuple(moved))
                tensors = {**tensors, tensor.name: tensor}
        nests.append(replace(nest, reads=tuple(reads)))
    written = {nest.write.tensor for nest in nests}
    inputs = dict.fromkeys([read.tensor for nest in nests for read in nest.reads if read.tensor not in written])
    turned = replace(op, nests=tuple(nests), inputs=tuple(inputs)) if made else op
    return turned, tuple([copy for copy, _ in made.values()]), tuple([tensor for _, tensor in made.values()])


def _copy(op: Op, read: Access, order: Sequence[int], tensors: Tensors, number: int) -> tuple[Op, Tensor]:
    """Return the operator that copies a tensor with its dimensions in ``order``, and the copy."""
    source = tensors[read.tensor]
    shape, name = tuple([read.shape[dim] for dim in order]), f"{op.name}:{read.tensor}:turned"
    loops = tuple([Loop(f"i{place}", size) for place, size in enumerate(shape)])
    own = tuple([Index(((list(order).index(dim), 1),)) for dim in range(len(shape))])
    write = Access(name, shape, tuple([Index(((place, 1),)) for place in range(len(shape))]))
    nest = LoopNest("turn", loops, (Access(read.tensor, read.shape, own),), write)
    copy = Op(f"{op.name}:turn{number}", "Transpose", (read.tensor,), (name,), (nest,))
    return copy, Tensor(name, shape, source.dtype, "activation")


def _orders(nest: LoopNest, tensors: Tensors) -> dict[int, tuple[tuple[int, ...], ...]]:
    """Return, by the place of the read, the orders of dimensions that copies of an operand bring it into, in turn.

    Operands that are strided are transposed; only where there are none, lines that lie apart are put together. What
    needs both gets two copies, as a transposition of lines that lie apart takes each line of a cache many times.
    """
    if mapping_of(nest) != "contraction":
        return {}
    found: dict[int, tuple[tuple[int, ...], ...]] = {}
    moved: dict[int, tuple[tuple[int, ...], ...]] = {}
    for place, read in enumerate(nest.reads):
        tensor = tensors[read.tensor]
        if tensor.role == "weight":
            continue
        dim = None if _has_window(nest, read) else _strided_dim(nest, read, tensors)
        apart = list(_dims_apart(nest, read, tensors))
        together = (*apart, *[each for each in tensor.order if each not in apart])
        moves = _moving(together, read) != _moving(tensor.order, read)
        if dim is not None:
            last = [each for each in range(len(together)) if together[each] != dim]
            turn = (*last, together.index(dim))
            found[place] = (together, turn) if moves else (_after(together, turn),)
        elif moves:
            moved[place] = (together,)
    return found or moved


def _after(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    """Return the order that two in turn bring dimensions into."""
    return tuple([first[place] for place in second])


def _moving(order: Sequence[int], read: Access) -> list[int]:
    return [dim for dim in order if read.shape[dim] > 1]


def _dims_apart(nest: LoopNest, read: Access, tensors: Tensors) -> Iterator[int]:
    """Yield the dimensions of an operand, as it lies, along which every operand has data of its own.

    Those are left out that vectors lie along, and those that are summed over.
    """
    reduced = {number for number, loop in enumerate(nest.loops) if loop.reduction}
    operands = [each for each in nest.reads if any(map(each.uses, reduced))]
    written = tensors[nest.write.tensor].order
    inner = next((dim for dim in reversed(written) if nest.write.shape[dim] > 1), None)
    vectors = set() if inner is None else {loop for loop, _ in nest.write.indices[inner].terms}
    if read not in operands or not operands[1:]:
        return
    for dim in tensors[read.tensor].order:
        loops = {loop for loop, _ in read.indices[dim].terms}
        is_plain = read.shape[dim] > 1 and len(loops) == 1 and not loops & (vectors | reduced)
        if is_plain and all(other.uses(*loops) for other in operands):
            yield dim


def _strided_dim(nest: LoopNest, read: Access, tensors: Tensors) -> int | None:
    """Return the dimension of an activation that neighbouring results step along; None if it is contiguous.

    Results lie next to each other along one loop. Other loops may share the dimension with it, in either tensor: the
    groups of a convolution, or the gates of a recurrence.
    """
    written, tensor = nest.write, tensors[read.tensor]
    inner = next((dim for dim in reversed(tensors[written.tensor].order) if written.shape[dim] > 1), None)
    last = next((dim for dim in reversed(tensor.order) if tensor.shape[dim] > 1), None)
    if inner is None:
        return None
    neighbour = [loop for loop, stride in written.indices[inner].terms if stride == 1 and nest.loops[loop].extent > 1]
    if len(neighbour) != 1:
        return None
    step = (neighbour[0], 1)
    dims = [dim for dim, index in enumerate(read.indices) if index == Index(index.terms) and step in index.terms]
    return dims[0] if dims and dims[0] != last else None


def _has_window(nest: LoopNest, read: Access) -> bool:
    """Whether neighbouring results read overlapping parts of a dimension: such data is copied tile by tile anyway."""
    extents = [loop.extent for loop in nest.loops]
    return any(overlaps(index, extents) for index in read.indices)
