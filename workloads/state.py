"""State that stays: caches that a network reads, changes in part and hands out again, kept in one place in memory.

A cache is an input of the network that one operator writes a new piece into (TensorScatter, ScatterND) or puts one
behind (Concat), and whose result leaves the network. A runtime gives both the same memory: only the new piece is
written, and what reads the result reads that memory. A cache that grows is allocated at its later length.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph, Op, Tensor
from dsascape.workloads.index import Index
from dsascape.workloads.loopnest import Access, Loop, LoopNest
from dsascape.workloads.mapping import mapping_of
from dsascape.workloads.operators.registry import RULES
from dsascape.workloads.through_movements import read_through, with_shared_loops_split


@dataclass(frozen=True, slots=True)
class State:
    """One cache: the operator that changes it, the input that holds it, and its tensor behind the operator."""

    op: int
    before: str
    after: str


def states_of(graph: Graph) -> tuple[State, ...]:
    """Return the caches of a network.

    The input has no other reader. What is put behind it is no longer than the input itself, or products read both: a
    chunk of a prompt behind a shorter one.
    """
    return tuple(_states(graph))


def with_state_in_place(analysis: Analysis) -> Analysis:
    """Return the network whose caches are changed in place; the same analysis where it has none.

    Each cache becomes an input, and the operator that changes it writes the new piece only, a result called as the
    cache with ``:new``. Products read a cache where it lies, through transpositions and repetitions in between.
    """
    graph = graph_with_state_in_place(analysis.graph)
    return analysis if graph is analysis.graph else Analysis(graph, made_of=analysis)


def graph_with_state_in_place(graph: Graph) -> Graph:
    """Return ``graph`` with its caches changed in place; itself where it has none."""
    states = states_of(graph)
    if not states:
        return _with_direct_reads(graph, _stored_results(graph))
    tensors, ops = dict(graph.tensors), list(graph.ops)
    renamed: dict[str, str] = {}
    for state in states:
        op, piece = _piece(graph, graph.ops[state.op], state)
        tensors |= {piece.name: piece, state.after: replace(tensors[state.after], role="input")}
        del tensors[state.before]
        ops[state.op] = op
        renamed[state.after] = piece.name
    after = {state.before: state.after for state in states}
    inputs = tuple([after.get(name, name) for name in graph.inputs])
    outputs = tuple([renamed.get(name, name) for name in graph.outputs])
    dims = tuple([(after.get(name, name), dim) for name, dim in graph.batch_dims])
    moved = replace(
        graph, ops=tuple(ops), tensors=tensors, inputs=inputs, outputs=outputs, batch_dims=dims, rebuild=None
    )
    return _with_direct_reads(moved, frozenset(after.values()) | _stored_results(graph))


def _stored_results(graph: Graph) -> frozenset[str]:
    """Return the results of the network that it also reads: caches in front of which nothing was.

    They lie in memory as they leave the network, so that products read them there as they read any other cache.
    """
    made = graph.producer.keys() & graph.outputs
    return frozenset([name for name in made if graph.consumers[name] and not graph.ops[graph.producer[name]].is_view])


def _states(graph: Graph) -> Iterator[State]:
    for position, op in enumerate(graph.ops):
        rule = RULES.get(op.kind)
        if rule is None or not (rule.updates or rule.appends) or len(op.outputs) != 1 or op.internals:
            continue
        before, after = op.nests[0].reads[0].tensor, op.outputs[0]
        leaves = after in graph.results and after not in graph.inputs
        is_state = before in graph.inputs and graph.consumers[before] == (position,) and before not in graph.results
        if not (leaves and is_state) or graph.tensors[before].dtype != graph.tensors[after].dtype:
            continue
        is_grown = bool(graph.consumers[after]) and _grows(graph, op, graph.tensors[before], graph.tensors[after])
        if _is_scatter(op, rule.updates) if rule.updates else is_grown:
            yield State(position, before, after)


def _is_scatter(op: Op, updates: int) -> bool:
    """Whether ``op`` writes updates over what was there, at places that data chooses."""
    (nest, *more) = op.nests
    if more or len(nest.reads) <= updates or nest.per_output or nest.per_iteration:
        return False
    return any(index.opaque for index in nest.reads[updates].indices)


def _grows(graph: Graph, op: Op, before: Tensor, after: Tensor) -> bool:
    grown = [dim for dim, size in enumerate(after.shape) if size != before.shape[dim]]
    is_first = all(index.offset == 0 for index in op.nests[0].write.indices)
    if len(grown) != 1 or not is_first or not op.nests[1:]:
        return False
    return after.shape[grown[0]] <= 2 * before.shape[grown[0]] or _feeds_product(graph, after.name)


def _feeds_product(graph: Graph, name: str) -> bool:
    """Whether a product reads a tensor, or a copy of it in another shape, order, or repeated."""
    readers = [graph.ops[position] for position in graph.consumers[name]]
    moved = [reader.outputs[0] for reader in readers if _is_movement(reader)]
    is_factor = any(mapping_of(reader.nests[-1]) == "contraction" for reader in readers)
    return is_factor or any(_feeds_product(graph, each) for each in moved)


def _piece(graph: Graph, op: Op, state: State) -> tuple[Op, Tensor]:
    """Return the operator that writes only the new piece of a cache, and the piece."""
    rule, after = RULES[op.kind], graph.tensors[state.after]
    name = f"{state.after}:new"
    if rule.updates:
        shape = op.nests[0].reads[rule.updates].shape
        piece = Tensor(name, shape, after.dtype, "activation")
        nests: tuple[LoopNest, ...] = (_written(op.nests[0], rule.updates, piece),)
    else:
        before = graph.tensors[state.before].shape
        sizes = tuple([
            size if size == before[dim] else size - before[dim] for dim, size in enumerate(after.shape)
        ])  # fmt: skip
        piece = Tensor(name, sizes, after.dtype, "activation", after.order)
        nests = tuple([_moved(nest, before, piece) for nest in op.nests[1:]])
    inputs = dict.fromkeys([read.tensor for nest in nests for read in nest.reads])
    return replace(op, inputs=tuple(inputs), outputs=(name,), nests=nests), piece


def _written(nest: LoopNest, updates: int, piece: Tensor) -> LoopNest:
    """Return the nest over the updates alone: each is read with its place, and written."""
    rank = len(piece.shape)
    loops = tuple([Loop(f"i{dim}", size) for dim, size in enumerate(piece.shape)])
    own = tuple([Index(((dim, 1),)) for dim in range(rank)])
    reads = [Access(nest.reads[updates].tensor, piece.shape, own)]
    for place, read in enumerate(nest.reads):
        if place not in (0, updates):
            indices = [
                Index(((dim, 1),)) if dim < rank and size == piece.shape[dim] else Index(window=size)
                for dim, size in enumerate(read.shape)
            ]
            reads.append(Access(read.tensor, read.shape, tuple(indices)))
    return LoopNest(nest.name, loops, tuple(reads), Access(piece.name, piece.shape, own))


def _moved(nest: LoopNest, before: tuple[int, ...], piece: Tensor) -> LoopNest:
    """Return the nest with its part of a concatenation written to a tensor that begins behind the first part."""
    indices = [
        replace(index, offset=index.offset - before[dim]) if index.offset >= before[dim] else index
        for dim, index in enumerate(nest.write.indices)
    ]
    return replace(nest, write=Access(piece.name, piece.shape, tuple(indices)))


def _with_direct_reads(graph: Graph, states: frozenset[str]) -> Graph:
    """Return ``graph`` with products that read caches as they lie, instead of transposed or repeated copies."""
    moves = {op.outputs[0]: op for op in graph.ops if _is_movement(op)}
    ops: list[Op] = []
    for op in graph.ops:
        nests = tuple([_direct(nest, moves, states) for nest in op.nests])
        if nests == op.nests:
            ops.append(op)
            continue
        inside = {nest.write.tensor for nest in nests}
        inputs = dict.fromkeys([read.tensor for nest in nests for read in nest.reads if read.tensor not in inside])
        ops.append(replace(op, nests=nests, inputs=tuple(inputs)))
    wanted, kept = {*graph.outputs, *graph.unlisted}, list[Op]()
    for op in reversed(ops):
        if wanted & {*op.outputs}:
            kept.append(op)
            wanted.update(op.inputs)
    if ops == list(graph.ops):
        return graph
    tensors = {name: t for name, t in graph.tensors.items() if name in wanted or name in graph.inputs}
    return replace(graph, ops=tuple(kept[::-1]), tensors=tensors)


def _is_movement(op: Op) -> bool:
    (nest, *more) = op.nests
    is_plain = not more and len(nest.reads) == 1 and not nest.per_output and not nest.per_iteration
    return is_plain and len(op.outputs) == 1 and not nest.has_reduction


def _direct(nest: LoopNest, moves: Mapping[str, Op], states: frozenset[str]) -> LoopNest:
    if mapping_of(nest) != "contraction":
        return nest
    reads = []
    for read in nest.reads:
        found: Access | None = read
        while found is not None and found.tensor in moves:
            found = read_through(found, moves[found.tensor].nests[0], nest.loops)
        is_state = found is not None and found.tensor in states and not any(index.opaque for index in found.indices)
        reads.append(found if found is not None and is_state else read)
    return with_shared_loops_split(replace(nest, reads=tuple(reads)))
