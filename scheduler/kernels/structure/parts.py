"""Kernels with several anchors, one behind the other: intensive fusion (AGO, section III-B).

Such a kernel is cut into parts of one anchor each; a part in front computes what the next part's anchor reads, for one
tile of the sink at a time.
"""

from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.structure.anchors import anchored_nest, shared_rows
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.index import Index
from dsascape.workloads.loopnest import Access, LoopNest


def parts_of(layer: Layer) -> tuple[Layer, ...]:
    """Return the parts of ``layer``, first to last, with one anchor each; empty where there is no such cut.

    Between two anchors are only operators that work element by element on the output of the first, and nobody but the
    second anchor reads their result; or, as a part without an anchor, a softmax of its rows between two products.
    """
    return layer.analysis.of(_parts, layer.ops)


def _parts(analysis: Analysis, ops: tuple[int, ...]) -> tuple[Layer, ...]:
    layer = Layer(analysis.graph, ops, analysis)
    if anchored_nest(layer) is not None:
        return (layer,)
    reducing = [op for op in ops if _reduces(layer, op)]
    if not reducing:
        return ()
    written = {name: op for op in ops for name in layer.graph.ops[op].outputs}
    last = layer.graph.ops[reducing[-1]]
    for name in last.inputs:
        if name not in written:
            continue
        front = layer.leading_to(written[name])
        rest = tuple(op for op in ops if op not in front)
        if set(reducing[:-1]) <= front and _is_link(layer, name, front, rest):
            before = _parts(analysis, tuple(sorted(front))) or _with_rows_behind(analysis, tuple(sorted(front)))
            return (*before, Layer(analysis.graph, rest, analysis)) if before else ()
    return ()


def _with_rows_behind(analysis: Analysis, ops: tuple[int, ...]) -> tuple[Layer, ...]:
    """Return the parts of ``ops`` where the last is a softmax of what an anchor makes, or the like; else nothing.

    It works on each row of an anchor's result alone, and nobody else reads that.
    """
    graph, last = analysis.graph, ops[-1]
    rows, own = Layer(graph, (last,), analysis), graph.ops[last]
    written = {name: op for op in ops[:-1] for name in graph.ops[op].outputs}
    made = [name for name in own.inputs if name in written]
    if len(made) != 1 or not own.nests[1:] or not _reduces(rows, last):
        return ()
    name, front = made[0], tuple(sorted(Layer(graph, ops, analysis).leading_to(written[made[0]])))
    source, sink = graph.tensors[name], rows.sink
    is_alone = front == ops[:-1] and graph.consumers[name] == (last,) and name not in graph.results
    is_alike = source.shape == sink.shape and source.order == sink.order and len(own.outputs) == 1
    before = _parts(analysis, front) if is_alone and is_alike and shared_rows(rows) == len(sink.shape) - 1 else ()
    return (*before, rows) if len(before) == 1 else ()


def _reduces(layer: Layer, op: int) -> bool:
    return any(loop.reduction for nest in layer.graph.ops[op].nests for loop in nest.loops)


def _is_link(layer: Layer, name: str, front: frozenset[int], rest: tuple[int, ...]) -> bool:
    """Whether ``front`` makes ``name`` for the anchor of ``rest`` and for nobody else."""
    graph = layer.graph
    made, behind = Layer(graph, tuple(sorted(front)), layer.analysis), Layer(graph, rest, layer.analysis)
    anchor = anchored_nest(behind)
    if anchor is None or made.sink.name != name or made.escaping != (name,) or name in layer.escaping:
        return False
    if behind.sink != layer.sink:
        return False
    readers = [nest for op in rest for nest in graph.ops[op].nests for read in nest.reads if read.tensor == name]
    if len(readers) != 1 or readers[0] is not anchor:
        return False
    written = [anchor.moving(index) for index in anchor.write.indices]
    moves_with_tiles = all(not index.offset and [stride for _, stride in index.terms] in ([], [1]) for index in written)
    return moves_with_tiles and all(_is_plain(index, any_divisor=True) for index in link_read(anchor, name).indices)


def _is_plain(index: Index, *, any_divisor: bool = False) -> bool:
    """Whether a box of loops reads a box, which moves with them; with a divisor, if the box is a multiple of that."""
    plain = index.window == 1 and not (index.opaque or index.clamp or index.table or index.rounding != "floor")
    return plain and (any_divisor or index.divisor == 1) and all(stride > 0 for _, stride in index.terms)


def link_read(anchor: LoopNest, name: str) -> Access:
    """Return how ``anchor`` reads what the part in front of it makes."""
    return next(read for read in anchor.reads if read.tensor == name)


def is_computed_before(part: Layer, anchor: LoopNest, read: Access) -> bool:
    """Whether the part itself computes what its anchor reads: for each tile at once, like a copy with padding."""
    made = part.graph.storage.get(read.tensor, read.tensor) in part.computed
    return made and all(_is_plain(index) for index in read.indices)
