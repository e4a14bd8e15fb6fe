"""Networks whose masked attention is computed between the mask's bounds only.

An operator that masks scores says which band of them it keeps (`workloads.mask_bands`). What is outside becomes zero in
the softmax behind it, and adds nothing to the product behind that. So from the product in front to the product behind,
all nests are bounded: they compute, read and write inside of the band alone. That holds where nothing else reads what
is in between; elsewhere everything is computed in full, as the file says.

Simulated machines run such networks (`scheduler.stages.simulated_network`), and so does code that is measured on CPUs;
code for GPUs computes masked scores in full, and predictions of it are made for the network as imported.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph, Op
from dsascape.workloads.index import Index
from dsascape.workloads.loopnest import Access, Band, Bound, LoopNest
from dsascape.workloads.mapping import mapping_of
from dsascape.workloads.operators.registry import Array

_KEEPING_LOW = frozenset({"Add", "Sub", "Where", "Cast", "Identity", "Dropout", "Reshape", "Transpose"})
"""Operators in front of a softmax that leave what is very low very low."""
_KEEPING_ZERO = frozenset({"Mul", "Cast", "Identity", "Dropout", "Reshape", "Transpose"})
"""Operators behind a softmax that leave zeros zero."""


def with_bounded_nests(analysis: Analysis) -> Analysis:
    """Return the network with nests of masked attention bounded; the same analysis where it has none."""
    graph = graph_with_bounded_nests(analysis.graph)
    return analysis if graph is analysis.graph else Analysis(graph, made_of=analysis)


def graph_with_bounded_nests(graph: Graph) -> Graph:
    """Return ``graph`` with nests of masked attention bounded; itself where it has none."""
    bounded: dict[int, Op] = {}
    for position, op in enumerate(graph.ops):
        if op.band is not None and position not in bounded:
            chain = _Chain(graph, op.band)
            if chain.behind(position) and chain.is_closed:
                chain.in_front(position)
                bounded |= chain.ops
                bounded[position] = _without_masks(bounded[position])
    if not bounded:
        return graph
    return _without_unused(replace(graph, ops=tuple([bounded.get(n, op) for n, op in enumerate(graph.ops)])))


def computed_elements(graph: Graph, name: str) -> Array | None:
    """Return which elements of a tensor are computed where bounds leave out some, in a shape that broadcasts to its.

    None where all are.
    """
    writer = graph.producer.get(name)
    nests = [] if writer is None else [nest for nest in graph.ops[writer].nests if nest.write.tensor == name]
    bound = nests[0].bound if len(nests) == 1 else None
    dims = None if bound is None else _dims_of(nests[0].write, bound)
    if bound is None or dims is None:
        return None
    shape = nests[0].write.shape
    place = np.indices([shape[dim] for dim in dims], sparse=True)
    ahead = place[1] - place[0] - bound.band.offset
    kept = (ahead <= 0) & (ahead > -bound.band.window if bound.band.window else True)
    if dims[0] > dims[1]:
        kept = kept.T
    return kept.reshape([size if dim in dims else 1 for dim, size in enumerate(shape)])


@dataclass(frozen=True, slots=True)
class _Scores:
    """Dimensions of a tensor that are queries (rows) and keys (columns) of the band; outside, it is low or zero."""

    rows: int
    columns: int
    is_zero: bool


class _Chain:
    """Operators that one band bounds."""

    def __init__(self, graph: Graph, band: Band) -> None:
        self.ops: dict[int, Op] = {}
        self.is_closed = False
        """Whether a product has summed up over the keys what is masked."""
        self._graph = graph
        self._band = band

    def behind(self, position: int) -> bool:
        """Follow what the operator at ``position`` masks; return whether all readers can do without what is outside."""
        graph, op = self._graph, self._graph.ops[position]
        rank = len(op.nests[-1].write.shape)
        nest = self._bounded(op.nests[-1], op.nests[-1].write, _Scores(rank - 2, rank - 1, is_zero=False))
        if nest is None or op.nests[1:]:
            return False
        self.ops[position] = replace(op, nests=(nest,))
        pending = {op.outputs[0]: _Scores(rank - 2, rank - 1, is_zero=False)}
        while pending:
            name, scores = pending.popitem()
            if name in graph.results:
                return False
            for reader in graph.consumers[name]:
                made = self._reader(reader, name, scores)
                if made is None:
                    return False
                pending |= made
        return True

    def _reader(self, position: int, name: str, scores: _Scores) -> dict[str, _Scores] | None:
        """Bound a reader of ``name``; return the results of it that are banded, None where it needs all of ``name``."""
        op = self.ops.get(position, self._graph.ops[position])
        if op.kind == "Softmax" and not scores.is_zero:
            return self._softmax(position, op, name, scores)
        reads = [read for nest in op.nests for read in nest.reads if read.tensor == name]
        found = self._bounded(op.nests[0], reads[0], scores) if len(op.nests) == len(reads) == 1 else None
        if found is None or found.bound is None or len(op.outputs) != 1:
            return None
        self.ops[position] = replace(op, nests=(found,))
        if mapping_of(found) == "contraction":
            is_summed = scores.is_zero and found.loops[found.bound.inner].reduction
            self.is_closed = self.is_closed or is_summed
            return {} if is_summed else None
        written = _dims_of(found.write, found.bound)
        keeps = op.kind in (_KEEPING_ZERO if scores.is_zero else _KEEPING_LOW)
        return {op.outputs[0]: _Scores(*written, scores.is_zero)} if keeps and written is not None else None

    def _softmax(self, position: int, op: Op, name: str, scores: _Scores) -> dict[str, _Scores] | None:
        """Bound all nests of a softmax over the keys."""
        nests = []
        for nest in op.nests:
            read = nest.reads[0]
            has_both = len(read.shape) > max(scores.rows, scores.columns)
            found = self._bounded(nest, read, scores) if has_both else None
            if found is None or found.bound is None:
                return None
            if nest.has_reduction and not nest.loops[found.bound.inner].reduction:
                return None
            nests.append(found)
        if op.nests[0].reads[0].tensor != name or not any(nest.has_reduction for nest in nests):
            return None
        self.ops[position] = replace(op, nests=tuple(nests))
        return {op.outputs[0]: replace(scores, is_zero=True)}

    def in_front(self, position: int) -> None:
        """Bound what makes the scores that the operator at ``position`` masks, back to the product of two operands."""
        pending = list(self._sources(position))
        while pending:
            name, scores = pending.pop()
            writer = self._graph.producer.get(name)
            if writer is None or writer in self.ops:
                continue
            if name in self._graph.results or len(self._graph.consumers[name]) != 1:
                continue
            op = self._graph.ops[writer]
            found = None if op.nests[1:] else self._bounded(op.nests[0], op.nests[0].write, scores)
            if found is None or len(op.outputs) != 1:
                continue
            self.ops[writer] = replace(op, nests=(found,))
            if mapping_of(found) != "contraction" and not found.has_reduction:
                pending += self._sources(writer)

    def _sources(self, position: int) -> Iterator[tuple[str, _Scores]]:
        """Yield the tensors with both dimensions of the band that a bounded operator reads."""
        (nest,) = self.ops[position].nests
        assert nest.bound is not None
        for read in nest.reads:
            dims = _dims_of(read, nest.bound)
            if dims is not None:
                yield read.tensor, _Scores(*dims, is_zero=False)

    def _bounded(self, nest: LoopNest, access: Access, scores: _Scores) -> LoopNest | None:
        """Return the nest bounded by the loops that move both dimensions of ``scores`` in ``access``; None without."""
        loops = [_loop_of(access.indices[dim]) for dim in (scores.rows, scores.columns)]
        outer, inner = loops
        if outer is None or inner is None or outer == inner or nest.carried is not None:
            return None
        whole = [nest.loops[outer].extent, nest.loops[inner].extent]
        if whole != [access.shape[scores.rows], access.shape[scores.columns]] or nest.loops[outer].reduction:
            return None
        bound = Bound(outer, inner, self._band)
        return replace(nest, bound=bound) if nest.bound in (None, bound) else None


def _loop_of(index: Index) -> int | None:
    """Return the loop that alone moves ``index``, step by step from the first element; None for another index."""
    return index.terms[0][0] if len(index.terms) == 1 and index == Index(((index.terms[0][0], 1),)) else None


def _dims_of(access: Access, bound: Bound) -> tuple[int, int] | None:
    """Return the dimensions of a tensor that the two loops of ``bound`` move; None where they do not both."""
    places = {_loop_of(index): dim for dim, index in enumerate(access.indices)}
    if bound.outer not in places or bound.inner not in places:
        return None
    return places[bound.outer], places[bound.inner]


def _without_masks(op: Op) -> Op:
    """Return the operator that masks scores without the inputs that say only what its bound says."""
    if not op.masks:
        return op
    (nest,) = op.nests
    reads = tuple([read for read in nest.reads if read.tensor not in op.masks])
    return replace(op, nests=(replace(nest, reads=reads),), inputs=tuple([n for n in op.inputs if n not in op.masks]))


def _without_unused(graph: Graph) -> Graph:
    """Return ``graph`` without operators that no result depends on any more, and their tensors."""
    wanted, kept = {*graph.results, *graph.unlisted}, list[Op]()
    for op in reversed(graph.ops):
        if wanted & {*op.outputs}:
            kept.append(op)
            wanted.update(op.inputs)
    tensors = {name: t for name, t in graph.tensors.items() if name in wanted or name in graph.inputs}
    return replace(graph, ops=tuple(kept[::-1]), tensors=tensors)
